//! What did a person mean by a model's name, and where are its files?

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::store::link_digest;
use crate::{Digest, Model, ModelFile, Role, Store, StoreError};

/// A model that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// The model's name; for a path, the file name without its ending.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Its files.
    pub files: Vec<WeightFile>,
}

/// One file of a model that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightFile {
    /// The file's name in the model.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What it hashed to when it came into the store; `None` for a file outside the store.
    pub sha256: Option<Digest>,
}

impl Weights {
    /// The file of that name.
    pub fn file(&self, name: &str) -> Option<&WeightFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// The GGUF file, where the model is one.
    pub fn gguf(&self) -> Option<&WeightFile> {
        self.files.iter().find(|file| file.name.ends_with(".gguf"))
    }
}

/// Why a file of a model has no path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The model has no such file.
    #[error("model `{model}` has no file `{file}`")]
    NoSuchFile {
        /// The model.
        model: String,
        /// The file asked for.
        file: String,
    },
    /// The model is not here, or not all of it.
    #[error("model `{model}` is not here; run `cloister models pull {model}`")]
    NotHere {
        /// The model.
        model: String,
    },
    /// The file in the store does not have the size it must have.
    #[error("file `{file}` of model `{model}` is damaged; run `cloister models pull {model}` to fetch it again")]
    Damaged {
        /// The model.
        model: String,
        /// The file.
        file: String,
    },
}

/// Why a name or a path is no model.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Neither a known name nor a file.
    #[error("`{asked}` is neither a model nor a .gguf file; the models are: {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        asked: String,
        /// The names that are known.
        known: Vec<String>,
    },
    /// A model of the catalogue that is not here.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The bytes of an imported model have gone.
    #[error("{path} of the imported model `{name}` has gone; run `cloister models rm {name}` and import it again")]
    Gone {
        /// The model.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// A file that is not a GGUF file.
    #[error("{path} is not a GGUF file: it does not begin with `GGUF`")]
    NotGguf {
        /// The file.
        path: PathBuf,
    },
    /// The file or the store could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl Store {
    /// Where a file of a model is. Looks at the file's size and not at its bytes; for those see [`Store::verify`].
    pub fn path(&self, model: &Model, file: &str) -> Result<PathBuf, PathError> {
        let Some(wanted) = model.file(file) else {
            return Err(PathError::NoSuchFile { model: model.name.clone(), file: file.to_string() });
        };
        let path = self.model_dir().join(&model.name).join(file);
        let shown = link_digest(&path);
        match std::fs::metadata(&path) {
            Ok(there) if there.len() == wanted.bytes && shown == Some(wanted.sha256) => Ok(path),
            Ok(_) => Err(PathError::Damaged { model: model.name.clone(), file: file.to_string() }),
            Err(_) => Err(PathError::NotHere { model: model.name.clone() }),
        }
    }

    /// Finds what a person meant: a model of the catalogue, an imported one, or a path to a .gguf file.
    pub fn resolve(&self, name_or_path: &str) -> Result<Weights, ResolveError> {
        let io_failed = |e: StoreError| ResolveError::Io { path: self.model_dir(), source: io::Error::other(e) };
        if let Some(model) = self.catalogue().get(name_or_path) {
            return Ok(self.weights(model)?);
        }
        let imported = self.imported().map_err(io_failed)?;
        if imported.iter().any(|name| name == name_or_path) {
            let files = self.imported_files(name_or_path).map_err(io_failed)?;
            if let Some(gone) = files.iter().find(|file| !file.path.exists()) {
                return Err(ResolveError::Gone { name: name_or_path.to_string(), path: gone.path.clone() });
            }
            return Ok(Weights { name: name_or_path.to_string(), role: Role::Chat, files });
        }
        let path = Path::new(name_or_path);
        if path.is_file() {
            return outside(path);
        }
        let known = self.catalogue().models().iter().map(|model| model.name.clone()).chain(imported).collect();
        Err(ResolveError::Unknown { asked: name_or_path.to_string(), known })
    }

    /// The files of a model that is here as a whole.
    pub fn weights(&self, model: &Model) -> Result<Weights, PathError> {
        let file = |file: &ModelFile| {
            let (name, bytes, sha256) = (file.name.clone(), file.bytes, Some(file.sha256));
            self.path(model, &name).map(|path| WeightFile { name, path, bytes, sha256 })
        };
        let files = model.files.iter().map(file).collect::<Result<_, _>>()?;
        Ok(Weights { name: model.name.clone(), role: model.role, files })
    }
}

/// Whether a file begins as a GGUF file does.
pub(crate) fn is_gguf(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 4];
    match File::open(path)?.read_exact(&mut magic) {
        Ok(()) => Ok(&magic == b"GGUF"),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn outside(path: &Path) -> Result<Weights, ResolveError> {
    let io_failed = |source| ResolveError::Io { path: path.to_path_buf(), source };
    if !is_gguf(path).map_err(io_failed)? {
        return Err(ResolveError::NotGguf { path: path.to_path_buf() });
    }
    let lossy = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let mut file_name = lossy(path.file_name());
    if !file_name.ends_with(".gguf") {
        file_name.push_str(".gguf");
    }
    let bytes = std::fs::metadata(path).map_err(io_failed)?.len();
    let file = WeightFile { name: file_name, path: path.to_path_buf(), bytes, sha256: None };
    Ok(Weights { name: lossy(path.file_stem()), role: Role::Chat, files: vec![file] })
}
