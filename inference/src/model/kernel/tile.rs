//! What must a type of weights know about itself to be packed and multiplied?
//!
//! A [`Tile`] is the same few columns of [`LANES`] rows, laid out so that one 64-byte load holds four columns of every
//! row: what one `vpdpbusd` multiplies. The tiles of the same rows stand one after another in memory, so that a product
//! with one row of activations reads memory once, from front to back.

use super::activations::Rows;
use half::f16;

/// How many rows of the matrix a tile has: the 32-bit lanes of a 512-bit register.
pub(super) const LANES: usize = 16;

/// A type of weights.
///
/// `dot` and `dot_avx512` give the same bits: integer sums are exact, and what is not exact is rounded in the same
/// order with the same fused operations. That order depends on nothing but the column, so a row's product has the
/// same bits whatever `R` is.
pub(super) trait Tile: Copy + Send + Sync {
    /// How many columns.
    const SPAN: usize;

    /// How many bytes of a GGUF row hold [`Self::SPAN`] columns.
    const BLOCK_BYTES: usize;

    /// Packs a row's [`Self::BLOCK_BYTES`] bytes.
    fn put(&mut self, lane: usize, block: &[u8]);

    /// The numbers of a row, [`Self::SPAN`] of them.
    fn get(&self, lane: usize, out: &mut [f32]);

    /// The products of `R` rows of activations with the rows of the tiles, on any processor.
    fn dot<const R: usize>(tiles: &[Self], x: Rows<'_, R>) -> [[f32; LANES]; R];

    /// The same with vector instructions.
    ///
    /// # Safety
    ///
    /// [`super::avx512::detected`] must have returned true.
    #[cfg(target_arch = "x86_64")]
    unsafe fn dot_avx512<const R: usize>(tiles: &[Self], x: Rows<'_, R>) -> [[f32; LANES]; R];
}

/// The bits of a half-precision number in a block.
pub(super) fn half(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// Four bytes of a block.
pub(super) fn word(block: &[u8], at: usize) -> [u8; 4] {
    [block[at], block[at + 1], block[at + 2], block[at + 3]]
}

/// A half-precision number, widened.
#[inline(always)]
pub(super) fn float(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}
