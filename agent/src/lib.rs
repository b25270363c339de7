//! What happens next, and is it allowed? The agent: a permission-gated loop around a box.
//!
//! The core is [`session`], a state machine without I/O: it says what comes next and folds what happened.
//! [`drive`] is the loop that performs it. The rooms around the agent are seen only through three small traits:
//! [`Model`] (what to say next), [`Workspace`] (a copy-on-write view that runs commands) and [`Code`] (where things are).

pub mod action;
pub mod ask;
pub mod audit;
pub mod budget;
pub mod code;
pub mod drive;
pub mod edit;
pub mod gate;
pub mod hooks;
pub mod http;
pub mod model;
pub mod monitor;
pub mod plan;
pub mod profile;
pub mod session;
pub mod subagent;
mod test_files;
pub mod tests_run;
pub mod text;
pub mod tools;
pub mod verify;
pub mod workspace;

pub use action::Call;
pub use code::Code;
pub use model::Model;
pub use session::{Ending, Session};
pub use workspace::Workspace;
