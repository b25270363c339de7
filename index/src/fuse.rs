//! How do several rankings become one?
//!
//! Reciprocal rank fusion after Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
//! individual Rank Learning Methods" (SIGIR 2009), with one change: each term is scaled by how near the score comes
//! to the best of its lane. Lanes still need no common scale, but a lane that is sure of its first hit says so.
//!
//! Measured with `examples/rank_cases` (no vectors) on the shared cases, NDCG@10 of the localisation cases (half a, half
//! b) and of the query sets (a, b): ranks alone 0.499, 0.711; 0.884, 0.699; scaled 0.448, 0.774; 0.926, 0.701.

use std::collections::HashMap;
use std::hash::Hash;

pub(crate) use crate::classify::is_test_path;

/// The constant of the paper: how little the first ranks differ from those after them.
const RANK_CONSTANT: f64 = 60.0;
/// Each further chunk of a file says this much of what the one before it does. Measured: 0.5 and 0.35 are alike.
const FURTHER_SHARE: f64 = 0.25;

/// Joins rankings with scores, each best first with its weight. Best first; equal scores in the order of the keys.
pub(crate) fn fuse<K: Copy + Eq + Hash + Ord>(lanes: &[(f64, Vec<(K, f64)>)]) -> Vec<(K, f64)> {
    let mut scores: HashMap<K, f64> = HashMap::new();
    for (weight, lane) in lanes {
        let top = lane.first().map_or(1.0, |(_, score)| *score).max(f64::MIN_POSITIVE);
        for (at, (key, score)) in lane.iter().enumerate() {
            *scores.entry(*key).or_insert(0.0) += weight * (score / top) / (RANK_CONSTANT + at as f64 + 1.0);
        }
    }
    let mut fused: Vec<(K, f64)> = scores.into_iter().collect();
    sort(&mut fused);
    fused
}

/// What all chunks of a file say about it: the best one whole, each further one [`FURTHER_SHARE`] of the last.
pub(crate) fn by_file(lane: &[((u32, u32), f64)]) -> Vec<(u32, f64)> {
    let mut files: HashMap<u32, (f64, f64)> = HashMap::new();
    for ((file, _), score) in lane {
        let (sum, share) = files.entry(*file).or_insert((0.0, 1.0));
        *sum += score * *share;
        *share *= FURTHER_SHARE;
    }
    let mut files: Vec<(u32, f64)> = files.into_iter().map(|(file, (sum, _))| (file, sum)).collect();
    sort(&mut files);
    files
}

/// Best first; equal scores in the order of the keys, so that the same question gets the same answer.
pub(crate) fn sort<K: Ord>(scored: &mut [(K, f64)]) {
    scored.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
}

/// The first `limit` of `ranked`, one of each group first, then more of them, each round in rank order.
pub(crate) fn spread<T, G: Eq + Hash>(ranked: Vec<T>, limit: usize, group: impl Fn(&T) -> G) -> Vec<T> {
    let mut taken: HashMap<G, usize> = HashMap::new();
    let mut rounds: Vec<(usize, T)> = Vec::with_capacity(ranked.len());
    for item in ranked {
        let round = taken.entry(group(&item)).or_insert(0);
        rounds.push((*round, item));
        *round += 1;
    }
    rounds.sort_by_key(|(round, _)| *round);
    rounds.into_iter().take(limit).map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_lanes_agree_on_comes_before_what_one_puts_first() {
        let fused = fuse(&[(1.0, vec![("a", 2.0), ("b", 1.9)]), (1.0, vec![("c", 2.0), ("b", 1.9)])]);
        assert_eq!(fused[0].0, "b");
        assert_eq!((fused[1].0, fused[2].0), ("a", "c"));
    }

    #[test]
    fn one_of_each_file_comes_before_the_second_of_any() {
        let spread = spread(vec!["a1", "a2", "b1", "a3", "c1"], 4, |item| item.chars().next());
        assert_eq!(spread, ["a1", "b1", "c1", "a2"]);
    }
}
