//! Into which pieces is a file cut?
//!
//! Every function and method is a chunk with the comments above it; a class, struct, impl or module is a chunk of the
//! lines that its functions leave over; what remains is cut by lines, as are files without a grammar. A piece that is
//! too long is split with an overlap. Every line that holds a letter or digit is in at least one chunk.

use serde::{Deserialize, Serialize};

use crate::hash::{number_of, short_hex};
use crate::outline::{Kind, Outlined, outlined};

/// Changes whenever the same file would give other chunks; an index built by another version is rebuilt.
pub(crate) const CHUNKER_VERSION: u32 = 1;

/// Text that belongs to no definition is cut into pieces of about this many lines.
const LINES_PLAIN: usize = 40;
/// A cut may come this many lines earlier, to fall on an empty line.
const LINES_SLACK: usize = 10;
/// A definition with more lines is split.
const LINES_MAX: usize = 80;
/// Lines that two pieces of one split definition share.
const LINES_OVERLAP: usize = 8;
/// A piece with more bytes is split, whatever its lines.
const CHUNK_BYTES_MAX: usize = 8 * 1024;

/// One piece of one file, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChunkRecord {
    /// Names the piece in its place: path, first line and content.
    pub id: u64,
    /// Names the content alone: two equal pieces share a vector, and a renamed file needs no new one.
    pub hash: String,
    /// First line, from 1.
    pub start: usize,
    /// Last line, from 1.
    pub end: usize,
    /// `Outer.name` of the definition that the piece is cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

/// One piece with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub record: ChunkRecord,
    /// The lines as they stand in the file.
    pub text: String,
}

impl Chunk {
    /// What the embedder reads: the name of the definition, then the text.
    pub(crate) fn embedding_text(&self) -> String {
        embedding_text(self.record.symbol.as_deref(), &self.text)
    }
}

/// Small embedding models read a few hundred tokens; sending more only costs time.
const EMBEDDING_BYTES_MAX: usize = 2000;

fn embedding_text(symbol: Option<&str>, text: &str) -> String {
    let mut whole = symbol.map(|symbol| format!("{symbol}\n")).unwrap_or_default();
    let room = EMBEDDING_BYTES_MAX.min(text.len());
    let cut = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    whole.push_str(&text[..cut]);
    whole
}

/// A file cut into pieces, with the definitions in it.
pub(crate) struct Cut {
    pub chunks: Vec<Chunk>,
    pub outline: Vec<Outlined>,
    pub lines: usize,
}

/// Cuts one file. The same path and text always give the same pieces.
pub(crate) fn cut(path: &str, text: &str) -> Cut {
    let outline = outlined(path, text.as_bytes()).unwrap_or_default();
    let lines = Lines::of(text);
    let owners = owners(&outline, lines.count());
    let mut chunks = Vec::new();
    let mut first = 0;
    while first < owners.len() {
        let owner = owners[first];
        let length = owners[first..].iter().take_while(|other| **other == owner).count();
        let item = owner.map(|at| &outline[at]);
        for (start, end) in split(&lines, first, first + length, item.is_some()) {
            chunks.extend(piece(path, &lines, start, end, item));
        }
        first += length;
    }
    Cut { chunks, lines: lines.count(), outline }
}

fn piece(path: &str, lines: &Lines<'_>, start: usize, end: usize, item: Option<&Outlined>) -> Option<Chunk> {
    let text = lines.slice(start, end);
    if !text.contains(|c: char| c.is_alphanumeric()) {
        return None;
    }
    let symbol = item.map(|item| item.definition.qualified());
    let hash = short_hex(embedding_text(symbol.as_deref(), text).as_bytes());
    let content = short_hex(text.as_bytes());
    let id = number_of(&[path.as_bytes(), &(start as u64).to_le_bytes(), hash.as_bytes(), content.as_bytes()]);
    let kind = item.map(|item| item.definition.kind);
    let record = ChunkRecord { id, hash, start: start + 1, end, symbol, kind };
    Some(Chunk { record, text: text.to_owned() })
}

/// For every line the innermost definition that makes chunks, as an index into `outline`. What is nested in a
/// function belongs to the function.
fn owners(outline: &[Outlined], lines: usize) -> Vec<Option<usize>> {
    let mut owners = vec![None; lines];
    // In order of their start, outer before inner: an inner one overwrites its lines.
    for (at, item) in outline.iter().enumerate() {
        let makes_chunks = !matches!(item.definition.kind, Kind::Constant | Kind::Type);
        if item.inside_callable || !makes_chunks {
            continue;
        }
        let end = item.definition.end_line.min(lines);
        let start = (item.doc_line - 1).min(end);
        owners[start..end].fill(Some(at));
    }
    owners
}

/// Splits the lines `first..end` into pieces of bearable size.
fn split(lines: &Lines<'_>, first: usize, end: usize, is_definition: bool) -> Vec<(usize, usize)> {
    let (lines_max, overlap) = if is_definition { (LINES_MAX, LINES_OVERLAP) } else { (LINES_PLAIN, 0) };
    let mut pieces = Vec::new();
    let mut start = first;
    loop {
        let mut stop = (start + lines_max).min(end);
        while stop > start + 1 && lines.slice(start, stop).len() > CHUNK_BYTES_MAX {
            stop = start + (stop - start).div_ceil(2);
        }
        if stop < end && !is_definition {
            let earliest = stop.saturating_sub(LINES_SLACK).max(start + 1);
            stop = (earliest..=stop).rev().find(|&at| lines.is_blank(at - 1)).unwrap_or(stop);
        }
        pieces.push((start, stop));
        if stop >= end {
            return pieces;
        }
        start = stop.saturating_sub(overlap).max(start + 1);
    }
}

/// A text by lines.
struct Lines<'text> {
    text: &'text str,
    /// Offset of the first byte of each line, then the length of the text.
    starts: Vec<usize>,
}

impl<'text> Lines<'text> {
    fn of(text: &'text str) -> Lines<'text> {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
        if starts.last() != Some(&text.len()) {
            starts.push(text.len());
        }
        Lines { text, starts }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn slice(&self, first: usize, end: usize) -> &'text str {
        &self.text[self.starts[first]..self.starts[end]]
    }

    fn is_blank(&self, line: usize) -> bool {
        self.slice(line, line + 1).trim().is_empty()
    }
}
