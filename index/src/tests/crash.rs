//! What is left after a crash, a cancel, or damage on the disk?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Bench, WordCounts, contents, paths, refresh};
use crate::diff::Scope;
use crate::pace::Steps;
use crate::store::WriterLock;
use crate::{Index, Query, RefreshError, Stage, SymbolAnswer};

fn sample() -> Bench {
    let bench = Bench::new(Some(WordCounts::new()));
    for n in 0..6 {
        bench.write(&format!("src/file_{n}.py"), format!("def function_{n}(argument):\n    return argument + {n}\n"));
    }
    bench
}

fn change(bench: &Bench) {
    bench.write("src/file_1.py", "def changed(argument):\n    return argument * 2\n");
    bench.write("src/new.py", "def brand_new():\n    return 0\n");
    bench.remove("src/file_2.py");
}

fn stopped(index: &mut Index, step: u32) -> bool {
    match index.refresh_in_steps(Scope::Tree, &mut |_| {}, &AtomicBool::new(false), &Steps::stop_before(step)) {
        Err(RefreshError::Stopped(_)) => true,
        Ok(_) => false,
        Err(other) => panic!("step {step}: {other}"),
    }
}

#[test]
fn a_refresh_that_dies_before_any_store_operation_is_recovered_by_the_next() {
    let mut steps = 0;
    loop {
        let bench = sample();
        bench.index();
        change(&bench);
        let mut index = bench.open();
        if !stopped(&mut index, steps) {
            break;
        }
        drop(index);
        // Whoever opens now, before the repair, gets an answer.
        let reader = bench.open();
        assert_eq!(paths(&reader, "function_3")[0], "src/file_3.py", "step {steps}");
        let (index, _) = bench.index();
        assert_eq!(contents(&index), contents(&bench.cold()), "step {steps}");
        assert_eq!(index.status().notes, [] as [&str; 0], "step {steps}");
        steps += 1;
    }
    assert!(steps >= 8, "lanes, writer, segment begun and ended, vectors, table, text lane, manifest: {steps}");
}

#[test]
fn a_first_refresh_that_dies_is_recovered_by_the_next() {
    let mut steps = 0;
    loop {
        let bench = sample();
        if !stopped(&mut bench.open(), steps) {
            break;
        }
        let (index, _) = bench.index();
        assert_eq!(contents(&index), contents(&bench.cold()), "step {steps}");
        steps += 1;
    }
    assert!(steps >= 5, "{steps}");
}

#[test]
fn a_cancelled_refresh_keeps_the_vectors_it_made() {
    let bench = Bench::new(Some(WordCounts::new()));
    let many: String = (0..1000).map(|n| format!("def function_{n}():\n    return {n}\n\n")).collect();
    bench.write("many.py", &many);
    let mut index = bench.open();
    let cancel = AtomicBool::new(false);
    let embedder = bench.embedder.clone().unwrap();
    let result = index.refresh(
        &mut |progress| {
            if progress.stage == Stage::Embed {
                cancel.store(true, Ordering::Relaxed);
            }
        },
        &cancel,
    );
    let (mut index, before) = match result {
        Err(RefreshError::Cancelled) => (bench.open(), embedder.count.load(Ordering::Relaxed)),
        // A machine that embeds everything between two reports has nothing to cancel.
        Ok(_) => return,
        Err(other) => panic!("{other}"),
    };
    let report = refresh(&mut index).unwrap();
    assert!(report.vectors_embedded <= 1000 - before, "{before} were made before");
    assert_eq!(contents(&index), contents(&bench.cold()));
}

#[test]
fn a_refresh_cancelled_from_the_start_changes_nothing() {
    let bench = sample();
    bench.index();
    change(&bench);
    let mut index = bench.open();
    let result = index.refresh(&mut |_| {}, &AtomicBool::new(true));
    assert!(matches!(result, Err(RefreshError::Cancelled)));
    assert_eq!(paths(&bench.open(), "function_2")[0], "src/file_2.py");
    assert_eq!(bench.open().status().notes, [] as [&str; 0]);
}

/// All files under a directory, sorted.
fn files_under(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut stack = vec![directory.to_path_buf()];
    while let Some(directory) = stack.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() { stack.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort();
    found
}

/// Damages one file after the other in one way; every time the search answers and a refresh repairs.
#[track_caller]
fn check_damage(damage: impl Fn(&Path)) {
    let bench = sample();
    bench.index();
    let pristine = files_under(&bench.store);
    let kept = bench.store.with_file_name("kept");
    copy(&bench.store, &kept);
    for file in pristine {
        if file.ends_with("writer.lock")
            || file.ends_with(".tantivy-meta.lock")
            || file.ends_with(".tantivy-writer.lock")
        {
            continue;
        }
        fs::remove_dir_all(&bench.store).unwrap();
        copy(&kept, &bench.store);
        damage(&file);
        let index = bench.open();
        index.search(&Query::new("function_3 argument")).unwrap();
        drop(index);
        let (index, report) = bench.index();
        println!("{file:?}: rebuilt {:?}, notes {:?}", report.rebuilt, report.notes);
        assert_eq!(contents(&index), contents(&bench.cold()), "{file:?}: {report:?}");
        assert_eq!(paths(&index, "function_3")[0], "src/file_3.py", "{file:?}");
        assert!(matches!(index.symbol("function_3"), SymbolAnswer::Exact(_)));
    }
}

fn copy(from: &Path, to: &Path) {
    for file in files_under(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

#[test]
fn a_store_with_a_file_of_noise_is_rebuilt() {
    check_damage(|file| fs::write(file, b"noise, not an index").unwrap());
}

#[test]
fn a_store_with_a_truncated_file_is_rebuilt() {
    check_damage(|file| {
        let length = fs::metadata(file).unwrap().len();
        fs::File::options().write(true).open(file).unwrap().set_len(length / 2).unwrap();
    });
}

#[test]
fn a_store_with_a_missing_file_is_rebuilt() {
    check_damage(|file| fs::remove_file(file).unwrap());
}

#[test]
fn another_version_of_the_indexer_rebuilds_and_embeds_nothing() {
    let bench = sample();
    bench.index();
    let mut manifest = crate::manifest::Manifest::read(&bench.store).unwrap().unwrap();
    manifest.versions.chunker += 1;
    manifest.write(&bench.store).unwrap();
    let (_, report) = bench.index();
    assert!(report.rebuilt.unwrap().contains("version"));
    assert_eq!((report.files_indexed, report.vectors_embedded), (6, 0));
}

#[test]
fn a_second_writer_is_told_that_the_index_is_busy() {
    let bench = sample();
    let mut index = bench.open();
    let lock = WriterLock::acquire(&bench.store).unwrap();
    assert!(matches!(refresh(&mut index), Err(RefreshError::Busy)));
    drop(lock);
    refresh(&mut index).unwrap();
}

#[test]
fn a_reader_keeps_its_answer_while_others_write() {
    let bench = sample();
    let (reader, _) = bench.index();
    change(&bench);
    bench.index();
    assert_eq!(paths(&reader, "function_2")[0], "src/file_2.py");
    let hit = |text: &str| reader.search(&Query::new(text)).unwrap().hits.remove(0);
    assert!(hit("function_2").changed && hit("function_1").changed);
    assert!(!hit("function_3").changed && hit("function_3").text.contains("def function_3"));
}

#[test]
fn what_was_damaged_is_put_aside_and_not_deleted() {
    let bench = sample();
    bench.index();
    fs::write(bench.store.join("files-1"), "noise").unwrap();
    let (_, report) = bench.index();
    assert!(report.rebuilt.unwrap().contains("the table of files"));
    assert_eq!(fs::read(bench.store.join("broken-1/files-1")).unwrap(), b"noise");
    assert!(bench.store.join("broken-1/lexical-1").is_dir());
    fs::write(bench.store.join("manifest"), "noise").unwrap();
    bench.index();
    assert_eq!(fs::read(bench.store.join("broken-2/damaged-manifest")).unwrap(), b"noise");
    assert_eq!(contents(&bench.index().0), contents(&bench.cold()));
}

#[test]
fn a_root_that_is_gone_deletes_nothing() {
    let bench = sample();
    let (mut index, _) = bench.index();
    fs::rename(&bench.root, bench.root.with_file_name("away")).unwrap();
    assert!(matches!(refresh(&mut index), Err(RefreshError::Root { .. })));
    assert_eq!(paths(&index, "function_3")[0], "src/file_3.py");
}

/// Set for the child process of the test below: the directory of its tree and store.
const CHILD: &str = "CLOISTER_INDEX_TEST_CHILD";

#[test]
fn a_refresh_that_is_killed_at_any_moment_is_recovered_by_the_next() {
    if let Some(directory) = std::env::var_os(CHILD) {
        refresh_until_killed(Path::new(&directory));
    }
    let bench = sample();
    for round in 0..6u64 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::a_refresh_that_is_killed_at_any_moment_is_recovered_by_the_next"])
            .env(CHILD, bench.root.parent().unwrap())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(150 + 83 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        bench.open().search(&Query::new("function_3")).unwrap();
        println!("round {round}: killed at generation {}", bench.open().status().generation);
        let (index, _) = bench.index();
        assert_eq!(contents(&index), contents(&bench.cold()), "round {round}");
        assert_eq!(index.status().notes, [] as [&str; 0], "round {round}");
    }
}

fn refresh_until_killed(directory: &Path) -> ! {
    let (root, store) = (directory.join("tree"), directory.join("store"));
    let mut index = Index::open(&store, &root, Some(WordCounts::new())).unwrap();
    for number in 0u64.. {
        let text = format!("def written_{number}():\n    return {number}\n");
        fs::write(root.join(format!("src/written_{}.py", number % 5)), text).unwrap();
        refresh(&mut index).unwrap();
    }
    unreachable!("killed before it has counted so far")
}
