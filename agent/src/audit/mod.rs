//! What happened, in which order, and has anybody changed the account of it since?
//!
//! A log is a file of JSON lines. Each record carries the MAC of the one before and its own MAC over everything
//! else in it, under a key that is kept outside every repository. So an edit, a deletion, an insertion or a
//! reordering breaks the chain at the place where it was done. A chain alone cannot show that its end was cut off;
//! for that [`Log::seal`] returns the [`Head`], which the person keeps.
//!
//! A line is only valid in its canonical form (sorted keys, no spaces), so that even a changed space is seen.
//!
//! Each record names its cause: task, model turn, verdict on its call, job, files really
//! written, tests, proof, hunk applied. [`Story`] tells that to a person, [`Ocsf`] to a security team's tools.

mod canonical;
mod cause;
mod effects;
mod key;
mod log;
mod ocsf;
mod read;
mod story;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use canonical::canonical;
pub use effects::{FILES_NAMED_MAX, HUNKS_NAMED_MAX, Held, applied, applying, sha256, sha256_of};
pub use key::{KEY_FILE, Key, KeyError};
pub use log::{AppendError, CreateError, Durability, Log, ResumeError};
pub use ocsf::{OCSF_VERSION, Ocsf};
pub use read::{Ending, Reader, Report, VerifyError, read, read_from, verify, verify_from};
pub use story::Story;

/// The longest line that a log may hold. A caller bounds what it writes long before this.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// `prev` of the first record.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number, counted from 0.
    pub n: u64,
    /// Milliseconds since 1970-01-01 UTC by the host's clock.
    pub at_ms: u64,
    /// The MAC of the record before, in hex.
    pub prev: String,
    /// What kind of event it is: `header`, `repaired` and `sealed` are the log's own.
    pub kind: String,
    /// The record that caused this one.
    pub parent: Option<u64>,
    /// The event.
    pub body: Value,
    /// HMAC-SHA256 over the canonical form of everything above, in hex.
    pub mac: String,
}

/// How many records there are, and the MAC of the last. Kept by a person, it makes truncation visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Number of records.
    pub count: u64,
    /// MAC of the last record, in hex.
    pub mac: String,
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.count, self.mac)
    }
}

impl std::str::FromStr for Head {
    type Err = HeadError;

    fn from_str(text: &str) -> Result<Self, HeadError> {
        let (count, mac) = text.split_once(':').ok_or(HeadError)?;
        let count = count.parse().map_err(|_| HeadError)?;
        let hex = mac.len() == 64 && mac.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex { Ok(Head { count, mac: mac.to_owned() }) } else { Err(HeadError) }
    }
}

/// A head that is not written as `COUNT:MAC`.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a head is written as COUNT:MAC, a number and 64 hexadecimal digits")]
pub struct HeadError;

#[cfg(test)]
mod tests;
