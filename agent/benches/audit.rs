//! Does the log keep its promise: under 1 ms at the median for an append, one fsync for an effect?
//!
//! `cargo bench -p agent --bench audit` writes into the target directory, prints one line a measurement and the load
//! average of the host, and exits with 1 when the bar is missed.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agent::audit::{Durability, Key, Log, verify};
use serde_json::{Value, json};

const APPENDS: usize = 5_000;
const EFFECTS: usize = 300;
const BAR: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    println!("load average before: {}", load_average());
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let key = Key::from_bytes([7; 32]);
    let open =
        |name: &str| Log::create(&directory.path().join(name), key.clone(), json!({ "session": name })).expect("a log");
    let buffered = |bytes: usize| {
        let mut log = open(&format!("append-{bytes}"));
        let record = body(bytes);
        measure(APPENDS, || {
            log.append("observed", record.clone(), None, Durability::Buffered).expect("append");
        })
    };
    let typical = tell("append of 2 KiB, no fsync", buffered(2 << 10));
    tell("append of 64 KiB, no fsync", buffered(64 << 10));
    let mut log = open("synced");
    let record = body(2 << 10);
    tell(
        "append of 2 KiB with fsync",
        measure(EFFECTS, || {
            log.append("verdict", record.clone(), None, Durability::Synced).expect("append");
        }),
    );
    // What the loop appends around one effect: only the verdict waits for the disk.
    let mut log = open("effect");
    let mut effect = || {
        for (kind, durability) in [
            ("replied", Durability::Buffered),
            ("verdict", Durability::Synced),
            ("wrote", Durability::Buffered),
            ("observed", Durability::Buffered),
        ] {
            log.append(kind, record.clone(), None, durability).expect("append");
        }
    };
    tell("a whole effect (4 records, 1 fsync)", measure(EFFECTS, &mut effect));
    check(&directory.path().join("append-2048"), &key);
    println!("load average after: {}", load_average());
    let kept = typical < BAR;
    println!("bar: median append under {BAR:?}: {}", if kept { "kept" } else { "MISSED" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn body(bytes: usize) -> Value {
    json!({ "text": "def f(a, b):\n    return a - b\n".repeat(bytes / 30), "writes": {}, "shown": ["src/a.py"], "functions": ["f"] })
}

fn measure(times: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    taken.sort();
    taken
}

/// Prints the distribution and returns the median.
fn tell(what: &str, taken: Vec<Duration>) -> Duration {
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize];
    println!("{what:<38} median {:>10.1?}  p99 {:>10.1?}  of {}", at(0.5), at(0.99), taken.len());
    at(0.5)
}

fn check(path: &Path, key: &Key) {
    let start = Instant::now();
    let report = verify(path, key, None).expect("a log");
    println!("verify of {} records{:<18} {:>17.1?}", report.records, "", start.elapsed());
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or("unknown".into(), |text| text.trim().to_owned())
}
