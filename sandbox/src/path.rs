//! Which paths may name something in the workspace?
//!
//! One type answers for every door into a box: only a path that stays beneath the workspace by its words alone becomes a
//! [`RelPath`]. That symlinks do not lead out either is the kernel's job (`beneath.rs`), because words cannot know it.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::names;

/// Longest path in bytes.
pub const PATH_BYTES_MAX: usize = 4_000;
/// Longest component in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most components of a path.
pub const DEPTH_MAX: usize = 128;

/// A path below the root of the workspace: no root, no `..`, no NUL; the empty path is the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

/// Why a path cannot name something in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path starts at the root of the file system.
    #[error("the path {0:?} is absolute, only paths relative to the workspace are allowed")]
    Absolute(PathBuf),
    /// The path contains `..`.
    #[error("the path {0:?} contains `..`")]
    Parent(PathBuf),
    /// The path contains a NUL byte.
    #[error("the path {0:?} contains a NUL byte")]
    Nul(PathBuf),
    /// The path or a part of it is longer than a file system stores.
    #[error(
        "the path of {bytes} bytes and {depth} parts is longer than {PATH_BYTES_MAX} bytes, {DEPTH_MAX} parts of {NAME_BYTES_MAX} bytes each"
    )]
    Long {
        /// Length of the path in bytes.
        bytes: usize,
        /// Number of components.
        depth: usize,
    },
}

impl RelPath {
    /// Accepts `path` when its words alone keep it beneath the workspace. `./a//b/` is read as `a/b`.
    pub fn parse(path: impl AsRef<Path>) -> Result<RelPath, PathError> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_bytes();
        if bytes.contains(&0) {
            return Err(PathError::Nul(path.to_owned()));
        }
        let mut clean = PathBuf::new();
        let mut depth = 0;
        let mut name_bytes_longest = 0;
        for part in path.components() {
            match part {
                Component::Normal(name) => {
                    clean.push(name);
                    depth += 1;
                    name_bytes_longest = name_bytes_longest.max(name.len());
                }
                Component::CurDir => {}
                Component::ParentDir => return Err(PathError::Parent(path.to_owned())),
                Component::RootDir | Component::Prefix(_) => return Err(PathError::Absolute(path.to_owned())),
            }
        }
        if bytes.len() > PATH_BYTES_MAX || depth > DEPTH_MAX || name_bytes_longest > NAME_BYTES_MAX {
            return Err(PathError::Long { bytes: bytes.len(), depth });
        }
        Ok(RelPath(clean))
    }

    /// The workspace itself.
    pub fn root() -> RelPath {
        RelPath(PathBuf::new())
    }

    /// The path without `./`, double or trailing slashes.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Whether a part of the path is `.git`, in whatever spelling a file system would take for it.
    pub fn touches_git(&self) -> bool {
        self.names().any(|name| names::is_git(&name.to_string_lossy()))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.iter()
    }

    /// The parent's path and the last name; `None` for the workspace itself.
    pub(crate) fn split(&self) -> Option<(RelPath, &OsStr)> {
        let name = self.0.file_name()?;
        Some((RelPath(self.0.parent().map(Path::to_owned).unwrap_or_default()), name))
    }

    /// The path of `name` in the directory `self`; `name` comes from a directory listing, so it is one component.
    pub(crate) fn join(&self, name: &OsStr) -> RelPath {
        RelPath(self.0.join(name))
    }
}

/// For people: what would not be seen, or would change what is seen, is written as an escape.
impl fmt::Display for RelPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_os_str().is_empty() { out.write_str(".") } else { names::show(&self.0.to_string_lossy(), out) }
    }
}

impl AsRef<Path> for RelPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}
