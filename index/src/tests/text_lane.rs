//! How large and how fast is the text lane by itself?
//!
//! Runs over the tree that `CLOISTER_INDEX_TREE` names and says so when there is none.

use std::time::Instant;

use crate::chunk::cut;
use crate::lexical::Lexical;
use crate::walk::walk;

/// Of the bytes of the source.
const SIZE_MAX: f64 = 0.20;
/// Bytes of source that are read of the tree.
const SOURCE_BYTES_MAX: usize = 200 * 1024 * 1024;

#[test]
fn the_text_lane_keeps_to_its_share_of_the_room() {
    let Some(tree) = std::env::var_os("CLOISTER_INDEX_TREE") else {
        println!("skipped: CLOISTER_INDEX_TREE names no tree to measure on");
        return;
    };
    let store = tempfile::tempdir().unwrap();
    let lexical = Lexical::create(&store.path().join("lane")).unwrap();
    let writer = lexical.writer().unwrap();
    let (mut bytes, mut chunks, mut seconds) = (0, 0, 0.0);
    for entry in walk(tree.as_ref(), &mut |_| true).files {
        let Ok(admitted) = crate::admit::admit(&entry.absolute) else { continue };
        let (text, _) = admitted.text();
        let cut = cut(&entry.path, &text);
        bytes += text.len();
        chunks += cut.chunks.len();
        let start = Instant::now();
        for chunk in &cut.chunks {
            writer.add(&entry.path, chunk).unwrap();
        }
        seconds += start.elapsed().as_secs_f64();
        if bytes > SOURCE_BYTES_MAX {
            break;
        }
    }
    let start = Instant::now();
    writer.commit(1).unwrap();
    seconds += start.elapsed().as_secs_f64();
    let files = std::fs::read_dir(store.path().join("lane")).unwrap().flatten();
    let sizes = files.map(|file| (file.file_name(), file.metadata().map_or(0, |metadata| metadata.len())));
    let mut by_ending: std::collections::BTreeMap<String, u64> = Default::default();
    for (name, size) in sizes {
        let name = name.to_string_lossy().into_owned();
        *by_ending.entry(name.rsplit('.').next().unwrap_or_default().to_owned()).or_default() += size;
    }
    let size: u64 = by_ending.values().sum();
    let share = size as f64 / bytes as f64;
    println!(
        "{:.1} MB of source, {chunks} chunks: {share:.3} of it, {:.1} MB/s, load {}; {by_ending:?}",
        bytes as f64 / 1e6,
        bytes as f64 / 1e6 / seconds,
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
    );
    assert!(share <= SIZE_MAX, "{share}");
}
