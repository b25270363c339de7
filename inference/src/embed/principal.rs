//! Along which directions do the vectors differ most? The eigenvectors of their covariance.
//!
//! One-sided Jacobi (M. R. Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958): rows
//! of a symmetric positive matrix are rotated in pairs until all are orthogonal. Then each row is an eigenvector
//! times its eigenvalue. Only rows are touched, so that it runs at the speed of memory: a second for 384 numbers.

/// Rotations below this cosine change nothing.
const COSINE_MIN: f64 = 1e-10;
/// Quadratic convergence needs about ten.
const SWEEPS_MAX: usize = 60;

/// The eigenvectors of a symmetric positive semidefinite matrix (`size` rows of `size`), largest eigenvalue first,
/// one after the other, `wanted` of them. Each has length 1, and its largest number is positive, so that the same
/// matrix always gives the same vectors. Where the matrix has fewer than `wanted` directions the rest is zero.
pub(crate) fn principal(matrix: &[f64], size: usize, wanted: usize) -> Vec<f64> {
    let mut rows: Vec<Vec<f64>> = matrix.chunks(size).map(<[f64]>::to_vec).collect();
    for _ in 0..SWEEPS_MAX {
        let mut turned = false;
        for first in 0..rows.len() {
            for second in first + 1..rows.len() {
                let (head, tail) = rows.split_at_mut(second);
                turned |= make_orthogonal(&mut head[first], &mut tail[0]);
            }
        }
        if !turned {
            break;
        }
    }
    let mut sized: Vec<(f64, Vec<f64>)> = rows.into_iter().map(|row| (dot(&row, &row).sqrt(), row)).collect();
    sized.sort_by(|left, right| right.0.total_cmp(&left.0));
    let smallest = sized.first().map_or(0.0, |(largest, _)| largest * 1e-12);
    let mut vectors = Vec::with_capacity(wanted * size);
    for (length, row) in sized.into_iter().take(wanted) {
        let largest =
            row.iter().copied().fold(0.0, |largest: f64, x| if x.abs() > largest.abs() { x } else { largest });
        let scale = if length > smallest { largest.signum() / length } else { 0.0 };
        vectors.extend(row.iter().map(|x| x * scale));
    }
    vectors.resize(wanted * size, 0.0);
    vectors
}

/// Turns two rows in their plane until they are orthogonal; the longer one comes first. False where they were so
/// before.
fn make_orthogonal(first: &mut [f64], second: &mut [f64]) -> bool {
    let (one, two, both) = (dot(first, first), dot(second, second), dot(first, second));
    if both.abs() <= COSINE_MIN * (one * two).sqrt() || both == 0.0 {
        return false;
    }
    let ratio = (two - one) / (2.0 * both);
    let tangent = ratio.signum() / (ratio.abs() + (1.0 + ratio * ratio).sqrt());
    let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
    let sine = cosine * tangent;
    for (x, y) in first.iter_mut().zip(second) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
    true
}

/// In eight parts, which the compiler keeps in registers side by side.
fn dot(left: &[f64], right: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (left, right) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in left.zip(right) {
        for at in 0..8 {
            sums[at] += x[at] * y[at];
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same every time.
    fn noise(count: usize) -> Vec<f64> {
        let mut state = 7u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    /// The matrix of all dot products of the columns of `data`.
    fn gram(data: &[f64], size: usize) -> Vec<f64> {
        let mut matrix = vec![0.0; size * size];
        for row in data.chunks(size) {
            for i in 0..size {
                for j in 0..size {
                    matrix[i * size + j] += row[i] * row[j];
                }
            }
        }
        matrix
    }

    #[test]
    fn each_vector_is_stretched_and_not_turned_by_the_matrix() {
        let size = 37;
        let matrix = gram(&noise(size * 90), size);
        let vectors = principal(&matrix, size, size);
        let mut before = f64::INFINITY;
        for (at, vector) in vectors.chunks(size).enumerate() {
            let image: Vec<f64> = matrix.chunks(size).map(|row| dot(row, vector)).collect();
            let value = dot(&image, vector);
            for (x, y) in image.iter().zip(vector) {
                assert!((x - value * y).abs() < 1e-7, "vector {at}: {x} is not {value} times {y}");
            }
            assert!(value <= before + 1e-9, "vector {at} is larger than the one before it");
            before = value;
            for other in vectors.chunks(size).take(at) {
                assert!(dot(vector, other).abs() < 1e-7);
            }
        }
    }

    #[test]
    fn directions_that_do_not_exist_are_zero() {
        let vectors = principal(&[4.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0], 3, 3);
        assert_eq!(vectors, [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
