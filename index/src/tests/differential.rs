//! Does an index that followed many edits hold the same, and answer the same, as one made afresh?

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Bench, WordCounts, contents, refresh};
use crate::diff::Scope;
use crate::grep::{GrepOptions, grep_dir};
use crate::pace::Steps;
use crate::{Index, Query, RefreshError, SymbolAnswer};

/// A small linear congruential generator: the seed is in the message of every failure.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }
}

const PATHS: &[&str] = &[
    "a.py",
    "b.rs",
    "lib/c.py",
    "lib/d.go",
    "lib/deep/e.md",
    "lib.py",
    "f.txt",
    ".gitignore",
    "lib/.gitignore",
    "g.bin",
    ".env",
    "Cargo.lock",
    "app.js",
    "lib/data.csv",
];
const NAMES: &[&str] = &["alpha", "beta", "gamma", "delta"];

fn text(dice: &mut Dice, path: &str) -> Vec<u8> {
    let name = NAMES[dice.below(4)];
    let number = dice.below(5);
    let functions = dice.below(4);
    let body: String = match path.rsplit('.').next() {
        Some("py") => (0..functions).map(|n| format!("def {name}_{n}():\n    return {number}\n\n")).collect(),
        Some("rs") => {
            (0..functions).map(|n| format!("/// {name}\nfn {name}_{n}() -> u32 {{ {number} }}\n\n")).collect()
        }
        Some("go") => (0..functions).map(|n| format!("func {name}{n}() int {{ return {number} }}\n\n")).collect(),
        Some("gitignore") => ["deep/\n", "f.txt\n", "", "*.go\n"][number % 4].to_owned(),
        // Bare or not: a long line, and more than 2 MiB.
        Some("js") if number.is_multiple_of(2) => format!("var {name} = '{}';\n", "x".repeat(6000)),
        Some("csv") if number == 0 => format!("{name},{functions}\n").repeat(250_000),
        Some("bin") if number.is_multiple_of(2) => "\0binary".to_owned(),
        _ => format!("{name} {number}\n").repeat(functions * 20),
    };
    body.into_bytes()
}

/// Changes the tree, and names what it changed.
fn edit(dice: &mut Dice, bench: &Bench) -> Vec<String> {
    let path = PATHS[dice.below(PATHS.len())].to_owned();
    let exists = bench.root.join(&path).exists();
    match dice.below(7) {
        0 if exists => {
            bench.remove(&path);
            vec![path]
        }
        1 if exists && path.ends_with(".py") => {
            let to = format!("moved_{}.py", dice.below(3));
            std::fs::rename(bench.root.join(&path), bench.root.join(&to)).unwrap();
            vec![path, to]
        }
        2 if bench.root.join("lib").exists() => {
            let _ = std::fs::remove_dir_all(bench.root.join("away"));
            std::fs::rename(bench.root.join("lib"), bench.root.join("away")).unwrap();
            vec!["lib".to_owned(), "away".to_owned()]
        }
        // The switch to one of two branches: most files at once.
        3 => {
            let mut branch = Dice(dice.below(2) as u64 + 77);
            for path in PATHS {
                let text = text(&mut branch, path);
                if branch.below(4) > 0 {
                    bench.write(path, text);
                } else {
                    let _ = std::fs::remove_file(bench.root.join(path));
                }
            }
            PATHS.iter().map(|path| (*path).to_owned()).collect()
        }
        _ => {
            let text = text(dice, &path);
            bench.write(&path, text);
            vec![path]
        }
    }
}

/// What an index answers: where the hits are, whatever their order. Patterns find what they find in the tree.
fn answers(index: &Index) -> Vec<BTreeSet<String>> {
    let mut answers = Vec::new();
    for name in NAMES {
        for pattern in [(*name).to_owned(), format!("^var {name}"), format!("{name}.[03]$")] {
            let options = GrepOptions { matches_max: 2000, ..GrepOptions::default() };
            let expected = grep_dir(index.root(), &pattern, &options).unwrap().matches;
            assert!(index.grep(&pattern, &options).unwrap().matches == expected, "{pattern}");
        }
        let query = Query { limit: 200, ..Query::new(format!("{name} return number")) };
        let hits = index.search(&query).unwrap().hits;
        assert!(hits.iter().all(|hit| !hit.changed), "{hits:?}");
        answers.push(hits.iter().map(|hit| format!("{}:{} {}", hit.path, hit.start_line, hit.text)).collect());
        answers.push(match index.symbol(&format!("{name}_1")) {
            SymbolAnswer::Exact(one) => BTreeSet::from([format!("{one:?}")]),
            SymbolAnswer::Ambiguous { first, .. } => first.iter().map(|one| format!("{one:?}")).collect(),
            SymbolAnswer::NotFound => BTreeSet::new(),
        });
    }
    answers
}

/// Refreshes in one of the ways in which an index comes to be refreshed.
fn follow(dice: &mut Dice, bench: &Bench, index: &mut Index, edited: &[String]) -> String {
    let (quiet, go) = (&mut |_: crate::Progress| {}, AtomicBool::new(false));
    match dice.below(4) {
        0 => {
            let step = dice.below(10) as u32;
            let died = index.refresh_in_steps(Scope::Tree, quiet, &go, &Steps::stop_before(step));
            assert!(matches!(died, Ok(_) | Err(RefreshError::Stopped(_))), "{died:?}");
            index.search(&Query::new("alpha")).unwrap();
            *index = bench.open();
            let report = refresh(index).unwrap();
            assert_eq!(report.rebuilt.filter(|why| !why.contains("cannot be read")), None);
            format!("killed at step {step}")
        }
        1 => {
            *index = bench.open();
            refresh(index).unwrap();
            "opened again".to_owned()
        }
        2 => {
            let paths: Vec<PathBuf> = edited.iter().map(|path| bench.root.join(path)).collect();
            index.refresh_paths(&paths, &go).unwrap();
            "refreshed by paths".to_owned()
        }
        _ => {
            assert_eq!(refresh(index).unwrap().rebuilt, None);
            "refreshed".to_owned()
        }
    }
}

#[track_caller]
fn check(seed: u64, steps: usize) {
    let bench = Bench::new(Some(WordCounts::new()));
    let mut dice = Dice(seed);
    let mut index = bench.open();
    let mut history = Vec::new();
    for step in 0..steps {
        let mut edited = Vec::new();
        for _ in 0..=dice.below(3) {
            edited.extend(edit(&mut dice, &bench));
        }
        let how = follow(&mut dice, &bench, &mut index, &edited);
        history.push(format!("{edited:?}, {how}"));
        let cold = bench.cold();
        assert_eq!(contents(&index), contents(&cold), "seed {seed}, step {step}, after {history:#?}");
        assert_eq!(answers(&index), answers(&cold), "seed {seed}, step {step}, after {history:#?}");
    }
}

#[test]
fn many_small_refreshes_give_what_one_cold_one_gives() {
    for seed in 1..=6 {
        check(seed, 12);
    }
}

#[test]
fn parts_and_segments_that_grow_many_are_merged() {
    let bench = Bench::new(Some(WordCounts::new()));
    for n in 0..60 {
        bench.write(&format!("fixed_{n}.py"), format!("def fixed_{n}():\n    return {n}\n"));
    }
    let mut index = bench.open();
    refresh(&mut index).unwrap();
    for round in 0..20 {
        bench.write("moving.py", format!("def moving_{round}():\n    return {round}\n"));
        refresh(&mut index).unwrap();
    }
    let manifest = crate::manifest::Manifest::read(&bench.store).unwrap().unwrap();
    for prefix in ["files-", "symbols-"] {
        let count = manifest.segments_of(prefix).count();
        assert!((1..=8).contains(&count), "{prefix} {count}");
    }
    assert_eq!(contents(&index), contents(&bench.cold()));
}

#[test]
fn a_branch_that_comes_back_is_not_embedded_again() {
    let bench = Bench::new(Some(WordCounts::new()));
    let branch = |name: &str| {
        for n in 0..20 {
            bench.write(&format!("file_{n}.py"), format!("def {name}_{n}():\n    return {n}\n"));
        }
    };
    branch("here");
    let mut index = bench.open();
    assert_eq!(refresh(&mut index).unwrap().vectors_embedded, 20);
    branch("there");
    assert_eq!(refresh(&mut index).unwrap().vectors_embedded, 20);
    branch("here");
    assert_eq!(bench.index().1.vectors_embedded, 0);
}

#[test]
fn vectors_that_nobody_needs_do_not_grow_for_ever() {
    let bench = Bench::new(Some(WordCounts::new()));
    let mut index = bench.open();
    for round in 0..4 {
        let many: String = (0..400).map(|n| format!("def function_{round}_{n}():\n    return {n}\n\n")).collect();
        bench.write("many.py", many);
        refresh(&mut index).unwrap();
    }
    let rows = index.view().vectors.as_ref().unwrap().as_ref().unwrap().hashes().unwrap().len();
    assert_eq!(rows, 1600, "fewer than twice what is needed and the allowance");
    bench.write("many.py", "def last():\n    return 0\n");
    refresh(&mut index).unwrap();
    let rows = index.view().vectors.as_ref().unwrap().as_ref().unwrap().hashes().unwrap().len();
    assert_eq!(rows, 1);
}

#[test]
fn a_slow_embedder_holds_the_readers_and_a_stop_is_heard() {
    let bench = Bench::new(Some(WordCounts::new()));
    for n in 0..200 {
        bench.write(&format!("file_{n}.py"), format!("def function_{n}():\n    return {n}\n"));
    }
    let mut index = bench.open();
    let cancel = AtomicBool::new(false);
    let result = index.refresh(&mut |progress| cancel.store(progress.files > 20, Ordering::Relaxed), &cancel);
    // A machine that reads everything between two reports has nothing to cancel.
    assert!(matches!(result, Ok(_) | Err(RefreshError::Cancelled)), "{result:?}");
    refresh(&mut index).unwrap();
    assert_eq!(contents(&index), contents(&bench.cold()));
}

#[test]
fn an_edit_that_keeps_size_and_time_is_seen() {
    let bench = Bench::new(None);
    bench.write("a.txt", "first word\n");
    let (mut index, _) = bench.index();
    let before = std::fs::metadata(bench.root.join("a.txt")).unwrap().modified().unwrap();
    bench.write("a.txt", "other word\n");
    std::fs::File::options().write(true).open(bench.root.join("a.txt")).unwrap().set_modified(before).unwrap();
    assert_eq!(refresh(&mut index).unwrap().files_indexed, 1);
}

#[test]
fn a_refresh_of_one_path_sees_that_path_and_no_other() {
    let bench = Bench::new(None);
    for path in ["a/x.py", "a/y.py", "b.py"] {
        bench.write(path, "def before():\n    return 1\n");
    }
    let (mut index, _) = bench.index();
    for path in ["a/x.py", "a/y.py", "b.py", "a/new.py"] {
        bench.write(path, "def after():\n    return 2\n");
    }
    let go = AtomicBool::new(false);
    let report = index.refresh_paths(&["a/x.py".into(), "/elsewhere/z.py".into()], &go).unwrap();
    assert_eq!((report.files_indexed, report.files_removed), (1, 0));
    let report = index.refresh_paths(&[bench.root.join("a")], &go).unwrap();
    assert_eq!((report.files_indexed, report.files_removed), (2, 0));
    bench.write(".gitignore", "a/\n");
    let report = index.refresh_paths(&[".gitignore".into()], &go).unwrap();
    assert_eq!((report.files_indexed, report.files_removed), (2, 3), "b.py at last, and .gitignore itself");
    assert_eq!(contents(&index), contents(&bench.cold()));
}
