//! What of the tree is new, changed or gone since the table was made?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::embed::Embedder;
use crate::file_no::FileNo;
use crate::files::Files;
use crate::hash::PieceHash;
use crate::pipeline::Job;
use crate::prefix::{OutsideTree, is_within, normal_prefix};
use crate::report::Skipped;
use crate::walk::Entry;

/// Which part of the tree a refresh looks at.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    Tree,
    /// These files and what lies in these directories, relative to the root.
    Paths(BTreeSet<String>),
}

impl Scope {
    /// The part of the tree that these paths name; all of it where the rules of what is ignored may have changed.
    pub(crate) fn of_paths(root: &Path, paths: &[PathBuf]) -> Scope {
        let mut inside = BTreeSet::new();
        for path in paths {
            let relative = path.strip_prefix(root).unwrap_or(path);
            let says_what_is_ignored = relative.ends_with(".git/info/exclude")
                || relative.file_name().is_some_and(|name| name == ".gitignore" || name == ".ignore");
            // What is not UTF-8 is known to a walk only by its likeness, so that one must look.
            let Some(relative) = relative.to_str().filter(|_| !says_what_is_ignored) else { return Scope::Tree };
            match normal_prefix(relative) {
                Ok(Some(path)) => inside.insert(path),
                Ok(None) => return Scope::Tree,
                Err(OutsideTree(_)) => continue,
            };
        }
        Scope::Paths(inside)
    }

    /// Whether there is nothing to look at.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Scope::Paths(paths) if paths.is_empty())
    }

    /// Whether the refresh looks at this path.
    pub(crate) fn holds(&self, path: &str) -> bool {
        match self {
            Scope::Tree => true,
            Scope::Paths(paths) => {
                let above = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
                above.into_iter().any(|prefix| paths.contains(prefix))
            }
        }
    }

    /// The rows of a table that lie in it.
    fn rows(&self, files: &Files) -> Vec<usize> {
        match self {
            Scope::Tree => (0..files.len()).collect(),
            Scope::Paths(paths) => {
                let within = |path: &String| {
                    // What is in a directory does not follow it directly: `a.b` comes before `a/b`.
                    let inside = files.lower_bound(&format!("{path}/"));
                    let mut rows: Vec<usize> = files.find(path).into_iter().collect();
                    rows.extend((inside..files.len()).take_while(|row| is_within(files.path(*row), path)));
                    rows
                };
                let rows: BTreeSet<usize> = paths.iter().flat_map(within).collect();
                rows.into_iter().collect()
            }
        }
    }

    /// The skips of the part that was not looked at, and those that were found in the other.
    pub(crate) fn join_skips(&self, old: &[Skipped], mut found: Vec<Skipped>) -> Vec<Skipped> {
        if let Scope::Paths(_) = self {
            found.extend(old.iter().filter(|skip| !self.holds(&skip.path)).cloned());
        }
        found.sort();
        found.dedup();
        found
    }
}

/// What a refresh has to do.
pub(crate) struct Diff {
    /// Files to read; those that are known bear their row.
    pub jobs: Vec<Job>,
    /// The row of each job.
    pub rows: Vec<Option<usize>>,
    /// Files whose stamp says that they are the same, bare ones not counted.
    pub unchanged: usize,
    /// Rows of files that are gone.
    pub gone: Vec<usize>,
}

/// Compares the table with the entries of a walk over the same scope, both sorted by path.
pub(crate) fn diff(
    scope: &Scope,
    files: &Files,
    entries: Vec<Entry>,
    vectors: Option<(&FxHashSet<PieceHash>, &dyn Embedder)>,
    next_file: u32,
) -> Diff {
    let mut diff = Diff { jobs: Vec::new(), rows: Vec::new(), unchanged: 0, gone: Vec::new() };
    let mut rows = scope.rows(files).into_iter().peekable();
    for entry in entries {
        while let Some(row) = rows.next_if(|row| files.path(*row) < entry.path.as_str()) {
            diff.gone.push(row);
        }
        let row = rows.next_if(|row| files.path(*row) == entry.path);
        let lacks = |row: usize| {
            vectors.is_some_and(|(present, by)| files.embedded(row, by).any(|hash| !present.contains(&hash)))
        };
        let lacks_vectors = row.is_some_and(lacks);
        let same = |row: usize| files.head(row).settled && files.head(row).stamp == entry.stamp;
        if let Some(row) = row.filter(|row| same(*row) && !lacks_vectors) {
            diff.unchanged += usize::from(!files.is_bare(row));
            continue;
        }
        let known = row.map(|row| (files.head(row).file, files.head(row).key));
        // The numbers of jobs that turn out to change nothing are lost, which does no harm.
        let file = FileNo(next_file.saturating_add(diff.jobs.len() as u32));
        diff.jobs.push(Job { path: entry.path, absolute: entry.absolute, file, known, lacks_vectors });
        diff.rows.push(row);
    }
    diff.gone.extend(rows);
    diff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::Stamp;
    use crate::files::FileHead;
    use crate::files::tests::{head, push};
    use crate::report::SkipReason;

    #[test]
    fn a_bare_file_under_its_old_stamp_is_not_read_again_and_not_counted() {
        let mut files = Files::default();
        let head = FileHead { settled: true, bare: Some(SkipReason::LockFile), ..head(1) };
        let entry = |stamp| Entry { path: "Cargo.lock".to_owned(), absolute: PathBuf::new(), stamp };
        let (same, other) = (entry(head.stamp), entry(Stamp { size: 0, ..head.stamp }));
        files.begin("Cargo.lock", head);
        files.settle(&Default::default());
        let found = diff(&Scope::Tree, &files, vec![same], None, 2);
        assert_eq!((found.jobs.len(), found.unchanged, found.gone.len()), (0, 0, 0));
        assert_eq!(diff(&Scope::Tree, &files, vec![other], None, 2).jobs.len(), 1);
    }

    #[test]
    fn a_scope_of_paths_holds_files_and_what_is_in_directories() {
        let scope = Scope::Paths(BTreeSet::from(["src/a.rs".to_owned(), "lib".to_owned()]));
        for path in ["src/a.rs", "lib", "lib/b/c.rs"] {
            assert!(scope.holds(path), "{path}");
        }
        for path in ["src", "src/a.rs.bak", "libs/a.rs", "src/b.rs"] {
            assert!(!scope.holds(path), "{path}");
        }
        let mut files = Files::default();
        for (at, path) in ["lib.rs", "lib/a.rs", "lib/b/c.rs", "libs.rs", "src/a.rs", "src/b.rs"].iter().enumerate() {
            push(&mut files, path, at as u32);
        }
        files.settle(&Default::default());
        assert_eq!(scope.rows(&files), [1, 2, 4]);
        assert_eq!(Scope::Tree.rows(&files).len(), 6);
    }
}
