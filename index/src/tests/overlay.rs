//! Is what the agent has changed in its head found as if it were in the tree?

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use super::{Bench, WordCounts, paths, refresh};
use crate::{Index, Query, SymbolAnswer};

fn sample() -> (Bench, Index) {
    let bench = Bench::new(Some(WordCounts::new()));
    bench.write("src/a.py", "def kept():\n    return 'kept'\n\n\ndef old_name():\n    return 'old'\n");
    bench.write("src/b.py", "def other():\n    return old_name()\n");
    bench.write("src/c.py", "def third():\n    return 'third'\n");
    let (index, _) = bench.index();
    (bench, index)
}

fn change(path: &str, text: Option<&str>) -> (String, Option<Vec<u8>>) {
    (path.to_owned(), text.map(|text| text.as_bytes().to_vec()))
}

const CHANGED: &str = "def kept():\n    return 'kept'\n\n\ndef new_name():\n    return 'new'\n";

fn path_of(index: &Index, name: &str) -> Option<String> {
    match index.symbol(name) {
        SymbolAnswer::Exact(found) => Some(found.path),
        SymbolAnswer::NotFound => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_hides_what_is_below_and_is_found_itself() {
    let (_bench, mut index) = sample();
    index.overlay(&[change("src/a.py", Some(CHANGED)), change("src/c.py", None)]).unwrap();
    index.overlay(&[change("src/d.py", Some("def fourth():\n    return 4\n"))]).unwrap();
    assert_eq!(path_of(&index, "new_name").as_deref(), Some("src/a.py"));
    assert_eq!(path_of(&index, "fourth").as_deref(), Some("src/d.py"));
    assert_eq!((path_of(&index, "old_name"), path_of(&index, "third")), (None, None));
    assert_eq!(paths(&index, "new_name")[0], "src/a.py");
    assert!(!paths(&index, "third").contains(&"src/c.py".to_owned()));
    let answer = index.search(&Query::new("kept")).unwrap();
    let kept: Vec<_> = answer.hits.iter().filter(|hit| hit.symbol.as_deref() == Some("kept")).collect();
    assert_eq!(kept.len(), 1, "{:?}", answer.hits);
    assert!(kept[0].text.starts_with("def kept()") && !kept[0].changed);
    assert!(kept[0].lanes.contains(&crate::Lane::Vector), "a piece as it was keeps its vector");
    index.clear_overlay();
    assert_eq!(path_of(&index, "third").as_deref(), Some("src/c.py"));
    assert_eq!(path_of(&index, "new_name"), None);
}

#[test]
fn an_overlay_answers_like_the_tree_that_it_describes() {
    let (bench, mut index) = sample();
    let changes = [change("src/a.py", Some(CHANGED)), change("src/c.py", None), change("src/.env", Some("kept=1\n"))];
    index.overlay(&changes).unwrap();
    bench.write("src/a.py", CHANGED);
    bench.remove("src/c.py");
    let cold = bench.cold();
    for text in ["kept return", "new_name", "old_name", "third"] {
        let hits = |index: &Index| -> BTreeSet<(String, usize, String)> {
            let hits = index.search(&Query::new(text)).unwrap().hits.into_iter();
            hits.filter(|hit| hit.lanes.iter().any(|lane| *lane != crate::Lane::Vector))
                .map(|hit| (hit.path, hit.start_line, hit.text))
                .collect()
        };
        assert_eq!(hits(&index), hits(&cold), "{text}");
    }
}

#[test]
fn an_overlay_outlives_a_refresh() {
    let (bench, mut index) = sample();
    index.overlay(&[change("src/a.py", Some(CHANGED))]).unwrap();
    bench.write("src/e.py", "def fifth():\n    return 5\n");
    refresh(&mut index).unwrap();
    assert_eq!(path_of(&index, "new_name").as_deref(), Some("src/a.py"));
    assert_eq!(path_of(&index, "fifth").as_deref(), Some("src/e.py"));
    index.search_fresh(&Query::new("new_name"), &AtomicBool::new(false)).unwrap();
}
