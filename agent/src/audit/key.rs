//! With which key is the log signed, and where does it live?

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The name of the key's file inside CLOISTER_HOME.
pub const KEY_FILE: &str = "audit.key";

/// 32 random bytes. It is never printed.
#[derive(Clone)]
pub struct Key([u8; 32]);

/// Why there is no key to sign or verify with.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file or its directory cannot be used.
    #[error("cannot use the audit key {path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could have read or replaced it.
    #[error(
        "the audit key {0} is readable by others: make it private with chmod 600, or remove it to start a new chain"
    )]
    NotPrivate(PathBuf),
    /// Not a regular file of 32 bytes.
    #[error("the audit key {0} is not a regular file of 32 bytes: remove it to start a new chain")]
    Malformed(PathBuf),
    /// A box shows the repository to the agent's commands, and would show the key too.
    #[error("the audit key {key} would lie inside the repository {repo}, where an agent can read it")]
    InsideRepository {
        /// Where it would be.
        key: PathBuf,
        /// What a box shows.
        repo: PathBuf,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}")]
    Random(getrandom::Error),
}

impl Key {
    /// The key in `home`, made at first use. `home` must lie outside every repository that an agent works in:
    /// whoever can read the key can rewrite the log.
    pub fn load_or_create(home: &Path) -> Result<Key, KeyError> {
        let path = home.join(KEY_FILE);
        match fs::symlink_metadata(&path) {
            Ok(_) => Key::load(home),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let mut bytes = [0; 32];
                getrandom::fill(&mut bytes).map_err(KeyError::Random)?;
                create(home, &path, &bytes).map_err(|source| KeyError::Io { path, source })?;
                // Read back: when two processes came first at the same time, both use the one that stayed.
                Key::load(home)
            }
            Err(source) => Err(KeyError::Io { path, source }),
        }
    }

    /// As [`Key::load_or_create`], and refused where an agent that works in `repo` could read the key.
    pub fn outside(repo: &Path, home: &Path) -> Result<Key, KeyError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| KeyError::Io { path, source }
        };
        fs::create_dir_all(home).map_err(io(home))?;
        let (home, repo) = (home.canonicalize().map_err(io(home))?, repo.canonicalize().map_err(io(repo))?);
        if home.starts_with(&repo) {
            return Err(KeyError::InsideRepository { key: home.join(KEY_FILE), repo });
        }
        Key::load_or_create(&home)
    }

    /// The key in `home`, which must exist.
    pub fn load(home: &Path) -> Result<Key, KeyError> {
        let path = home.join(KEY_FILE);
        let io = |source| KeyError::Io { path: path.clone(), source };
        let meta = fs::symlink_metadata(&path).map_err(io)?;
        if !meta.is_file() {
            return Err(KeyError::Malformed(path));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(KeyError::NotPrivate(path));
        }
        let bytes = fs::read(&path).map_err(io)?;
        bytes.try_into().map(Key).map_err(|_| KeyError::Malformed(path))
    }

    /// A key from its bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    /// HMAC-SHA256 of `message`, in hex.
    pub(crate) fn mac(&self, message: &str) -> String {
        self.hmac(message).finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Compares in constant time.
    pub(crate) fn verifies(&self, message: &str, mac: &str) -> bool {
        let Some(tag) = from_hex(mac) else { return false };
        self.hmac(message).verify_slice(&tag).is_ok()
    }

    fn hmac(&self, message: &str) -> Hmac<Sha256> {
        let mut hmac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        hmac.update(message.as_bytes());
        hmac
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Lowercase hex only, so that a MAC has one spelling.
fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let nibble = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    hex.as_bytes().chunks(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// Writes a private temporary file and links it to its name, which fails when the name is taken: a key is there
/// whole or not at all, and never replaced.
fn create(home: &Path, path: &Path, bytes: &[u8; 32]) -> io::Result<()> {
    fs::create_dir_all(home)?;
    let draft = home.join(format!(".{KEY_FILE}.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    });
    fs::remove_file(&draft)?;
    linked?;
    fs::File::open(home)?.sync_all()
}
