//! What tokens come next?
//!
//! This crate owns the weights of one language model and answers that one question, fast enough to live with on two
//! cores. Read it in this order:
//!
//! - [`engine`]: the thread that owns everything, and the handle that the rest of the program holds;
//! - [`chat`]: from messages to token ids, and nothing that a file says can become a control token;
//! - [`kv`]: which of those tokens were computed before;
//! - [`model`]: the decoder itself, the only folder that knows candle;
//! - [`tokenizer`]: text to ids and back;
//! - [`embed`]: text to vectors, for the index;
//! - [`api`]: all of it over HTTP, the only folder here that knows axum.
//!
//! Invariants that hold across the folders:
//!
//! - The hidden state of a token does not depend, in any bit, on how a prompt is cut into forward calls or on which
//!   part of it came from the cache, nor on which other requests were computed beside it. Output with the cache on and off,
//!   alone and among others, is the same token for token.
//! - Every accepted request ends in exactly one [`Event::Done`], errors and cancellations included.
//! - Every size that a model file declares is checked against a limit before memory is taken for it.

pub mod api;
pub mod chat;
pub mod embed;
pub mod engine;
pub mod grammar;
pub mod kv;
pub mod model;
pub mod tokenizer;

pub use chat::{Chat, ChatError, Message, Role, Template, ToolCall};
pub use embed::{EmbedError, Embedder, GgufEmbedder, StaticEmbedder, StaticError};
pub use engine::{
    Canceller, Engine, EngineSettings, Event, Finish, FinishReason, GenerateRequest, Generation, ModelInfo, Sampling,
    Score, Steer, SubmitError, Usage,
};
pub use model::LoadError;
pub use tokenizer::{Special, Tokenizer};
