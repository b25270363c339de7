//! Do rows come back as they were written, whoever wrote, removed or tidied in between?

use super::*;
use std::time::Instant;

const DIMENSION: usize = 4;

fn lane(directory: &Path) -> Vectors {
    Vectors::open(directory, "test", DIMENSION).unwrap()
}

/// Four directions that differ.
fn direction(key: u64) -> Vec<f32> {
    (0..DIMENSION as u64).map(|at| if at == key % 4 { 1.0 } else { 0.1 * (key % 7) as f32 }).collect()
}

fn row(key: u64) -> (PieceHash, Vec<f32>) {
    (PieceHash::from_number(key), direction(key))
}

fn rows(keys: std::ops::Range<u64>) -> Vec<(PieceHash, Vec<f32>)> {
    keys.map(row).collect()
}

fn keys(lane: &Vectors) -> Vec<u64> {
    let mut keys: Vec<u64> = lane.hashes().unwrap().into_iter().map(PieceHash::number).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn rows_are_found_by_the_handle_that_wrote_them_and_by_later_ones() {
    let store = tempfile::tempdir().unwrap();
    let writer = Vectors::create(store.path(), "test", DIMENSION).unwrap();
    writer.add(&[(PieceHash::from_number(u64::MAX), direction(1)), (PieceHash::from_number(0), direction(2))]).unwrap();
    for lane in [&writer, &lane(store.path())] {
        let found = lane.nearest(&direction(1), 5).unwrap();
        assert_eq!(found.iter().map(|row| row.0.number()).collect::<Vec<_>>(), [u64::MAX, 0]);
        assert!(found[0].1.abs() < 1e-2 && found[1].1 > 0.1, "{found:?}");
    }
    // The rows are in memory by now.
    writer.add(&[(PieceHash::from_number(7), direction(3))]).unwrap();
    writer.remove(&[PieceHash::from_number(0)]).unwrap();
    for lane in [&writer, &lane(store.path())] {
        let found = lane.nearest(&direction(3), 5).unwrap();
        assert_eq!(found.iter().map(|row| row.0.number()).collect::<Vec<_>>(), [7, u64::MAX]);
        assert_eq!(keys(lane), [7, u64::MAX]);
    }
}

#[test]
fn rows_that_are_held_are_found_at_once_and_written_with_the_next() {
    let store = tempfile::tempdir().unwrap();
    let writer = Vectors::create(store.path(), "test", DIMENSION).unwrap();
    writer.add(&rows(0..2)).unwrap();
    writer.hold(&rows(2..4)).unwrap();
    assert_eq!((keys(&writer), keys(&lane(store.path()))), (vec![0, 1, 2, 3], vec![0, 1]));
    assert_eq!(writer.nearest(&direction(3), 1).unwrap()[0].0.number(), 3);
    writer.hold(&rows(4..6)).unwrap();
    writer.remove(&[PieceHash::from_number(4)]).unwrap();
    writer.add(&[]).unwrap();
    assert_eq!((keys(&writer), keys(&lane(store.path()))), (vec![0, 1, 2, 3, 5], vec![0, 1, 2, 3, 5]));
    let many = HELD_ROWS_MAX as u64;
    writer.hold(&rows(100..100 + many)).unwrap();
    assert_eq!(keys(&lane(store.path())).len(), 5 + many as usize, "so many are written without being asked");
}

#[test]
fn a_row_that_was_written_twice_is_found_once() {
    let store = tempfile::tempdir().unwrap();
    Vectors::create(store.path(), "test", DIMENSION).unwrap().add(&rows(0..3)).unwrap();
    lane(store.path()).add(&rows(1..5)).unwrap();
    let found = lane(store.path()).nearest(&direction(1), 50).unwrap();
    assert_eq!(found.len(), 5);
}

#[test]
fn a_vector_of_another_length_is_refused() {
    let store = tempfile::tempdir().unwrap();
    let lane = Vectors::create(store.path(), "test", DIMENSION).unwrap();
    assert!(lane.add(&[(PieceHash::from_number(1), vec![1.0])]).is_err());
    assert!(lane.nearest(&[1.0], 1).is_err());
    assert!(Vectors::create(store.path(), "none", 0).is_err());
    assert_eq!(keys(&lane), [0u64; 0]);
}

#[test]
fn tidying_merges_files_and_who_reads_late_reads_the_same() {
    let store = tempfile::tempdir().unwrap();
    let writer = Vectors::create(store.path(), "test", DIMENSION).unwrap();
    for some in 0..DATA_FILES_MAX as u64 + 6 {
        writer.add(&rows(some * 10..some * 10 + 10)).unwrap();
    }
    writer.remove(&(0..15).map(PieceHash::from_number).collect::<Vec<_>>()).unwrap();
    let early = lane(store.path());
    let wanted = keys(&writer);
    assert_eq!(wanted.len(), (DATA_FILES_MAX + 6) * 10 - 15);
    writer.tidy_older_than(0).unwrap();
    let files = std::fs::read_dir(&writer.data_directory).unwrap().count();
    assert!(files <= 2, "{files} files are left");
    for lane in [early, lane(store.path())] {
        let found = lane.nearest(&direction(2), 1000).unwrap();
        assert_eq!(found.len(), wanted.len());
        assert_eq!(keys(&lane), wanted);
    }
}

#[test]
fn half_a_million_lines_are_written_and_searched_in_bearable_time() {
    if std::env::var_os("CLOISTER_SLOW").is_none() {
        eprintln!("skipped: needs CLOISTER_SLOW=1");
        return;
    }
    const ROWS: u64 = 125_000;
    const NUMBERS: usize = 256;
    const BATCH: u64 = 8192;
    let vector = |key: u64| {
        let mut state = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let number = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        std::iter::repeat_with(number).take(NUMBERS).collect::<Vec<f32>>()
    };
    let store = tempfile::tempdir().unwrap();
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    let writer = Vectors::create(store.path(), "test", NUMBERS).unwrap();
    let mut seconds = 0.0;
    for from in (0..ROWS).step_by(BATCH as usize) {
        let key = |at: u64| PieceHash::from_number(at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let rows: Vec<_> = (from..(from + BATCH).min(ROWS)).map(|at| (key(at), vector(at))).collect();
        let start = Instant::now();
        writer.add(&rows).unwrap();
        seconds += start.elapsed().as_secs_f64();
    }
    println!("{ROWS} rows written in {seconds:.2} s, {:.1} bytes a row", size(store.path()) as f64 / ROWS as f64);
    let start = Instant::now();
    let lane = Vectors::open(store.path(), "test", NUMBERS).unwrap();
    println!("opened in {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(lane.hashes().unwrap().len(), ROWS as usize);
    println!("hashes in {:?}", start.elapsed());
    let start = Instant::now();
    lane.nearest(&vector(0), 100).unwrap();
    println!("first search in {:?}", start.elapsed());
    let mut times: Vec<f64> = Vec::new();
    for at in 0..200 {
        let start = Instant::now();
        assert_eq!(lane.nearest(&vector(at), 100).unwrap().len(), 100);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let gigabytes = ROWS as f64 * NUMBERS as f64 / 1e9;
    println!("search p50 {:.2} ms, p99 {:.2} ms, {:.1} GB/s", times[100], times[198], gigabytes / (times[100] / 1e3));
    let start = Instant::now();
    writer.add(&[(PieceHash::from_number(1), vector(1)), (PieceHash::from_number(2), vector(2))]).unwrap();
    writer.remove(&[1, 2].map(PieceHash::from_number)).unwrap();
    println!("two rows added and removed in {:?}", start.elapsed());
}

fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let of = |entry: std::fs::DirEntry| {
        let data = entry.metadata().unwrap();
        if data.is_dir() { size(&entry.path()) } else { data.len() }
    };
    entries.map(of).sum()
}
