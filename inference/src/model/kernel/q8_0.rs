//! Q8_0: 32 numbers as signed bytes with one scale.
//!
//! A number is `d * q` (ggml's `block_q8_0`, 34 bytes: `d`, 32 bytes). The tile holds `q + 128`, because `vpdpbusd` wants
//! one factor without sign; [`Rows::owed`] holds `-16 * sum(x)`, an eighth of what that owes.

use super::activations::Rows;
use super::tile::{LANES, Tile, float, half};

/// The same 64 columns of [`LANES`] rows: two blocks, so that a tile is whole cache lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Q8_0 {
    /// `[8 * block + g][4 * lane + b]` is number `4 * g + b` of the block, plus 128.
    pub quants: [[u8; 64]; 16],
    /// Half-precision bits, `[block][lane]`.
    pub d: [[u16; LANES]; 2],
}

impl Tile for Q8_0 {
    const SPAN: usize = 64;
    const BLOCK_BYTES: usize = 34 * 2;

    fn put(&mut self, lane: usize, blocks: &[u8]) {
        for (i, block) in blocks.chunks_exact(34).enumerate() {
            self.d[i][lane] = half(block, 0);
            for (quants, four) in self.quants[8 * i..].iter_mut().zip(block[2..].as_chunks::<4>().0) {
                quants[4 * lane..][..4].copy_from_slice(&four.map(|q| q ^ 0x80));
            }
        }
    }

    fn get(&self, lane: usize, out: &mut [f32]) {
        for (i, out) in out.iter_mut().enumerate() {
            let q = (self.quants[i / 4][4 * lane + i % 4] ^ 0x80) as i8;
            *out = f32::from(q) * float(self.d[i / 32][lane]);
        }
    }

    #[inline(always)]
    fn dot<const R: usize>(tiles: &[Q8_0], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        let mut total = [[0.0f32; LANES]; R];
        for (block, (tile, i)) in tiles.iter().flat_map(|tile| [(tile, 0), (tile, 1)]).enumerate() {
            for (r, total) in total.iter_mut().enumerate() {
                let mut dot = [x.owed[block][r] * 8; LANES];
                for g in 0..8 {
                    let x = x.quads[block * 8 + g][r].to_le_bytes();
                    for lane in 0..LANES {
                        for b in 0..4 {
                            dot[lane] += i32::from(tile.quants[8 * i + g][4 * lane + b]) * i32::from(x[b] as i8);
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
    unsafe fn dot_avx512<const R: usize>(tiles: &[Q8_0], x: Rows<'_, R>) -> [[f32; LANES]; R] {
        // SAFETY: the caller has seen that the processor has the instructions.
        unsafe { super::avx512::q8_0(tiles, x) }
    }
}
