//! How is one step of the decoder computed?
//!
//! The only folder that names candle. Quantised matrices are multiplied by kernels of our own ([`kernel`]), and by
//! candle where a type has none; everything between two products (norms, rotary positions, attention over KV blocks, the
//! gated unit) is plain code on `f32` slices here, because the tensors are small and because of the invariant below.
//!
//! **Row invariance.** What comes out for a token depends on the tokens before it and on its position, never on which
//! other rows shared its forward call. Prefill in chunks of 512, of 7 or of 1, beside other sequences or
//! alone, gives the same bits. The prefix cache rests on this: a cached block may have been computed in a call of another
//! shape.

mod attention;
mod bert;
mod decoder;
mod error;
mod gguf;
pub mod kernel;
mod linear;
mod ops;
mod pool;
mod shape;

pub use bert::SentenceEncoder;
pub use decoder::{Model, Sequence};
pub use error::{ForwardError, LoadError};
pub use gguf::{Array, Header, TensorInfo, TensorType, Value};
pub use pool::threads;
pub use shape::ModelShape;
