//! Who uses this, what does it call, and which files belong to it?
//!
//! The lane of symbols narrows, the files themselves are read: lines are those of now. Names decide, not types.

use crate::file_no::FileNo;
use crate::index::Index;
use crate::references::{self, Reference, References, Tree, UseKind};
use crate::symbols::{Living, Lookup, SymbolDefinition, SymbolPlace};

/// A line that uses a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Relative to the root.
    pub path: String,
    /// From 1.
    pub line: usize,
    /// How it is used.
    pub kind: UseKind,
    /// `Outer.name` of the definition around it.
    pub inside: Option<String>,
    /// The line, without the white space around it, at most 200 bytes.
    pub text: String,
}

/// The answer to "who uses this name?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usages {
    /// By file, and in a file by line; files that also speak of the outer name come first, tests last.
    pub found: Vec<Usage>,
    /// Files that may hold more and were not read: at most 40 files and 4 MiB are.
    pub files_left_out: usize,
}

/// A call that a definition makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is called.
    pub name: String,
    /// Of the first call, from 1.
    pub line: usize,
    /// Where it may lead: at most 5 definitions of that name, those of the same file first; none where it is not in
    /// the tree.
    pub definitions: Vec<SymbolDefinition>,
}

impl Index {
    /// Who uses a name, which may be qualified: then files that speak of the outer name come first.
    pub fn references(&self, name: &str) -> Usages {
        self.usages(references::references(&self.view().symbols(), self.view(), name))
    }

    /// Who calls it.
    pub fn callers(&self, name: &str) -> Usages {
        self.usages(references::callers(&self.view().symbols(), self.view(), name))
    }

    /// What the first definition of a name calls, in the order of the first calls. Nothing where nothing bears it.
    pub fn callees(&self, name: &str) -> Option<Vec<Call>> {
        let place = match self.view().symbol(name) {
            Lookup::Exact(place) => place,
            Lookup::Ambiguous(mut places, _) => places.swap_remove(0),
            Lookup::NotFound => return None,
        };
        let called = references::callees(&self.view().symbols(), self.view(), &place);
        let call = |callee: references::Callee| Call {
            name: callee.name,
            line: callee.line,
            definitions: callee.definitions.into_iter().map(|place| self.definition(place)).collect(),
        };
        Some(called.into_iter().map(call).collect())
    }

    /// The files that a file imports, as far as they are in the tree.
    pub fn imports(&self, path: &str) -> Vec<String> {
        let Some(graph) = self.view().graph() else { return Vec::new() };
        self.view().number(path).map(|file| self.paths(graph.imports(file))).unwrap_or_default()
    }

    /// The files that import it.
    pub fn imported_by(&self, path: &str) -> Vec<String> {
        let Some(graph) = self.view().graph() else { return Vec::new() };
        self.view().number(path).map(|file| self.paths(graph.imported_by(file))).unwrap_or_default()
    }

    /// The files that belong to these, best first: they import one another, use one another's names, or change
    /// together in the history of the repository, as far as git tells it within 5 seconds.
    pub fn related(&self, paths: &[String], limit: usize) -> Vec<String> {
        let Some(graph) = self.view().graph() else { return Vec::new() };
        let seeds: Vec<_> = paths.iter().filter_map(|path| self.view().number(path)).collect();
        self.paths(graph.related(&seeds, limit).into_iter().map(|(file, _)| file))
    }

    fn paths(&self, files: impl IntoIterator<Item = FileNo>) -> Vec<String> {
        files.into_iter().filter_map(|file| Living::path(self.view(), file)).map(str::to_owned).collect()
    }

    fn usages(&self, references: References) -> Usages {
        let usage = |Reference { file, line, kind, inside, text }| {
            let path = Living::path(self.view(), file)?.to_owned();
            Some(Usage { path, line, kind, inside, text })
        };
        let found = references.found.into_iter().filter_map(usage).collect();
        Usages { found, files_left_out: references.files_left_out }
    }

    pub(crate) fn definition(&self, place: SymbolPlace) -> SymbolDefinition {
        let path = Living::path(self.view(), place.file).unwrap_or_default().to_owned();
        let signature = self.view().read(&path).and_then(|bytes| place.signature(&bytes));
        let SymbolPlace { name, kind, parent, start_line, end_line, .. } = place;
        SymbolDefinition { path, name, kind, parent, start_line, end_line, signature }
    }
}
