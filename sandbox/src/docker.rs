//! How does an engine (Docker, Podman) run a job under the same policy?
//!
//! The policy becomes fields of the engine's API (`docker/body.rs`), never words of a command line. `docker/engine.rs` speaks to the
//! engine and is the only place that is asynchronous; `docker/one.rs` is the life of one container. The engine pulls nothing:
//! the image is a tar of empty directories made here (`docker/image.rs`), and what is in a box comes from the host, read-only.

mod body;
mod engine;
mod image;
mod one;
mod socket;
mod stage;

pub(crate) use engine::Engine;
pub use engine::{About, EngineError};
pub(crate) use one::{bury, run};
pub use socket::{Socket, SocketError};

/// What the engine behind a socket says about itself.
pub fn about(socket: &Socket) -> Result<About, EngineError> {
    Engine::connect(socket)?.about()
}
