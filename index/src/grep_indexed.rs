//! Which lines match, when most files need not be read?
//!
//! The trigram lane names the files that may match; those, and all that the lane does not know, are read from the tree
//! as they are now and searched by several threads. The matches are those of [`crate::grep::grep_dir`] over the same
//! files, in the same order.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::file_no::FileNo;
use crate::grep::{GrepError, GrepOptions, InFile, Matcher, Matches, searcher};
use crate::grep_files::{Text, read_into};
use crate::trigram::{Candidates, TrigramLane};

/// More threads do not search faster: the kernel's page cache is the limit.
const THREADS_MAX: usize = 8;
/// A thread is worth its start only for so many files.
const FILES_PER_THREAD_MIN: usize = 8;

static THREADS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, |threads| threads.get().min(THREADS_MAX)));

/// What was found, and with how much work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IndexedMatches {
    /// As from [`crate::grep::grep_dir`]; `files_searched` counts those that were read, and `truncated` says that
    /// candidates were left when there were enough matches.
    pub found: Matches,
    /// Files that the lane could not rule out.
    pub candidates: usize,
    /// Files within the path prefix.
    pub files: usize,
}

/// Searches `files`: everything that would be searched without the lane, sorted by path, with its number where the
/// lane holds its content as it is in the tree. Whatever has no number, or one that the lane never saw, is read:
/// what the index skipped and what changed since. A damaged lane costs time, never a match.
pub(crate) fn grep_indexed<'a>(
    root: &Path,
    lane: Result<&TrigramLane, &str>,
    files: impl IntoIterator<Item = (&'a str, Option<FileNo>)>,
    pattern: &str,
    options: &GrepOptions,
) -> Result<IndexedMatches, GrepError> {
    let matcher = Matcher::new(pattern, options)?;
    let mut out = IndexedMatches { found: matcher.begin(), ..IndexedMatches::default() };
    let narrowed = lane.map_err(str::to_owned);
    let narrowed = narrowed.and_then(|lane| lane.candidates(matcher.plan()).map_err(|error| error.to_string()));
    let candidates = narrowed.unwrap_or_else(|error| {
        out.found.notes.push(format!("every file was searched, because of the trigrams {error}"));
        Candidates::All
    });
    let mut paths = Vec::new();
    for (path, file) in files {
        if !matcher.wants(path) {
            continue;
        }
        out.files += 1;
        if file.is_none_or(|file| candidates.contains(file)) {
            paths.push(path);
        }
    }
    out.candidates = paths.len();
    search_all(root, &matcher, &paths, &mut out.found);
    Ok(out)
}

/// Searches files in their order until there are enough matches. The threads take the next path one after the other,
/// so when they stop, a first part of the paths is searched and nothing behind it.
fn search_all(root: &Path, matcher: &Matcher, paths: &[&str], out: &mut Matches) {
    let work = Work { root, paths, next: AtomicUsize::new(0), found: AtomicUsize::new(0), read: AtomicUsize::new(0) };
    let threads = THREADS.min(paths.len() / FILES_PER_THREAD_MIN);
    let mut results = if threads < 2 {
        work.run(matcher.pattern.clone())
    } else {
        thread::scope(|scope| {
            let run = |_| {
                let (pattern, work) = (matcher.pattern.clone(), &work);
                scope.spawn(move || work.run(pattern))
            };
            let running: Vec<_> = (0..threads).map(run).collect();
            running.into_iter().flat_map(|thread| thread.join().expect("a search does not panic")).collect()
        })
    };
    results.sort_unstable_by_key(|(at, _)| *at);
    let matches_max = matcher.pattern.matches_max;
    let taken = work.next.into_inner().min(paths.len());
    out.truncated = taken < paths.len();
    out.files_searched = work.read.into_inner();
    for (_, in_file) in results {
        let room = matches_max - out.matches.len();
        out.truncated |= in_file.more || in_file.matches.len() > room;
        out.files_matched += usize::from(room > 0);
        out.matches.extend(in_file.matches.into_iter().take(room));
    }
}

struct Work<'a> {
    root: &'a Path,
    paths: &'a [&'a str],
    next: AtomicUsize,
    found: AtomicUsize,
    read: AtomicUsize,
}

impl Work<'_> {
    /// The files with matches, by their place among the paths.
    fn run(&self, pattern: crate::grep::Pattern) -> Vec<(usize, InFile)> {
        let mut searcher = searcher();
        let (mut results, mut bytes) = (Vec::new(), Vec::new());
        while self.found.load(Ordering::Relaxed) < pattern.matches_max {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = self.paths.get(at) else { break };
            let Some(text) = read_into(&self.root.join(path), &mut bytes) else { continue };
            self.read.fetch_add(1, Ordering::Relaxed);
            let in_file = match text {
                Text::Whole => pattern.search_text(&mut searcher, path, &bytes, pattern.matches_max),
                Text::Stream(text) => pattern.search_stream(&mut searcher, path, text, pattern.matches_max),
            };
            if !in_file.matches.is_empty() {
                self.found.fetch_add(in_file.matches.len(), Ordering::Relaxed);
                results.push((at, in_file));
            }
        }
        results
    }
}
