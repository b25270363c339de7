//! Q6_K: 256 numbers as six-bit integers, in sixteen runs of 16 that have an eight-bit scale each.
//!
//! A number is `d * scale * (q - 32)` (ggml's `block_q6_K`, 210 bytes: 128 bytes of low nibbles, 64 of high bit pairs,
//! sixteen scales, `d`). The tile keeps both planes as they are, so a tile is no larger than its blocks. The 32 is
//! taken off the dot product instead of off each number: [`Rows::owed`] holds `-32 * sum(x)` of each run.

use super::activations::Rows;
use super::tile::{LANES, Tile, float, half, word};

/// The same 256 columns of [`LANES`] rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Q6K {
    /// Low nibbles, four bytes of each lane in turn, in the order of the file; see [`Place`].
    pub low: [[u8; 64]; 32],
    /// High bit pairs, likewise.
    pub high: [[u8; 64]; 16],
    /// `[run][lane]`
    pub scales: [[i8; LANES]; 16],
    /// Half-precision bits.
    pub d: [u16; LANES],
}

/// Where the four quads of a run are: `low[Place::low + g]` and `high[Place::high + g]` for `g` below 4.
///
/// A half of the block (eight runs) has 64 bytes of nibbles and 32 of bit pairs. Its four quarters of 32 numbers are the
/// low nibbles of the first 32 bytes, those of the second, then the high nibbles of both; each byte of bit pairs has
/// one pair for each quarter, the first in its lowest bits.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub low: usize,
    pub high: usize,
    /// 0 to 3; a nibble is `low >> (quarter / 2 * 4)`, a bit pair `high >> (quarter * 2)`.
    pub quarter: usize,
}

impl Place {
    #[inline(always)]
    pub const fn of(run: usize) -> Place {
        let (half, quarter, within) = (run / 8, run % 8 / 2, run % 2);
        Place { low: half * 16 + quarter % 2 * 8 + within * 4, high: half * 8 + within * 4, quarter }
    }
}

impl Tile for Q6K {
    const SPAN: usize = 256;
    const BLOCK_BYTES: usize = 210;

    fn put(&mut self, lane: usize, block: &[u8]) {
        for (i, low) in self.low.iter_mut().enumerate() {
            low[4 * lane..][..4].copy_from_slice(&word(block, 4 * i));
        }
        for (i, high) in self.high.iter_mut().enumerate() {
            high[4 * lane..][..4].copy_from_slice(&word(block, 128 + 4 * i));
        }
        for (run, scales) in self.scales.iter_mut().enumerate() {
            scales[lane] = block[192 + run] as i8;
        }
        self.d[lane] = half(block, 208);
    }

    fn get(&self, lane: usize, out: &mut [f32]) {
        for (run, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = float(self.d[lane]) * f32::from(self.scales[run][lane]);
            for (i, out) in out.iter_mut().enumerate() {
                *out = scale * (i32::from(self.quant(run, i / 4, 4 * lane + i % 4)) - 32) as f32;
            }
        }
    }

    #[inline(always)]
    fn dot<const R: usize>(tiles: &[Q6K], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        let mut total = [[0.0f32; LANES]; R];
        for (s, tile) in tiles.iter().enumerate() {
            for (r, total) in total.iter_mut().enumerate() {
                let mut sum = [0.0f32; LANES];
                for run in 0..16 {
                    let mut dot = [x.owed[s * 16 + run][r]; LANES];
                    for g in 0..4 {
                        let x = x.quads[s * 64 + run * 4 + g][r].to_le_bytes();
                        for lane in 0..LANES {
                            for b in 0..4 {
                                dot[lane] += i32::from(tile.quant(run, g, 4 * lane + b)) * i32::from(x[b] as i8);
                            }
                        }
                    }
                    for lane in 0..LANES {
                        sum[lane] = (dot[lane] as f32).mul_add(f32::from(tile.scales[run][lane]), sum[lane]);
                    }
                }
                for lane in 0..LANES {
                    let product = float(tile.d[lane]) * sum[lane];
                    total[lane] = product.mul_add(x.scales[s][r], total[lane]);
                }
            }
        }
        total
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn dot_avx512<const R: usize>(tiles: &[Q6K], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        // SAFETY: the caller has seen that the processor has the instructions.
        unsafe { super::avx512::q6k(tiles, x) }
    }
}

impl Q6K {
    #[inline(always)]
    fn quant(&self, run: usize, g: usize, byte: usize) -> u8 {
        let place = Place::of(run);
        let low = self.low[place.low + g][byte] >> (place.quarter / 2 * 4) & 15;
        let high = self.high[place.high + g][byte] >> (place.quarter * 2) & 3;
        low | high << 4
    }
}
