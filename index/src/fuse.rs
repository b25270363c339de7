//! How do three rankings become one?
//!
//! Reciprocal rank fusion: a chunk's score is the sum over the lanes of weight / (60 + rank), after Cormack, Clarke
//! and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods" (SIGIR 2009).
//! It needs no common scale for BM25 scores, cosine distances and name matches.

use std::collections::HashMap;
use std::hash::Hash;

/// The constant of the paper: how little the first ranks differ from those after them.
const RANK_CONSTANT: f64 = 60.0;
/// What a chunk of a test counts where tests were not asked for.
const TEST_FACTOR: f64 = 0.5;
/// What a chunk counts that defines what the query names.
const DEFINITION_FACTOR: f64 = 1.5;

/// Joins rankings, each best first with its weight. Best first; equal scores in the order of the keys.
pub(crate) fn fuse<K: Copy + Eq + Hash + Ord>(lanes: &[(f64, Vec<K>)]) -> Vec<(K, f64)> {
    let mut scores: HashMap<K, f64> = HashMap::new();
    for (weight, lane) in lanes {
        for (at, key) in lane.iter().enumerate() {
            *scores.entry(*key).or_insert(0.0) += weight / (RANK_CONSTANT + at as f64 + 1.0);
        }
    }
    let mut fused: Vec<(K, f64)> = scores.into_iter().collect();
    sort(&mut fused);
    fused
}

/// Best first; equal scores in the order of the keys, so that the same question gets the same answer.
pub(crate) fn sort<K: Ord>(scored: &mut [(K, f64)]) {
    scored.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
}

/// The factor for what a chunk is.
pub(crate) fn factor(is_test: bool, tests_asked: bool, defines_asked: bool) -> f64 {
    let test = if is_test && !tests_asked { TEST_FACTOR } else { 1.0 };
    let definition = if defines_asked { DEFINITION_FACTOR } else { 1.0 };
    test * definition
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

/// Whether a file is a test by the customs of its language.
pub(crate) fn is_test_path(path: &str) -> bool {
    let mut components: Vec<&str> = path.split('/').collect();
    let name = components.pop().unwrap_or_default();
    const DIRECTORIES: &[&str] = &["test", "tests", "__tests__", "spec", "specs", "testing", "testdata", "fixtures"];
    if components.iter().any(|part| DIRECTORIES.contains(&part.to_ascii_lowercase().as_str())) {
        return true;
    }
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || matches!(stem, "test" | "tests" | "conftest")
        || ending.starts_with("test.")
        || ending.starts_with("spec.")
        || (ending == "java" && (stem.ends_with("Test") || stem.ends_with("Tests") || stem.ends_with("IT")))
}

/// Whether a definition is a test inside a file that is none: a Rust `mod tests`, a `test_` function.
pub(crate) fn is_test_symbol(qualified: &str) -> bool {
    let mut names = qualified.split('.');
    names.clone().any(|name| matches!(name, "tests" | "test"))
        || names.next_back().is_some_and(|name| name.starts_with("test_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_lanes_agree_on_comes_before_what_one_puts_first() {
        let fused = fuse(&[(1.0, vec!["a", "b"]), (1.0, vec!["c", "b"])]);
        assert_eq!(fused[0].0, "b");
        assert!((fused[0].1 - 2.0 / 62.0).abs() < 1e-12);
        assert_eq!((fused[1].0, fused[2].0), ("a", "c"));
    }

    #[test]
    fn one_of_each_file_comes_before_the_second_of_any() {
        let spread = spread(vec!["a1", "a2", "b1", "a3", "c1"], 4, |item| item.chars().next());
        assert_eq!(spread, ["a1", "b1", "c1", "a2"]);
    }

    #[test]
    fn tests_are_known_by_their_place_or_name() {
        for path in
            ["tests/a.rs", "src/test_a.py", "a_test.go", "a.test.ts", "x.spec.js", "src/ATest.java", "conftest.py"]
        {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["src/attest.rs", "latest/a.py", "contest.go", "src/testimony.py"] {
            assert!(!is_test_path(path), "{path}");
        }
        assert!(is_test_symbol("tests.it_works") && is_test_symbol("TestA.test_b"));
        assert!(!is_test_symbol("attest") && !is_test_symbol("Contest.run"));
    }
}
