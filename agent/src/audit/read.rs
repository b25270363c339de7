//! What does a log say, and does its chain hold?

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::{GENESIS, Head, Key, RECORD_BYTES_MAX, Record, canonical};

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Records that hold, from the first on.
    pub records: u64,
    /// How the file ends.
    pub ending: Ending,
    /// Whether the last good record is the seal.
    pub sealed: bool,
    /// Count and MAC of the good records; `None` when there is none.
    pub head: Option<Head>,
}

/// How a log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Every byte belongs to a record that holds. Without a head to compare, records may be missing at the end.
    Whole,
    /// A last line without its newline, as a crash leaves it.
    TornTail {
        /// Length of that line.
        bytes: u64,
    },
    /// The chain does not hold: somebody changed the file, or it was signed with another key.
    Broken {
        /// The first record that is wrong.
        record: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// Why a log could not be read at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the log: {0}")]
pub struct VerifyError(#[from] pub io::Error);

/// Checks the whole chain, and against `expected_head` (what [`super::Log::seal`] returned) that nothing was cut
/// off or added.
pub fn verify(path: &Path, key: &Key, expected_head: Option<&Head>) -> Result<Report, VerifyError> {
    Ok(verify_from(Lines::open(path)?, key, expected_head)?)
}

/// As [`verify`], from any source of bytes.
pub(super) fn verify_from<R: BufRead>(
    mut lines: Lines<R>,
    key: &Key,
    expected_head: Option<&Head>,
) -> io::Result<Report> {
    let mut report = Report { records: 0, ending: Ending::Whole, sealed: false, head: None };
    loop {
        match lines.next_line()? {
            Line::End => break,
            Line::Torn(bytes) => {
                report.ending = Ending::TornTail { bytes };
                break;
            }
            Line::TooLong => {
                report.ending = broken(report.records, "the line is longer than a record may be");
                return Ok(report);
            }
            Line::Whole(line) => match check(&line, key, &report) {
                Err(why) => {
                    report.ending = broken(report.records, why);
                    return Ok(report);
                }
                Ok(record) => {
                    report.records += 1;
                    report.sealed = record.kind == "sealed";
                    report.head = Some(Head { count: report.records, mac: record.mac });
                }
            },
        }
    }
    if let Some(expected) = expected_head
        && report.head.as_ref() != Some(expected)
    {
        let why =
            format!("the head says {} records, the file has {} and another last MAC", expected.count, report.records);
        report.ending = broken(report.records.min(expected.count), &why);
    }
    Ok(report)
}

/// The records of a log, one at a time, without checking their MACs: for showing a session. It ends at the first
/// line that is not a whole record.
pub fn read(path: &Path) -> Result<Reader, VerifyError> {
    Ok(Reader { lines: Lines::open(path)?, done: false })
}

/// See [`read`].
#[derive(Debug)]
pub struct Reader {
    lines: Lines<BufReader<File>>,
    done: bool,
}

impl Iterator for Reader {
    type Item = Result<Record, io::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = match self.lines.next_line() {
            Ok(Line::Whole(line)) => Some(serde_json::from_str(&line).map_err(io::Error::from)),
            Ok(Line::TooLong) => {
                Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than a record may be")))
            }
            Ok(Line::Torn(_) | Line::End) => None,
            Err(e) => Some(Err(e)),
        };
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

fn broken(record: u64, why: &str) -> Ending {
    Ending::Broken { record, why: why.to_owned() }
}

/// One line against the chain so far.
fn check(line: &str, key: &Key, so_far: &Report) -> Result<Record, &'static str> {
    if so_far.sealed {
        return Err("a record follows the seal");
    }
    let mut value: Value = serde_json::from_str(line).map_err(|_| "the line is not JSON")?;
    if canonical(&value) != line {
        return Err("the line is not in canonical form");
    }
    let record: Record = Record::deserialize_from(&value).ok_or("the line is not a record")?;
    value.as_object_mut().and_then(|fields| fields.shift_remove("mac"));
    if !key.verifies(&canonical(&value), &record.mac) {
        return Err("its MAC does not match its content");
    }
    let prev = so_far.head.as_ref().map_or(GENESIS, |head| &head.mac);
    if record.n != so_far.records || record.prev != prev {
        return Err("it does not follow the record before it");
    }
    Ok(record)
}

impl Record {
    fn deserialize_from(value: &Value) -> Option<Record> {
        use serde::Deserialize;
        Record::deserialize(value).ok()
    }
}

/// A file cut at its newlines, with bounded memory.
#[derive(Debug)]
pub(super) struct Lines<R> {
    pub(super) file: R,
}

pub(super) enum Line {
    Whole(String),
    Torn(u64),
    TooLong,
    End,
}

impl Lines<BufReader<File>> {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Lines { file: BufReader::new(File::open(path)?) })
    }
}

impl<R: BufRead> Lines<R> {
    fn next_line(&mut self) -> io::Result<Line> {
        let mut line = Vec::new();
        let got = self.file.by_ref().take(RECORD_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
        if got == 0 {
            return Ok(Line::End);
        }
        if got > RECORD_BYTES_MAX {
            return Ok(Line::TooLong);
        }
        if line.pop() != Some(b'\n') {
            return Ok(Line::Torn(got as u64));
        }
        // Invalid UTF-8 cannot be a record; an empty line is not one either, and says the same.
        Ok(Line::Whole(String::from_utf8(line).unwrap_or_default()))
    }
}
