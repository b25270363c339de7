//! Which files are there?
//!
//! .gitignore and .ignore files inside the root are honoured, also where there is no git repository. Those above the
//! root and the user's own global one are not: what the index holds must not depend on where the tree lies.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ignore::{DirEntry, WalkBuilder};
use rustc_hash::FxHashSet;

use crate::admit::{GREP_FILE_BYTES_MAX, Stamp, is_lock_name};
use crate::diff::Scope;
use crate::report::{SkipReason, Skipped};
use crate::secret::is_secret_path;

/// More files than this are not indexed.
pub(crate) const FILES_MAX: usize = 400_000;
/// Deeper directories are not entered.
const DEPTH_MAX: usize = 256;

/// Hidden names that hold something a developer asks about.
const USEFUL_HIDDEN: &[&str] = &[
    ".github",
    ".gitlab",
    ".gitlab-ci.yml",
    ".circleci",
    ".ci",
    ".cargo",
    ".config",
    ".devcontainer",
    ".gitignore",
    ".gitattributes",
    ".gitmodules",
    ".ignore",
    ".editorconfig",
    ".dockerignore",
    ".travis.yml",
    ".clang-format",
    ".clang-tidy",
    ".rustfmt.toml",
    ".clippy.toml",
    ".flake8",
    ".pylintrc",
    ".coveragerc",
    ".babelrc",
    ".nvmrc",
    ".python-version",
    ".tool-versions",
    ".pre-commit-config.yaml",
    ".golangci.yml",
    ".golangci.yaml",
];
/// Starts of hidden names that come with many endings.
const USEFUL_HIDDEN_STARTS: &[&str] = &[".eslintrc", ".prettierrc", ".stylelintrc", ".env."];

/// One file that may be read.
pub(crate) struct Entry {
    /// Relative to the root, `/` between components.
    pub path: String,
    pub absolute: PathBuf,
    pub stamp: Stamp,
}

/// What a walk found, both sorted by path.
pub(crate) struct Walked {
    pub files: Vec<Entry>,
    pub skipped: Vec<Skipped>,
    /// Relative to the root, which is the empty one.
    directories: Vec<String>,
}

/// The directories that a walk over this scope enters.
pub(crate) fn directories(root: &Path, scope: &Scope) -> Vec<String> {
    let mut directories = walk_scope(root, scope, &mut |_| true).directories;
    directories.retain(|directory| scope.holds(directory));
    directories
}

/// Lists the part of the tree under `root` that a scope holds, by the same rules as [`walk`]: only directories that
/// lead there are entered.
pub(crate) fn walk_scope(root: &Path, scope: &Scope, seen: &mut dyn FnMut(usize) -> bool) -> Walked {
    let Scope::Paths(paths) = scope else { return walk(root, seen) };
    let mut leading: FxHashSet<String> = FxHashSet::default();
    for path in paths {
        leading.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
    }
    let scope = scope.clone();
    walk_where(root, seen, move |path| scope.holds(path) || leading.contains(path))
}

/// Lists the tree under `root`. `seen` is called for every file found and returns false to stop early; then the
/// result is partial and must not be used.
pub(crate) fn walk(root: &Path, seen: &mut dyn FnMut(usize) -> bool) -> Walked {
    walk_where(root, seen, |_| true)
}

fn walk_where(
    root: &Path,
    seen: &mut dyn FnMut(usize) -> bool,
    wanted: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Walked {
    let skipped = Arc::new(Mutex::new(Vec::new()));
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .parents(false)
        .git_global(false)
        .git_exclude(true)
        .require_git(false)
        .follow_links(false)
        .max_depth(Some(DEPTH_MAX));
    let (filter_root, filter_skipped) = (root.to_path_buf(), Arc::clone(&skipped));
    builder.filter_entry(move |entry| {
        let path = relative(&filter_root, entry.path());
        if entry.depth() > 0 && !wanted(&path) {
            return false;
        }
        let reason = match name_verdict(entry, &path) {
            Verdict::Enter => return true,
            Verdict::Never => return false,
            Verdict::Skip(reason) => reason,
        };
        filter_skipped.lock().expect("no panic while locked").push(Skipped { path, reason });
        false
    });

    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for entry in builder.build() {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_dir()) => {
                directories.push(relative(root, entry.path()));
            }
            Ok(entry) => match judge_entry(root, &entry, files.len()) {
                Ok(file) => files.push(file),
                Err(skip) => skipped.lock().expect("no panic while locked").push(skip),
            },
            Err(error) => {
                let path = path_of(&error).map_or_else(|| "?".to_owned(), |path| relative(root, path));
                skipped.lock().expect("no panic while locked").push(Skipped { path, reason: SkipReason::Unreadable });
            }
        }
        if !seen(files.len()) {
            break;
        }
    }
    let mut skipped = std::mem::take(&mut *skipped.lock().expect("no panic while locked"));
    skipped.sort();
    skipped.dedup();
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Walked { files, skipped, directories }
}

/// What the name of an entry alone decides.
enum Verdict {
    Enter,
    /// Git's own store: not even worth a line in the report.
    Never,
    Skip(SkipReason),
}

fn name_verdict(entry: &DirEntry, path: &str) -> Verdict {
    if entry.depth() == 0 {
        return Verdict::Enter;
    }
    let Some(name) = entry.file_name().to_str() else {
        return Verdict::Skip(SkipReason::PathNotUtf8);
    };
    if name == ".git" {
        return Verdict::Never;
    }
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    if !is_directory && is_secret_path(path) {
        return Verdict::Skip(SkipReason::Secret);
    }
    let useful = USEFUL_HIDDEN.contains(&name) || USEFUL_HIDDEN_STARTS.iter().any(|start| name.starts_with(start));
    if name.starts_with('.') && !useful {
        return Verdict::Skip(SkipReason::Hidden);
    }
    Verdict::Enter
}

/// A file or a skip.
fn judge_entry(root: &Path, entry: &DirEntry, files: usize) -> Result<Entry, Skipped> {
    let path = relative(root, entry.path());
    let skip = |reason| Err(Skipped { path: path.clone(), reason });
    let Some(kind) = entry.file_type() else {
        return skip(SkipReason::Special);
    };
    if kind.is_symlink() {
        return skip(SkipReason::Symlink);
    }
    if !kind.is_file() {
        return skip(SkipReason::Special);
    }
    let meta: Metadata = match entry.metadata() {
        Ok(meta) => meta,
        Err(_) => return skip(SkipReason::Unreadable),
    };
    if meta.len() > GREP_FILE_BYTES_MAX {
        let is_lock = entry.file_name().to_str().is_some_and(is_lock_name);
        return skip(if is_lock { SkipReason::LockFile } else { SkipReason::TooLarge });
    }
    if files >= FILES_MAX {
        return skip(SkipReason::TooMany);
    }
    Ok(Entry { path, absolute: entry.path().to_path_buf(), stamp: Stamp::of(&meta) })
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// The path inside the nested errors of the `ignore` crate.
fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        ignore::Error::Loop { child, .. } => Some(child),
        ignore::Error::Partial(errors) => errors.iter().find_map(path_of),
        _ => None,
    }
}
