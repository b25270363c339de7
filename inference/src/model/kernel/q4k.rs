//! Q4_K: 256 numbers as four-bit integers, in eight runs of 32 that have a six-bit scale and a six-bit minimum each.
//!
//! A number is `d * scale * q - dmin * minimum` (ggml's `block_q4_K`, 144 bytes: `d`, `dmin`, twelve bytes of scales
//! and minimums, 128 bytes of nibbles). A product with rounded activations `dx * x` is therefore, for each 256,
//!
//! ```text
//! dx * (d * sum of (scale * dot(q, x)) - dmin * sum of (minimum * sum(x)))
//! ```
//!
//! where every sum inside the outer brackets is of integers.

use super::activations::Rows;
use super::tile::{LANES, Tile, float, half, word};

/// The same 256 columns of [`LANES`] rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Q4K {
    /// `[8 * j + g][4 * lane + b]`: the low nibble is number `4 * g + b` of run `2 * j`, the high one of run `2 * j + 1`.
    pub quants: [[u8; 64]; 32],
    /// `[run][lane]`
    pub scales: [[u8; LANES]; 8],
    /// `[run / 2][lane][run % 2]`
    pub minimums: [[[u8; 2]; LANES]; 4],
    /// Half-precision bits.
    pub d: [u16; LANES],
    /// Half-precision bits.
    pub dmin: [u16; LANES],
}

impl Tile for Q4K {
    const SPAN: usize = 256;
    const BLOCK_BYTES: usize = 144;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.d[lane] = half(block, 0);
        self.dmin[lane] = half(block, 2);
        for run in 0..8 {
            let (scale, minimum) = scale_and_minimum(&block[4..16], run);
            self.scales[run][lane] = scale;
            self.minimums[run / 2][lane][run % 2] = minimum;
        }
        for (i, quants) in self.quants.iter_mut().enumerate() {
            quants[4 * lane..][..4].copy_from_slice(&word(block, 16 + 4 * i));
        }
    }

    fn get(&self, lane: usize, out: &mut [f32]) {
        let (d, dmin) = (float(self.d[lane]), float(self.dmin[lane]));
        for (run, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let scale = d * f32::from(self.scales[run][lane]);
            let minimum = dmin * f32::from(self.minimums[run / 2][lane][run % 2]);
            for (i, out) in out.iter_mut().enumerate() {
                *out = scale * f32::from(self.quant(run, lane, i)) - minimum;
            }
        }
    }

    #[inline(always)]
    fn dot<const R: usize>(tiles: &[Q4K], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        let mut total = [[0.0f32; LANES]; R];
        for (s, tile) in tiles.iter().enumerate() {
            let quads = &x.quads[s * 64..][..64];
            for (r, total) in total.iter_mut().enumerate() {
                let mut sum = [0.0f32; LANES];
                for run in 0..8 {
                    let dot = tile.dot_run(run, |g| quads[run * 8 + g][r]);
                    for lane in 0..LANES {
                        sum[lane] = (dot[lane] as f32).mul_add(f32::from(tile.scales[run][lane]), sum[lane]);
                    }
                }
                for lane in 0..LANES {
                    let mut minimum = 0;
                    for (pair, minimums) in tile.minimums.iter().enumerate() {
                        let sums = x.pairs[s * 4 + pair][r];
                        minimum += i32::from(minimums[lane][0]) * i32::from(sums as i16)
                            + i32::from(minimums[lane][1]) * (sums >> 16);
                    }
                    let product = float(tile.d[lane]) * sum[lane];
                    let product = (-(minimum as f32)).mul_add(float(tile.dmin[lane]), product);
                    total[lane] = product.mul_add(x.scales[s][r], total[lane]);
                }
            }
        }
        total
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn dot_avx512<const R: usize>(tiles: &[Q4K], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        // SAFETY: the caller has seen that the processor has the instructions.
        unsafe { super::avx512::q4k(tiles, x) }
    }
}

impl Q4K {
    fn quant(&self, run: usize, lane: usize, i: usize) -> u8 {
        self.quants[run / 2 * 8 + i / 4][4 * lane + i % 4] >> (run % 2 * 4) & 15
    }

    #[inline(always)]
    fn dot_run(&self, run: usize, quad: impl Fn(usize) -> i32) -> [i32; LANES] {
        let mut dot = [0; LANES];
        for g in 0..8 {
            let x = quad(g).to_le_bytes();
            let quants = &self.quants[run / 2 * 8 + g];
            for lane in 0..LANES {
                for b in 0..4 {
                    let q = quants[4 * lane + b] >> (run % 2 * 4) & 15;
                    dot[lane] += i32::from(q) * i32::from(x[b] as i8);
                }
            }
        }
        dot
    }
}

/// The six-bit scale and minimum of a run: those of the first four have a byte each, whose two high bits are those of
/// the last four.
fn scale_and_minimum(packed: &[u8], run: usize) -> (u8, u8) {
    if run < 4 {
        (packed[run] & 63, packed[run + 4] & 63)
    } else {
        let low = packed[run + 4];
        (low & 15 | packed[run - 4] >> 6 << 4, low >> 4 | packed[run] >> 6 << 4)
    }
}
