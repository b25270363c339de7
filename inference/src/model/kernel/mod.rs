//! How are rows multiplied by quantised weights at the speed of the memory, and of the arithmetic?
//!
//! One token at a time, a forward pass reads every weight once, and the memory decides; a prompt of hundreds of tokens
//! uses each weight hundreds of times, and the arithmetic decides. [`Packed`] keeps one copy of a matrix that serves
//! both: as small as the file's blocks to within three percent, and in the order in which the registers want it.
//!
//! - [`activations`]: rows as eight-bit integers;
//! - [`tile`]: what a type of weights must know; `q4k`, `q6k`, `q8_0`, `q5_0` are the types;
//! - `avx512`: the four inner loops for AVX-512 with VNNI. Other processors use the types' own portable loops;
//! - [`pool`]: the threads.
//!
//! Invariant: the product of a row has the same bits whatever other rows are multiplied with it, wherever it stands
//! among them, however many threads work, and on any processor. Each output is the work of one thread in one pass over the
//! columns: sums of a run of 16 or 32 are exact integers, and runs are added from first to last.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod packed;
mod pool;
mod q4k;
mod q5_0;
mod q6k;
mod q8_0;
#[cfg(test)]
mod tests;
mod tile;

pub use activations::{Activations, Grain};
pub use packed::{Kind, PackError, Packed, forward_each};
pub use pool::Pool;
