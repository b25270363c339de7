//! What does the index hold, and is what lies on disk what was committed?
//!
//! The manifest is the commit point: one file, replaced whole by rename. It names the directories of the lanes and
//! the generation that the text lane must bear. It begins with the SHA-256 of the rest, so that a damaged one is
//! known as such.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::admit::Stamp;
use crate::chunk::{CHUNKER_VERSION, ChunkRecord};
use crate::hash::sha256_hex;
use crate::outline::Definition;
use crate::report::Skipped;
use crate::tokenize::TOKENIZER_VERSION;

pub(crate) const MANIFEST_NAME: &str = "manifest";
/// Changes whenever the layout of the manifest or of the text lane changes.
const FORMAT_VERSION: u32 = 2;

/// What shaped the chunks and the text lane. Any difference means a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    pub format: u32,
    pub chunker: u32,
    pub tokenizer: u32,
    /// The tree that was indexed.
    pub root: String,
}

impl Versions {
    /// Those of this build for this tree.
    pub(crate) fn current(root: &Path) -> Versions {
        Versions {
            format: FORMAT_VERSION,
            chunker: CHUNKER_VERSION,
            tokenizer: TOKENIZER_VERSION,
            root: root.to_string_lossy().into_owned(),
        }
    }
}

/// Where the vectors are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VectorRecord {
    pub directory: String,
    pub embedder: String,
    pub dimension: usize,
    /// Chunks of this generation that have no vector (the embedder failed, or was absent).
    pub missing: usize,
}

/// One indexed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Of the whole content.
    pub sha256: String,
    pub stamp: Stamp,
    pub lines: usize,
    /// Whether bytes were replaced because they were not UTF-8.
    #[serde(default)]
    pub lossy: bool,
    pub chunks: Vec<ChunkRecord>,
    pub definitions: Vec<Definition>,
}

/// Everything that the index knows beside the lanes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub versions: Versions,
    pub generation: u64,
    /// Seconds since the epoch of the last refresh that found the tree to be like this.
    pub refreshed_at: u64,
    /// Nanoseconds since the epoch at which the walk of that refresh began.
    pub walked_at: i64,
    pub lexical_directory: String,
    pub vector: Option<VectorRecord>,
    pub files: BTreeMap<String, FileRecord>,
    pub skipped: Vec<Skipped>,
}

impl Manifest {
    /// Reads the manifest of a store. `Ok(None)` where there is none yet.
    pub(crate) fn read(store: &Path) -> Result<Option<Manifest>, ManifestError> {
        let bytes = match fs::read(store.join(MANIFEST_NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ManifestError::Read(error)),
        };
        let at = bytes.iter().position(|&byte| byte == b'\n').ok_or(ManifestError::Damaged)?;
        let (digest, body) = (&bytes[..at], &bytes[at + 1..]);
        if sha256_hex(body).as_bytes() != digest {
            return Err(ManifestError::Damaged);
        }
        serde_json::from_slice(body).map(Some).map_err(ManifestError::Format)
    }

    /// Replaces the manifest of a store: temporary file, fsync, rename, fsync of the directory.
    pub(crate) fn write(&self, store: &Path) -> io::Result<()> {
        let body = serde_json::to_vec(self)?;
        let mut file = tempfile::Builder::new().prefix(".manifest-").tempfile_in(store)?;
        file.write_all(sha256_hex(&body).as_bytes())?;
        file.write_all(b"\n")?;
        file.write_all(&body)?;
        file.as_file().sync_all()?;
        file.persist(store.join(MANIFEST_NAME)).map_err(|error| error.error)?;
        File::open(store)?.sync_all()
    }

    pub(crate) fn chunk_count(&self) -> usize {
        self.files.values().map(|file| file.chunks.len()).sum()
    }

    pub(crate) fn definition_count(&self) -> usize {
        self.files.values().map(|file| file.definitions.len()).sum()
    }

    pub(crate) fn line_count(&self) -> usize {
        self.files.values().map(|file| file.lines).sum()
    }
}

/// Why a manifest could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("the manifest cannot be read: {0}")]
    Read(io::Error),
    #[error("the manifest is damaged: its checksum does not match")]
    Damaged,
    #[error("the manifest has another format: {0}")]
    Format(serde_json::Error),
}
