//! Are the products right, and the same whatever the company?

use super::packed::{Level, forward_at};
use super::{Activations, Grain, Kind, PackError, Packed, Pool, forward_each};
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{Device, Tensor};
use proptest::prelude::*;
use std::borrow::Cow;

const KINDS: [Kind; 4] = [Kind::Q4K, Kind::Q6K, Kind::Q8_0, Kind::Q5_0];

/// Small steps of a linear congruence: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    fn float(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float() * 3.0).collect()
    }

    /// Random blocks; only the scales in half precision are kept finite and small.
    fn blocks(&mut self, kind: Kind, numbers: usize) -> Vec<u8> {
        let (span, bytes, halves): (usize, usize, &[usize]) = match kind {
            Kind::Q4K => (256, 144, &[0, 2]),
            Kind::Q6K => (256, 210, &[208]),
            Kind::Q8_0 => (32, 34, &[0]),
            Kind::Q5_0 => (32, 22, &[0]),
        };
        let mut raw: Vec<u8> = (0..numbers / span * bytes).map(|_| self.next() as u8).collect();
        for block in raw.chunks_exact_mut(bytes) {
            for &at in halves {
                let scale = half::f16::from_f32(self.float() * 0.01);
                block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
            }
        }
        raw
    }
}

fn candle_kind(kind: Kind) -> GgmlDType {
    match kind {
        Kind::Q4K => GgmlDType::Q4K,
        Kind::Q6K => GgmlDType::Q6K,
        Kind::Q8_0 => GgmlDType::Q8_0,
        Kind::Q5_0 => GgmlDType::Q5_0,
    }
}

fn dequantised(kind: Kind, rows: usize, columns: usize, raw: &[u8]) -> Vec<f32> {
    let storage = QStorage::from_data(Cow::Owned(raw.to_vec()), &Device::Cpu, candle_kind(kind)).unwrap();
    let tensor: Tensor = QTensor::new(storage, (rows, columns)).unwrap().dequantize(&Device::Cpu).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn multiplied(weights: &Packed, x: &[f32], m: usize, pool: &Pool) -> Vec<f32> {
    let mut out = vec![f32::NAN; m * weights.rows()];
    weights.forward(x, m, &mut out, pool);
    out
}

/// The row as the activations hold it, rounded here a second time and in double precision.
fn rounded(x: &[f32], grain: Grain) -> Vec<f64> {
    let span = match grain {
        Grain::By256 => 256,
        Grain::By32 => 32,
    };
    let round = |x: &[f32]| {
        let largest = x.iter().fold(0f32, |largest, x| largest.max(x.abs()));
        let scale = f64::from(largest / 127.0);
        x.iter().map(|x| scale * f64::from((x * (127.0 / largest)).round_ties_even())).collect::<Vec<_>>()
    };
    x.chunks(span).flat_map(round).collect()
}

#[track_caller]
fn check_products(kind: Kind, rows: usize, columns: usize, m: usize, pool: &Pool) {
    let mut random = Random(rows as u64 ^ (columns as u64) << 20 ^ (m as u64) << 40);
    let raw = random.blocks(kind, rows * columns);
    let x = random.floats(m * columns);
    let weights = Packed::new(kind, rows, columns, &raw, pool).unwrap();
    let dense = dequantised(kind, rows, columns, &raw);
    let found = multiplied(&weights, &x, m, pool);
    for level in Level::available() {
        let mut out = vec![f32::NAN; m * rows];
        let x = Activations::quantise(kind.grain(), &x, m, pool);
        forward_at(level, &x, &mut [(&weights, &mut out)], pool);
        assert!(out == found, "{kind:?}: {level:?} has other bits");
    }
    for i in 0..m {
        let exact = rounded(&x[i * columns..][..columns], kind.grain());
        for j in 0..rows {
            let terms = exact.iter().zip(&dense[j * columns..]).map(|(x, w)| x * f64::from(*w));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            let error = (f64::from(found[i * rows + j]) - sum).abs();
            // Q4_K takes a sum of minimums from a sum of scaled products, each larger than the difference.
            assert!(
                error <= 4e-6 * size,
                "{kind:?} {rows}x{columns}, {m} rows: [{i}][{j}] is off by {error} of {size}"
            );
        }
    }
}

#[test]
fn products_are_those_of_the_dequantised_weights() {
    let pool = Pool::new(2);
    for kind in KINDS {
        for m in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 70] {
            check_products(kind, 32, 512, m, &pool);
        }
        check_products(kind, 48, 1536, 5, &pool);
        check_products(kind, 16, 8960, 3, &pool);
    }
    for kind in [Kind::Q8_0, Kind::Q5_0] {
        check_products(kind, 64, 896, 13, &pool);
    }
}

#[test]
fn a_row_of_weights_is_what_candle_makes_of_it() {
    let pool = Pool::new(2);
    for kind in KINDS {
        let (rows, columns) = (48, 768);
        let raw = Random(11).blocks(kind, rows * columns);
        let weights = Packed::new(kind, rows, columns, &raw, &pool).unwrap();
        let dense = dequantised(kind, rows, columns, &raw);
        for (row, expected) in dense.chunks(columns).enumerate() {
            let mut found = vec![0.0; columns];
            weights.row(row, &mut found);
            assert_eq!(found, expected, "{kind:?}, row {row}");
        }
    }
}

#[test]
fn matrices_multiplied_together_have_the_products_they_have_alone() {
    let pool = Pool::new(2);
    let mut random = Random(5);
    let columns = 1024;
    let x = random.floats(11 * columns);
    let shapes = [(Kind::Q4K, 1536), (Kind::Q4K, 256), (Kind::Q6K, 256)];
    let weights = shapes.map(|(kind, rows)| {
        let raw = random.blocks(kind, rows * columns);
        Packed::new(kind, rows, columns, &raw, &pool).unwrap()
    });
    let mut together = weights.each_ref().map(|weights| vec![0.0; 11 * weights.rows()]);
    let mut products: Vec<_> = weights.iter().zip(together.iter_mut().map(Vec::as_mut_slice)).collect();
    forward_each(&Activations::quantise(Grain::By256, &x, 11, &pool), &mut products, &pool);
    for (weights, together) in weights.iter().zip(&together) {
        let mut alone = vec![0.0; 11 * weights.rows()];
        weights.forward(&x, 11, &mut alone, &pool);
        assert!(&alone == together);
    }
}

#[test]
fn a_row_that_is_not_finite_spoils_its_own_products_only() {
    let pool = Pool::new(2);
    for kind in KINDS {
        let mut random = Random(3);
        let raw = random.blocks(kind, 16 * 512);
        let weights = Packed::new(kind, 16, 512, &raw, &pool).unwrap();
        for poison in [f32::NAN, f32::INFINITY] {
            let mut x = random.floats(3 * 512);
            let clean = multiplied(&weights, &x, 3, &pool);
            x[512 + 300] = poison;
            let spoilt = multiplied(&weights, &x, 3, &pool);
            assert!(spoilt[..16] == clean[..16] && spoilt[32..] == clean[32..]);
            assert!(spoilt[16..32].iter().all(|product| product.is_nan()));
        }
        let zero = multiplied(&weights, &[0.0; 512], 1, &pool);
        assert!(zero.iter().all(|&product| product == 0.0), "{kind:?}");
        let tiny = multiplied(&weights, &[1e-40; 512], 1, &pool);
        assert!(tiny.iter().all(|&product| product == 0.0), "{kind:?}");
    }
}

#[test]
fn a_matrix_that_does_not_fill_tiles_is_refused() {
    let pool = Pool::new(1);
    let refuse = |kind, rows, columns, bytes| Packed::new(kind, rows, columns, &vec![0; bytes], &pool).err();
    assert_eq!(refuse(Kind::Q4K, 24, 256, 24 * 144), Some(PackError::Rows { rows: 24 }));
    assert_eq!(refuse(Kind::Q4K, 0, 256, 0), Some(PackError::Rows { rows: 0 }));
    assert_eq!(refuse(Kind::Q6K, 16, 896, 0), Some(PackError::Columns { columns: 896, span: 256 }));
    assert_eq!(refuse(Kind::Q8_0, 16, 96, 0), Some(PackError::Columns { columns: 96, span: 64 }));
    assert_eq!(refuse(Kind::Q5_0, 16, 64, 43), Some(PackError::Bytes { found: 43, expected: 704 }));
    assert_eq!(refuse(Kind::Q5_0, 16, 64, 704), None);
}

#[test]
fn no_rows_have_no_products() {
    let pool = Pool::new(2);
    let weights = Packed::new(Kind::Q8_0, 16, 64, &[0; 16 * 68], &pool).unwrap();
    weights.forward(&[], 0, &mut [], &pool);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The invariant of [`super`].
    #[test]
    fn the_product_of_a_row_is_the_same_bits_in_any_company(
        kind in prop::sample::select(KINDS.to_vec()),
        strips in 1usize..9,
        spans in 1usize..5,
        m in 1usize..71,
        cut in 0usize..71,
        threads in 1usize..5,
        offset in 0usize..16,
        seed: u64,
    ) {
        let (rows, columns) = (strips * 16, spans * 256);
        let mut random = Random(seed);
        let raw = random.blocks(kind, rows * columns);
        let (one, several) = (Pool::new(1), Pool::new(threads));
        let weights = Packed::new(kind, rows, columns, &raw, &several).unwrap();
        // Neither the rows nor the place of the product begin where an allocation does.
        let x = random.floats(offset + m * columns);
        let x = &x[offset..];
        let mut out = vec![0.0; offset + m * rows];
        weights.forward(x, m, &mut out[offset..], &several);
        let together = &out[offset..];
        let cut = cut.min(m);
        let (before, after) = x.split_at(cut * columns);
        let mut apart = multiplied(&weights, before, cut, &one);
        apart.extend(multiplied(&weights, after, m - cut, &one));
        prop_assert!(apart == together);
        let alone = multiplied(&weights, &x[(m - 1) * columns..], 1, &one);
        prop_assert!(alone == together[(m - 1) * rows..]);
    }
}
