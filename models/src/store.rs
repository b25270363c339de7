//! Which models are here, and at which paths?
//!
//! ```text
//! store/blobs/sha256-<hex>           whole files, by their hash
//! store/models/<name>/<file>         relative links into blobs; a model that is here is here as a whole
//! store/partial/<hex>.part           files on their way in
//! store/tables/<name>                what other rooms have computed from models; never the only copy of anything
//! store/lock                         held while links or blobs are taken away or added
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::catalogue::is_plain_name;
use crate::partial::{Locked, Partial, blob_name, remove_if_there, sync_dir};
use crate::{Catalogue, Digest, Home, Model, ModelFile, Role, WeightFile};

/// Says how many bytes an ordinary user may still write at a path.
pub type FreeBytes = fn(&Path) -> io::Result<u64>;

/// The models on this host.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    catalogue: Catalogue,
    free_bytes: FreeBytes,
}

/// The store itself failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file of the store could not be read or written.
    #[error("cannot {doing} {path} in the model store: {source}; check its owner and rights, or set CLOISTER_HOME")]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A model was to be shown and one of its files has gone meanwhile.
    #[error("file `{file}` of model `{model}` was removed by another process meanwhile; pull the model again")]
    Vanished {
        /// The model.
        model: String,
        /// The file.
        file: String,
    },
}

/// One line of the list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The model's name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Its licence; `None` for a model that somebody imported.
    pub licence: Option<String>,
    /// Whether all of it is here.
    pub present: bool,
    /// The size of all its files, in bytes.
    pub bytes: u64,
    /// Bytes of an interrupted pull that the next one goes on from.
    pub partial_bytes: u64,
}

/// What a removal took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Bytes that are free now. Less than the model's size where another model shares a file.
    pub bytes_freed: u64,
    /// Whether anything was there to remove.
    pub was_here: bool,
}

impl Store {
    /// Opens the store of a home with the built-in catalogue, and makes its directories where they are missing.
    pub fn open(home: &Home) -> Result<Store, StoreError> {
        let root = home.join("store");
        let failed = |source| StoreError::Io { doing: "make", path: root.clone(), source };
        home.make().map_err(|e| failed(io::Error::other(e)))?;
        let store = Store { root: root.clone(), catalogue: Catalogue::builtin(), free_bytes: free_bytes_of };
        for dir in [store.blob_dir(), store.model_dir(), store.partial_dir()] {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        Ok(store)
    }

    /// The same store with another catalogue.
    pub fn with_catalogue(self, catalogue: Catalogue) -> Store {
        Store { catalogue, ..self }
    }

    /// The same store with another way to ask for the free disk space.
    pub fn with_free_bytes(self, free_bytes: FreeBytes) -> Store {
        Store { free_bytes, ..self }
    }

    /// The models that the store knows how to get.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Every model of the catalogue, here or not, then every imported one.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries: Vec<Entry> = self.catalogue.models().iter().map(|model| self.entry(model)).collect();
        for name in self.imported()? {
            let files = self.imported_files(&name)?;
            let present = files.iter().all(|file| file.path.exists());
            let bytes = files.iter().map(|file| file.bytes).sum();
            entries.push(Entry { name, role: Role::Chat, licence: None, present, bytes, partial_bytes: 0 });
        }
        Ok(entries)
    }

    /// Takes a model away, and every blob of it that no other model refers to. Half-done pulls of it go too, unless
    /// a process is at them.
    pub fn remove(&self, name: &str) -> Result<Removed, StoreError> {
        let _lock = self.lock()?;
        let dir = self.model_dir().join(name);
        let mut removed = Removed { bytes_freed: 0, was_here: is_plain_name(name) && dir.is_dir() };
        let in_catalogue = self.catalogue.get(name).map_or(&[][..], |model| &model.files);
        // An interrupted pull may have left a blob that no model shows yet.
        let mut blobs: BTreeSet<Digest> = in_catalogue.iter().map(|file| file.sha256).collect();
        if removed.was_here {
            blobs.extend(self.linked(&dir)?);
            self.take_away(&dir)?;
        }
        for other in self.shown()? {
            for kept in self.linked(&self.model_dir().join(other))? {
                blobs.remove(&kept);
            }
        }
        for blob in blobs {
            let path = self.blob_dir().join(blob_name(blob));
            removed.bytes_freed += std::fs::metadata(&path).map_or(0, |m| m.len());
            remove_if_there(&path).map_err(|e| failed("remove", &path, e))?;
        }
        for file in in_catalogue {
            removed.bytes_freed += self.remove_partial(file);
        }
        removed.was_here |= removed.bytes_freed > 0;
        Ok(removed)
    }

    /// Where other rooms keep what they have computed from models. It may not be there yet.
    pub fn tables(&self) -> PathBuf {
        self.root.join("tables")
    }

    pub(crate) fn blob_dir(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(crate) fn model_dir(&self) -> PathBuf {
        self.root.join("models")
    }

    pub(crate) fn partial_dir(&self) -> PathBuf {
        self.root.join("partial")
    }

    pub(crate) fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        (self.free_bytes)(path)
    }

    /// Whether a file's bytes are among the blobs, by name and size.
    pub(crate) fn has(&self, file: &ModelFile) -> bool {
        let path = self.blob_dir().join(blob_name(file.sha256));
        std::fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() == file.bytes)
    }

    /// Shows a model whose files are all here: a directory of links, made aside and renamed into place.
    pub(crate) fn link(&self, name: &str, files: &[ModelFile]) -> Result<(), StoreError> {
        let shown = self.model_dir().join(name);
        let right = |file: &ModelFile| self.has(file) && link_digest(&shown.join(&file.name)) == Some(file.sha256);
        if files.iter().all(right) {
            return Ok(());
        }
        let _lock = self.lock()?;
        if let Some(file) = files.iter().find(|file| !self.has(file)) {
            return Err(StoreError::Vanished { model: name.to_string(), file: file.name.clone() });
        }
        let aside = self.partial_dir().join(format!("{name}.links"));
        let made = || -> io::Result<()> {
            if aside.exists() {
                std::fs::remove_dir_all(&aside)?;
            }
            std::fs::create_dir(&aside)?;
            for file in files {
                let target = Path::new("../../blobs").join(blob_name(file.sha256));
                symlink(target, aside.join(&file.name))?;
            }
            sync_dir(&aside)
        };
        made().map_err(|e| failed("make", &aside, e))?;
        if shown.exists() {
            self.take_away(&shown)?;
        }
        let renamed = std::fs::rename(&aside, &shown).and_then(|()| sync_dir(&self.model_dir()));
        renamed.map_err(|e| failed("make", &shown, e))
    }

    /// The names of the imported models.
    pub(crate) fn imported(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.shown()?;
        names.retain(|name| self.catalogue.get(name).is_none() && self.model_dir().join(name).is_dir());
        Ok(names)
    }

    /// The files of an imported model, as its links have them.
    pub(crate) fn imported_files(&self, name: &str) -> Result<Vec<WeightFile>, StoreError> {
        let dir = self.model_dir().join(name);
        let file = |name: String| {
            let path = dir.join(&name);
            let sha256 = Some(link_digest(&path)?);
            let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
            Some(WeightFile { name, path, bytes, sha256 })
        };
        Ok(names_in(&dir)?.into_iter().filter_map(file).collect())
    }

    fn entry(&self, model: &Model) -> Entry {
        let part = |file: &ModelFile| self.partial_dir().join(format!("{}.part", file.sha256));
        let partial_bytes = |file: &ModelFile| std::fs::metadata(part(file)).map_or(0, |m| m.len());
        Entry {
            name: model.name.clone(),
            role: model.role,
            licence: Some(model.licence.clone()),
            present: self.weights(model).is_ok(),
            bytes: model.bytes(),
            partial_bytes: model.files.iter().map(partial_bytes).sum(),
        }
    }

    /// The names under which models are shown.
    fn shown(&self) -> Result<Vec<String>, StoreError> {
        names_in(&self.model_dir())
    }

    fn linked(&self, dir: &Path) -> Result<BTreeSet<Digest>, StoreError> {
        Ok(names_in(dir)?.iter().filter_map(|name| link_digest(&dir.join(name))).collect())
    }

    /// Makes a shown model vanish in one step, then removes it.
    fn take_away(&self, dir: &Path) -> Result<(), StoreError> {
        let aside = self.partial_dir().join("removed");
        let gone = || -> io::Result<()> {
            if aside.exists() {
                std::fs::remove_dir_all(&aside)?;
            }
            std::fs::rename(dir, &aside)?;
            sync_dir(&self.model_dir())?;
            std::fs::remove_dir_all(&aside)
        };
        gone().map_err(|e| failed("remove", dir, e))
    }

    fn remove_partial(&self, file: &ModelFile) -> u64 {
        match Partial::try_lock(&self.partial_dir(), file) {
            Ok(Locked::Ours(mut part)) => {
                let bytes = part.bytes_on_disk();
                // An empty partial file is removed when it is dropped.
                if part.restart().is_ok() { bytes } else { 0 }
            }
            Ok(Locked::Busy { .. }) | Err(_) => 0,
        }
    }

    fn lock(&self) -> Result<File, StoreError> {
        let path = self.root.join("lock");
        let file = File::create(&path).map_err(|e| failed("lock", &path, e))?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(failed("lock", &path, e.into())),
            }
        }
    }
}

/// The hash that a link of a model stands for: its target's name carries it.
pub(crate) fn link_digest(link: &Path) -> Option<Digest> {
    let target = std::fs::read_link(link).ok()?;
    target.file_name()?.to_str()?.strip_prefix("sha256-")?.parse().ok()
}

/// The plain names in a directory, sorted; none where there is no directory.
fn names_in(dir: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed("list", dir, e)),
    };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries.filter_map(name).filter(|name| is_plain_name(name)).collect();
    names.sort();
    Ok(names)
}

fn free_bytes_of(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { doing, path: path.to_path_buf(), source }
}
