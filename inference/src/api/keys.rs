//! Who may ask, and whose cached prompts are whose?
//!
//! A file with a line for each key: a label for people, and the SHA-256 of the key in hexadecimal. The key itself is in no
//! file of the server. A fast hash is enough because keys are random, not remembered: `openssl rand -hex 32` makes one. Each
//! key has a namespace of its own in the prefix cache, so that no time tells what another one sent.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Bytes of the file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bits of a file's mode by which others than its owner could add a key.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The keys of a server; at least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys(Vec<[u8; 32]>);

/// Why a file of keys is not used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("the keys in {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody else could add a key.
    #[error("others than its owner can write {0}; take that from them with chmod go-w")]
    Writable(PathBuf),
    /// A line is not a key.
    #[error("line {line} is no key: {what}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Nobody could ask anything.
    #[error("there is no key in it")]
    Empty,
}

impl Keys {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Keys, KeysError> {
        let unread = |source| KeysError::Read { path: path.to_owned(), source };
        let about = std::fs::metadata(path).map_err(unread)?;
        if about.permissions().mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(KeysError::Writable(path.to_owned()));
        }
        if about.len() > FILE_BYTES_MAX {
            return Err(unread(std::io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes"))));
        }
        Keys::parse(&std::fs::read_to_string(path).map_err(unread)?)
    }

    /// Reads the lines `LABEL SHA256`; empty ones and those that begin with `#` say nothing.
    pub fn parse(text: &str) -> Result<Keys, KeysError> {
        let mut keys = Vec::new();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refused = |what| KeysError::Line { line: at + 1, what };
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, digest] = words[..] else { return Err(refused("it must be a label and a SHA-256 in hexadecimal")) };
            let digest = digest_of(digest).ok_or_else(|| refused("a SHA-256 is 64 hexadecimal digits"))?;
            if digest == Sha256::digest(b"").as_slice() {
                return Err(refused("this is the SHA-256 of an empty key"));
            }
            if keys.contains(&digest) {
                return Err(refused("the key was there before"));
            }
            keys.push(digest);
        }
        if keys.is_empty() { Err(KeysError::Empty) } else { Ok(Keys(keys)) }
    }

    /// The namespace of a key, which is never 0; `None` when it is none of these. Takes as long for every key.
    pub(super) fn namespace(&self, key: &str) -> Option<u64> {
        let digest = Sha256::digest(key.as_bytes());
        let mut found = None;
        for known in &self.0 {
            let differs = known.iter().zip(&digest).fold(0, |differs, (a, b)| differs | (a ^ b));
            if std::hint::black_box(differs) == 0 {
                found = Some(u64::from_be_bytes(*known.first_chunk().expect("32 bytes")).max(1));
            }
        }
        found
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Keys({})", self.0.len())
    }
}

fn digest_of(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(0..) {
        *byte = u8::from_str_radix(&hex[2 * pair..][..2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of `one` and of `two`.
    const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    const TWO: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";

    #[test]
    fn a_key_is_known_by_its_hash_and_has_a_namespace_of_its_own() {
        let keys = Keys::parse(&format!("# who\n\nalice {ONE}\n  bob\t{}  \n", TWO.to_uppercase())).unwrap();
        assert_eq!(keys.namespace("one"), Some(0x7692_c3ad_3540_bb80));
        assert_eq!(keys.namespace("two"), Some(0x3fc4_ccfe_7458_70e2));
        for other in ["", "One", "one ", ONE, "alice"] {
            assert_eq!(keys.namespace(other), None, "{other}");
        }
        assert_eq!(format!("{keys:?}"), "Keys(2)");
    }

    #[test]
    fn a_file_that_is_not_understood_wholly_is_refused() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(Keys::parse(text).unwrap_err().to_string(), expected);
        }
        check("", "there is no key in it");
        check("# none\n", "there is no key in it");
        check(ONE, "line 1 is no key: it must be a label and a SHA-256 in hexadecimal");
        check(&format!("\na {ONE} b"), "line 2 is no key: it must be a label and a SHA-256 in hexadecimal");
        check("a secret", "line 1 is no key: a SHA-256 is 64 hexadecimal digits");
        check(&format!("a {}", ONE.replace('7', "é")), "line 1 is no key: a SHA-256 is 64 hexadecimal digits");
        check(&format!("a {ONE}\nb {ONE}"), "line 2 is no key: the key was there before");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        check(&format!("a {empty}"), "line 1 is no key: this is the SHA-256 of an empty key");
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        std::fs::write(&path, format!("a {ONE}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o620)).unwrap();
        assert!(matches!(Keys::load(&path), Err(KeysError::Writable(_))));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Keys::load(&path).is_ok());
        assert!(matches!(Keys::load(&dir.path().join("none")), Err(KeysError::Read { .. })));
    }
}
