//! Which rows point the same way as this vector? An exact scan of int8 rows in memory.
//!
//! A row is a vector rounded to 15 steps of its own size, of which two lie in a byte on the disk; its length is worked
//! out again from the rounded numbers, so that no scale need be stored. The query is kept at 16 bits. Products of 16 and
//! 8 bits, summed in 32, are one instruction of AVX2 (`vpmaddwd`); a processor without it is found when the program
//! runs. Two cores read 125,000 rows of 256 numbers in a few milliseconds, which is why no approximate index is built.

use std::collections::BinaryHeap;

use rayon::prelude::*;
use rustc_hash::FxHashSet;

use crate::hash::PieceHash;

/// The length to which a query is scaled: no sum of 32 bits overflows up to [`NUMBERS_MAX`] numbers.
const QUERY_LENGTH: f32 = 16_383.0;
/// Numbers that a vector may have.
pub(crate) const NUMBERS_MAX: usize = 1 << 14;
/// The largest number of a rounded row.
const STEPS: f32 = 7.0;
/// What is larger than so many times the root of the mean square is cut. Of numbers that lie like those of a bell curve
/// 16 steps lose least when they reach 2.5 to 2.8 times as far (Max, "Quantizing for Minimum Distortion", 1960).
const CUT: f32 = 2.7;
/// Rows that one thread scans at a time.
const ROWS_AT_A_TIME: usize = 8192;

/// Rows of one dimension, each with a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matrix {
    dimension: usize,
    keys: Vec<PieceHash>,
    rows: Vec<i8>,
    /// 1 divided by the length of a row; 0 for a row of zeros.
    inverse: Vec<f32>,
}

impl Matrix {
    /// Without rows. The dimension is not 0.
    pub(crate) fn new(dimension: usize) -> Matrix {
        Matrix { dimension: dimension.max(1), ..Matrix::default() }
    }

    pub(crate) fn keys(&self) -> &[PieceHash] {
        &self.keys
    }

    /// Appends rows; there are as many numbers as keys times the dimension.
    pub(crate) fn extend(&mut self, keys: &[PieceHash], rows: &[i8]) {
        debug_assert_eq!(keys.len() * self.dimension, rows.len());
        self.keys.extend(keys);
        self.rows.extend(rows);
        self.inverse.extend(rows.chunks_exact(self.dimension).map(inverse_length));
    }

    /// Drops rows.
    pub(crate) fn remove(&mut self, gone: &FxHashSet<PieceHash>) {
        let mut left = Matrix::new(self.dimension);
        for (&key, row) in self.keys.iter().zip(self.rows.chunks_exact(self.dimension)) {
            if !gone.contains(&key) {
                left.extend(&[key], row);
            }
        }
        *self = left;
    }

    /// The keys of the rows nearest to a vector with their cosine distances (0 is the same direction, a row of zeros
    /// is at 1), nearest first, equally near ones by key. The vector has the dimension of the rows.
    pub(crate) fn nearest(&self, vector: &[f32], limit: usize) -> Vec<(PieceHash, f32)> {
        debug_assert_eq!(vector.len(), self.dimension);
        let query = query_of(vector);
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

    fn scan(&self, query: &[i16], range: std::ops::Range<usize>, limit: usize) -> Vec<Near> {
        let mut best: BinaryHeap<Near> = BinaryHeap::with_capacity(limit.min(range.len()) + 1);
        let dot = dot_of_this_cpu();
        let rows = self.rows[range.start * self.dimension..range.end * self.dimension].chunks_exact(self.dimension);
        let named = self.keys[range.clone()].iter().zip(&self.inverse[range]);
        for (row, (&key, inverse)) in rows.zip(named) {
            let distance = 1.0 - dot(query, row) as f32 * inverse / QUERY_LENGTH;
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

/// What [`pack`] packed.
pub(crate) fn unpack(packed: &[u8], dimension: usize, rounded: &mut Vec<i8>) {
    let both = packed.iter().flat_map(|byte| [(byte << 4) as i8 >> 4, *byte as i8 >> 4]);
    rounded.extend(both.take(dimension));
}

fn query_of(vector: &[f32]) -> Vec<i16> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    let scale = if length > 0.0 { QUERY_LENGTH / length } else { 0.0 };
    vector.iter().map(|x| (x * scale).round() as i16).collect()
}

fn inverse_length(row: &[i8]) -> f32 {
    let squares: i32 = row.iter().map(|&x| i32::from(x) * i32::from(x)).sum();
    if squares == 0 { 0.0 } else { 1.0 / (squares as f32).sqrt() }
}

type Dot = fn(&[i16], &[i8]) -> i32;

/// [`dot`] as this processor does it fastest.
fn dot_of_this_cpu() -> Dot {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return |query, row| unsafe { dot_avx2(query, row) };
    }
    dot
}

/// [`dot`], 16 numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_avx2(query: &[i16], row: &[i8]) -> i32 {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_setzero_si256, _mm256_storeu_si256,
    };
    let (wide, narrow) = (query.chunks_exact(16), row.chunks_exact(16));
    let rest = dot(wide.remainder(), narrow.remainder());
    let mut sums = _mm256_setzero_si256();
    for (wide, narrow) in wide.zip(narrow) {
        // SAFETY: 32 and 16 bytes are there, and neither load wants them aligned.
        let (wide, narrow) =
            unsafe { (_mm256_loadu_si256(wide.as_ptr().cast()), _mm_loadu_si128(narrow.as_ptr().cast())) };
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(wide, _mm256_cvtepi8_epi16(narrow)));
    }
    let mut lanes = [0i32; 8];
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    lanes.iter().sum::<i32>() + rest
}

/// The sum of the products. The lengths are equal.
fn dot(query: &[i16], row: &[i8]) -> i32 {
    query.iter().zip(row).map(|(&x, &y)| i32::from(x) * i32::from(y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix(dimension: usize, vectors: &[Vec<f32>]) -> Matrix {
        let mut matrix = Matrix::new(dimension);
        for (key, vector) in vectors.iter().enumerate() {
            let mut row = Vec::new();
            round(vector, &mut row);
            matrix.extend(&[PieceHash::from_number(key as u64)], &row);
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
        let direction = |at: usize| vec![(at as f32 * 1e-4).cos(), (at as f32 * 1e-4).sin(), 0.0];
        let mut rows = Matrix::new(3);
        for at in 0..3 * ROWS_AT_A_TIME + 5 {
            let row: Vec<i8> = direction(at).iter().map(|x| (x * 127.0).round() as i8).collect();
            rows.extend(&[PieceHash::from_number(at as u64)], &row);
        }
        let found = rows.nearest(&direction(2 * ROWS_AT_A_TIME), 300);
        assert_eq!(found.len(), 300);
        assert!(found.is_sorted_by(|left, right| (left.1, left.0) < (right.1, right.0)), "in order, each once");
        assert!(found.iter().all(|(key, _)| key.number().abs_diff(2 * ROWS_AT_A_TIME as u64) < 400), "{found:?}");
    }

    proptest! {
        #[test]
        fn every_way_to_multiply_gives_the_same(
            pairs in prop::collection::vec((-16_383i16..=16_383, any::<i8>()), 0..100),
        ) {
            let (query, row): (Vec<i16>, Vec<i8>) = pairs.into_iter().unzip();
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
    fn rows_survive_their_packing() {
        for dimension in [1, 2, 7] {
            let row: Vec<i8> = (0..dimension).map(|at| (at as i8 * 5) % 15 - 7).collect();
            let (mut packed, mut again) = (Vec::new(), Vec::new());
            pack(&row, &mut packed);
            unpack(&packed, dimension, &mut again);
            assert_eq!((packed.len(), again), (dimension.div_ceil(2), row));
        }
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
