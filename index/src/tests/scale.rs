//! How long does a large tree take, and how much memory? Runs over a tree of the developer's own: `CLOISTER_SLOW=1
//! CLOISTER_INDEX_TREE=DIR`, alone in its process (`nextest` does that), and prints what it measured.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{Bench, refresh};
use crate::{Index, Query};

/// The most memory that this process ever held, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// Bytes under a directory, by the name of what lies directly in it without its number.
fn sizes(directory: &Path) -> std::collections::BTreeMap<String, u64> {
    let mut sizes = std::collections::BTreeMap::new();
    let mut stack = vec![(String::new(), directory.to_path_buf())];
    while let Some((group, directory)) = stack.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
            let group = if group.is_empty() { name } else { group.clone() };
            if entry.file_type().unwrap().is_dir() {
                stack.push((group, entry.path()));
            } else {
                *sizes.entry(group).or_insert(0) += entry.metadata().unwrap().len();
            }
        }
    }
    sizes
}

#[test]
fn a_large_tree_is_indexed_and_searched_in_bearable_time() {
    let (Some(_), Some(tree)) = (std::env::var_os("CLOISTER_SLOW"), std::env::var_os("CLOISTER_INDEX_TREE")) else {
        eprintln!("skipped: needs CLOISTER_SLOW=1 and CLOISTER_INDEX_TREE=DIR");
        return;
    };
    let bench = Bench::new(None);
    let mut index = Index::open(&bench.store, tree.as_ref(), None).unwrap();
    println!("load average before: {}", load());
    let start = Instant::now();
    let report = refresh(&mut index).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "cold: {} files, {} lines, {} chunks, {} definitions in {seconds:.1} s, {:.0} lines/s, {:?}",
        report.files_indexed,
        report.lines,
        report.chunks,
        report.definitions,
        report.lines as f64 / seconds,
        report.seconds
    );
    println!("peak memory: {} MiB, load average {}", peak_mib(), load());
    println!("bytes: {:?}", sizes(&bench.store));
    for what in ["again", "and again"] {
        let start = Instant::now();
        let report = refresh(&mut index).unwrap();
        println!("{what}: {:?} in all, {:?}", start.elapsed(), report.seconds);
    }
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
    println!("peak memory after searches: {} MiB", peak_mib());
}

/// Copies a tree, which is not ours to edit, and edits one file after the other.
#[test]
fn one_edited_file_of_a_large_tree_is_soon_searchable() {
    let (Some(_), Some(tree)) = (std::env::var_os("CLOISTER_SLOW"), std::env::var_os("CLOISTER_INDEX_TREE")) else {
        eprintln!("skipped: needs CLOISTER_SLOW=1 and CLOISTER_INDEX_TREE=DIR");
        return;
    };
    let bench = Bench::new(None);
    let copied = std::process::Command::new("cp").arg("-r").arg(tree).arg(bench.root.join("tree")).status().unwrap();
    assert!(copied.success());
    let mut index = bench.open();
    let go = AtomicBool::new(false);
    let report = index.catch_up(&go).unwrap().unwrap();
    println!("{} files, {} lines, load average {}", report.files_indexed, report.lines, load());
    let paths: Vec<String> = index.view().rows().map(|(_, path)| path.to_owned()).collect();
    let mut times: Vec<Duration> = Vec::new();
    for (round, path) in paths.iter().step_by((paths.len() / 60).max(1)).enumerate() {
        let path = bench.root.join(path);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(format!("\n// edited_in_round_{round}\n").as_bytes());
        std::fs::write(&path, bytes).unwrap();
        let start = Instant::now();
        let report = index.catch_up(&go).unwrap().expect("a change");
        times.push(start.elapsed());
        assert_eq!(report.files_indexed, 1);
    }
    times.sort();
    println!("edit to searchable: p50 {:?}, p95 {:?}", times[times.len() / 2], times[times.len() * 95 / 100]);
    println!("peak memory: {} MiB, load average {}", peak_mib(), load());
}
