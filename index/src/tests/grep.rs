//! Does grep find lines, and stay within its bounds?

use super::Bench;
use crate::grep::{GrepError, GrepOptions, Matcher, grep, grep_bytes, grep_dir};

fn found(files: &[(&str, &str)], pattern: &str, options: &GrepOptions) -> Vec<String> {
    let answer = grep(files.iter().copied(), pattern, options).unwrap();
    answer.matches.into_iter().map(|hit| format!("{}:{}:{}", hit.path, hit.line, hit.text)).collect()
}

#[test]
fn a_pattern_matches_line_by_line() {
    let files = [("a.py", "import os\ndef f():\n    return 1\n"), ("b.py", "def g(): pass")];
    assert_eq!(found(&files, r"^def \w+", &GrepOptions::default()), ["a.py:2:def f():", "b.py:1:def g(): pass"]);
    assert_eq!(
        found(&files, "RETURN", &GrepOptions { ignore_case: true, ..Default::default() }),
        ["a.py:3:    return 1"]
    );
    assert_eq!(found(&files, "o", &GrepOptions { word: true, ..Default::default() }), [] as [&str; 0]);
}

#[test]
fn an_invalid_pattern_is_searched_literally_and_the_answer_says_so() {
    let answer = grep([("a.rs", "let x = f(a[0]\nlet y;\n")], "f(a[0]", &GrepOptions::default()).unwrap();
    assert_eq!(answer.matches.len(), 1);
    assert!(answer.notes[0].contains("not a valid regular expression"), "{:?}", answer.notes);
}

#[test]
fn of_a_pattern_with_several_lines_the_first_is_searched() {
    let answer = grep([("a.rs", "fn a() {\n    b();\n}\n")], "\nfn a\\(\\)\n    b", &GrepOptions::default()).unwrap();
    assert_eq!(answer.matches.len(), 1);
    assert!(answer.notes[0].contains("several lines"));
}

#[test]
fn the_answer_is_bounded_and_says_when_it_is_cut() {
    let options = GrepOptions { matches_max: 3, ..Default::default() };
    let many = "x\n".repeat(10);
    let answer = grep([("a", many.as_str()), ("b", "x\n")], "x", &options).unwrap();
    assert_eq!((answer.matches.len(), answer.truncated, answer.files_searched), (3, true, 1));
    let exact = grep([("a", "x\nx\nx\n")], "x", &options).unwrap();
    assert_eq!((exact.matches.len(), exact.truncated), (3, false));
}

#[test]
fn a_long_line_is_cut_around_its_match_at_character_borders() {
    let options = GrepOptions { line_bytes_max: 40, ..Default::default() };
    let line = format!("{}needle{}", "ä".repeat(500), "ö".repeat(500));
    let answer = grep([("a", line.as_str())], "needle", &options).unwrap();
    let text = &answer.matches[0].text;
    assert!(text.contains("needle") && text.len() < 60 && !text.contains('\u{fffd}'), "{text}");
}

#[test]
fn binary_files_and_odd_bytes_do_no_harm() {
    let options = GrepOptions::default();
    let matcher = Matcher::new("needle", &options).unwrap();
    let mut out = matcher.begin();
    assert!(grep_bytes(&matcher, "a.bin", b"needle\n\0needle\n", &mut out).is_continue());
    assert!(grep_bytes(&matcher, "latin", b"\xff needle \xfe\n", &mut out).is_continue());
    assert_eq!(out.matches.len(), 1);
    assert_eq!((out.matches[0].path.as_str(), out.files_matched), ("latin", 1));
}

#[test]
fn an_empty_pattern_is_refused() {
    for pattern in ["", "\n \n"] {
        assert!(matches!(grep([("a", "b")], pattern, &GrepOptions::default()), Err(GrepError::Empty)));
    }
}

#[test]
fn a_directory_is_searched_without_what_the_index_would_not_take() {
    let bench = Bench::new(None);
    bench.write("src/a.rs", "needle\n");
    bench.write(".env", "needle\n");
    bench.write("ignored.rs", "needle\n");
    bench.write(".gitignore", "ignored.rs\n");
    let answer = grep_dir(&bench.root, "needle", &GrepOptions::default()).unwrap();
    assert_eq!(answer.matches.len(), 1);
    assert_eq!(answer.matches[0].path, "src/a.rs");
    bench.write("docs/b.md", "needle\n");
    let within = |prefix: &str| GrepOptions { path_prefix: Some(prefix.to_owned()), ..Default::default() };
    assert_eq!(grep_dir(&bench.root, "needle", &within("./docs")).unwrap().matches[0].path, "docs/b.md");
    assert!(matches!(grep_dir(&bench.root, "needle", &within("../x")), Err(GrepError::PathOutside(_))));
    let missing = grep_dir(&bench.root.join("none"), "needle", &GrepOptions::default());
    assert!(matches!(missing, Err(GrepError::Directory { .. })));
}

/// What the index finds, and that a search of the whole tree finds the same.
#[track_caller]
fn same(index: &crate::Index, bench: &Bench, pattern: &str) -> usize {
    let options = GrepOptions::default();
    let (ours, theirs) = (index.grep(pattern, &options).unwrap(), grep_dir(&bench.root, pattern, &options).unwrap());
    assert_eq!(ours.matches, theirs.matches, "{pattern}");
    ours.matches.len()
}

#[test]
fn the_index_finds_what_a_search_of_the_tree_finds_after_every_change() {
    let bench = Bench::new(None);
    bench.write("a.rs", "fn alpha() { needle() }\n");
    bench.write("b/minified.js", format!("var needle = '{}';\n", "x".repeat(6_000)));
    bench.write("Cargo.lock", "needle = 1\n");
    let (mut index, _) = bench.index();
    assert_eq!(same(&index, &bench, "needle"), 3, "what is in no other lane is searched too");
    for round in 0..20 {
        bench.write("a.rs", format!("fn alpha_{round}() {{}}\n"));
        bench.write(&format!("c/{round}.py"), format!("def beta_{round}(): needle\n"));
        super::refresh(&mut index).unwrap();
        for pattern in ["needle", "alpha_1", "beta_\\d+", "(?i)NEEDLE", "^def", "not there", ".", "alpha \\(|beta_3"] {
            same(&index, &bench, pattern);
        }
    }
    bench.remove("c/3.py");
    super::refresh(&mut index).unwrap();
    assert_eq!(same(&index, &bench, "beta_3\\("), 0);
}

#[test]
fn what_lies_above_the_tree_hides_what_is_below() {
    let bench = Bench::new(None);
    bench.write("a.rs", "needle\n");
    bench.write("c.rs", "needle\n");
    let (mut index, _) = bench.index();
    index.overlay(&[("a.rs".into(), None), ("b.rs".into(), Some(b"x\nneedle\n".to_vec()))]).unwrap();
    let found = index.grep("needle", &GrepOptions::default()).unwrap().matches;
    let found: Vec<_> = found.iter().map(|hit| (hit.path.as_str(), hit.line)).collect();
    assert_eq!(found, [("b.rs", 2), ("c.rs", 1)]);
}
