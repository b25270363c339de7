//! Which tokens were computed before, and where is what was computed?
//!
//! KV lives in blocks of [`BLOCK_TOKENS`] tokens, all layers of a token in one block. [`Arena`] holds the numbers,
//! [`PrefixCache`] decides who owns which block; the second is pure bookkeeping and knows nothing of the first. A
//! [`DiskCache`] keeps full blocks beyond the end of the process.

mod arena;
mod cache;
mod disk;
mod tree;

pub use arena::{Arena, KvShape};
pub use cache::{CacheFull, Census, Known, Lease, PrefixCache, Reuse, Seed};
pub use disk::{Chain, DiskCache};

/// Tokens in one block.
pub const BLOCK_TOKENS: usize = 32;

/// The number of one block in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub(crate) u32);
