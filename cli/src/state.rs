//! Where is everything of this host? Paths under $CLOISTER_HOME, and the one switch that Ctrl-C sets.

use crate::exit::Fatal;
use models::{Home, Store};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The home, opened.
pub struct State {
    /// $CLOISTER_HOME.
    pub home: Home,
}

impl State {
    /// Makes the home where it is missing.
    pub fn open() -> Result<Self, Fatal> {
        let home = Home::from_env().map_err(|error| Fatal::missing(error, ""))?;
        home.make().map_err(|error| Fatal::missing(error, ""))?;
        Ok(Self { home })
    }

    /// The model store.
    pub fn store(&self) -> Result<Store, Fatal> {
        Store::open(&self.home).map_err(|error| Fatal::missing(error, ""))
    }

    /// Where boxes live while they live.
    pub fn boxes(&self) -> PathBuf {
        self.home.join("boxes")
    }

    /// The engine to run jobs in, where $CLOISTER_DOCKER names one.
    pub fn engine() -> Result<Option<sandbox::Socket>, Fatal> {
        let Some(address) = std::env::var_os("CLOISTER_DOCKER").filter(|address| !address.is_empty()) else {
            return Ok(None);
        };
        let hint = "set CLOISTER_DOCKER to unix:///path/to/docker.sock, or unset it";
        address.to_string_lossy().parse().map(Some).map_err(|error: sandbox::SocketError| Fatal::config(error, hint))
    }

    /// Where a change that is being applied is written down first.
    pub fn journals(&self) -> PathBuf {
        self.home.join("journals")
    }

    /// Where computed prompts are kept.
    pub fn kv(&self) -> PathBuf {
        self.home.join("kv")
    }

    /// Where session logs are.
    pub fn sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    /// The index of one repository.
    pub fn index(&self, root: &Path) -> PathBuf {
        let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.home.join("index").join(short)
    }
}

/// A flag that the first Ctrl-C (or SIGTERM) sets; a second one ends the process at once.
pub fn cancel_on_ctrl_c() -> Result<Arc<AtomicBool>, Fatal> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    ctrlc::set_handler(move || {
        if set.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("\nstopping; press Ctrl-C again to end at once");
    })?;
    Ok(flag)
}

/// A repository that a person named.
pub fn repository(dir: &Path) -> Result<PathBuf, Fatal> {
    let real = dir
        .canonicalize()
        .map_err(|error| Fatal::missing(anyhow::anyhow!("{}: {error}", dir.display()), "name an existing directory"))?;
    if !real.is_dir() {
        let error = anyhow::anyhow!("{} is not a directory", dir.display());
        return Err(Fatal::missing(error, "name the directory of a repository"));
    }
    Ok(real)
}
