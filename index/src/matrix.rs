//! Which rows point the same way as this vector? An exact scan of rows of four bits a number, in memory.
//!
//! A row is a vector rounded to 15 steps of its own size, of which two lie in a byte, on the disk and here; its length is
//! worked out again from the rounded numbers, so that no scale need be stored. The query is rounded to eight bits.
//! AVX2 multiplies 32 pairs of an unsigned and a signed number in one instruction (`vpmaddubsw`), so rows are kept with 8
//! added to each number, which is taken off the sum again; a processor without it is found when the program runs.
//! Memory is the limit: see docs/decisions/9-static-vectors.md for how fast, and why no approximate index is built.

use std::collections::BinaryHeap;

use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::hash::PieceHash;

/// The largest number of a rounded query.
const QUERY_STEPS: f32 = 127.0;
/// What is added to each number of a row, so that none is below zero.
const OFFSET: i32 = 8;
/// The same for two numbers in a byte, as two's complement has them.
const BOTH_OFFSETS: u8 = 0x88;
/// Numbers that a vector may have.
pub(crate) const NUMBERS_MAX: usize = 1 << 14;
/// The largest number of a rounded row.
const STEPS: f32 = 7.0;
/// What is larger than so many times the root of the mean square is cut. Of numbers that lie like those of a bell curve
/// 16 steps lose least when they reach 2.5 to 2.8 times as far (Max, "Quantizing for Minimum Distortion", 1960).
const CUT: f32 = 2.7;
/// Rows that one thread scans at a time.
const ROWS_AT_A_TIME: usize = 1 << 15;

/// Rows of one dimension, each with a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matrix {
    /// Bytes of one row.
    width: usize,
    keys: Vec<PieceHash>,
    rows: Vec<u8>,
    /// 1 divided by the length of a row; 0 for a row of zeros.
    inverse: Vec<f32>,
}

impl Matrix {
    /// Without rows. The dimension is not 0.
    pub(crate) fn new(dimension: usize) -> Matrix {
        Matrix { width: dimension.max(1).div_ceil(2), ..Matrix::default() }
    }

    pub(crate) fn keys(&self) -> &[PieceHash] {
        &self.keys
    }

    /// Appends rows as [`pack`] gives them, as many as keys.
    pub(crate) fn extend(&mut self, keys: &[PieceHash], packed: &[u8]) {
        debug_assert_eq!(keys.len() * self.width, packed.len());
        self.keys.extend(keys);
        self.rows.extend(packed.iter().map(|both| both ^ BOTH_OFFSETS));
        self.inverse.extend(packed.chunks_exact(self.width).map(inverse_length));
    }

    /// Drops rows.
    pub(crate) fn remove(&mut self, gone: &FxHashSet<PieceHash>) {
        let width = self.width;
        let mut left = Matrix { width, ..Matrix::default() };
        let rows = self.keys.iter().zip(self.rows.chunks_exact(width)).zip(&self.inverse);
        for ((key, row), inverse) in rows.filter(|((key, _), _)| !gone.contains(*key)) {
            left.keys.push(*key);
            left.rows.extend(row);
            left.inverse.push(*inverse);
        }
        *self = left;
    }

    /// The keys of the rows nearest to a vector with their cosine distances (0 is the same direction, a row of zeros
    /// is at 1), nearest first, equally near ones by key. The vector has the dimension of the rows.
    pub(crate) fn nearest(&self, vector: &[f32], limit: usize) -> Vec<(PieceHash, f32)> {
        debug_assert_eq!(vector.len().div_ceil(2), self.width);
        let query = Rounded::of(vector);
        let scan = |at: usize| {
            let end = (at + ROWS_AT_A_TIME).min(self.keys.len());
            self.scan(&query, at..end, limit)
        };
        let starts: Vec<usize> = (0..self.keys.len()).step_by(ROWS_AT_A_TIME).collect();
        let mut found: Vec<Near> = if starts.len() > 1 {
            starts.into_par_iter().flat_map_iter(scan).collect()
        } else {
            starts.into_iter().flat_map(scan).collect()
        };
        found.sort_unstable();
        found.truncate(limit);
        found.into_iter().map(|near| (near.key, near.distance)).collect()
    }

    fn scan(&self, query: &Rounded, range: std::ops::Range<usize>, limit: usize) -> Vec<Near> {
        let mut best: BinaryHeap<Near> = BinaryHeap::with_capacity(limit.min(range.len()) + 1);
        let dot = dot_of_this_cpu();
        let rows = self.rows[range.start * self.width..range.end * self.width].chunks_exact(self.width);
        let named = self.keys[range.clone()].iter().zip(&self.inverse[range]);
        for (row, (&key, inverse)) in rows.zip(named) {
            let distance = 1.0 - dot(query, row) as f32 * inverse * query.inverse;
            let near = Near { distance, key };
            if best.len() < limit {
                best.push(near);
            } else if best.peek().is_some_and(|farthest| near < *farthest) {
                best.pop();
                best.push(near);
            }
        }
        best.into_vec()
    }
}

/// A row of a scan; the nearer one is smaller.
#[derive(Clone, Copy, PartialEq)]
struct Near {
    distance: f32,
    key: PieceHash,
}

impl Eq for Near {}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> std::cmp::Ordering {
        self.distance.total_cmp(&other.distance).then(self.key.cmp(&other.key))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Near) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A vector rounded to numbers from -7 to 7: its direction stays but for about a hundredth, its length does not.
pub(crate) fn round(vector: &[f32], rounded: &mut Vec<i8>) {
    let largest = vector.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    let mean_square = vector.iter().map(|x| x * x).sum::<f32>() / vector.len() as f32;
    let cut = largest.min(CUT * mean_square.sqrt());
    let scale = if cut > 0.0 { STEPS / cut } else { 0.0 };
    rounded.extend(vector.iter().map(|x| (x * scale).round().clamp(-STEPS, STEPS) as i8));
}

/// Two numbers of a row in a byte, the first one in the lower half.
pub(crate) fn pack(rounded: &[i8], packed: &mut Vec<u8>) {
    packed.extend(rounded.chunks(2).map(|two| (two[0] as u8 & 15) | (two.get(1).copied().unwrap_or(0) as u8) << 4));
}

/// A query, rounded, in the order of the halves of bytes.
struct Rounded {
    /// What the lower halves are multiplied with: the first, third, fifth number.
    low: Vec<i8>,
    /// What the upper ones are multiplied with.
    high: Vec<i8>,
    /// What the offset of a row adds to the sum.
    excess: i32,
    /// 1 divided by its length.
    inverse: f32,
}

impl Rounded {
    fn of(vector: &[f32]) -> Rounded {
        let largest = vector.iter().fold(0f32, |largest, x| largest.max(x.abs()));
        let scale = if largest > 0.0 { QUERY_STEPS / largest } else { 0.0 };
        let all: Vec<i8> = vector.iter().map(|x| (x * scale).round() as i8).collect();
        let squares: i64 = all.iter().map(|x| i64::from(*x).pow(2)).sum();
        let half = |from: usize| {
            let numbers = (0..all.len().div_ceil(2)).map(|at| all.get(2 * at + from).copied().unwrap_or(0));
            numbers.collect::<Vec<i8>>()
        };
        Rounded {
            low: half(0),
            high: half(1),
            excess: OFFSET * all.iter().map(|x| i32::from(*x)).sum::<i32>(),
            inverse: if squares > 0 { 1.0 / (squares as f32).sqrt() } else { 0.0 },
        }
    }
}

fn inverse_length(packed: &[u8]) -> f32 {
    let square = |number: u8| (i32::from(number ^ 8) - OFFSET).pow(2);
    let squares: i32 = packed.iter().map(|both| square(both & 15) + square(both >> 4)).sum();
    if squares == 0 { 0.0 } else { 1.0 / (squares as f32).sqrt() }
}

type Dot = fn(&Rounded, &[u8]) -> i32;

/// [`dot`] as this processor does it fastest.
fn dot_of_this_cpu() -> Dot {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return |query, row| unsafe { dot_avx2(query, row) };
    }
    dot
}

/// [`dot`], 64 numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_avx2(query: &Rounded, row: &[u8]) -> i32 {
    use std::arch::x86_64::{
        _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_srli_epi16,
        _mm256_storeu_si256,
    };
    const BYTES: usize = 32;
    // Two products of at most 15 * 127 are summed in 16 bits, four times two of them before the sum is widened.
    const STEPS_IN_16_BITS: usize = 4;
    let (halves, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
    let (low, high) = (query.low.chunks_exact(BYTES), query.high.chunks_exact(BYTES));
    let (mut sums, mut narrow) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for (step, (both, (low, high))) in row.chunks_exact(BYTES).zip(low.zip(high)).enumerate() {
        // SAFETY: all three have `BYTES`, and no load wants them aligned.
        let (both, low, high) = unsafe {
            (
                _mm256_loadu_si256(both.as_ptr().cast()),
                _mm256_loadu_si256(low.as_ptr().cast()),
                _mm256_loadu_si256(high.as_ptr().cast()),
            )
        };
        let lower = _mm256_maddubs_epi16(_mm256_and_si256(both, halves), low);
        let upper = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16::<4>(both), halves), high);
        narrow = _mm256_add_epi16(narrow, _mm256_add_epi16(lower, upper));
        if step % STEPS_IN_16_BITS == STEPS_IN_16_BITS - 1 {
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(narrow, ones));
            narrow = _mm256_setzero_si256();
        }
    }
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(narrow, ones));
    let mut lanes = [0i32; 8];
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    lanes.iter().sum::<i32>() + products(query, row, row.len() - row.len() % BYTES) - query.excess
}

/// The sum of the products. A row has as many bytes as each half of the query.
fn dot(query: &Rounded, row: &[u8]) -> i32 {
    products(query, row, 0) - query.excess
}

fn products(query: &Rounded, row: &[u8], from: usize) -> i32 {
    let halves = query.low[from..].iter().zip(&query.high[from..]);
    let product = |(both, (low, high)): (&u8, (&i8, &i8))| {
        i32::from(both & 15) * i32::from(*low) + i32::from(both >> 4) * i32::from(*high)
    };
    row[from..].iter().zip(halves).map(product).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(vector: &[f32]) -> Vec<u8> {
        let (mut row, mut packed) = (Vec::new(), Vec::new());
        round(vector, &mut row);
        pack(&row, &mut packed);
        packed
    }

    fn matrix(dimension: usize, vectors: &[Vec<f32>]) -> Matrix {
        let mut matrix = Matrix::new(dimension);
        for (key, vector) in vectors.iter().enumerate() {
            matrix.extend(&[PieceHash::from_number(key as u64)], &packed(vector));
        }
        matrix
    }

    fn cosine_distance(left: &[f32], right: &[f32]) -> f32 {
        let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
        let lengths = (dot(left, left) * dot(right, right)).sqrt();
        1.0 - if lengths > 0.0 { dot(left, right) / lengths } else { 0.0 }
    }

    proptest! {
        #[test]
        fn a_scan_finds_what_floats_find(
            vectors in prop::collection::vec(prop::collection::vec(-1f32..1.0, 70), 1..200),
            query in prop::collection::vec(-1f32..1.0, 70),
            limit in 1usize..20,
        ) {
            let found = matrix(70, &vectors).nearest(&query, limit);
            let mut exact: Vec<f32> = vectors.iter().map(|vector| cosine_distance(&query, vector)).collect();
            for (key, distance) in &found {
                prop_assert!((exact[key.number() as usize] - distance).abs() < 0.05);
            }
            exact.sort_by(f32::total_cmp);
            prop_assert_eq!(found.len(), limit.min(vectors.len()));
            for ((_, distance), exact) in found.iter().zip(&exact) {
                prop_assert!((exact - distance).abs() < 0.05, "{} is not {}", distance, exact);
            }
        }
    }

    #[test]
    fn many_rows_are_scanned_in_parts_and_joined() {
        // 15 steps tell 40 directions of a circle apart.
        let direction = |at: usize| {
            let angle = (at % 40) as f32 / 40.0 * std::f32::consts::TAU;
            [angle.cos(), angle.sin(), 0.0]
        };
        let mut rows = Matrix::new(3);
        for at in 0..3 * ROWS_AT_A_TIME + 5 {
            rows.extend(&[PieceHash::from_number(at as u64)], &packed(&direction(at)));
        }
        let found = rows.nearest(&direction(7), 300);
        assert_eq!(found.len(), 300);
        assert!(found.is_sorted_by(|left, right| (left.1, left.0) < (right.1, right.0)), "in order, each once");
        assert!(found.iter().all(|(_, distance)| (distance - found[0].1).abs() < 1e-6), "{found:?}");
        assert!(found.iter().all(|(key, _)| key.number() % 40 == 7), "{found:?}");
    }

    proptest! {
        #[test]
        fn every_way_to_multiply_gives_the_same(
            pairs in prop::collection::vec((-1f32..=1.0, any::<u8>(), -1f32..=1.0), 0..300),
        ) {
            let row: Vec<u8> = pairs.iter().map(|pair| pair.1).collect();
            let query: Vec<f32> = pairs.iter().flat_map(|pair| [pair.0, pair.2]).collect();
            let query = Rounded::of(&query);
            prop_assert_eq!(dot_of_this_cpu()(&query, &row), dot(&query, &row));
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let vector = vec![-1.0; NUMBERS_MAX];
        let found = matrix(NUMBERS_MAX, &[vector.clone(), vec![1.0; NUMBERS_MAX]]).nearest(&vector, 2);
        assert!(found[0].0.number() == 0 && found[0].1.abs() < 1e-2, "{found:?}");
        assert!(found[1].0.number() == 1 && (found[1].1 - 2.0).abs() < 1e-2, "{found:?}");
    }

    #[test]
    fn a_row_of_zeros_is_like_nothing() {
        let found = matrix(2, &[vec![0.0, 0.0], vec![0.0, 1.0], vec![-1.0, 0.0]]).nearest(&[1.0, 1.0], 3);
        assert_eq!(found.iter().map(|(key, _)| key.number()).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(found[1].1, 1.0);
    }

    #[test]
    fn a_removed_row_is_found_no_more() {
        let mut rows = matrix(2, &[vec![1.0, 0.0], vec![1.0, 0.1], vec![0.0, 1.0]]);
        rows.remove(&[PieceHash::from_number(0)].into_iter().collect());
        assert_eq!(rows.keys().iter().map(|key| key.number()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(rows.nearest(&[1.0, 0.0], 9).iter().map(|(key, _)| key.number()).collect::<Vec<_>>(), [1, 2]);
    }
}
