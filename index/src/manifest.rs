//! What does the index hold, and is what lies on disk what was committed?
//!
//! The manifest is the commit point: one small file, replaced whole by rename. It names everything else: the segments
//! of the table of files and of our own lanes, the directories of the text and the vector lane, and the generation
//! that the text lane must bear. Layout: a segment of kind `CLMANIF` with two sections, both of varints, texts with
//! their length before them and numbers that can be negative in zigzag: the head, in the order of [`Manifest`]'s
//! fields, and the skipped paths, each by what it does not share with the one before and the number of its reason.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rustc_hash::FxHashSet;

use crate::chunk::CHUNKER_VERSION;
use crate::embed::Embedder;
use crate::files::Files;
use crate::files_segment::{self, put_path, take_path};
use crate::report::{SkipReason, Skipped};
use crate::segment::{Format, Segment, SegmentError, SegmentWriter, Tag};
use crate::store::{FILES_PREFIX, MANIFEST_TEMP_PREFIX};
use crate::tokenize::TOKENIZER_VERSION;
use crate::varint::{put, put_ascending, put_text, take, take_ascending, take_text};

pub(crate) const MANIFEST_NAME: &str = "manifest";
/// What a damaged manifest is called once a sound one has taken its name.
pub(crate) const DAMAGED_MANIFEST: &str = "damaged-manifest";
/// Changes whenever the layout of the manifest, of a segment or of the text lane changes.
const FORMAT: Format = Format { kind: *b"CLMANIF\0", version: 4 };
const HEAD: Tag = 1;
const SKIPPED: Tag = 2;

/// What shaped the chunks and the text lane. Any difference means a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versions {
    pub chunker: u32,
    pub tokenizer: u32,
    /// The tree that was indexed.
    pub root: String,
}

impl Versions {
    /// Those of this build for this tree.
    pub(crate) fn current(root: &Path) -> Versions {
        Versions { chunker: CHUNKER_VERSION, tokenizer: TOKENIZER_VERSION, root: root.to_string_lossy().into_owned() }
    }
}

/// Where the vectors are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VectorRecord {
    pub directory: String,
    pub embedder: String,
    pub dimension: usize,
    /// Chunks of this generation that have no vector (the embedder failed, or was absent).
    pub missing: usize,
}

impl VectorRecord {
    /// Whether these are vectors of this embedder.
    pub(crate) fn is_of(&self, embedder: &dyn Embedder) -> bool {
        self.embedder == embedder.name() && self.dimension == embedder.dimension()
    }
}

/// Everything that the index knows beside the files and the lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub versions: Versions,
    /// Grows whenever an answer could differ.
    pub generation: u64,
    /// Seconds since the epoch of the last refresh.
    pub refreshed_at: u64,
    /// The number of the next new file.
    pub next_file: u32,
    pub lexical_directory: String,
    /// The generation of the commit of the text lane that belongs to this manifest.
    pub lexical_generation: u64,
    pub vector: Option<VectorRecord>,
    /// Names of files in the store, oldest first: parts of the table of files, and segments of our own lanes.
    pub segments: Vec<String>,
    /// Numbers that a part of the table still names although they are gone.
    pub dead: Vec<u32>,
    /// Numbers that the text lane still holds although they are gone.
    pub unpurged: Vec<u32>,
    /// What was left out and is not in the table of files either.
    pub skipped: Vec<Skipped>,
}

impl Manifest {
    /// Reads the manifest of a store. `Ok(None)` where there is none yet.
    pub(crate) fn read(store: &Path) -> Result<Option<Manifest>, ManifestError> {
        let segment = match Segment::open(&store.join(MANIFEST_NAME), FORMAT) {
            Ok(segment) => segment,
            Err(SegmentError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        segment.verify()?;
        let mut manifest = take_manifest(&mut segment.section(HEAD)).ok_or(ManifestError::Damaged)?;
        manifest.skipped = take_skipped(segment.section(SKIPPED)).ok_or(ManifestError::Damaged)?;
        Ok(Some(manifest))
    }

    /// Replaces the manifest of a store: temporary file, fsync, rename, fsync of the directory.
    pub(crate) fn write(&self, store: &Path) -> io::Result<()> {
        let path = store.join(format!("{MANIFEST_TEMP_PREFIX}{}", std::process::id()));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut writer = SegmentWriter::create(&path, FORMAT)?;
        writer.section(HEAD)?;
        writer.write_all(&put_manifest(self))?;
        writer.section(SKIPPED)?;
        writer.write_all(&put_skipped(&self.skipped))?;
        writer.finish()?;
        fs::rename(&path, store.join(MANIFEST_NAME))?;
        File::open(store)?.sync_all()
    }

    /// The table of files that this manifest names.
    pub(crate) fn files(&self, store: &Path) -> Result<Files, SegmentError> {
        let mut files = Files::default();
        for name in self.segments_of(FILES_PREFIX) {
            files_segment::read(&store.join(name), &mut files)?;
        }
        files.settle(&self.dead.iter().copied().collect::<FxHashSet<u32>>());
        Ok(files)
    }

    /// The segments of one lane, oldest first.
    pub(crate) fn segments_of(&self, prefix: &str) -> impl Iterator<Item = &str> {
        self.segments.iter().map(String::as_str).filter(move |name| name.starts_with(prefix))
    }

    /// Everything in the store that belongs to this manifest.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        names.push(&self.lexical_directory);
        names.extend(self.vector.as_ref().map(|vector| vector.directory.as_str()));
        names
    }
}

fn put_manifest(manifest: &Manifest) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, manifest.versions.chunker.into());
    put(&mut bytes, manifest.versions.tokenizer.into());
    put_text(&mut bytes, &manifest.versions.root);
    put(&mut bytes, manifest.generation);
    put(&mut bytes, manifest.refreshed_at);
    put(&mut bytes, manifest.next_file.into());
    put_text(&mut bytes, &manifest.lexical_directory);
    put(&mut bytes, manifest.lexical_generation);
    put(&mut bytes, manifest.vector.is_some().into());
    if let Some(vector) = &manifest.vector {
        put_text(&mut bytes, &vector.directory);
        put_text(&mut bytes, &vector.embedder);
        put(&mut bytes, vector.dimension as u64);
        put(&mut bytes, vector.missing as u64);
    }
    put(&mut bytes, manifest.segments.len() as u64);
    manifest.segments.iter().for_each(|name| put_text(&mut bytes, name));
    put_ascending(&mut bytes, &manifest.dead);
    put_ascending(&mut bytes, &manifest.unpurged);
    bytes
}

fn take_manifest(bytes: &mut &[u8]) -> Option<Manifest> {
    let versions = Versions {
        chunker: u32::try_from(take(bytes)?).ok()?,
        tokenizer: u32::try_from(take(bytes)?).ok()?,
        root: take_text(bytes)?,
    };
    let (generation, refreshed_at) = (take(bytes)?, take(bytes)?);
    let next_file = u32::try_from(take(bytes)?).ok()?;
    let (lexical_directory, lexical_generation) = (take_text(bytes)?, take(bytes)?);
    let vector = match take(bytes)? {
        0 => None,
        _ => Some(VectorRecord {
            directory: take_text(bytes)?,
            embedder: take_text(bytes)?,
            dimension: usize::try_from(take(bytes)?).ok()?,
            missing: usize::try_from(take(bytes)?).ok()?,
        }),
    };
    let count = take(bytes)?;
    let segments = (0..count).map(|_| take_text(bytes)).collect::<Option<_>>()?;
    Some(Manifest {
        versions,
        generation,
        refreshed_at,
        next_file,
        lexical_directory,
        lexical_generation,
        vector,
        segments,
        dead: take_ascending(bytes)?,
        unpurged: take_ascending(bytes)?,
        skipped: Vec::new(),
    })
}

fn put_skipped(skipped: &[Skipped]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = "";
    for skip in skipped {
        put_path(&mut bytes, last, &skip.path);
        bytes.push(skip.reason.number());
        last = &skip.path;
    }
    bytes
}

fn take_skipped(mut bytes: &[u8]) -> Option<Vec<Skipped>> {
    let (mut skipped, mut path) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        take_path(&mut bytes, &mut path)?;
        let (reason, rest) = bytes.split_first()?;
        bytes = rest;
        let path = String::from_utf8(path.clone()).ok()?;
        skipped.push(Skipped { path, reason: SkipReason::of_number(*reason)? });
    }
    Some(skipped)
}

/// Why a manifest could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("the manifest cannot be read: {0}")]
    Read(io::Error),
    #[error("the manifest is damaged")]
    Damaged,
    #[error("the manifest is of another version of the indexer")]
    Version,
}

impl From<SegmentError> for ManifestError {
    fn from(error: SegmentError) -> ManifestError {
        match error {
            SegmentError::Io(error) => ManifestError::Read(error),
            SegmentError::Format => ManifestError::Version,
            SegmentError::Damaged => ManifestError::Damaged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let skip = |path: &str, reason| Skipped { path: path.to_owned(), reason };
        Manifest {
            versions: Versions { chunker: 3, tokenizer: 500, root: "/tree/ä".to_owned() },
            generation: 1 << 40,
            refreshed_at: 1_700_000_000,
            next_file: 70_000,
            lexical_directory: "lexical-4".to_owned(),
            lexical_generation: 12,
            vector: Some(VectorRecord {
                directory: "vector-1".to_owned(),
                embedder: "an embedder".to_owned(),
                dimension: 256,
                missing: 3,
            }),
            segments: vec!["files-1".to_owned(), "trigram-9".to_owned(), "files-3".to_owned()],
            dead: vec![1, 5, 900_000],
            unpurged: vec![],
            skipped: vec![skip("a/b.bin", SkipReason::Binary), skip("a/ü/c", SkipReason::TooMany)],
        }
    }

    #[test]
    fn a_manifest_comes_back_as_it_was_written() {
        let store = tempfile::tempdir().unwrap();
        assert!(Manifest::read(store.path()).unwrap().is_none());
        for manifest in [sample(), Manifest { vector: None, skipped: vec![], dead: vec![], ..sample() }] {
            manifest.write(store.path()).unwrap();
            assert_eq!(Manifest::read(store.path()).unwrap(), Some(manifest));
        }
        let manifest = sample();
        assert_eq!(manifest.segments_of("files-").collect::<Vec<_>>(), ["files-1", "files-3"]);
    }

    #[test]
    fn noise_is_no_manifest() {
        let store = tempfile::tempdir().unwrap();
        for noise in [&b"noise"[..], b"", &[7; 4096]] {
            fs::write(store.path().join(MANIFEST_NAME), noise).unwrap();
            assert!(Manifest::read(store.path()).is_err());
        }
    }
}
