//! May this name arrive in the working tree?
//!
//! A name that is new there must read the same to every file system and to an eye, must not be another spelling of one that
//! is there, and must not complete a git repository in the tree: git takes a directory with `HEAD`, `objects` and `refs` for
//! one, and runs what its configuration names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::apply::Refusal;
use crate::beneath::{self, Kind};
use crate::journal;
use crate::names;
use crate::path::RelPath;

/// What makes a directory a git repository (`is_git_directory` of git's setup.c).
const REPOSITORY: [&str; 3] = ["HEAD", "objects", "refs"];

/// Judges all files that are `written` (and whether they are new) together; `removed` ones make room for other spellings.
/// `Ok(Some(..))` is the first that may not arrive; `Err` says at which path the tree could not be read.
pub(crate) fn judge(
    root: &OwnedFd,
    written: &[(&RelPath, bool)],
    removed: &BTreeSet<&Path>,
) -> Result<Option<(PathBuf, Refusal)>, (PathBuf, io::Error)> {
    let mut tree = Tree { root, listed: BTreeMap::new() };
    let mut arriving: BTreeMap<PathBuf, BTreeMap<String, OsString>> = BTreeMap::new();
    for path in written.iter().filter(|(_, is_new)| *is_new).map(|(path, _)| path.as_path()) {
        for at in path.ancestors().filter(|at| !at.as_os_str().is_empty()) {
            let refusal = arrives(&mut tree, &mut arriving, removed, at).map_err(|error| (at.to_owned(), error))?;
            if let Some(reason) = refusal {
                return Ok(Some((path.to_owned(), reason)));
            }
        }
    }
    let paths: BTreeSet<&Path> = written.iter().flat_map(|(path, _)| path.as_path().ancestors()).collect();
    for path in written.iter().map(|(path, _)| path.as_path()) {
        for dir in path.ancestors().skip(1) {
            let below = path.strip_prefix(dir).ok().and_then(|rest| rest.iter().next());
            if !below.is_some_and(|name| REPOSITORY.iter().any(|part| name.eq_ignore_ascii_case(part))) {
                continue;
            }
            let names = tree.names(dir).map_err(|error| (dir.to_owned(), error))?;
            let is_there = |part: &&str| {
                let is_part = |name: &OsStr| name.eq_ignore_ascii_case(part);
                names.iter().any(|name| is_part(name))
                    || paths.iter().any(|path| path.parent() == Some(dir) && path.file_name().is_some_and(is_part))
            };
            if REPOSITORY.iter().all(is_there) {
                return Ok(Some((path.to_owned(), Refusal::Repository(dir.to_owned()))));
            }
        }
    }
    Ok(None)
}

/// Judges one name of a path, if it is not in the tree yet.
fn arrives(
    tree: &mut Tree<'_>,
    arriving: &mut BTreeMap<PathBuf, BTreeMap<String, OsString>>,
    removed: &BTreeSet<&Path>,
    at: &Path,
) -> io::Result<Option<Refusal>> {
    let (Some(dir), Some(name)) = (at.parent(), at.file_name()) else { return Ok(None) };
    let there = tree.names(dir)?;
    if there.contains(name) {
        return Ok(None);
    }
    let text = name.to_string_lossy();
    if let Some(odd) = names::oddity(&text) {
        return Ok(Some(Refusal::Name(odd)));
    }
    let key = names::twin_key(&text);
    let twin = there
        .iter()
        .find(|other| names::twin_key(&other.to_string_lossy()) == key && !removed.contains(dir.join(other).as_path()));
    let among_new = arriving.entry(dir.to_owned()).or_default().entry(key).or_insert_with(|| name.to_owned());
    let twin = twin.or(Some(&*among_new).filter(|other| *other != name));
    Ok(twin.map(|twin| Refusal::Twin(twin.to_string_lossy().into_owned())))
}

/// The working tree, each directory listed once.
struct Tree<'a> {
    root: &'a OwnedFd,
    listed: BTreeMap<PathBuf, BTreeSet<OsString>>,
}

impl Tree<'_> {
    /// The names in a directory; none when there is no such directory.
    fn names(&mut self, dir: &Path) -> io::Result<&BTreeSet<OsString>> {
        if !self.listed.contains_key(dir) {
            let names = match self.open(dir)? {
                Some(open) => beneath::names(&open)?.into_iter().collect(),
                None => BTreeSet::new(),
            };
            self.listed.insert(dir.to_owned(), names);
        }
        Ok(&self.listed[dir])
    }

    fn open(&self, dir: &Path) -> io::Result<Option<OwnedFd>> {
        if dir.as_os_str().is_empty() {
            return Ok(Some(self.root.try_clone()?));
        }
        let Some((parent, name)) = journal::parent(self.root, dir)? else { return Ok(None) };
        let inode = beneath::child(&parent, name)?;
        Ok(inode.filter(|inode| inode.kind() == Kind::Dir).map(|inode| inode.fd))
    }
}
