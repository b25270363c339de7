//! Does the server keep the protocols that it speaks, and does every request end exactly once?
//!
//! Through a real socket on loopback, with an engine that follows a script.

mod bench;
mod completions;
mod ending;
mod hostile;
mod keys;
mod messages;
mod protocol;
mod requests;
mod responses;
mod streaming;
mod tokens;
mod tools;
mod wanted;

pub use bench::Bytes;
