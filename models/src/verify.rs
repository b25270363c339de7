//! Are the bytes on the disk still the ones that came in? Every byte is hashed again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::catalogue::is_plain_name;
use crate::digest::hash;
use crate::pull::{Origin, Progress, ProgressFn};
use crate::{Digest, ModelFile, Store, StoreError, WeightFile};

/// What became of one file.
#[derive(Debug)]
pub struct FileCheck {
    /// The file's name in the model.
    pub file: String,
    /// Where it is.
    pub path: PathBuf,
    /// What was found.
    pub verdict: Verdict,
}

/// What was found about one file.
#[derive(Debug, thiserror::Error)]
pub enum Verdict {
    /// Size and hash are what they must be.
    #[error("good")]
    Good,
    /// It is not there.
    #[error("missing")]
    Missing,
    /// It has another size.
    #[error("has {found} bytes and must have {expected}")]
    WrongSize {
        /// Bytes it must have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// It has other bytes.
    #[error("hashes to {found} and must hash to {expected}")]
    WrongHash {
        /// The sha256 it must have.
        expected: Digest,
        /// The sha256 it has.
        found: Digest,
    },
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
}

/// Why a model could not be verified at all.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Nothing of that name is here.
    #[error("there is no model `{name}` here; `cloister models list` shows what there is")]
    NotHere {
        /// The name.
        name: String,
    },
    /// The caller said stop.
    #[error("cancelled")]
    Cancelled,
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FileCheck {
    /// Whether the file is what it must be.
    pub fn is_good(&self) -> bool {
        matches!(self.verdict, Verdict::Good)
    }
}

/// One file, and what it must be. For an imported file only the hash is recorded.
struct Expected {
    name: String,
    bytes: Option<u64>,
    sha256: Digest,
}

impl Store {
    /// Hashes every file of a model again. For a model of the catalogue, what counts is the catalogue; for an imported
    /// one, the hash recorded at the import. A file that is not good is mended by `remove` and then `pull` or `import`.
    pub fn verify(
        &self,
        name: &str,
        progress: &mut ProgressFn<'_>,
        cancel: &AtomicBool,
    ) -> Result<Vec<FileCheck>, VerifyError> {
        let dir = self.model_dir().join(name);
        let expected = if !is_plain_name(name) || !dir.is_dir() {
            Vec::new()
        } else if let Some(model) = self.catalogue().get(name) {
            model.files.iter().map(Expected::known).collect()
        } else {
            self.imported_files(name)?.into_iter().filter_map(Expected::imported).collect()
        };
        if expected.is_empty() {
            return Err(VerifyError::NotHere { name: name.to_string() });
        }
        let mut checks = Vec::new();
        for file in expected {
            let path = dir.join(&file.name);
            let verdict = match judge(&path, &file, progress, cancel) {
                Ok(verdict) => verdict.ok_or(VerifyError::Cancelled)?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => Verdict::Missing,
                Err(e) => Verdict::Unreadable(e),
            };
            checks.push(FileCheck { file: file.name, path, verdict });
        }
        Ok(checks)
    }
}

impl Expected {
    fn known(file: &ModelFile) -> Expected {
        Expected { name: file.name.clone(), bytes: Some(file.bytes), sha256: file.sha256 }
    }

    fn imported(file: WeightFile) -> Option<Expected> {
        Some(Expected { name: file.name, bytes: None, sha256: file.sha256? })
    }
}

/// `None` when cancelled.
fn judge(
    path: &Path,
    expected: &Expected,
    progress: &mut ProgressFn<'_>,
    cancel: &AtomicBool,
) -> io::Result<Option<Verdict>> {
    let file = File::open(path)?;
    let found = file.metadata()?.len();
    if let Some(expected) = expected.bytes.filter(|bytes| *bytes != found) {
        return Ok(Some(Verdict::WrongSize { expected, found }));
    }
    let hashed = hash(file, |bytes_done| {
        progress(Progress { file: &expected.name, bytes_done, bytes_total: found, origin: Origin::Store });
        !cancel.load(Ordering::Relaxed)
    })?;
    let Some((_, hasher)) = hashed else {
        return Ok(None);
    };
    let found = hasher.digest();
    let expected = expected.sha256;
    Ok(Some(if expected == found { Verdict::Good } else { Verdict::WrongHash { expected, found } }))
}
