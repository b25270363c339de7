//! How is a record added so that no crash can lose or forge one?

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::cause::Cause;
use super::read::{self, Ending, VerifyError};
use super::{GENESIS, Head, Key, RECORD_BYTES_MAX, canonical};

/// When an append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the operating system has the line: it survives the death of this process, not a power cut.
    Buffered,
    /// When the disk has it. Asked for before every effect.
    Synced,
}

/// A log that is open for appending. The file is locked: a log has one writer.
#[derive(Debug)]
pub struct Log {
    file: File,
    key: Key,
    next: u64,
    prev: String,
    end: u64,
    state: State,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Sealed,
    /// A failed append could not be undone; the next `resume` repairs the tail.
    Failed,
}

/// Why a log was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The file cannot be made; an existing file is never replaced.
    #[error("cannot create the log: {0}")]
    Io(#[from] io::Error),
    /// The header could not be written.
    #[error("cannot write the header of the log: {0}")]
    Header(#[from] AppendError),
}

/// Why a record was not added. The effect that it was to announce must not happen.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Writing failed, for example because the disk is full. The log ends as it did before.
    #[error("cannot append to the log: {0}")]
    Io(#[from] io::Error),
    /// Longer than [`RECORD_BYTES_MAX`].
    #[error("a record of {0} bytes is longer than the limit of {RECORD_BYTES_MAX}")]
    TooLong(usize),
    /// Arrays and objects nested deeper than can be read back.
    #[error("a record may be nested at most {DEPTH_MAX} levels deep")]
    TooDeep,
    /// Nothing follows the seal.
    #[error("the log is sealed")]
    Sealed,
    /// An earlier append failed and could not be undone.
    #[error("an earlier append to this log failed: resume the log to repair it")]
    Failed,
    /// A cause must come before its effect.
    #[error("record {parent} cannot be the parent of record {n}: it is not before it")]
    Parent {
        /// The cause that was named.
        parent: u64,
        /// The record that was to be added.
        n: u64,
    },
}

/// Why a log cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The file cannot be opened, locked or cut.
    #[error("cannot resume the log: {0}")]
    Io(#[from] io::Error),
    /// The chain does not hold, so nothing may be built on it.
    #[error("the log is broken at record {record} ({why}) and is not continued: start a new session")]
    Broken {
        /// The first record that is wrong.
        record: u64,
        /// What is wrong with it.
        why: String,
    },
    /// Its session has ended.
    #[error("the log is sealed: its session has ended")]
    Sealed,
    /// Not even the header is whole.
    #[error("the log holds no whole record: start a new session")]
    Empty,
    /// The repair could not be recorded.
    #[error("cannot record the repair of the log: {0}")]
    Repair(#[from] AppendError),
}

impl Log {
    /// Makes a new log at `path`, which must not exist, and writes `header` as its first record.
    pub fn create(path: &Path, key: Key, header: Value) -> Result<Log, CreateError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        lock(&file)?;
        let mut log =
            Log { file, key, next: 0, prev: GENESIS.to_owned(), end: 0, state: State::Open, cause: Cause::default() };
        if let Err(e) = log.append("header", header, None, Durability::Synced) {
            fs::remove_file(path)?;
            return Err(e.into());
        }
        if let Some(parent) = path.parent() {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent)?.sync_all()?;
        }
        Ok(log)
    }

    /// Opens a log that was not sealed. A torn tail (a last line without its newline) is cut off, and a record
    /// `repaired` says so. A broken chain is refused.
    pub fn resume(path: &Path, key: Key) -> Result<Log, ResumeError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        lock(&file)?;
        let report = read::verify(path, &key, None).map_err(|VerifyError(e)| e)?;
        let cut = match report.ending {
            Ending::Broken { record, why } => return Err(ResumeError::Broken { record, why }),
            Ending::TornTail { bytes } => bytes,
            Ending::Whole => 0,
        };
        let head = report.head.ok_or(ResumeError::Empty)?;
        if report.sealed {
            return Err(ResumeError::Sealed);
        }
        let end = fs::metadata(path)?.len() - cut;
        file.set_len(end)?;
        let mut cause = Cause::default();
        for record in read::read(path).map_err(|VerifyError(e)| e)? {
            let record = record?;
            cause.follow(&record.kind, record.n);
        }
        let mut log = Log { file, key, next: head.count, prev: head.mac, end, state: State::Open, cause };
        log.file.seek(SeekFrom::Start(end))?;
        if cut > 0 {
            log.append("repaired", json!({ "cut_bytes": cut }), None, Durability::Synced)?;
        }
        Ok(log)
    }

    /// Adds one record and returns its number. When it fails the log ends as it did before. Without a `parent`, its
    /// cause is what follows from the records before it. A number in `body` that is not an integer is written as a
    /// string: floats have no canonical form that every reader gives back.
    pub fn append(
        &mut self,
        kind: &str,
        body: Value,
        parent: Option<u64>,
        durability: Durability,
    ) -> Result<u64, AppendError> {
        match self.state {
            State::Open => {}
            State::Sealed => return Err(AppendError::Sealed),
            State::Failed => return Err(AppendError::Failed),
        }
        let n = self.next;
        let parent = parent.or_else(|| self.cause.of(kind));
        if let Some(parent) = parent.filter(|p| *p >= n) {
            return Err(AppendError::Parent { parent, n });
        }
        let mut record = json!({
            "n": n, "at_ms": now_ms(), "prev": self.prev, "kind": kind, "parent": parent,
            "body": plain(body, 0).ok_or(AppendError::TooDeep)?,
        });
        let mac = self.key.mac(&canonical(&record));
        record["mac"] = Value::String(mac.clone());
        let mut line = canonical(&record);
        line.push('\n');
        if line.len() > RECORD_BYTES_MAX {
            return Err(AppendError::TooLong(line.len()));
        }
        if let Err(e) = self.write(&line, durability) {
            self.undo();
            return Err(AppendError::Io(e));
        }
        self.end += line.len() as u64;
        self.next += 1;
        self.prev = mac;
        self.cause.follow(kind, n);
        Ok(n)
    }

    /// Ends the log with a record `sealed` and returns the head that shows a later truncation.
    pub fn seal(&mut self) -> Result<Head, AppendError> {
        self.append("sealed", json!({ "records_before": self.next }), None, Durability::Synced)?;
        self.state = State::Sealed;
        Ok(self.head())
    }

    /// How many records there are, and the MAC of the last.
    #[must_use]
    pub fn head(&self) -> Head {
        Head { count: self.next, mac: self.prev.clone() }
    }

    fn write(&mut self, line: &str, durability: Durability) -> io::Result<()> {
        self.file.write_all(line.as_bytes())?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.file.sync_data(),
        }
    }

    /// Takes half a line back, so that the next append does not follow it. After a failed sync nothing is known
    /// about the disk, and the log takes no more records.
    fn undo(&mut self) {
        let undone = self.file.set_len(self.end).and_then(|()| self.file.seek(SeekFrom::Start(self.end)));
        if undone.is_err() || self.file.sync_data().is_err() {
            self.state = State::Failed;
        }
    }
}

/// serde_json reads at most 128 levels; this leaves room for the record around the body.
const DEPTH_MAX: usize = 100;

fn plain(value: Value, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::Number(n) if n.is_f64() => Value::String(n.to_string()),
        Value::Array(items) => Value::Array(items.into_iter().map(|v| plain(v, depth + 1)).collect::<Option<_>>()?),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(k, v)| Some((k, plain(v, depth + 1)?))).collect::<Option<_>>()?)
        }
        other => other,
    })
}

fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|e| match e {
        TryLockError::WouldBlock => io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing this log"),
        TryLockError::Error(e) => e,
    })
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
