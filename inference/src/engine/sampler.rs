//! Which token comes next, given the scores?
//!
//! Pure and seeded: the same scores and the same seed give the same token on any machine.

use super::request::Sampling;

/// Tokens less likely than the best by this many e-folds are never drawn; together they have less than one part in a
/// million of the probability, and leaving them out saves sorting 150,000 of them.
const FOLDS_MAX: f32 = 26.0;

/// Chooses tokens for one request.
pub(super) struct Sampler {
    sampling: Sampling,
    random: Random,
}

impl Sampler {
    pub fn new(sampling: Sampling) -> Sampler {
        Sampler { sampling, random: Random::new(sampling.seed) }
    }

    /// The next token. Ties go to the lower id.
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        let best = best(logits);
        if self.sampling.temperature <= 0.0 {
            return best;
        }
        let top = logits[best as usize];
        let mut kept: Vec<(f32, u32)> = (0..)
            .zip(logits)
            .map(|(id, logit)| ((logit - top) / self.sampling.temperature, id))
            .filter(|&(fold, _)| fold > -FOLDS_MAX)
            .collect();
        kept.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if self.sampling.top_k > 0 {
            kept.truncate(self.sampling.top_k);
        }
        kept.iter_mut().for_each(|(weight, _)| *weight = weight.exp());
        let total: f32 = kept.iter().map(|(weight, _)| weight).sum();
        let mut sum = 0.0;
        // The token that crosses top_p belongs to those kept.
        let crossing = kept.iter().position(|(weight, _)| {
            sum += weight;
            sum >= total * self.sampling.top_p
        });
        if let Some(crossing) = crossing {
            kept.truncate(crossing + 1);
        }
        let mut left = self.random.unit() * kept.iter().map(|(weight, _)| weight).sum::<f32>();
        let drawn = kept.iter().find(|(weight, _)| {
            left -= weight;
            left < 0.0
        });
        drawn.or(kept.last()).map_or(best, |&(_, id)| id)
    }
}

fn best(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// PCG32 (O'Neill, <https://www.pcg-random.org>): small, and the same everywhere.
struct Random {
    state: u64,
}

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random { state: seed.wrapping_add(0x9E37_79B9_7F4A_7C15) };
        random.next();
        random.next();
        random
    }

    fn next(&mut self) -> u32 {
        let state = self.state;
        self.state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((state >> 18) ^ state) >> 27) as u32;
        mixed.rotate_right((state >> 59) as u32)
    }

    /// In `0..1`, of 24 bits, which an `f32` holds exactly.
    fn unit(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, -50.0];

    fn draws(sampling: Sampling) -> Vec<u32> {
        let mut sampler = Sampler::new(sampling);
        (0..2000).map(|_| sampler.choose(&LOGITS)).collect()
    }

    #[test]
    fn greedy_takes_the_best_token_and_of_two_equal_ones_the_first() {
        assert!(draws(Sampling::GREEDY).iter().all(|&id| id == 1));
    }

    #[test]
    fn the_same_seed_draws_the_same_tokens_and_another_seed_others() {
        let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed: 7 };
        assert_eq!(draws(sampling), draws(sampling));
        assert_ne!(draws(sampling), draws(Sampling { seed: 8, ..sampling }));
    }

    #[test]
    fn tokens_are_drawn_as_often_as_their_probability_says() {
        let drawn = draws(Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed: 1 });
        let share = |id| drawn.iter().filter(|&&d| d == id).count() as f32 / drawn.len() as f32;
        let total: f32 = LOGITS.iter().map(|l| l.exp()).sum();
        for (id, logit) in LOGITS.iter().enumerate() {
            assert!((share(id as u32) - logit.exp() / total).abs() < 0.04, "token {id}: {}", share(id as u32));
        }
    }

    #[test]
    fn top_k_and_top_p_cut_off_the_tail() {
        let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 3, seed: 1 };
        assert!(draws(sampling).iter().all(|id| [1, 2, 3].contains(id)));
        let sampling = Sampling { temperature: 1.0, top_p: 0.5, top_k: 0, seed: 1 };
        assert!(draws(sampling).iter().all(|id| [1, 3].contains(id)));
        let sampling = Sampling { temperature: 1.0, top_p: 1e-6, top_k: 0, seed: 1 };
        assert!(draws(sampling).iter().all(|&id| id == 1));
    }
}
