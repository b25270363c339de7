//! May this file's content enter the index, and as what text?
//!
//! All repository text is hostile input: a name may be a pipe by the time it is opened, a size may grow while it is
//! read. So a file is opened without following links and without blocking, and never more than the limit is read.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::report::SkipReason;

/// Larger files are not indexed.
pub(crate) const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// A file with a longer line is taken for minified or generated.
pub(crate) const LINE_BYTES_MAX: usize = 5000;
/// How far into a file a NUL byte makes it binary.
pub(crate) const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// What the file system says about a file. Equal stamps mean equal content, except within the granularity of the
/// clock, see [`Stamp::settled_before`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub size: u64,
    /// Nanoseconds since the epoch.
    pub mtime: i64,
    /// Nanoseconds since the epoch. Catches what keeps size and mtime (`cp -p`, `touch -r`).
    pub ctime: i64,
    pub inode: u64,
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Stamp {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Stamp {
            size: meta.size(),
            mtime: nanos(meta.mtime(), meta.mtime_nsec()),
            ctime: nanos(meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
        }
    }

    /// True when the last change lies so far before `nanos` that a later change could not bear the same stamp.
    /// The same trap as git's "racy" index entries; two seconds cover the coarsest file systems.
    pub(crate) fn settled_before(&self, nanos: i64) -> bool {
        self.ctime.max(self.mtime).saturating_add(2_000_000_000) < nanos
    }
}

/// A file that may enter.
pub(crate) struct Admitted {
    pub stamp: Stamp,
    pub bytes: Vec<u8>,
}

impl Admitted {
    /// The text, and whether bytes had to be replaced to get it.
    pub(crate) fn text(&self) -> (std::borrow::Cow<'_, str>, bool) {
        let text = String::from_utf8_lossy(&self.bytes);
        let lossy = matches!(text, std::borrow::Cow::Owned(_));
        (text, lossy)
    }
}

/// Opens, reads and judges one file. The stamp is taken from the open file before its bytes are read, so that a write
/// in between makes the next refresh read it again.
pub(crate) fn admit(path: &Path) -> Result<Admitted, SkipReason> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(|_| SkipReason::Unreadable)?;
    let meta = file.metadata().map_err(|_| SkipReason::Unreadable)?;
    if !meta.is_file() {
        return Err(SkipReason::Special);
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err(SkipReason::TooLarge);
    }
    let bytes = read_judged(&mut file, meta.len())?;
    Ok(Admitted { stamp: Stamp::of(&meta), bytes })
}

fn read_judged(file: &mut File, length: u64) -> Result<Vec<u8>, SkipReason> {
    let mut bytes = Vec::with_capacity(length as usize + 1);
    let mut head = file.take(BINARY_PROBE_BYTES as u64);
    head.read_to_end(&mut bytes).map_err(|_| SkipReason::Unreadable)?;
    judge_head(&bytes)?;
    let mut rest = head.into_inner().take(FILE_BYTES_MAX + 1 - bytes.len() as u64);
    rest.read_to_end(&mut bytes).map_err(|_| SkipReason::Unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(SkipReason::TooLarge);
    }
    if bytes.split(|&byte| byte == b'\n').any(|line| line.len() > LINE_BYTES_MAX) {
        return Err(SkipReason::Minified);
    }
    Ok(bytes)
}

pub(crate) fn judge_head(head: &[u8]) -> Result<(), SkipReason> {
    if head.contains(&0) {
        return Err(SkipReason::Binary);
    }
    let start = head.trim_ascii_start();
    let first_line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if first_line.starts_with(b"-----BEGIN ") && first_line.windows(11).any(|window| window == b"PRIVATE KEY") {
        return Err(SkipReason::Secret);
    }
    Ok(())
}

/// True for names that people give to files with credentials. Templates of such files are not secrets.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if name == ".env" || name.starts_with(".env.") {
        return !["example", "sample", "template", "dist", "defaults"].iter().any(|end| name.ends_with(end));
    }
    const NAMES: &[&str] = &[
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ecdsa_sk",
        "id_ed25519",
        "id_ed25519_sk",
        ".netrc",
        "_netrc",
        ".pgpass",
        ".npmrc",
        ".pypirc",
        ".htpasswd",
        ".git-credentials",
        ".dockercfg",
        ".dockerconfigjson",
        ".vault-token",
        ".my.cnf",
        ".boto",
        ".s3cfg",
        "credentials.json",
        "secrets.json",
        "secrets.yml",
        "secrets.yaml",
        "secrets.toml",
        "kubeconfig",
    ];
    const ENDINGS: &[&str] =
        &[".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate", ".tfstate.backup", ".env"];
    NAMES.contains(&name.as_str()) || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_known_and_their_templates_are_not() {
        for name in [".env", ".env.local", "prod.env", "server.pem", "ID_RSA", "tls.key", ".npmrc", "secrets.yaml"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [".env.example", "env.py", "id_rsa.pub", "keyboard.rs", "key.rs", "secrets.rs", "pem.go"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_private_key_is_known_by_its_first_line_whatever_its_name() {
        assert_eq!(judge_head(b"\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc"), Err(SkipReason::Secret));
        assert_eq!(judge_head(b"-----BEGIN PUBLIC KEY-----\nabc"), Ok(()));
    }
}
