//! Into which pieces is a file cut?
//!
//! Every function and method is a chunk with the comments above it; a class, struct, impl or module is a chunk of the
//! lines that its functions leave over; what remains is cut by lines, as are files without a grammar. A piece that is
//! too long is split with an overlap. Every line that holds a letter or digit is in at least one chunk.

use std::ops::Range;

use crate::hash::PieceHash;
use crate::outline::{Kind, Outlined};

/// Changes whenever the same file would give other chunks; an index built by another version is rebuilt.
pub(crate) const CHUNKER_VERSION: u32 = 3;

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
/// A piece of fewer bytes is small: a getter, an import, a plain struct.
const SMALL_BYTES: usize = 200;
/// Small embedding models read a few hundred tokens; sending more only costs time.
const EMBEDDING_BYTES_MAX: usize = 2000;

/// One piece of one file, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Names what the embedder reads: two equal pieces share a vector, and a renamed file needs no new one.
    pub hash: PieceHash,
    /// First line, from 1.
    pub start: u32,
    /// Last line, from 1.
    pub end: u32,
    /// `Outer.name` of the definition that the piece is cut from.
    pub symbol: Option<String>,
    pub kind: Option<Kind>,
    /// Where its text lies in that of the file.
    pub bytes: Range<usize>,
}

impl Chunk {
    /// Whether it says so little that its words say it all, see [`crate::Embedder::skips_small`].
    pub(crate) fn is_small(&self) -> bool {
        self.bytes.len() < SMALL_BYTES
    }

    /// What the embedder reads: the name of the definition, then the beginning of the piece. `text` is the file's.
    pub(crate) fn embedding_text(&self, text: &str) -> String {
        let [symbol, newline, head] = embedding_parts(self.symbol.as_deref(), &text[self.bytes.clone()]);
        [symbol, newline, head].concat()
    }
}

fn embedding_parts<'a>(symbol: Option<&'a str>, text: &'a str) -> [&'a str; 3] {
    let head = &text[..text.floor_char_boundary(EMBEDDING_BYTES_MAX)];
    match symbol {
        Some(symbol) => [symbol, "\n", head],
        None => ["", "", head],
    }
}

/// A file cut into pieces.
pub(crate) struct Cut {
    pub chunks: Vec<Chunk>,
    pub lines: usize,
}

/// Cuts one file with these definitions. The same text and definitions always give the same pieces.
pub(crate) fn cut(text: &str, outline: &[Outlined]) -> Cut {
    let lines = Lines::of(text);
    let owners = owners(outline, lines.count());
    let mut chunks = Vec::new();
    let mut first = 0;
    while first < owners.len() {
        let owner = owners[first];
        let length = owners[first..].iter().take_while(|other| **other == owner).count();
        let item = (owner != NOBODY).then(|| &outline[owner as usize]);
        for (start, end) in split(&lines, first, first + length, item.is_some()) {
            chunks.extend(piece(&lines, start, end, item));
        }
        first += length;
    }
    Cut { chunks, lines: lines.count() }
}

fn piece(lines: &Lines<'_>, start: usize, end: usize, item: Option<&Outlined>) -> Option<Chunk> {
    let bytes = lines.starts[start]..lines.starts[end];
    let text = &lines.text[bytes.clone()];
    if !text.contains(|c: char| c.is_alphanumeric()) {
        return None;
    }
    let symbol = item.map(|item| item.definition.qualified());
    let hash = PieceHash::of(&embedding_parts(symbol.as_deref(), text).map(str::as_bytes));
    let kind = item.map(|item| item.definition.kind);
    Some(Chunk { hash, start: start as u32 + 1, end: end as u32, symbol, kind, bytes })
}

/// Owns no line of [`owners`].
const NOBODY: u32 = u32::MAX;

/// For every line the innermost definition that makes chunks, as an index into `outline`. What is nested in a
/// function belongs to the function.
fn owners(outline: &[Outlined], lines: usize) -> Vec<u32> {
    let mut owners = vec![NOBODY; lines];
    // In order of their start, outer before inner: an inner one overwrites its lines.
    for (at, item) in outline.iter().enumerate() {
        let makes_chunks = !matches!(item.definition.kind, Kind::Constant | Kind::Type);
        if item.inside_callable || !makes_chunks {
            continue;
        }
        let end = item.definition.end_line.min(lines);
        let start = (item.doc_line - 1).min(end);
        owners[start..end].fill(at as u32);
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
