//! What does kill -9 leave? The test binary starts itself as a writer and kills it, two hundred times.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

const KILLS: usize = 200;
/// After so many kills a new log is begun, so that checking it stays quick.
const KILLS_PER_LOG: usize = 10;
/// The latest moment of a kill after the first record of a writer, in microseconds.
const MOMENT_MICROS_MAX: u64 = 4_000;
const PATH: &str = "CLOISTER_AUDIT_TEST_CHILD";

/// Not a test of its own: the writer that is killed. Each number on its standard output is a record that it was
/// told is written.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else { return };
    let mut log = match path.exists() {
        true => Log::resume(&path, key()).unwrap(),
        false => Log::create(&path, key(), json!({ "session": "s1" })).unwrap(),
    };
    let mut out = std::io::stdout().lock();
    for n in 0usize.. {
        // Some are longer than a page, so that a write can be cut in half.
        let pad = if n.is_multiple_of(8) { 40_000 } else { n * 97 % 900 };
        let durability = if n.is_multiple_of(16) { Durability::Synced } else { Durability::Buffered };
        let written = log.append("event", json!({ "n": n, "pad": "x".repeat(pad) }), None, durability).unwrap();
        writeln!(out, "written {written}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn a_log_verifies_after_two_hundred_kills_at_random_moments() {
    let mut random = Random::from_the_clock();
    eprintln!("seed {}", random.0);
    let (mut torn, mut records) = (0, 0);
    for _ in 0..KILLS / KILLS_PER_LOG {
        let bench = Bench::new();
        for _ in 0..KILLS_PER_LOG {
            let told = write_and_kill(&bench, Duration::from_micros(random.below(MOMENT_MICROS_MAX)));
            let bytes = fs::read(bench.path()).unwrap();
            let report = report_of(&bytes, None);
            let whole_lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(report.records, whole_lines, "all but a torn tail holds");
            assert!(told < report.records, "record {told} was acknowledged, and {} are there", report.records);
            torn += match report.ending {
                Ending::Whole => 0,
                Ending::TornTail { bytes: tail } => {
                    assert!(!bytes[bytes.len() - tail as usize..].contains(&b'\n'), "at most one record");
                    1
                }
                Ending::Broken { record, why } => panic!("broken at {record}: {why}"),
            };
            let before = report.records;
            drop(Log::resume(&bench.path(), key()).unwrap());
            let repaired = verify(&bench.path(), &key(), None).unwrap();
            assert_eq!(repaired.ending, Ending::Whole);
            assert_eq!(repaired.records - before, u64::from(report.ending != Ending::Whole), "a repair is recorded");
            records = records.max(repaired.records);
        }
    }
    eprintln!("{KILLS} kills, {torn} torn tails, up to {records} records in a log");
}

/// A kill takes whatever moment it likes; a tail torn at each byte is tried without one.
#[test]
fn a_tail_torn_at_any_byte_is_repaired_and_costs_that_record_only() {
    let bench = Bench::new();
    drop(bench.log(2));
    let good = fs::read(bench.path()).unwrap();
    let last = good[..good.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in last + 1..good.len() {
        fs::write(bench.path(), &good[..cut]).unwrap();
        drop(Log::resume(&bench.path(), key()).unwrap());
        let kinds: Vec<String> = read(&bench.path()).unwrap().map(|record| record.unwrap().kind).collect();
        assert_eq!(kinds, ["header", "event", "repaired"]);
        assert_eq!(bench.ending(None), Ending::Whole);
    }
}

/// Starts a writer, waits for its first record, kills it at `moment` after that, and returns the last record that it
/// was told is written.
fn write_and_kill(bench: &Bench, moment: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "audit::tests::kills::child_that_appends_until_it_is_killed", "--nocapture"])
        .env(PATH, bench.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let first = first_written(&mut child, &mut out);
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    // A line without its end may be a number without its end.
    let rest = String::from_utf8(rest).unwrap();
    let whole = rest.rfind('\n').map_or("", |at| &rest[..at]);
    whole.lines().rev().find_map(written).unwrap_or(first)
}

fn first_written(child: &mut Child, out: &mut BufReader<ChildStdout>) -> u64 {
    loop {
        let mut line = String::new();
        if out.read_line(&mut line).unwrap() == 0 {
            panic!("the writer ended early: {:?}", child.wait());
        }
        if let Some(n) = written(&line) {
            return n;
        }
    }
}

fn written(line: &str) -> Option<u64> {
    // The name of the test stands before the first one.
    line.split("written ").nth(1)?.trim().parse().ok()
}

/// xorshift64: enough to choose moments.
struct Random(u64);

impl Random {
    fn from_the_clock() -> Random {
        Random(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
