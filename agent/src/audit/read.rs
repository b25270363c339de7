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
    Ok(verify_from(BufReader::new(File::open(path)?), key, expected_head)?)
}

/// As [`verify`], from any source of bytes.
pub fn verify_from<R: BufRead>(log: R, key: &Key, expected_head: Option<&Head>) -> io::Result<Report> {
    let mut lines = Lines { file: log };
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
                    report.ending = broken(report.records, &why);
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
        let why = not_the_end(expected.count, report.records);
        report.ending = broken(report.records.min(expected.count), &why);
    }
    Ok(report)
}

/// The records of a log, one at a time, without checking their MACs: for showing a session. It ends at the first
/// line that is not a whole record.
pub fn read(path: &Path) -> Result<Reader<BufReader<File>>, VerifyError> {
    Ok(read_from(BufReader::new(File::open(path)?)))
}

/// As [`read`], from any source of bytes.
pub fn read_from<R: BufRead>(log: R) -> Reader<R> {
    Reader { lines: Lines { file: log }, done: false }
}

/// See [`read`].
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    done: bool,
}

impl<R: BufRead> Iterator for Reader<R> {
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

/// What a head that does not match says about the end of the file.
fn not_the_end(expected: u64, records: u64) -> String {
    let difference = format!("the head says {expected} records, the file has {records}");
    match records.cmp(&expected) {
        std::cmp::Ordering::Less => format!("{difference}: its end was cut off"),
        std::cmp::Ordering::Greater => format!("{difference}: records were added after the head was taken"),
        std::cmp::Ordering::Equal => format!("{difference}, but the last one has another MAC: it is another log"),
    }
}

/// One line against the chain so far.
fn check(line: &str, key: &Key, so_far: &Report) -> Result<Record, String> {
    if so_far.sealed {
        return Err("a record follows the seal".into());
    }
    let mut value: Value = serde_json::from_str(line).map_err(|_| "the line is not JSON")?;
    if canonical(&value) != line {
        return Err("the line is not in canonical form".into());
    }
    let record: Record = Record::deserialize_from(&value).ok_or("the line is not a record")?;
    value.as_object_mut().and_then(|fields| fields.shift_remove("mac"));
    if !key.verifies(&canonical(&value), &record.mac) {
        return Err("it was edited, or signed with another key: its MAC does not match its content".into());
    }
    // From here on the record is genuine, so its number says what happened to the file.
    let place = so_far.records;
    if record.n > place {
        return Err(format!("record {} stands here: {} before it were deleted or moved", record.n, record.n - place));
    }
    if record.n < place {
        return Err(format!("record {} stands here: it was moved or repeated", record.n));
    }
    let prev = so_far.head.as_ref().map_or(GENESIS, |head| &head.mac);
    if record.prev != prev {
        return Err("it follows another record: it comes from another log under the same key".into());
    }
    if record.parent.is_some_and(|parent| parent >= record.n) {
        return Err("its cause is not before it".into());
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
struct Lines<R> {
    file: R,
}

enum Line {
    Whole(String),
    Torn(u64),
    TooLong,
    End,
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
