//! Is a change seen without being told of it?

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{Bench, contents};
use crate::diff::Scope;
use crate::watch::Watch;
use crate::{Index, Query, SymbolAnswer};

static GO: AtomicBool = AtomicBool::new(false);

fn is_defined(index: &mut Index, name: &str) -> bool {
    index.search_fresh(&Query::new(name), &GO).unwrap();
    index.symbol(name) != SymbolAnswer::NotFound
}

#[test]
fn a_search_sees_what_was_written_before_it() {
    let bench = Bench::new(None);
    bench.write("src/a.py", "def first():\n    return 1\n");
    let mut index = bench.open();
    assert!(is_defined(&mut index, "first"), "the first look is at everything");
    bench.write("src/a.py", "def second():\n    return 2\n");
    assert!(is_defined(&mut index, "second") && !is_defined(&mut index, "first"));
    bench.write("new/deep/er/b.py", "def third():\n    return 3\n");
    assert!(is_defined(&mut index, "third"), "in directories that were not there");
    bench.write("new/deep/er/c.py", "def fourth():\n    return 4\n");
    assert!(is_defined(&mut index, "fourth"), "and that are watched now");
    fs::rename(bench.root.join("new"), bench.root.join("moved")).unwrap();
    bench.write("moved/deep/d.py", "def fifth():\n    return 5\n");
    assert!(is_defined(&mut index, "fifth"));
    fs::remove_dir_all(bench.root.join("moved")).unwrap();
    assert!(!is_defined(&mut index, "third") && !is_defined(&mut index, "fifth"));
    bench.write(".gitignore", "src/\n");
    assert!(!is_defined(&mut index, "second"));
    bench.remove(".gitignore");
    assert!(is_defined(&mut index, "second"));
    bench.write("src/b.py", "def sixth():\n    return 6\n");
    assert!(is_defined(&mut index, "sixth"), "a directory that was ignored is watched again");
    assert_eq!(contents(&index), contents(&bench.cold()));
}

#[test]
fn nothing_is_done_where_nothing_has_changed() {
    let bench = Bench::new(None);
    bench.write("target/out.txt", "built\n");
    bench.write(".gitignore", "target/\n");
    let mut index = bench.open();
    assert!(index.catch_up(&GO).unwrap().is_some());
    assert!(index.catch_up(&GO).unwrap().is_none());
    bench.write("target/out.txt", "built again\n");
    assert!(index.catch_up(&GO).unwrap().is_none(), "what is ignored is not watched");
}

#[test]
fn a_wait_ends_with_a_change_and_without_one_with_its_time() {
    let bench = Bench::new(None);
    bench.write("a.py", "def a():\n    return 1\n");
    let mut watch = Watch::start(&bench.root);
    assert!(watch.has_events());
    assert!(matches!(watch.changes(), Scope::Tree));
    watch.done();
    let start = Instant::now();
    watch.wait(Duration::from_millis(30));
    assert!(start.elapsed() >= Duration::from_millis(29) && watch.changes().is_empty());
    let path = bench.root.join("a.py");
    let writer = std::thread::spawn(move || {
        for n in 0..5 {
            fs::write(&path, format!("def a():\n    return {n}\n")).unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    watch.wait(Duration::from_secs(20));
    assert!(start.elapsed() < Duration::from_secs(15));
    writer.join().unwrap();
    assert!(matches!(watch.changes(), Scope::Paths(paths) if paths.len() == 1 && paths.contains("a.py")));
}

#[test]
fn more_changes_than_are_worth_listing_are_everything() {
    let bench = Bench::new(None);
    let mut watch = Watch::start(&bench.root);
    watch.changes();
    watch.done();
    for n in 0..2500 {
        fs::write(bench.root.join(format!("{n}.txt")), "word\n").unwrap();
    }
    assert!(matches!(watch.changes(), Scope::Tree));
}
