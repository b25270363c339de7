//! Attacks on a log. What a crash does is in [`kills`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::*;

mod kills;

fn key() -> Key {
    Key::from_bytes([7; 32])
}

/// What somebody does to the lines of a log.
type Tampering = fn(&mut Vec<String>);

struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("session.jsonl")
    }

    /// A log of a header and `events` records.
    fn log(&self, events: u64) -> Log {
        let mut log = Log::create(&self.path(), key(), json!({ "session": "s1" })).unwrap();
        for n in 0..events {
            log.append("event", json!({ "b": n, "a": "ü\n" }), Some(n), Durability::Buffered).unwrap();
        }
        log
    }

    fn ending(&self, head: Option<&Head>) -> Ending {
        verify(&self.path(), &key(), head).unwrap().ending
    }

    fn rewrite(&self, change: impl Fn(&mut Vec<String>)) {
        let text = fs::read_to_string(self.path()).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        fs::write(self.path(), lines.join("\n") + "\n").unwrap();
    }

    #[track_caller]
    fn assert_broken_at(&self, expected: u64) {
        match self.ending(None) {
            Ending::Broken { record, .. } => assert_eq!(record, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_log_reads_back_as_it_was_written_and_verifies() {
    let bench = Bench::new();
    let head = bench.log(2).seal().unwrap();
    let report = verify(&bench.path(), &key(), Some(&head)).unwrap();
    assert_eq!(report, Report { records: 4, ending: Ending::Whole, sealed: true, head: Some(head.clone()) });
    let kinds: Vec<_> = read(&bench.path()).unwrap().map(|r| (r.as_ref().unwrap().n, r.unwrap().kind)).collect();
    assert_eq!(kinds, [(0, "header".into()), (1, "event".into()), (2, "event".into()), (3, "sealed".into())]);
    let first = fs::read_to_string(bench.path()).unwrap().lines().nth(1).unwrap().to_owned();
    assert!(first.contains(r#""body":{"a":"ü\n","b":0},"kind":"event","mac":""#), "{first}");
    assert_eq!(head.to_string().parse::<Head>().unwrap(), head);
    assert!("4:xyz".parse::<Head>().is_err());
}

#[test]
fn every_change_of_one_byte_is_detected() {
    let bench = Bench::new();
    drop(bench.log(1));
    let good = fs::read(bench.path()).unwrap();
    for at in 0..good.len() {
        for byte in 0..=255 {
            if byte == good[at] {
                continue;
            }
            let mut bad = good.clone();
            bad[at] = byte;
            assert_ne!(report_of(&bad, None).ending, Ending::Whole, "byte {at} changed to {byte}");
        }
    }
}

fn report_of(bytes: &[u8], head: Option<&Head>) -> Report {
    verify_from(bytes, &key(), head).unwrap()
}

/// As a session writes them: bodies of several shapes, some of them with the same text twice.
#[test]
fn every_byte_of_a_long_log_is_guarded() {
    let bench = Bench::new();
    let mut log = bench.log(8);
    for n in 0..16u64 {
        let body = json!({ "call": { "name": "read_file", "path": "src/a.py" }, "n": [n, null, true], "t": "ä\t\"" });
        log.append(if n % 4 == 0 { "replied" } else { "verdict" }, body, None, Durability::Buffered).unwrap();
    }
    let head = log.seal().unwrap();
    let good = fs::read(bench.path()).unwrap();
    assert_eq!(report_of(&good, Some(&head)).ending, Ending::Whole);
    for at in 0..good.len() {
        for flip in [0x01, 0x20] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            assert_ne!(report_of(&bad, None).ending, Ending::Whole, "byte {at} xor {flip}");
        }
    }
}

#[test]
fn every_truncation_is_a_torn_tail_or_fewer_records_and_the_head_shows_it() {
    let bench = Bench::new();
    let head = bench.log(1).seal().unwrap();
    let good = fs::read(bench.path()).unwrap();
    for length in 0..good.len() {
        let boundary = length == 0 || good[length - 1] == b'\n';
        let report = report_of(&good[..length], None);
        assert!(report.records < 3);
        match report.ending {
            Ending::Whole => assert!(boundary),
            Ending::TornTail { bytes } => assert!(!boundary && bytes > 0),
            Ending::Broken { .. } => panic!("a truncation at {length} is not a change"),
        }
        assert!(
            matches!(report_of(&good[..length], Some(&head)).ending, Ending::Broken { .. }),
            "with the head, {length} bytes are too few"
        );
    }
}

#[test]
fn deletion_reordering_insertion_and_replay_are_detected() {
    let cases: [(&str, Tampering); 4] = [
        ("deletion", |lines| {
            lines.remove(2);
        }),
        ("reordering", |lines| lines.swap(2, 3)),
        ("replay", |lines| lines.insert(2, lines[1].clone())),
        ("a blank line", |lines| lines.insert(2, String::new())),
    ];
    for (what, change) in cases {
        let bench = Bench::new();
        drop(bench.log(4));
        bench.rewrite(change);
        eprintln!("{what}");
        bench.assert_broken_at(2);
    }
}

#[test]
fn a_broken_chain_says_what_was_done_to_it() {
    let cases: [(&str, Tampering); 5] = [
        ("1 before it were deleted or moved", |lines| drop(lines.remove(2))),
        ("record 3 stands here", |lines| lines.swap(2, 3)),
        ("record 1 stands here: it was moved or repeated", |lines| lines.insert(2, lines[1].clone())),
        ("it was edited", |lines| lines[2] = lines[2].replace(r#""b":1"#, r#""b":7"#)),
        ("not in canonical form", |lines| lines[2] = lines[2].replace(r#""b":1"#, r#""b": 1"#)),
    ];
    for (expected, change) in cases {
        let bench = Bench::new();
        drop(bench.log(4));
        let text = fs::read_to_string(bench.path()).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        let bad = lines.join("\n") + "\n";
        let Ending::Broken { record: 2, why } = report_of(bad.as_bytes(), None).ending else { panic!("{expected}") };
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_record_of_another_log_under_the_same_key_does_not_fit() {
    let (one, other) = (Bench::new(), Bench::new());
    drop(one.log(3));
    let mut log = Log::create(&other.path(), key(), json!({ "session": "s2" })).unwrap();
    for n in 0..3 {
        log.append("event", json!(n), None, Durability::Buffered).unwrap();
    }
    let lines = |bench: &Bench| -> Vec<String> {
        fs::read_to_string(bench.path()).unwrap().lines().map(str::to_owned).collect()
    };
    let mut mixed = lines(&one);
    mixed[2] = lines(&other).remove(2);
    fs::write(one.path(), mixed.join("\n") + "\n").unwrap();
    let Ending::Broken { record: 2, why } = one.ending(None) else { panic!() };
    assert!(why.contains("another log"), "{why}");
}

#[test]
fn a_head_tells_a_cut_end_from_added_records_and_from_another_log() {
    let bench = Bench::new();
    let log = bench.log(3);
    let why = |head: Head| match bench.ending(Some(&head)) {
        Ending::Broken { record, why } => (record, why),
        other => panic!("{other:?}"),
    };
    let head = log.head();
    assert_eq!(bench.ending(Some(&head)), Ending::Whole);
    let (at, cut) = why(Head { count: 9, ..head.clone() });
    assert!(at == 4 && cut.contains("its end was cut off"), "{at} {cut}");
    let (at, added) = why(Head { count: 2, ..head.clone() });
    assert!(at == 2 && added.contains("were added"), "{at} {added}");
    assert!(why(Head { mac: "0".repeat(64), ..head }).1.contains("another log"));
}

#[test]
fn the_key_is_refused_where_an_agent_could_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, home) = (dir.path().join("repo"), dir.path().join("home"));
    fs::create_dir_all(&repo).unwrap();
    Key::outside(&repo, &home).unwrap();
    // The other way round is harmless: a box shows the repository, not what is around it.
    fs::create_dir_all(home.join("repo")).unwrap();
    Key::outside(&home.join("repo"), &home).unwrap();
    let inside = Key::outside(&repo, &repo.join(".cloister"));
    assert!(matches!(inside, Err(KeyError::InsideRepository { .. })));
    assert!(!repo.join(".cloister").join(KEY_FILE).exists());
    std::os::unix::fs::symlink(&repo, dir.path().join("link")).unwrap();
    assert!(matches!(Key::outside(&repo, &dir.path().join("link")), Err(KeyError::InsideRepository { .. })));
}

#[test]
fn another_key_does_not_verify() {
    let bench = Bench::new();
    drop(bench.log(1));
    let other = verify(&bench.path(), &Key::from_bytes([8; 32]), None).unwrap();
    assert_eq!((other.records, other.head), (0, None));
}

#[test]
fn nothing_follows_the_seal() {
    let bench = Bench::new();
    let mut log = bench.log(1);
    log.seal().unwrap();
    assert!(matches!(log.append("late", json!({}), None, Durability::Buffered), Err(AppendError::Sealed)));
    drop(log);
    assert!(matches!(Log::resume(&bench.path(), key()), Err(ResumeError::Sealed)));
}

#[test]
fn a_torn_tail_is_repaired_and_the_repair_is_recorded() {
    let bench = Bench::new();
    drop(bench.log(2));
    let mut torn = fs::read(bench.path()).unwrap();
    let whole = torn.len();
    torn.extend_from_slice(br#"{"at_ms":17"#);
    fs::write(bench.path(), &torn).unwrap();
    let mut log = Log::resume(&bench.path(), key()).unwrap();
    assert_eq!(log.append("event", json!({}), None, Durability::Synced).unwrap(), 4);
    drop(log);
    assert!(fs::read(bench.path()).unwrap().starts_with(&torn[..whole]));
    let repaired = read(&bench.path()).unwrap().nth(3).unwrap().unwrap();
    assert_eq!((repaired.kind.as_str(), repaired.body), ("repaired", json!({ "cut_bytes": 11 })));
    assert_eq!(bench.ending(None), Ending::Whole);
}

#[test]
fn a_broken_log_is_not_continued() {
    let bench = Bench::new();
    drop(bench.log(2));
    bench.rewrite(|lines| {
        lines.remove(1);
    });
    assert!(matches!(Log::resume(&bench.path(), key()), Err(ResumeError::Broken { record: 1, .. })));
}

#[test]
fn a_log_has_one_writer_and_is_never_replaced() {
    let bench = Bench::new();
    let log = bench.log(1);
    assert!(matches!(Log::resume(&bench.path(), key()), Err(ResumeError::Io(_))));
    assert!(matches!(Log::create(&bench.path(), key(), json!({})), Err(CreateError::Io(_))));
    drop(log);
    Log::resume(&bench.path(), key()).unwrap();
}

#[test]
fn a_record_that_is_too_long_or_has_its_cause_after_it_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let mut log = bench.log(1);
    let long = json!("x".repeat(RECORD_BYTES_MAX));
    assert!(matches!(log.append("event", long, None, Durability::Buffered), Err(AppendError::TooLong(_))));
    let early = log.append("event", json!({}), Some(2), Durability::Buffered);
    assert!(matches!(early, Err(AppendError::Parent { parent: 2, n: 2 })));
    assert_eq!(log.append("event", json!({}), Some(1), Durability::Buffered).unwrap(), 2);
    assert_eq!(bench.ending(None), Ending::Whole);
}

#[test]
fn unusual_values_survive_the_round_trip_and_floats_become_strings() {
    let bench = Bench::new();
    let mut log = bench.log(0);
    let body = json!({ "f": [0.1, 1e300, 1.0], "i": [u64::MAX, i64::MIN], "s": "\u{2028}\u{7f}\\\"", "n": null });
    log.append("event", body, None, Durability::Buffered).unwrap();
    assert_eq!(bench.ending(None), Ending::Whole);
    let read_back = read(&bench.path()).unwrap().nth(1).unwrap().unwrap().body;
    let expected =
        json!({ "f": ["0.1", "1e+300", "1.0"], "i": [u64::MAX, i64::MIN], "s": "\u{2028}\u{7f}\\\"", "n": null });
    assert_eq!(read_back, expected);
}

#[test]
fn a_body_too_deep_to_be_read_back_is_refused() {
    let bench = Bench::new();
    let mut log = bench.log(0);
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(matches!(log.append("event", nested(101), None, Durability::Buffered), Err(AppendError::TooDeep)));
    log.append("event", nested(100), None, Durability::Buffered).unwrap();
    assert_eq!(bench.ending(None), Ending::Whole);
}

#[test]
fn the_key_is_made_once_and_is_private() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("deep/home");
    let first = Key::load_or_create(&home).unwrap();
    let second = Key::load_or_create(&home).unwrap();
    assert_eq!(first.mac("x"), second.mac("x"));
    let path = home.join(KEY_FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "no draft stays behind");
    assert_eq!(format!("{first:?}"), "Key(..)");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(Key::load_or_create(&home), Err(KeyError::NotPrivate(_))));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, b"short").unwrap();
    assert!(matches!(Key::load_or_create(&home), Err(KeyError::Malformed(_))));
}
