//! How good is a ranking? Accuracy, reciprocal rank and discounted gain over files, every gain 0 or 1.

/// Ranks beyond this one count for nothing in the gain.
const NDCG_DEPTH: usize = 10;

/// What one ranking, or the mean of many, is worth. Each is from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scores {
    /// A gold file is first.
    pub acc_1: f64,
    /// A gold file is among the first 3.
    pub acc_3: f64,
    /// A gold file is among the first 5.
    pub acc_5: f64,
    /// Normalised discounted cumulative gain of the first 10 (Järvelin and Kekäläinen 2002): a gold file at rank r
    /// gains 1 / log2(r + 1), and the best order of all gold files is 1.
    pub ndcg_10: f64,
    /// 1 / rank of the first gold file.
    pub mrr: f64,
}

/// The ranks, from 1, at which gold files stand. A gold file that is found twice counts at its first place, and files
/// that score alike count in the order in which they were given.
pub fn ranks(ranked: &[String], gold: &[String], is_same: impl Fn(&str, &str) -> bool) -> Vec<usize> {
    let rank = |gold: &String| ranked.iter().position(|path| is_same(path, gold)).map(|at| at + 1);
    let mut ranks: Vec<usize> = gold.iter().filter_map(rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The worth of one ranking whose `gold` files stand at `ranks` (ascending).
pub fn score(ranks: &[usize], gold: usize) -> Scores {
    let first = ranks.first().copied();
    let within = |depth: usize| f64::from(u8::from(first.is_some_and(|rank| rank <= depth)));
    let gain = |rank: usize| 1.0 / ((rank + 1) as f64).log2();
    let best: f64 = (1..=gold.min(NDCG_DEPTH)).map(gain).sum();
    let got: f64 = ranks.iter().filter(|rank| **rank <= NDCG_DEPTH).map(|rank| gain(*rank)).sum();
    Scores {
        acc_1: within(1),
        acc_3: within(3),
        acc_5: within(5),
        ndcg_10: if best > 0.0 { got / best } else { 0.0 },
        mrr: first.map_or(0.0, |rank| 1.0 / rank as f64),
    }
}

/// The worth of a ranking whose gold files are written as the ranking writes them.
pub fn score_of(ranked: &[String], gold: &[String]) -> Scores {
    score(&ranks(ranked, gold, |left, right| left == right), gold.len())
}

/// The mean; of nothing it is nothing.
pub fn mean(all: &[Scores]) -> Scores {
    let count = all.len().max(1) as f64;
    let mean = |part: fn(&Scores) -> f64| all.iter().map(part).sum::<f64>() / count;
    Scores {
        acc_1: mean(|scores| scores.acc_1),
        acc_3: mean(|scores| scores.acc_3),
        acc_5: mean(|scores| scores.acc_5),
        ndcg_10: mean(|scores| scores.ndcg_10),
        mrr: mean(|scores| scores.mrr),
    }
}

/// The smallest value that at least `percent` of all are not above (nearest rank); none of nothing.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ranked: &[&str], gold: &[&str], expected: [f64; 5]) {
        let own = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let ranks = ranks(&own(ranked), &own(gold), |left, right| left == right);
        let got = score(&ranks, gold.len());
        let got = [got.acc_1, got.acc_3, got.acc_5, got.ndcg_10, got.mrr];
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-4, "{got} is not {expected}");
        }
    }

    #[test]
    fn the_one_gold_file_first_is_perfect() {
        check(&["a", "b"], &["a"], [1.0; 5]);
    }

    #[test]
    fn a_gold_file_at_the_third_place_gains_one_half() {
        // 1 / log2(4)
        check(&["x", "y", "a"], &["a"], [0.0, 1.0, 1.0, 0.5, 1.0 / 3.0]);
    }

    #[test]
    fn two_gold_files_at_first_and_fourth_place_are_weighed_against_the_best_order() {
        // (1 + 1 / log2(5)) / (1 + 1 / log2(3)) = 1.430677 / 1.630930
        check(&["a", "x", "y", "b"], &["a", "b"], [1.0, 1.0, 1.0, 0.877215, 1.0]);
    }

    #[test]
    fn what_is_not_found_gains_nothing() {
        check(&["x", "y"], &["a"], [0.0; 5]);
        check(&[], &["a"], [0.0; 5]);
    }

    #[test]
    fn beyond_the_tenth_place_only_the_reciprocal_rank_counts() {
        let far: Vec<String> = (0..11).map(|at| format!("x{at}")).chain(["a".to_owned()]).collect();
        let far: Vec<&str> = far.iter().map(String::as_str).collect();
        check(&far, &["a"], [0.0, 0.0, 0.0, 0.0, 1.0 / 12.0]);
    }

    #[test]
    fn more_gold_files_than_ten_can_still_be_answered_perfectly() {
        let names: Vec<String> = (0..12).map(|at| format!("g{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        check(&names, &names, [1.0; 5]);
    }

    #[test]
    fn a_file_that_is_found_twice_counts_at_its_first_place() {
        // (1 / log2(3)) / 1
        check(&["x", "a", "a"], &["a"], [0.0, 1.0, 1.0, 0.63093, 0.5]);
    }

    #[test]
    fn files_that_score_alike_count_in_the_order_given() {
        check(&["tied", "a"], &["a"], [0.0, 1.0, 1.0, 0.63093, 0.5]);
        check(&["a", "tied"], &["a"], [1.0; 5]);
    }

    #[test]
    fn a_mean_is_taken_part_by_part() {
        let mean = mean(&[score(&[1], 1), score(&[3], 1)]);
        assert_eq!(mean.acc_1, 0.5);
        assert_eq!(mean.acc_3, 1.0);
        assert_eq!(mean.ndcg_10, 0.75);
        assert_eq!(super::mean(&[]), Scores::default());
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 50.0), Some(50.0));
        assert_eq!(percentile(&values, 99.0), Some(99.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }
}
