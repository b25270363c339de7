//! Which tokens come next?

pub mod api;
mod types;

pub use types::*;
