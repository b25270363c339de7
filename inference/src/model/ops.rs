//! What happens between two matrix multiplications?
//!
//! Plain loops over one row at a time. Every sum is taken in an order fixed by the width of the row, so that a row
//! gives the same bits wherever it is computed.

/// Lanes of the partial sums; wide enough for one AVX-512 register.
const LANES: usize = 16;

/// `out = x / rms(x) * weight`, for one row.
pub(super) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let mut sums = [0f32; LANES];
    for chunk in x.chunks_exact(LANES) {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x * x;
        }
    }
    let tail: f32 = x.chunks_exact(LANES).remainder().iter().map(|x| x * x).sum();
    let mean = (sums.iter().sum::<f32>() + tail) / x.len() as f32;
    let scale = 1.0 / (mean + epsilon).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// `out += x`.
pub(super) fn add(out: &mut [f32], x: &[f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += x;
    }
}

/// `out = silu(gate) * up`.
pub(super) fn gated(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

/// The rotary embedding (Su et al., <https://arxiv.org/abs/2104.09864>), in the form that pairs element `i` with element `i + half`.
pub(super) struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    /// Frequencies for heads of `head_dim`.
    pub fn new(base: f32, head_dim: usize) -> Rope {
        let frequencies = (0..head_dim).step_by(2).map(|i| 1.0 / base.powf(i as f32 / head_dim as f32));
        Rope { frequencies: frequencies.collect() }
    }

    /// Cosine and sine of each pair at `position`.
    pub fn angles(&self, position: usize) -> Vec<(f32, f32)> {
        let angles = self.frequencies.iter().map(|frequency| position as f32 * frequency);
        angles.map(|angle| (angle.cos(), angle.sin())).collect()
    }
}

/// Turns one head in place.
pub(super) fn rotate(head: &mut [f32], angles: &[(f32, f32)]) {
    let (low, high) = head.split_at_mut(angles.len());
    for ((low, high), (cos, sin)) in low.iter_mut().zip(high).zip(angles) {
        (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
    }
}

/// `e^x` to about two units in the last place, without branches, so that loops over it vectorise.
/// Below -87 it gives the value at -87 (about 1e-38). Method: Cephes `expf`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer that stands in the low bits
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let y = p * r * r + r + 1.0;
    y * f32::from_bits(((exponent + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_exp_agrees_with_libm_to_a_few_parts_in_ten_million() {
        for i in -8_600..=8_700 {
            let x = i as f32 / 100.0;
            let (ours, theirs) = (f64::from(exp(x)), f64::from(x).exp());
            assert!(((ours - theirs) / theirs).abs() < 4e-7, "exp({x}) = {ours}, not {theirs}");
        }
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn a_normed_row_has_a_root_mean_square_of_one() {
        let x: Vec<f32> = (0..100).map(|i| i as f32 - 30.0).collect();
        let mut out = vec![0.0; 100];
        rms_norm(&x, &[1.0; 100], 1e-6, &mut out);
        let mean = out.iter().map(|x| x * x).sum::<f32>() / 100.0;
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
    }

    #[test]
    fn rotating_keeps_lengths_and_depends_on_the_distance_only() {
        let rope = Rope::new(10_000.0, 8);
        let product = |p: usize, q: usize| {
            let (mut a, mut b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0.5, -1.0, 2.0, 0.1, 1.0, 1.0, -2.0, 3.0]);
            rotate(&mut a, &rope.angles(p));
            rotate(&mut b, &rope.angles(q));
            a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>()
        };
        assert!((product(3, 1) - product(103, 101)).abs() < 1e-3);
    }
}
