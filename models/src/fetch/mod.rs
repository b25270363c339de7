//! How are bytes asked for? One file per kind of source; all of them end in a [`Partial`].

mod hf;
mod local;
mod pip;
mod wheels;

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

pub(crate) use hf::fetch as hf;
pub(crate) use local::fetch as local;
pub use pip::Pip;
pub(crate) use wheels::fetch as wheels;

use crate::digest::CHUNK_BYTES;
use crate::partial::Partial;
use crate::pull::{Origin, ProgressFn, PullError};
use crate::{Digest, ModelFile, PullOptions, Store};

/// Why one source did not do. The next one is tried.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No connection, no name, no TLS, or no answer in time.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// Why it failed.
        reason: String,
    },
    /// The server answered, and not with the file.
    #[error("{url} answered with HTTP status {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The transfer broke off, and broke off again without progress when it was resumed.
    #[error("the transfer of {file} broke off after {bytes_done} bytes: {reason}")]
    Interrupted {
        /// The file.
        file: String,
        /// Bytes that are here; the next pull goes on from them.
        bytes_done: u64,
        /// Why it broke off.
        reason: String,
    },
    /// The source has a file of another size.
    #[error("{file} must have {expected} bytes and this source has {found}")]
    WrongSize {
        /// The file.
        file: String,
        /// The size in the catalogue.
        expected: u64,
        /// The size found, or as much of it as was read.
        found: u64,
    },
    /// The source gave other bytes. They were dropped.
    #[error("{file} must have sha256 {expected} and this source's bytes have {found}; they were dropped")]
    HashMismatch {
        /// The file.
        file: String,
        /// The sha256 in the catalogue.
        expected: Digest,
        /// The sha256 of the bytes.
        found: Digest,
    },
    /// A path source has no such file.
    #[error("cannot read {path}: {source}")]
    Local {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A path source is one file and the model has several.
    #[error("{path} is one file and the model has {files}; give the directory that holds them by name")]
    NotADirectory {
        /// The path given.
        path: PathBuf,
        /// How many files the model has.
        files: usize,
    },
    /// There is no Python.
    #[error("cannot run `{python}`: {source}; the wheels source needs Python 3 with pip")]
    NoPython {
        /// The program that was tried.
        python: String,
        /// Why it failed.
        source: io::Error,
    },
    /// There is a Python and no pip.
    #[error("`{python} -m pip` does not work; the wheels source needs pip (on Debian: apt-get install python3-pip)")]
    NoPip {
        /// The Python that was tried.
        python: String,
    },
    /// pip ran and did not bring the wheel.
    #[error("pip could not download {package}=={version}: {stderr_tail}")]
    Pip {
        /// The package.
        package: String,
        /// Its version.
        version: String,
        /// The end of what pip had to say.
        stderr_tail: String,
    },
    /// pip took too long and was killed.
    #[error("pip did not download {package} within {seconds} seconds")]
    PipTimeout {
        /// The package.
        package: String,
        /// The limit.
        seconds: u64,
    },
    /// The mirror has another wheel under that name and version. It was dropped unread.
    #[error("wheel {package} must have sha256 {expected} and the mirror's has {found}; it was dropped unread")]
    WheelMismatch {
        /// The package.
        package: String,
        /// The sha256 in the catalogue.
        expected: Digest,
        /// The sha256 of the wheel.
        found: Digest,
    },
    /// The wheel is right and a member cannot be taken out of it.
    #[error("cannot take {member} out of wheel {package}: {reason}")]
    Member {
        /// The package.
        package: String,
        /// The member.
        member: String,
        /// Why it failed.
        reason: String,
    },
    /// The source's own settings are wrong.
    #[error("{what}: {reason}")]
    Settings {
        /// The setting.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl FetchError {
    pub(crate) fn wrong_size(want: &ModelFile, found: u64) -> FetchError {
        FetchError::WrongSize { file: want.name.clone(), expected: want.bytes, found }
    }
}

/// Why a source stopped: its own fault, so that the next one is tried, or ours, so that the pull ends.
pub(crate) enum Stop {
    Source(FetchError),
    Pull(PullError),
}

impl From<FetchError> for Stop {
    fn from(error: FetchError) -> Stop {
        Stop::Source(error)
    }
}

impl From<PullError> for Stop {
    fn from(error: PullError) -> Stop {
        Stop::Pull(error)
    }
}

/// What every source needs while it runs.
pub(crate) struct Transfer<'a, 'p> {
    pub(crate) store: &'a Store,
    pub(crate) options: &'a PullOptions,
    pub(crate) progress: &'a mut ProgressFn<'p>,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) origin: Origin,
}

impl Transfer<'_, '_> {
    /// Copies a reader to its end into a file, chunk by chunk. `broken` says whose fault a failed read is.
    fn copy(
        &mut self,
        from: &mut dyn Read,
        part: &mut Partial,
        broken: &dyn Fn(io::Error) -> FetchError,
    ) -> Result<(), Stop> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            self.check_cancel()?;
            match from.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => part.append(&chunk[..n])?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(broken(e).into()),
            }
            self.tell(part.want(), part.bytes_done());
        }
    }

    /// Keeps the first bytes of a file that an earlier pull left, after hashing them again.
    fn resume_at(&mut self, part: &mut Partial, bytes: u64) -> Result<(), PullError> {
        let origin = std::mem::replace(&mut self.origin, Origin::Store);
        let want = part.want().clone();
        let result = part.resume_at(bytes, &mut |done| {
            self.tell(&want, done);
            self.check_cancel().is_ok()
        });
        self.origin = origin;
        result
    }
}
