//! Q5_0: 32 numbers as five-bit integers with one scale.
//!
//! A number is `d * (q - 16)` (ggml's `block_q5_0`, 22 bytes: `d`, a word of fifth bits, sixteen bytes of nibbles, of which
//! the low ones are the first sixteen numbers). [`Rows::owed`] holds `-16 * sum(x)`.

use super::activations::Rows;
use super::tile::{LANES, Tile, float, half, word};

/// The same 64 columns of [`LANES`] rows: two blocks, so that a tile is whole cache lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Q5_0 {
    /// `[4 * block + g][4 * lane + b]`: the low nibble is number `4 * g + b` of the block, the high one number
    /// `16 + 4 * g + b`.
    pub low: [[u8; 64]; 8],
    /// `[8 * block + g]`, bit `4 * lane + b`: the fifth bit of number `4 * g + b` of the block.
    pub high: [u64; 16],
    /// Half-precision bits, `[block][lane]`.
    pub d: [[u16; LANES]; 2],
}

impl Tile for Q5_0 {
    const SPAN: usize = 64;
    const BLOCK_BYTES: usize = 22 * 2;

    fn put(&mut self, lane: usize, blocks: &[u8]) {
        for (i, block) in blocks.chunks_exact(22).enumerate() {
            self.d[i][lane] = half(block, 0);
            let high = u32::from_le_bytes(word(block, 2));
            for g in 0..8 {
                let place = &mut self.high[8 * i + g];
                *place = *place & !(15 << (4 * lane)) | u64::from(high >> (4 * g) & 15) << (4 * lane);
            }
            for g in 0..4 {
                self.low[4 * i + g][4 * lane..][..4].copy_from_slice(&word(block, 6 + 4 * g));
            }
        }
    }

    fn get(&self, lane: usize, out: &mut [f32]) {
        for (i, out) in out.iter_mut().enumerate() {
            let q = i32::from(self.quant(i / 32, i / 4 % 8, 4 * lane + i % 4)) - 16;
            *out = q as f32 * float(self.d[i / 32][lane]);
        }
    }

    #[inline(always)]
    fn dot<const R: usize>(tiles: &[Q5_0], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        let mut total = [[0.0f32; LANES]; R];
        for (block, (tile, i)) in tiles.iter().flat_map(|tile| [(tile, 0), (tile, 1)]).enumerate() {
            for (r, total) in total.iter_mut().enumerate() {
                let mut dot = [x.owed[block][r]; LANES];
                for g in 0..8 {
                    let x = x.quads[block * 8 + g][r].to_le_bytes();
                    for lane in 0..LANES {
                        for b in 0..4 {
                            dot[lane] += i32::from(tile.quant(i, g, 4 * lane + b)) * i32::from(x[b] as i8);
                        }
                    }
                }
                for lane in 0..LANES {
                    let product = dot[lane] as f32 * x.scales[block][r];
                    total[lane] = product.mul_add(float(tile.d[i][lane]), total[lane]);
                }
            }
        }
        total
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn dot_avx512<const R: usize>(tiles: &[Q5_0], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        // SAFETY: the caller has seen that the processor has the instructions.
        unsafe { super::avx512::q5_0(tiles, x) }
    }
}

impl Q5_0 {
    #[inline(always)]
    fn quant(&self, block: usize, g: usize, byte: usize) -> u8 {
        let low = self.low[4 * block + g % 4][byte] >> (g / 4 * 4) & 15;
        low | ((self.high[8 * block + g] >> byte & 1) as u8) << 4
    }
}
