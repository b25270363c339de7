//! What does this file use, where, and inside which definition?

use rustc_hash::FxHashSet;

use crate::file_no::FileNo;
use crate::fuse::is_test_path;
use crate::parsed::read;
use crate::symbols::{Living, Lookup, SymbolPlace, Symbols};

/// The use stands outside of any definition.
pub(crate) const NO_DEFINITION: u32 = u32::MAX;

/// How a name is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UseKind {
    /// It is called, expanded or instantiated.
    Call,
    /// It stands where a type stands.
    Type,
    /// It is brought in.
    Import,
    /// It is reached through something: `a.b`, `a::b`.
    Member,
    /// It stands by itself.
    Name,
}

impl UseKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            UseKind::Call => "call",
            UseKind::Type => "type",
            UseKind::Import => "import",
            UseKind::Member => "member",
            UseKind::Name => "name",
        }
    }
}

/// One use of a name, without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    /// Where it begins in the file.
    pub start: u32,
    pub bytes: u32,
    /// From 1.
    pub line: u32,
    pub kind: UseKind,
    /// The innermost definition around it as a place in the outline, or [`NO_DEFINITION`].
    pub definition: u32,
}

impl Use {
    /// The name. `file` are the bytes that were read.
    pub(crate) fn text<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize;
        file.get(start..start + self.bytes as usize).unwrap_or_default()
    }
}

/// Files that one question reads and parses.
const FILES_READ_MAX: usize = 40;
/// Bytes that it reads.
const BYTES_READ_MAX: usize = 4 * 1024 * 1024;
/// Names that one definition calls and that are looked up.
const CALLEES_MAX: usize = 200;
/// Definitions that are listed for one of them.
const CALLEE_PLACES_MAX: usize = 5;

/// A line is shown so far.
const LINE_BYTES_MAX: usize = 200;

/// Where a name is used, in a file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub file: FileNo,
    /// From 1.
    pub line: usize,
    pub kind: UseKind,
    /// `Outer.name` of the definition around it.
    pub inside: Option<String>,
    /// The line, without the white space around it, cut.
    pub text: String,
}

/// The uses of a name.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// By file, and in a file by line.
    pub found: Vec<Reference>,
    /// Files that may hold more and were not read.
    pub files_left_out: usize,
}

/// What a definition calls, and where that is defined as far as it is in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Callee {
    pub name: String,
    /// Of the first call, from 1.
    pub line: usize,
    /// Best first. Names decide, not types: each is a place where the call may lead.
    pub definitions: Vec<SymbolPlace>,
}

/// A tree of which files are read by path: (file, bytes), or nothing for what is gone.
pub(crate) trait Tree: Living {
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// Who uses `name`, which may be qualified: then files that speak of the outer name come first. The lane narrows, the
/// files themselves are read: lines are those of now. Names decide, not types.
pub(crate) fn references(symbols: &Symbols, tree: &dyn Tree, name: &str) -> References {
    let name = name.trim().trim_end_matches("()").replace("::", ".");
    let name = name.rsplit(':').next().unwrap_or(&name);
    let mut parts = name.rsplit('.');
    let (plain, outer) = (parts.next().unwrap_or(name), parts.next());
    let speaks = outer.map(|outer| holders(symbols, outer)).unwrap_or_default();
    let mut files: Vec<(bool, bool, &str, FileNo)> = holders(symbols, plain)
        .into_iter()
        .filter_map(|file| Some((tree.path(file)?, file)))
        .map(|(path, file)| (outer.is_some() && speaks.binary_search(&file).is_err(), is_test_path(path), path, file))
        .collect();
    files.sort_unstable();
    let mut references = References { files_left_out: files.len(), ..References::default() };
    let mut bytes_read = 0;
    for (_, _, path, file) in files.into_iter().take(FILES_READ_MAX) {
        if bytes_read > BYTES_READ_MAX {
            break;
        }
        references.files_left_out -= 1;
        let Some(bytes) = tree.read(path) else { continue };
        bytes_read += bytes.len();
        let Some(syntax) = read(path, &bytes) else { continue };
        let mut uses: Vec<&Use> = syntax.uses.iter().filter(|used| used.text(&bytes) == plain.as_bytes()).collect();
        uses.sort_by_key(|used| used.start);
        references.found.extend(uses.into_iter().map(|used| Reference {
            file,
            line: used.line as usize,
            kind: used.kind,
            inside: syntax.outline.get(used.definition as usize).map(|item| item.definition.qualified()),
            text: line_around(&bytes, used.start as usize),
        }));
    }
    references
}

fn line_around(bytes: &[u8], at: usize) -> String {
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = bytes[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    text[..text.floor_char_boundary(LINE_BYTES_MAX)].to_owned()
}

/// Those of [`references`] that call.
pub(crate) fn callers(symbols: &Symbols, tree: &dyn Tree, name: &str) -> References {
    let mut references = references(symbols, tree, name);
    references.found.retain(|reference| reference.kind == UseKind::Call);
    references
}

/// The files that define or use a name, ascending.
fn holders(symbols: &Symbols, name: &str) -> Vec<FileNo> {
    let mut files = Vec::new();
    for (segment, posting) in symbols.holders(name) {
        let places = posting.definitions.iter().map(|(file, _)| *file).chain(posting.used_in.iter().copied());
        files.extend(places.filter_map(|place| segment.file(place)));
    }
    files.sort_unstable();
    files.dedup();
    files
}

/// What a definition calls, in the order of the first calls.
pub(crate) fn callees(symbols: &Symbols, tree: &dyn Tree, definition: &SymbolPlace) -> Vec<Callee> {
    let Some((path, bytes)) = tree.path(definition.file).and_then(|path| Some((path, tree.read(path)?))) else {
        return Vec::new();
    };
    let Some(syntax) = read(path, &bytes) else { return Vec::new() };
    let bears = |item: &&crate::outline::Outlined| {
        item.definition.name == definition.name && item.definition.parent == definition.parent
    };
    let near = |item: &&crate::outline::Outlined| item.definition.start_line.abs_diff(definition.start_line);
    let Some(item) = syntax.outline.iter().filter(bears).min_by_key(near) else { return Vec::new() };
    let range = item.definition.start_byte..item.definition.end_byte;
    let mut calls: Vec<(&[u8], u32)> = Vec::new();
    let mut seen: FxHashSet<&[u8]> = FxHashSet::default();
    for used in syntax.uses.iter().filter(|used| used.kind == UseKind::Call && range.contains(&(used.start as usize))) {
        if seen.insert(used.text(&bytes)) && calls.len() < CALLEES_MAX {
            calls.push((used.text(&bytes), used.line));
        }
    }
    let resolve = |(name, line): (&[u8], u32)| {
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let mut definitions = match symbols.lookup(&name, tree) {
            Lookup::Exact(place) => vec![place],
            Lookup::Ambiguous(places, _) => places,
            Lookup::NotFound => Vec::new(),
        };
        definitions.sort_by_key(|place| place.file != definition.file);
        definitions.truncate(CALLEE_PLACES_MAX);
        Some(Callee { name, line: line as usize, definitions })
    };
    calls.into_iter().filter_map(resolve).collect()
}
