//! How does a model come in on a disk? A model of the catalogue is checked against its hashes; any other GGUF file is
//! taken under a new name, with its hash recorded.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::catalogue::is_plain_name;
use crate::digest::hash;
use crate::fetch::FetchError;
use crate::pull::{Origin, Progress, ProgressFn, PullError};
use crate::resolve::is_gguf;
use crate::{Digest, Model, ModelFile, PullOptions, Role, Source, Store, StoreError};

/// An import that ended with the model in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The name under which it is known now.
    pub name: String,
    /// The files, with their hashes.
    pub files: Vec<ModelFile>,
    /// Whether the hashes are those of the catalogue. Otherwise they are only what was found.
    pub in_catalogue: bool,
}

/// Why a model could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The name cannot be used.
    #[error("`{name}` cannot be a model's name; use letters, digits, `.`, `_` and `-`, at most 128 of them")]
    BadName {
        /// The name given.
        name: String,
    },
    /// An imported model of that name has other bytes.
    #[error("another model is named `{name}`; choose another name, or run `cloister models rm {name}` first")]
    NameTaken {
        /// The name given.
        name: String,
    },
    /// A directory can hold only a model whose files the catalogue knows.
    #[error(
        "{path} is a directory and `{name}` is not in the catalogue; give the .gguf file, or the name of one of: {}",
        known.join(", ")
    )]
    ForeignDirectory {
        /// The path given.
        path: PathBuf,
        /// The name given.
        name: String,
        /// The names in the catalogue.
        known: Vec<String>,
    },
    /// Only GGUF files can be taken without a catalogue entry.
    #[error("{path} is not a GGUF file: it does not begin with `GGUF`")]
    NotGguf {
        /// The path given.
        path: PathBuf,
    },
    /// The bytes are not those of the model in the catalogue. Nothing was kept.
    #[error("{path} is not model `{name}`: {error}")]
    Rejected {
        /// The path given.
        path: PathBuf,
        /// The model.
        name: String,
        /// What is wrong.
        error: Box<FetchError>,
    },
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The copy into the store failed.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Copies a model from a file or a directory into the store.
    ///
    /// With a name of the catalogue the files must hash to what the catalogue says. With any other name the path must
    /// be a GGUF file; it is known by that name from then on.
    pub fn import(
        &self,
        path: &Path,
        name: &str,
        progress: &mut ProgressFn<'_>,
        cancel: &AtomicBool,
    ) -> Result<Imported, ImportError> {
        let known = self.catalogue().get(name);
        let model = match known {
            Some(model) => Model { sources: vec![source(path)], ..model.clone() },
            None => self.foreign(path, name, progress, cancel)?,
        };
        match self.pull(&model, &PullOptions::default(), progress, cancel) {
            Ok(_) => Ok(Imported { name: model.name, files: model.files, in_catalogue: known.is_some() }),
            Err(PullError::AllSourcesFailed { attempts, .. }) => {
                // One source, so one attempt, or two of which the second began from nothing.
                let last = attempts.into_iter().next_back().expect("a source that failed left an attempt");
                let (path, name) = (path.to_path_buf(), model.name);
                Err(ImportError::Rejected { path, name, error: Box::new(last.error) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A model of one file that nobody vouches for.
    fn foreign(
        &self,
        path: &Path,
        name: &str,
        progress: &mut ProgressFn<'_>,
        cancel: &AtomicBool,
    ) -> Result<Model, ImportError> {
        if !is_plain_name(name) {
            return Err(ImportError::BadName { name: name.to_string() });
        }
        if path.is_dir() {
            let known = self.catalogue().models().iter().map(|model| model.name.clone()).collect();
            return Err(ImportError::ForeignDirectory { path: path.to_path_buf(), name: name.to_string(), known });
        }
        let io_failed = |source| ImportError::Io { path: path.to_path_buf(), source };
        if !is_gguf(path).map_err(io_failed)? {
            return Err(ImportError::NotGguf { path: path.to_path_buf() });
        }
        let file = File::open(path).map_err(io_failed)?;
        let bytes_total = file.metadata().map_err(io_failed)?.len();
        let file_name = format!("{name}.gguf");
        let hashed = hash(file, |bytes_done| {
            progress(Progress { file: &file_name, bytes_done, bytes_total, origin: Origin::Path });
            !cancel.load(Ordering::Relaxed)
        });
        let (bytes, hasher) = hashed.map_err(io_failed)?.ok_or(PullError::Cancelled)?;
        let sha256 = hasher.digest();
        self.require_free_name(name, sha256)?;
        Ok(Model {
            name: name.to_string(),
            role: Role::Chat,
            licence: "unknown".to_string(),
            files: vec![ModelFile { name: file_name, bytes, sha256 }],
            sources: vec![source(path)],
        })
    }

    fn require_free_name(&self, name: &str, sha256: Digest) -> Result<(), ImportError> {
        let same = |file: &crate::WeightFile| file.sha256 == Some(sha256);
        let files = self.imported_files(name)?;
        if files.iter().all(same) { Ok(()) } else { Err(ImportError::NameTaken { name: name.to_string() }) }
    }
}

fn source(path: &Path) -> Source {
    Source::Path { path: path.to_path_buf() }
}
