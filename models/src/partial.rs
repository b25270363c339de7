//! How does a file grow without ever being seen half-written?
//!
//! A [`Partial`] is `partial/<sha256>.part`, locked by one puller, hashed while it grows, and renamed into the blobs
//! only when its size and hash are right. What was written before an interruption is hashed again before it is
//! trusted. Beside it, `<sha256>.wheels` remembers after which wheel it had which length, and
//! `<sha256>.scratch` is a directory for the wheel in work.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::digest::{Hasher, hash};
use crate::fetch::{FetchError, Stop};
use crate::pull::PullError;
use crate::{Digest, ModelFile};

/// A file of a model on its way in. Holding one holds the lock on it.
pub(crate) struct Partial {
    want: ModelFile,
    file: File,
    path: PathBuf,
    journal: PathBuf,
    hasher: Hasher,
    bytes_done: u64,
    committed: bool,
}

/// What a try to lock a partial file came to.
pub(crate) enum Locked {
    /// It is ours.
    Ours(Box<Partial>),
    /// Another process fetches this file and has this many bytes.
    Busy {
        /// Bytes that the other has written so far.
        bytes_done: u64,
    },
}

impl Partial {
    /// Opens the partial file, making it where it is missing, and tries to lock it.
    pub(crate) fn try_lock(dir: &Path, want: &ModelFile) -> Result<Locked, PullError> {
        let path = dir.join(format!("{}.part", want.sha256));
        loop {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let file = opened.map_err(|e| PullError::io("open", &path, e))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Ok(Locked::Busy { bytes_done: file.metadata().map_or(0, |m| m.len()) });
                }
                Err(Errno::INTR) => continue,
                Err(e) => return Err(PullError::io("lock", &path, e.into())),
            }
            // The one before us may have renamed this very file into the blobs while we waited.
            if is_still_at(&file, &path) {
                let part = Partial {
                    want: want.clone(),
                    file,
                    journal: path.with_extension("wheels"),
                    path,
                    hasher: Hasher::default(),
                    bytes_done: 0,
                    committed: false,
                };
                part.remove_scratch()?;
                return Ok(Locked::Ours(Box::new(part)));
            }
        }
    }

    /// The file that this becomes.
    pub(crate) fn want(&self) -> &ModelFile {
        &self.want
    }

    /// Bytes written and hashed.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.bytes_done
    }

    /// Bytes on disk, of which those after [`Partial::bytes_done`] are not hashed yet.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }

    /// A directory that belongs to whoever holds this.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.path.with_extension("scratch")
    }

    /// Removes the scratch directory; a puller that was killed may have left one.
    pub(crate) fn remove_scratch(&self) -> Result<(), PullError> {
        let scratch = self.scratch();
        match std::fs::remove_dir_all(&scratch) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(PullError::io("remove", &scratch, e)),
            _ => Ok(()),
        }
    }

    /// Whether this is a blob now.
    pub(crate) fn is_committed(&self) -> bool {
        self.committed
    }

    /// Keeps the first `bytes` bytes and hashes those that are not hashed yet; `go_on` may stop it.
    pub(crate) fn resume_at(&mut self, bytes: u64, go_on: &mut dyn FnMut(u64) -> bool) -> Result<(), PullError> {
        let at = bytes.min(self.bytes_on_disk());
        if at == self.bytes_done && at == self.bytes_on_disk() {
            return Ok(());
        }
        self.bytes_done = 0;
        self.hasher = Hasher::default();
        let failed = |e| PullError::io("read", &self.path, e);
        self.file.set_len(at).and_then(|()| self.file.rewind()).map_err(failed)?;
        let (bytes, hasher) = hash(&self.file, go_on).map_err(failed)?.ok_or(PullError::Cancelled)?;
        self.file.seek(SeekFrom::Start(bytes)).map_err(failed)?;
        self.bytes_done = bytes;
        self.hasher = hasher;
        Ok(())
    }

    /// Forgets everything written so far and keeps the lock.
    pub(crate) fn restart(&mut self) -> Result<(), PullError> {
        self.bytes_done = 0;
        self.hasher = Hasher::default();
        remove_if_there(&self.journal).map_err(|e| PullError::io("remove", &self.journal, e))?;
        let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
        emptied.map_err(|e| PullError::io("empty", &self.path, e))
    }

    /// Adds bytes at the end. More bytes than the file may have are the source's fault, and all are dropped.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> Result<(), Stop> {
        let bytes = self.bytes_done + chunk.len() as u64;
        if bytes > self.want.bytes {
            self.restart()?;
            return Err(FetchError::wrong_size(&self.want, bytes).into());
        }
        self.file.write_all(chunk).map_err(|e| self.write_failed(e))?;
        self.hasher.update(chunk);
        self.bytes_done = bytes;
        Ok(())
    }

    /// Checks size and hash, makes the bytes durable and shows them under their hash in `blobs`.
    pub(crate) fn commit(&mut self, blobs: &Path) -> Result<(), Stop> {
        if self.bytes_done != self.want.bytes {
            return Err(FetchError::wrong_size(&self.want, self.bytes_done).into());
        }
        let found = self.hasher.digest();
        if found != self.want.sha256 {
            self.restart()?;
            let (file, expected) = (self.want.name.clone(), self.want.sha256);
            return Err(FetchError::HashMismatch { file, expected, found }.into());
        }
        let blob = blobs.join(blob_name(self.want.sha256));
        let failed = |e| PullError::io("finish", &blob, e);
        self.file.set_permissions(PermissionsExt::from_mode(0o444)).map_err(failed)?;
        self.file.sync_all().map_err(|e| self.write_failed(e))?;
        std::fs::rename(&self.path, &blob).map_err(failed)?;
        self.committed = true;
        sync_dir(blobs).map_err(failed)?;
        remove_if_there(&self.journal).map_err(failed)?;
        Ok(())
    }

    /// The wheels whose members are already in the file: each with the length of the file after it.
    pub(crate) fn wheels_done(&self) -> Vec<(Digest, u64)> {
        let text = std::fs::read_to_string(&self.journal).unwrap_or_default();
        // A line without its newline may be cut; the wheel it speaks of is fetched again.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let entry = |line: &str| {
            let (sha256, bytes) = line.split_once(' ')?;
            Some((sha256.parse().ok()?, bytes.parse().ok()?))
        };
        whole.lines().map_while(entry).collect()
    }

    /// Makes the bytes durable, then writes down which wheels they came from.
    pub(crate) fn remember_wheels(&mut self, done: &[(Digest, u64)]) -> Result<(), PullError> {
        self.file.sync_data().map_err(|e| self.write_failed(e))?;
        let text: String = done.iter().map(|(sha256, bytes)| format!("{sha256} {bytes}\n")).collect();
        std::fs::write(&self.journal, text).map_err(|e| PullError::io("write", &self.journal, e))
    }

    fn write_failed(&self, error: io::Error) -> PullError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => PullError::NoSpace {
                path: self.path.clone(),
                needed_bytes: self.want.bytes - self.bytes_done,
                free_bytes: 0,
            },
            _ => PullError::io("write", &self.path, error),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Nothing to resume from: leave no empty file behind. The lock is still held here.
        if !self.committed && self.bytes_on_disk() == 0 {
            let _ = std::fs::remove_file(&self.path);
            let _ = remove_if_there(&self.journal);
        }
    }
}

/// The name of a file among the blobs.
pub(crate) fn blob_name(sha256: Digest) -> String {
    format!("sha256-{sha256}")
}

/// Makes renames and new names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Removes a file; that it was not there is fine.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
