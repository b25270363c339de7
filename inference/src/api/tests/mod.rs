//! Does the server keep OpenAI's protocol, and does every request end exactly once?
//!
//! Through a real socket on loopback, with an engine that follows a script.

mod bench;
mod completions;
mod ending;
mod messages;
mod protocol;
mod requests;
mod streaming;
mod tokens;
mod tools;
