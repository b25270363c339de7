//! What can one hold in the hand? An [`Index`]: opened over a store and a tree, refreshed, asked.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::admit::Stamp;
use crate::diff::Scope;
use crate::embed::Embedder;
use crate::files::FileHead;
use crate::grep::{GrepError, GrepOptions, Matcher, Matches, grep};
use crate::grep_indexed::grep_indexed;
use crate::overlay::Overlay;
use crate::pace::{Steps, Ticker};
use crate::refresh::{Memory, RefreshError, Refreshed, Task, refresh};
use crate::report::{Progress, Report};
use crate::search::{Answer, Lane, Query, SearchError, lanes, search};
use crate::symbols::{Lookup, SymbolAnswer};
use crate::view::{Place, View};
use crate::watch::Watch;
use crate::weights::Weights;

/// A code index: one store over one tree. Several may be open on one store; one of them refreshes at a time, and the
/// others keep answering from what they opened.
pub struct Index {
    store: PathBuf,
    root: PathBuf,
    embedder: Option<Arc<dyn Embedder>>,
    view: View,
    memory: Memory,
    watch: Option<Watch>,
}

/// Why an index could not be opened. A damaged store is no reason: it opens, says so, and the next refresh rebuilds.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The tree is not there, or is no directory.
    #[error("cannot index {path}: {source}")]
    Root {
        /// The root as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store's directory could not be made.
    #[error("cannot use {path} as the store of an index: {source}")]
    Store {
        /// The store as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What an index holds, without asking it anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// 0 where nothing was ever indexed.
    pub generation: u64,
    /// Seconds since the last refresh.
    pub age_seconds: u64,
    /// Indexed files; those that are only searched by pattern are not counted.
    pub files: usize,
    /// Chunks of them.
    pub chunks: usize,
    /// Definitions in them.
    pub definitions: usize,
    /// Lines in them.
    pub lines: usize,
    /// What does not work, in sentences.
    pub notes: Vec<String>,
}

impl Index {
    /// Opens the index in `store_dir` (made if it is missing) over the tree at `root`. Reads what is there and
    /// changes nothing else; call [`Index::refresh`] to bring it up to date.
    pub fn open(store_dir: &Path, root: &Path, embedder: Option<Arc<dyn Embedder>>) -> Result<Index, OpenError> {
        let root_error = |source| OpenError::Root { path: root.to_path_buf(), source };
        let real_root = root.canonicalize().map_err(root_error)?;
        if !real_root.is_dir() {
            return Err(root_error(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let store_error = |source| OpenError::Store { path: store_dir.to_path_buf(), source };
        std::fs::create_dir_all(store_dir).map_err(store_error)?;
        let store = store_dir.canonicalize().map_err(store_error)?;
        let memory = Memory::default();
        let place = Place { store: &store, root: &real_root, embedder: embedder.as_deref(), memory: &memory };
        let view = View::load(&place);
        Ok(Index { store, root: real_root, embedder, view, memory, watch: None })
    }

    /// Makes the index agree with the tree: reads what changed, forgets what is gone, commits, and answers from the
    /// new state. Stopped by `cancel` it leaves the committed state as it was and keeps the vectors computed so far.
    pub fn refresh(
        &mut self,
        on_progress: &mut dyn FnMut(Progress),
        cancel: &AtomicBool,
    ) -> Result<Report, RefreshError> {
        self.refresh_in_steps(Scope::Tree, on_progress, cancel, &Steps::all())
    }

    /// Like [`Index::refresh`] for these files, and what lies in these directories, alone: the rest of the tree is not
    /// looked at. Paths are absolute or relative to the root; those outside of it are left out. Where one of them says
    /// what is ignored, the whole tree is looked at.
    pub fn refresh_paths(&mut self, paths: &[PathBuf], cancel: &AtomicBool) -> Result<Report, RefreshError> {
        let scope = Scope::of_paths(&self.root, paths);
        if scope.is_empty() {
            return Ok(Report { generation: self.view.generation, ..Report::default() });
        }
        self.refresh_in_steps(scope, &mut |_| {}, cancel, &Steps::all())
    }

    /// Refreshes what has changed since the last call: the first call looks at the whole tree and begins to watch it,
    /// later ones read what the kernel has told meanwhile, and look at everything once a minute. Where the kernel
    /// cannot tell, everything is looked at every two seconds. Nothing where nothing has changed.
    pub fn catch_up(&mut self, cancel: &AtomicBool) -> Result<Option<Report>, RefreshError> {
        let root = &self.root;
        let scope = self.watch.get_or_insert_with(|| Watch::start(root)).changes();
        if scope.is_empty() {
            return Ok(None);
        }
        let report = self.refresh_in_steps(scope, &mut |_| {}, cancel, &Steps::all())?;
        if let Some(watch) = &mut self.watch {
            watch.done();
        }
        Ok(Some(report))
    }

    /// Waits until the tree changes and its writers pause for 50 milliseconds, but no longer than `timeout`. The
    /// usual loop is this and [`Index::catch_up`].
    pub fn wait_for_changes(&mut self, timeout: Duration) {
        let root = &self.root;
        self.watch.get_or_insert_with(|| Watch::start(root)).wait(timeout);
    }

    /// Like [`Index::search`], but what was written before this call is found: [`Index::catch_up`] comes first. Where
    /// that fails the search answers from what there is, and a note says so.
    pub fn search_fresh(&mut self, query: &Query, cancel: &AtomicBool) -> Result<Answer, SearchError> {
        let stale = self.catch_up(cancel).err();
        let mut answer = self.search(query)?;
        answer.notes.extend(stale.map(|error| format!("the index may be older than the tree: {error}")));
        Ok(answer)
    }

    pub(crate) fn refresh_in_steps(
        &mut self,
        scope: Scope,
        on_progress: &mut dyn FnMut(Progress),
        cancel: &AtomicBool,
        steps: &Steps,
    ) -> Result<Report, RefreshError> {
        let embedder = self.embedder.as_deref();
        let task = Task { store: &self.store, root: &self.root, embedder, scope, steps };
        let Refreshed { report, manifest, files } = refresh(task, &mut self.memory, Ticker::new(on_progress, cancel))?;
        let overlay = self.view.overlay.take();
        let embedder = self.embedder.as_deref();
        let place = Place { store: &self.store, root: &self.root, embedder, memory: &self.memory };
        // Another writer may have replaced it by now; then the newest state is read.
        self.view = match View::of(&place, &manifest, files) {
            (view, false) => view,
            (_, true) => View::load(&place),
        };
        self.view.set_overlay(overlay);
        Ok(report)
    }

    /// The best hits for a question. Never fails because the store is damaged: the lanes that work answer, and the
    /// notes say which did not.
    pub fn search(&self, query: &Query) -> Result<Answer, SearchError> {
        search(&self.view, self.embedder.as_deref(), query)
    }

    /// What each lane finds by itself: files, best first. For those who choose weights.
    pub fn lanes(&self, query: &Query) -> Result<Vec<(Lane, Vec<String>)>, SearchError> {
        lanes(&self.view, self.embedder.as_deref(), query)
    }

    /// From now on, until the next refresh, the lanes count this much for a few words. [`Weights::keep`] is for longer.
    pub fn weigh(&mut self, weights: Weights) {
        self.view.weights = weights;
    }

    /// Puts contents above the tree that are not written to it yet: from now on a path is searched as it stands here,
    /// and one without content not at all. Earlier changes stay until the same path comes again.
    pub fn overlay(&mut self, changes: &[(String, Option<Vec<u8>>)]) -> Result<(), SearchError> {
        let mut contents = self.view.overlay.take().map(Overlay::into_contents).unwrap_or_default();
        contents.extend(changes.iter().cloned());
        let overlay = Overlay::of(contents).map_err(|error| SearchError::Overlay(error.to_string()))?;
        self.view.set_overlay(Some(overlay));
        Ok(())
    }

    /// Takes everything away that [`Index::overlay`] put there.
    pub fn clear_overlay(&mut self) {
        self.view.set_overlay(None);
    }

    /// The definition of a name: plain (`close`), qualified (`Session.close`, `Session::close`), or with its file
    /// (`src/session.py:Session.close`).
    pub fn symbol(&self, name: &str) -> SymbolAnswer {
        match self.view.symbol(name) {
            Lookup::Exact(place) => SymbolAnswer::Exact(self.definition(place)),
            Lookup::Ambiguous(places, count) => SymbolAnswer::Ambiguous {
                first: places.into_iter().map(|place| self.definition(place)).collect(),
                count,
            },
            Lookup::NotFound => SymbolAnswer::NotFound,
        }
    }

    /// The lines that match, like [`crate::grep::grep_dir`] over the tree, with the overlay above it; most files need
    /// not be read. A file that changed since the last refresh may be missed: [`Index::catch_up`] comes first where
    /// that matters.
    pub fn grep(&self, pattern: &str, options: &GrepOptions) -> Result<Matches, GrepError> {
        let lane = self.view.trigrams().map_err(String::as_str);
        let mut found = grep_indexed(&self.root, lane, self.view.searchable(), pattern, options)?.found;
        if let Some(overlay) = &self.view.overlay {
            let above = grep(overlay.searchable(), pattern, options)?;
            found.matches.extend(above.matches);
            found.matches.sort_by(|left, right| left.path.cmp(&right.path).then(left.line.cmp(&right.line)));
            found.truncated |= above.truncated || found.matches.len() > options.matches_max;
            found.matches.truncate(options.matches_max);
            found.files_searched += above.files_searched;
            found.files_matched += above.files_matched;
        }
        Ok(found)
    }

    /// Of these paths, those in which the pattern may match: all but the files that the trigram lane rules out and that
    /// are as they were indexed. For those who search contents of their own, above the tree.
    pub fn may_match(&self, pattern: &str, paths: Vec<String>) -> Vec<String> {
        let Ok(matcher) = Matcher::new(pattern, &GrepOptions::default()) else { return paths };
        let Ok(candidates) = self.view.trigrams().map(|lane| lane.candidates(matcher.plan())) else { return paths };
        let Ok(candidates) = candidates else { return paths };
        let is_same = |path: &str, head: &FileHead| {
            std::fs::symlink_metadata(self.root.join(path))
                .is_ok_and(|meta| head.settled && Stamp::of(&meta) == head.stamp)
        };
        let is_out = |path: &String| {
            let head = self.view.files.find(path).map(|row| self.view.files.head(row));
            head.is_some_and(|head| !candidates.contains(head.file) && is_same(path, head))
        };
        paths.into_iter().filter(|path| !is_out(path)).collect()
    }

    /// What the index holds.
    pub fn status(&self) -> Status {
        let files = &self.view.files;
        Status {
            generation: self.view.generation,
            age_seconds: self.view.age_seconds(),
            files: files.indexed_in_all(),
            chunks: files.chunks_in_all(),
            definitions: files.definitions_in_all(),
            lines: files.lines_in_all(),
            notes: self.view.notes.clone(),
        }
    }

    /// The tree, with symbolic links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[cfg(test)]
    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    pub(crate) fn embedder(&self) -> Option<&dyn Embedder> {
        self.embedder.as_deref()
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }
}
