//! Is text that is no use to rank searched by pattern, and by nothing else?

use super::{Bench, WordCounts, contents, paths, refresh};
use crate::grep::{GrepOptions, grep_dir};
use crate::grep_indexed::grep_indexed;
use crate::{Index, Query, SkipReason, SymbolAnswer};

fn minified(word: &str) -> String {
    format!("function {word}(){{return '{}'}}\n", "x".repeat(6000))
}

fn large(word: &str) -> String {
    format!("{}fn {word}() {{}}\n", "many 123 lines\n".repeat(200_000))
}

/// A tree with one of each.
fn sample() -> Bench {
    let bench = Bench::new(Some(WordCounts::new()));
    bench.write("src/plain.rs", "fn plain() {}\n");
    bench.write("app.min.js", minified("shortened"));
    bench.write("web/Cargo.lock", "name = \"locked\"\n");
    bench.write("big.rs", large("enormous"));
    bench
}

const BARE: [(&str, &str, SkipReason); 3] = [
    ("app.min.js", "shortened", SkipReason::Minified),
    ("big.rs", "enormous", SkipReason::TooLarge),
    ("web/Cargo.lock", "locked", SkipReason::LockFile),
];

/// The files that match, which are those that match in the tree, and how many had to be read for that.
#[track_caller]
fn grep(index: &Index, pattern: &str) -> (Vec<String>, usize) {
    let (view, options) = (index.view(), GrepOptions::default());
    let lane = view.trigrams().map_err(String::as_str);
    let ours = grep_indexed(index.root(), lane, view.searchable(), pattern, &options).unwrap();
    assert_eq!(ours.found.matches, grep_dir(index.root(), pattern, &options).unwrap().matches, "{pattern}");
    let mut paths: Vec<String> = ours.found.matches.into_iter().map(|found| found.path).collect();
    paths.dedup();
    (paths, ours.candidates)
}

fn is_defined(index: &Index, name: &str) -> bool {
    !matches!(index.symbol(name), SymbolAnswer::NotFound)
}

#[test]
fn a_bare_file_is_read_for_no_pattern_that_it_cannot_hold() {
    let bench = sample();
    let (index, _) = bench.index();
    for (path, word, _) in BARE {
        assert_eq!(grep(&index, word), (vec![path.to_owned()], 1), "{word}");
    }
    assert_eq!(grep(&index, "nowhere at all"), (vec![], 0));
    assert_eq!(grep(&index, "fn plain"), (vec!["src/plain.rs".to_owned()], 1));
    assert_eq!(
        index.may_match("nowhere at all", vec!["web/Cargo.lock".into(), "unknown".into()]).len(),
        2,
        "unsettled"
    );
}

#[test]
fn a_bare_file_is_in_no_other_lane_and_listed_with_its_reason() {
    let bench = sample();
    let (index, report) = bench.index();
    let skipped: Vec<_> = report.files_skipped.iter().map(|skip| (skip.path.as_str(), skip.reason)).collect();
    assert_eq!(skipped, BARE.map(|(path, _, reason)| (path, reason)));
    assert_eq!((report.files_indexed, report.lines, report.chunks, report.definitions), (1, 1, 1, 1));
    assert_eq!((index.status().files, index.status().lines), (1, 1));
    assert_eq!(report.vectors_embedded, 1);
    let counts = index.search(&Query::new("plain")).unwrap().skipped;
    assert_eq!(counts, BARE.iter().map(|(_, _, reason)| (*reason, 1)).collect());
    for (path, word, _) in BARE {
        assert!(!paths(&index, word).iter().any(|found| found == path) && !is_defined(&index, word), "{word}");
        assert!(!paths(&index, &format!("see {path}")).iter().any(|found| found == path), "{path}");
    }
    assert!(is_defined(&index, "plain"));
}

#[test]
fn an_unchanged_bare_file_changes_nothing_and_does_not_count() {
    let bench = sample();
    let (mut index, before) = bench.index();
    let report = refresh(&mut index).unwrap();
    assert_eq!((report.generation, report.files_skipped), (before.generation, before.files_skipped));
    assert_eq!((report.files_indexed, report.files_unchanged, report.files_removed), (0, 1, 0));
    bench.remove("big.rs");
    let report = refresh(&mut index).unwrap();
    assert_eq!((report.files_removed, report.files_skipped.len()), (0, 2));
    assert!(report.generation > before.generation);
    assert_eq!(grep(&index, "enormous"), (vec![], 0));
    bench.write("web/Cargo.lock", "name = \"changed\"\n");
    let report = refresh(&mut index).unwrap();
    assert_eq!((report.files_indexed, report.files_unchanged, report.files_removed), (0, 1, 0));
    assert_eq!((grep(&index, "locked").1, grep(&index, "changed").1), (0, 1));
    assert_eq!(contents(&index), contents(&bench.cold()));
}

#[test]
fn a_file_that_becomes_bare_or_ceases_to_be_changes_its_lanes() {
    let bench = Bench::new(Some(WordCounts::new()));
    bench.write("app.js", "function shortened() {}\n");
    let (mut index, _) = bench.index();
    assert!(is_defined(&index, "shortened"));
    for (text, reason) in [(minified("shortened"), SkipReason::Minified), (large("shortened"), SkipReason::TooLarge)] {
        bench.write("app.js", text);
        let report = refresh(&mut index).unwrap();
        assert_eq!((report.files_indexed, report.files_removed, report.files_skipped[0].reason), (0, 1, reason));
        assert_eq!(grep(&index, "shortened").0, ["app.js"]);
        assert!(paths(&index, "shortened").is_empty() && !is_defined(&index, "shortened"));
        assert_eq!(contents(&index), contents(&bench.cold()));
        bench.write("app.js", "function shortened() {}\n");
        let report = refresh(&mut index).unwrap();
        assert_eq!((report.files_indexed, report.files_removed, report.files_skipped.len()), (1, 0, 0));
        assert!(is_defined(&index, "shortened"));
        assert_eq!(contents(&index), contents(&bench.cold()));
    }
}

#[test]
fn a_secret_is_searched_by_no_pattern_whatever_its_size_and_name() {
    let bench = Bench::new(None);
    let key = "-----BEGIN RSA PRIVATE KEY-----\nneedle\n";
    bench.write("yarn.lock", key);
    bench.write("big.txt", key.repeat(80_000));
    bench.write("min.js", format!("{key}{}", "x".repeat(6000)));
    bench.write(".env", format!("needle={}\n", "x".repeat(6000)));
    let (index, report) = bench.index();
    assert!(report.files_skipped.iter().all(|skip| skip.reason == SkipReason::Secret), "{:?}", report.files_skipped);
    assert_eq!(report.files_skipped.len(), 4);
    assert_eq!(index.view().searchable().count(), 0);
    assert_eq!(grep(&index, "needle"), (vec![], 0));
}

#[test]
fn a_large_file_with_a_late_nul_is_listed_and_never_read() {
    let bench = Bench::new(None);
    bench.write("dump.sql", format!("{}\0", large("needle")));
    let (index, report) = bench.index();
    assert_eq!(report.files_skipped[0].reason, SkipReason::TooLarge);
    assert_eq!(grep(&index, "needle"), (vec![], 0));
}

#[test]
fn large_files_take_turns_and_all_get_in() {
    let bench = Bench::new(None);
    for n in 0..12 {
        bench.write(&format!("{n}.txt"), large(&format!("needle_{n}_")));
    }
    let (index, report) = bench.index();
    assert_eq!(report.files_skipped.len(), 12);
    for n in 0..12 {
        assert_eq!(grep(&index, &format!("needle_{n}_")), (vec![format!("{n}.txt")], 1));
    }
}

#[test]
fn what_is_bare_above_the_tree_is_searched_by_pattern_too() {
    let bench = sample();
    let (mut index, _) = bench.index();
    let written = |path: &str, text: String| (path.to_owned(), Some(text.into_bytes()));
    let changes = [
        written("new.min.js", minified("written")),
        written("web/Cargo.lock", "name = \"other\"\n".to_owned()),
        written("src/plain.rs", large("grown")),
        written("id.lock", "-----BEGIN RSA PRIVATE KEY-----\nwritten\n".to_owned()),
        ("app.min.js".to_owned(), None),
    ];
    index.overlay(&changes).unwrap();
    let found = |pattern: &str| -> Vec<String> {
        let matches = index.grep(pattern, &GrepOptions::default()).unwrap().matches;
        matches.into_iter().map(|found| found.path).collect()
    };
    assert_eq!(found("written"), ["new.min.js"]);
    assert_eq!(found("name = .(other|locked)"), ["web/Cargo.lock"]);
    assert_eq!(found("fn (grown|plain)"), ["src/plain.rs"]);
    assert_eq!(found("shortened"), [] as [&str; 0]);
    assert!(paths(&index, "written grown").is_empty() && !is_defined(&index, "grown") && !is_defined(&index, "plain"));
}
