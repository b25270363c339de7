//! What does each new token take from the tokens before it?
//!
//! Causal attention over KV blocks, with a softmax that is corrected block by block (Milakov and Gimelshein,
//! <https://arxiv.org/abs/1805.02867>). A query at position `p` walks the blocks `0..=p / 32` in order and reads the
//! keys up to `p`: the order of every sum depends on `p` alone, never on what else is in the call.
//!
//! Keys lie transposed in a block (see [`crate::kv::Arena`]), so 32 scores are 32 lanes and need no sum across lanes.
//! The same source is compiled three times, for AVX-512, for AVX2 with FMA, and for any machine.

use super::decoder::Sequence;
use super::ops::exp;
use super::pool;
use crate::kv::{Arena, BLOCK_TOKENS, BlockId};
use half::slice::HalfFloatSliceExt;

/// The widths of heads that the kernel is compiled for.
pub(super) const HEAD_DIMS: [usize; 3] = [32, 64, 128];

/// Query vectors that share one pass over a block's keys.
const TILE: usize = 4;
/// Rows of a prefill in one unit of parallel work.
const UNIT_ROWS: usize = 16;

type Scores = [f32; BLOCK_TOKENS];

/// Where the keys and values of one layer are.
pub(super) struct Keys<'a> {
    pub arena: &'a Arena,
    pub layer: usize,
}

/// One piece of parallel work: `queries` and `out` are `rows * heads` vectors, rows outside.
struct Unit<'a> {
    blocks: &'a [BlockId],
    kv_head: usize,
    first_position: usize,
    heads: usize,
    queries: &'a [f32],
    out: &'a mut [f32],
}

/// Attends from each query. `queries` and `out` are one sequence after another, each laid out `[kv head][row][head of the
/// group][head_dim]`, already rotated and scaled; each row's own key and value are already in the arena.
pub(super) fn attend(keys: &Keys, sequences: &[Sequence], queries: &[f32], out: &mut [f32], group: usize) {
    let shape = keys.arena.shape();
    let head_dim = shape.head_dim;
    // A single row alone has only `kv_heads` units in it; split its heads further when there are more threads than that.
    let split = pool::threads().div_ceil(shape.kv_heads * sequences.len()).min(group);
    let mut units = Vec::new();
    let (mut rest_queries, mut rest_out) = (queries, out);
    for &Sequence { tokens, position, blocks } in sequences {
        let rows = tokens.len();
        let per_kv_head = rows * group * head_dim;
        let (queries, out);
        (queries, rest_queries) = rest_queries.split_at(per_kv_head * shape.kv_heads);
        (out, rest_out) = rest_out.split_at_mut(per_kv_head * shape.kv_heads);
        let sizes = if rows == 1 { group.div_ceil(split) * head_dim } else { UNIT_ROWS * group * head_dim };
        let by_head = queries.chunks(per_kv_head).zip(out.chunks_mut(per_kv_head)).enumerate();
        for (kv_head, (queries, out)) in by_head {
            for (i, (queries, out)) in queries.chunks(sizes).zip(out.chunks_mut(sizes)).enumerate() {
                let first_position = if rows == 1 { position } else { position + i * UNIT_ROWS };
                let heads = if rows == 1 { queries.len() / head_dim } else { group };
                units.push(Unit { blocks, kv_head, first_position, heads, queries, out });
            }
        }
    }
    // The last rows see the most keys; begin with them so that no thread ends up alone with a long unit.
    units.reverse();
    pool::each(units, |unit| match head_dim {
        128 => dispatch::<128>(keys, unit),
        64 => dispatch::<64>(keys, unit),
        _ => dispatch::<32>(keys, unit),
    });
}

fn dispatch<const D: usize>(keys: &Keys, unit: Unit) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
            // SAFETY: the features that the function is compiled for were detected on this machine.
            return unsafe { run_avx512::<D>(keys, unit) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the features that the function is compiled for were detected on this machine.
            return unsafe { run_avx2::<D>(keys, unit) };
        }
    }
    run::<D, false>(keys, unit);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
fn run_avx512<const D: usize>(keys: &Keys, unit: Unit) {
    run::<D, true>(keys, unit);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<const D: usize>(keys: &Keys, unit: Unit) {
    run::<D, true>(keys, unit);
}

#[inline(always)]
fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn run<const D: usize, const FMA: bool>(keys: &Keys, unit: Unit) {
    let Unit { blocks, kv_head, first_position, heads, queries, out } = unit;
    let (queries, _) = queries.as_chunks::<D>();
    let (out, _) = out.as_chunks_mut::<D>();
    let rows = queries.len() / heads;
    let mut highest = vec![f32::NEG_INFINITY; queries.len()];
    let mut totals = vec![0f32; queries.len()];
    out.as_flattened_mut().fill(0.0);
    let mut block_keys = [[0f32; BLOCK_TOKENS]; D];
    let mut block_values = [[0f32; D]; BLOCK_TOKENS];
    let last_block = (first_position + rows - 1) / BLOCK_TOKENS;
    for (index, &block) in blocks[..=last_block].iter().enumerate() {
        let start = index * BLOCK_TOKENS;
        let (stored_keys, stored_values) = keys.arena.layer(block, keys.layer, kv_head);
        stored_keys.convert_to_f32_slice(block_keys.as_flattened_mut());
        stored_values.convert_to_f32_slice(block_values.as_flattened_mut());
        // Rows before this block do not see it.
        let first = start.saturating_sub(first_position) * heads;
        for tile in (first..queries.len()).step_by(TILE) {
            let mut scores = [[0f32; BLOCK_TOKENS]; TILE];
            let width = TILE.min(queries.len() - tile);
            if width == TILE {
                let four = [&queries[tile], &queries[tile + 1], &queries[tile + 2], &queries[tile + 3]];
                scores = score::<D, TILE, FMA>(four, &block_keys);
            } else {
                for i in 0..width {
                    [scores[i]] = score::<D, 1, FMA>([&queries[tile + i]], &block_keys);
                }
            }
            for (i, scores) in scores[..width].iter_mut().enumerate() {
                let vector = tile + i;
                let visible = (first_position + vector / heads + 1 - start).min(BLOCK_TOKENS);
                let (shrink, total) = soften(scores, visible, &mut highest[vector]);
                totals[vector] = totals[vector] * shrink + total;
                gather::<D, FMA>(scores, visible, &block_values, shrink, &mut out[vector]);
            }
        }
    }
    for (out, total) in out.iter_mut().zip(&totals) {
        out.iter_mut().for_each(|x| *x /= total);
    }
}

/// 32 dot products for each of `T` queries: one after another along the head, side by side across keys.
#[inline(always)]
fn score<const D: usize, const T: usize, const FMA: bool>(
    queries: [&[f32; D]; T],
    keys: &[[f32; BLOCK_TOKENS]; D],
) -> [Scores; T] {
    let mut scores = [[0f32; BLOCK_TOKENS]; T];
    for (d, keys) in keys.iter().enumerate() {
        for t in 0..T {
            let q = queries[t][d];
            for j in 0..BLOCK_TOKENS {
                scores[t][j] = multiply_add::<FMA>(q, keys[j], scores[t][j]);
            }
        }
    }
    scores
}

/// Turns the first `visible` scores into weights relative to the highest score so far and the rest into zeros.
/// Gives the factor by which everything summed before must shrink, and the sum of the weights.
#[inline(always)]
fn soften(scores: &mut Scores, visible: usize, highest: &mut f32) -> (f32, f32) {
    scores[visible..].fill(f32::NEG_INFINITY);
    let mut tops = *scores;
    fold(&mut tops, |a, b| if b > a { b } else { a });
    let top = if tops[0] > *highest { tops[0] } else { *highest };
    let shrink = if top > *highest { exp(*highest - top) } else { 1.0 };
    *highest = top;
    for score in scores.iter_mut() {
        *score = exp(*score - top);
    }
    scores[visible..].fill(0.0);
    let mut sums = *scores;
    fold(&mut sums, |a, b| a + b);
    (shrink, sums[0])
}

/// Folds the halves onto each other until the result stands in the first lane.
#[inline(always)]
fn fold(lanes: &mut Scores, combine: impl Fn(f32, f32) -> f32) {
    let mut width = BLOCK_TOKENS / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
}

/// `out = out * shrink + sum of weight * value` over the visible tokens, in their order.
#[inline(always)]
fn gather<const D: usize, const FMA: bool>(
    weights: &Scores,
    visible: usize,
    values: &[[f32; D]; BLOCK_TOKENS],
    shrink: f32,
    out: &mut [f32; D],
) {
    let mut sums = *out;
    if shrink != 1.0 {
        sums.iter_mut().for_each(|x| *x *= shrink);
    }
    for (&weight, value) in weights[..visible].iter().zip(values) {
        for d in 0..D {
            sums[d] = multiply_add::<FMA>(weight, value[d], sums[d]);
        }
    }
    *out = sums;
}
