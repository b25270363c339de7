//! How long does a large tree take? Runs over a tree of the developer's own: `CLOISTER_SLOW=1
//! CLOISTER_INDEX_TREE=DIR`, and prints what it measured.

use std::time::Instant;

use super::{Bench, refresh};
use crate::{Index, Query};

#[test]
fn a_large_tree_is_indexed_and_searched_in_bearable_time() {
    let (Some(_), Some(tree)) = (std::env::var_os("CLOISTER_SLOW"), std::env::var_os("CLOISTER_INDEX_TREE")) else {
        eprintln!("skipped: needs CLOISTER_SLOW=1 and CLOISTER_INDEX_TREE=DIR");
        return;
    };
    let bench = Bench::new(None);
    let mut index = Index::open(&bench.store, tree.as_ref(), None).unwrap();
    let report = refresh(&mut index).unwrap();
    println!(
        "cold: {} files, {} lines, {} chunks, {} definitions, {:?}",
        report.files_indexed, report.lines, report.chunks, report.definitions, report.seconds
    );
    let start = Instant::now();
    let report = refresh(&mut index).unwrap();
    println!("again: {:?} in all, {:?}", start.elapsed(), report.seconds);
    let start = Instant::now();
    let index = Index::open(&bench.store, tree.as_ref(), None).unwrap();
    println!("open: {:?}", start.elapsed());
    for text in ["where is the commit payload written", "TokenStream", "merge policy", "read consistency interval"] {
        let start = Instant::now();
        let answer = index.search(&Query::new(text)).unwrap();
        println!("search {text:?}: {:?}", start.elapsed());
        for hit in answer.hits.iter().take(3) {
            println!("    {}:{} {:?} {:?}", hit.path, hit.start_line, hit.symbol, hit.lanes);
        }
    }
}
