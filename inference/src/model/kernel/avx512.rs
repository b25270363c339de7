//! How fast can AVX-512 with VNNI multiply a tile?
//!
//! One `vpdpbusd` multiplies four columns of sixteen rows of weights with four numbers of one row of activations,
//! which it reads straight from memory into every lane. Weights are unpacked once for all `R` rows. The sum of a run is
//! exact; it is then converted and added with its scale, both in one instruction each. For one row that is far
//! quicker than memory; for eight, about two thirds of the instructions are `vpdpbusd`.

use super::activations::Rows;
use super::q4k::Q4K;
use super::q5_0::Q5_0;
use super::q6k::{Place, Q6K};
use super::q8_0::Q8_0;
use super::tile::LANES;
use std::arch::x86_64::*;
use std::array::from_fn;

/// Whether this processor has the instructions.
pub(super) fn detected() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
}

/// See [`super::q4k`]. The high nibbles are multiplied where they stand, sixteen times too large, and their scales
/// are a sixteenth: both are exact.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn q4k<const R: usize>(tiles: &[Q4K], x: Rows<'_, R>) -> [[f32; LANES]; R] {
    let (low, high) = (_mm512_set1_epi8(0x0f), _mm512_set1_epi8(0xf0_u8 as i8));
    let mut total = [_mm512_setzero_ps(); R];
    let spans = x.quads.as_chunks::<64>().0.iter().zip(x.pairs.as_chunks::<4>().0).zip(x.scales);
    for (tile, ((quads, pairs), dx)) in tiles.iter().zip(spans) {
        prefetch::<_, R>(tile);
        let mut sum = [_mm512_setzero_ps(); R];
        for j in 0..4 {
            let mut dot = [[_mm512_setzero_si512(); R]; 2];
            for g in 0..8 {
                let both = load(&tile.quants[8 * j + g]);
                let (even, odd) = (_mm512_and_si512(both, low), _mm512_and_si512(both, high));
                for r in 0..R {
                    dot[0][r] = _mm512_dpbusd_epi32(dot[0][r], even, _mm512_set1_epi32(quads[16 * j + g][r]));
                    dot[1][r] = _mm512_dpbusd_epi32(dot[1][r], odd, _mm512_set1_epi32(quads[16 * j + 8 + g][r]));
                }
            }
            let scale = bytes(&tile.scales[2 * j]);
            sum = from_fn(|r| _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[0][r]), scale, sum[r]));
            let scale = _mm512_mul_ps(bytes(&tile.scales[2 * j + 1]), _mm512_set1_ps(1.0 / 16.0));
            sum = from_fn(|r| _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[1][r]), scale, sum[r]));
        }
        let mut minimum = [_mm512_setzero_si512(); R];
        for (minimums, pairs) in tile.minimums.iter().zip(pairs) {
            let minimums = _mm512_cvtepu8_epi16(load_256(minimums));
            minimum = from_fn(|r| _mm512_dpwssd_epi32(minimum[r], minimums, _mm512_set1_epi32(pairs[r])));
        }
        let (d, dmin) = (halves(&tile.d), halves(&tile.dmin));
        for r in 0..R {
            let product = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(minimum[r]), dmin, _mm512_mul_ps(d, sum[r]));
            total[r] = _mm512_fmadd_ps(product, _mm512_set1_ps(dx[r]), total[r]);
        }
    }
    total.map(|total| lanes(total))
}

/// See [`super::q6k`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn q6k<const R: usize>(tiles: &[Q6K], x: Rows<'_, R>) -> [[f32; LANES]; R] {
    let mut total = [_mm512_setzero_ps(); R];
    let spans = x.quads.as_chunks::<64>().0.iter().zip(x.owed.as_chunks::<16>().0).zip(x.scales);
    for (tile, ((quads, owed), dx)) in tiles.iter().zip(spans) {
        prefetch::<_, R>(tile);
        let mut sum = [_mm512_setzero_ps(); R];
        for half in 0..2 {
            sum = q6k_quarter::<R, 0>(tile, half, quads, owed, sum);
            sum = q6k_quarter::<R, 1>(tile, half, quads, owed, sum);
            sum = q6k_quarter::<R, 2>(tile, half, quads, owed, sum);
            sum = q6k_quarter::<R, 3>(tile, half, quads, owed, sum);
        }
        let d = halves(&tile.d);
        for r in 0..R {
            total[r] = _mm512_fmadd_ps(_mm512_mul_ps(d, sum[r]), _mm512_set1_ps(dx[r]), total[r]);
        }
    }
    total.map(|total| lanes(total))
}

/// Adds the two runs of a quarter of half a block; see [`Place`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn q6k_quarter<const R: usize, const QUARTER: usize>(
    tile: &Q6K,
    half: usize,
    quads: &[[i32; R]; 64],
    owed: &[[i32; R]; 16],
    mut sum: [__m512; R],
) -> [__m512; R] {
    let (low, high) = (_mm512_set1_epi8(0x0f), _mm512_set1_epi8(0x30));
    for within in 0..2 {
        let run = half * 8 + QUARTER * 2 + within;
        let place = Place::of(run);
        let mut dot: [__m512i; R] = from_fn(|r| _mm512_set1_epi32(owed[run][r]));
        for g in 0..4 {
            let (nibbles, pairs) = (load(&tile.low[place.low + g]), load(&tile.high[place.high + g]));
            let nibbles = if QUARTER < 2 { nibbles } else { _mm512_srli_epi16::<4>(nibbles) };
            let pairs = match QUARTER {
                0 => _mm512_slli_epi16::<4>(pairs),
                1 => _mm512_slli_epi16::<2>(pairs),
                2 => pairs,
                _ => _mm512_srli_epi16::<2>(pairs),
            };
            let six = _mm512_or_si512(_mm512_and_si512(nibbles, low), _mm512_and_si512(pairs, high));
            for r in 0..R {
                dot[r] = _mm512_dpbusd_epi32(dot[r], six, _mm512_set1_epi32(quads[4 * run + g][r]));
            }
        }
        let scale = signed_bytes(&tile.scales[run]);
        sum = from_fn(|r| _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, sum[r]));
    }
    sum
}

/// See [`super::q8_0`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn q8_0<const R: usize>(tiles: &[Q8_0], x: Rows<'_, R>) -> [[f32; LANES]; R] {
    let mut total = [_mm512_setzero_ps(); R];
    let spans = x.quads.as_chunks::<16>().0.iter().zip(x.owed.as_chunks::<2>().0).zip(x.scales.as_chunks::<2>().0);
    for (tile, ((quads, owed), dx)) in tiles.iter().zip(spans) {
        prefetch::<_, R>(tile);
        for block in 0..2 {
            let mut dot: [__m512i; R] = from_fn(|r| _mm512_slli_epi32::<3>(_mm512_set1_epi32(owed[block][r])));
            for g in 8 * block..8 * block + 8 {
                let eight = load(&tile.quants[g]);
                for r in 0..R {
                    dot[r] = _mm512_dpbusd_epi32(dot[r], eight, _mm512_set1_epi32(quads[g][r]));
                }
            }
            total = add_scaled(total, dot, &tile.d[block], &dx[block]);
        }
    }
    total.map(|total| lanes(total))
}

/// See [`super::q5_0`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn q5_0<const R: usize>(tiles: &[Q5_0], x: Rows<'_, R>) -> [[f32; LANES]; R] {
    let (low, sixteen) = (_mm512_set1_epi8(0x0f), _mm512_set1_epi8(16));
    let mut total = [_mm512_setzero_ps(); R];
    let spans = x.quads.as_chunks::<16>().0.iter().zip(x.owed.as_chunks::<2>().0).zip(x.scales.as_chunks::<2>().0);
    for (tile, ((quads, owed), dx)) in tiles.iter().zip(spans) {
        prefetch::<_, R>(tile);
        for block in 0..2 {
            let mut dot: [__m512i; R] = from_fn(|r| _mm512_set1_epi32(owed[block][r]));
            for g in 0..4 {
                let both = load(&tile.low[4 * block + g]);
                let (first, second) = (both, _mm512_srli_epi16::<4>(both));
                for (g, nibbles) in [(8 * block + g, first), (8 * block + 4 + g, second)] {
                    let nibbles = _mm512_and_si512(nibbles, low);
                    let five = _mm512_mask_add_epi8(nibbles, tile.high[g], nibbles, sixteen);
                    for r in 0..R {
                        dot[r] = _mm512_dpbusd_epi32(dot[r], five, _mm512_set1_epi32(quads[g][r]));
                    }
                }
            }
            total = add_scaled(total, dot, &tile.d[block], &dx[block]);
        }
    }
    total.map(|total| lanes(total))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn add_scaled<const R: usize>(total: [__m512; R], dot: [__m512i; R], d: &[u16; LANES], dx: &[f32; R]) -> [__m512; R] {
    let d = halves(d);
    from_fn(|r| {
        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(dot[r]), _mm512_set1_ps(dx[r]));
        _mm512_fmadd_ps(product, d, total[r])
    })
}

/// Up to this many rows memory is what takes the time.
const FEW: usize = 4;

/// How far ahead of their use weights are called to the second-level cache, in bytes. By itself the processor keeps too few
/// reads under way, and stops at each page: measured, 6 GB/s instead of 10.
const FAR: usize = 16 << 10;

/// And from there to the first, with few rows.
const NEAR: usize = 2 << 10;

/// Calls for what comes after `tile`. Past the end of the matrix this names memory that is not read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn prefetch<T, const R: usize>(tile: &T) {
    let tile = std::ptr::from_ref(tile).cast::<i8>();
    for line in (0..size_of::<T>()).step_by(64) {
        _mm_prefetch::<_MM_HINT_T1>(tile.wrapping_add(FAR + line));
        if R <= FEW {
            _mm_prefetch::<_MM_HINT_T0>(tile.wrapping_add(NEAR + line));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference is to the 64 bytes that are read; no alignment is asked for.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn load_256<T>(bytes: &[T; 16]) -> __m256i {
    const { assert!(size_of::<T>() == 2) };
    // SAFETY: the reference is to the 32 bytes that are read (seen above); no alignment is asked for.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn load_128<T>(bytes: &[T; 16]) -> __m128i {
    const { assert!(size_of::<T>() == 1) };
    // SAFETY: the reference is to the 16 bytes that are read (seen above); no alignment is asked for.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn bytes(bytes: &[u8; LANES]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(bytes)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn signed_bytes(bytes: &[i8; LANES]) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(bytes)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn halves(bits: &[u16; LANES]) -> __m512 {
    _mm512_cvtph_ps(load_256(bits))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn lanes(numbers: __m512) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    // SAFETY: the 64 bytes written are those of `out`; no alignment is asked for.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), numbers) };
    out
}
