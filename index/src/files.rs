//! Which files does the index hold, and where are their pieces? The table behind every answer.
//!
//! Compact, because it is always in memory: all paths in one text, all pieces in one list. Sorted by path once it is
//! [`Files::settle`]d. How it lies on the disk is told in `files_segment.rs`.

use std::ops::Range;

use rustc_hash::FxHashSet;

use crate::admit::Stamp;
use crate::classify::Class;
use crate::document::Document;
use crate::embed::Embedder;
use crate::file_no::FileNo;
use crate::hash::{ContentKey, PieceHash};
use crate::outline::Kind;
use crate::report::{SkipReason, Skipped};

/// What is known of one file beside its path and its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub file: FileNo,
    pub key: ContentKey,
    pub stamp: Stamp,
    /// Whether an equal stamp means equal content, see [`Stamp::settled_before`].
    pub settled: bool,
    /// Whether bytes were replaced because they were not UTF-8.
    pub lossy: bool,
    /// Why it is in no lane but that of the trigrams, see [`Document::bare`].
    pub bare: Option<SkipReason>,
    pub class: Class,
    pub lines: u32,
    pub definitions: u32,
}

/// One piece of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRef<'files> {
    pub hash: PieceHash,
    /// First line, from 1.
    pub start: usize,
    /// Last line, from 1.
    pub end: usize,
    pub symbol: Option<&'files str>,
    pub kind: Option<Kind>,
    /// See [`crate::chunk::Chunk::is_small`].
    pub small: bool,
}

#[derive(Debug, Clone)]
struct Row {
    head: FileHead,
    path: Range<u32>,
    chunks: Range<u32>,
}

#[derive(Debug, Clone, Copy)]
struct ChunkRow {
    hash: PieceHash,
    start: u32,
    end: u32,
    /// Into `symbols`; `u32::MAX` where there is none.
    symbol: u32,
    /// See [`kind_of_number`].
    kind: u8,
    small: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Files {
    rows: Vec<Row>,
    paths: String,
    chunks: Vec<ChunkRow>,
    symbols: String,
    /// Where each symbol lies in `symbols`. Pieces of one definition follow each other and share theirs.
    symbol_ranges: Vec<Range<u32>>,
    /// Number and row, sorted by number.
    by_number: Vec<(u32, u32)>,
}

const NO_SYMBOL: u32 = u32::MAX;

impl Files {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn path(&self, row: usize) -> &str {
        let range = &self.rows[row].path;
        &self.paths[range.start as usize..range.end as usize]
    }

    pub(crate) fn head(&self, row: usize) -> &FileHead {
        &self.rows[row].head
    }

    /// Whether the file is in the lane of trigrams and in no other. Then it does not count as indexed.
    pub(crate) fn is_bare(&self, row: usize) -> bool {
        self.head(row).bare.is_some()
    }

    /// Those of the files that are bare, with their reasons.
    pub(crate) fn bare(&self) -> impl Iterator<Item = Skipped> {
        let skip = |row| self.head(row).bare.map(|reason| Skipped { path: self.path(row).to_owned(), reason });
        (0..self.len()).filter_map(skip)
    }

    /// For a stamp that was taken anew.
    pub(crate) fn head_mut(&mut self, row: usize) -> &mut FileHead {
        &mut self.rows[row].head
    }

    pub(crate) fn chunk_count(&self, row: usize) -> usize {
        self.rows[row].chunks.len()
    }

    pub(crate) fn chunk(&self, row: usize, at: usize) -> ChunkRef<'_> {
        let chunk = &self.chunks[self.rows[row].chunks.start as usize + at];
        let symbol = self.symbol_ranges.get(chunk.symbol as usize);
        ChunkRef {
            hash: chunk.hash,
            start: chunk.start as usize,
            end: chunk.end as usize,
            symbol: symbol.map(|range| &self.symbols[range.start as usize..range.end as usize]),
            kind: kind_of_number(chunk.kind),
            small: chunk.small,
        }
    }

    pub(crate) fn chunks(&self, row: usize) -> impl Iterator<Item = ChunkRef<'_>> {
        (0..self.chunk_count(row)).map(move |at| self.chunk(row, at))
    }

    /// The names of all pieces of a file.
    pub(crate) fn hashes(&self, row: usize) -> impl Iterator<Item = PieceHash> {
        let range = &self.rows[row].chunks;
        self.chunks[range.start as usize..range.end as usize].iter().map(|chunk| chunk.hash)
    }

    /// The names of those pieces of a file that this embedder makes a vector of.
    pub(crate) fn embedded(&self, row: usize, embedder: &dyn Embedder) -> impl Iterator<Item = PieceHash> {
        let range = &self.rows[row].chunks;
        let all = !embedder.skips_small();
        let wanted = self.chunks[range.start as usize..range.end as usize].iter().filter(move |c| all || !c.small);
        wanted.map(|chunk| chunk.hash)
    }

    /// The row of a path. Legal once the table is settled.
    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        let at = self.lower_bound(path);
        (at < self.len() && self.path(at) == path).then_some(at)
    }

    /// The first row whose path is `path` or comes after it. Legal once the table is settled.
    pub(crate) fn lower_bound(&self, path: &str) -> usize {
        self.rows.partition_point(|row| &self.paths[row.path.start as usize..row.path.end as usize] < path)
    }

    /// The row of a number; nothing where the file is gone or has changed. Legal once the table is settled.
    pub(crate) fn row_of(&self, file: FileNo) -> Option<usize> {
        let at = self.by_number.binary_search_by_key(&file.0, |(number, _)| *number).ok()?;
        Some(self.by_number[at].1 as usize)
    }

    /// How many files are in all lanes.
    pub(crate) fn indexed_in_all(&self) -> usize {
        self.rows.iter().filter(|row| row.head.bare.is_none()).count()
    }

    pub(crate) fn chunks_in_all(&self) -> usize {
        self.rows.iter().map(|row| row.chunks.len()).sum()
    }

    pub(crate) fn definitions_in_all(&self) -> usize {
        self.rows.iter().map(|row| row.head.definitions as usize).sum()
    }

    pub(crate) fn lines_in_all(&self) -> usize {
        self.rows.iter().map(|row| row.head.lines as usize).sum()
    }

    /// Takes a document that was read at `read_at` (nanoseconds since the epoch).
    pub(crate) fn add_document(&mut self, document: &Document, read_at: i64) {
        let head = FileHead {
            file: document.file,
            key: document.key,
            stamp: document.stamp,
            settled: document.stamp.settled_before(read_at),
            lossy: document.is_lossy(),
            bare: document.bare,
            class: document.class,
            lines: document.lines as u32,
            definitions: document.syntax.outline.iter().filter(|item| item.listed).count() as u32,
        };
        self.begin(&document.path, head);
        for chunk in &document.chunks {
            self.push_chunk(ChunkRef {
                hash: chunk.hash,
                start: chunk.start as usize,
                end: chunk.end as usize,
                symbol: chunk.symbol.as_deref(),
                kind: chunk.kind,
                small: chunk.is_small(),
            });
        }
    }

    /// Takes a row of another table.
    pub(crate) fn add_row(&mut self, other: &Files, row: usize) {
        self.begin(other.path(row), other.head(row).clone());
        other.chunks(row).for_each(|chunk| self.push_chunk(chunk));
    }

    /// Begins a file; its pieces follow by [`Files::push_chunk`].
    pub(crate) fn begin(&mut self, path: &str, head: FileHead) {
        let start = self.paths.len() as u32;
        self.paths.push_str(path);
        let chunks = self.chunks.len() as u32;
        self.rows.push(Row { head, path: start..self.paths.len() as u32, chunks: chunks..chunks });
    }

    pub(crate) fn push_chunk(&mut self, chunk: ChunkRef<'_>) {
        let row = self.rows.last_mut().expect("a file was begun");
        let symbol = match chunk.symbol {
            None => NO_SYMBOL,
            Some(symbol) => {
                let last = self.symbol_ranges.last().map(|range| range.start as usize..range.end as usize);
                if last.is_none_or(|range| &self.symbols[range] != symbol) {
                    let start = self.symbols.len() as u32;
                    self.symbols.push_str(symbol);
                    self.symbol_ranges.push(start..self.symbols.len() as u32);
                }
                self.symbol_ranges.len() as u32 - 1
            }
        };
        let (start, end) = (chunk.start as u32, chunk.end as u32);
        let (kind, small) = (number_of_kind(chunk.kind), chunk.small);
        self.chunks.push(ChunkRow { hash: chunk.hash, start, end, symbol, kind, small });
        row.chunks.end += 1;
    }

    /// Drops the rows of dead numbers, keeps of several rows of one number the last, and sorts.
    pub(crate) fn settle(&mut self, dead: &FxHashSet<u32>) {
        let mut seen = FxHashSet::default();
        let mut keep = vec![false; self.rows.len()];
        for (at, row) in self.rows.iter().enumerate().rev() {
            let number = row.head.file.0;
            keep[at] = !dead.contains(&number) && seen.insert(number);
        }
        let mut keep = keep.into_iter();
        self.rows.retain(|_| keep.next().unwrap_or(true));
        let paths = &self.paths;
        let path = |row: &Row| &paths[row.path.start as usize..row.path.end as usize];
        self.rows.sort_by(|left, right| path(left).cmp(path(right)));
        self.by_number = self.rows.iter().enumerate().map(|(at, row)| (row.head.file.0, at as u32)).collect();
        self.by_number.sort_unstable();
    }
}

/// 0 for none, else the place in [`Kind::ALL`] from 1.
pub(crate) fn number_of_kind(kind: Option<Kind>) -> u8 {
    kind.and_then(|kind| Kind::ALL.iter().position(|other| *other == kind)).map_or(0, |at| at as u8 + 1)
}

pub(crate) fn kind_of_number(number: u8) -> Option<Kind> {
    Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn head(number: u32) -> FileHead {
        let stamp = Stamp { size: 7, mtime: -3, ctime: 1_700_000_000_000_000_000, inode: u64::from(number) };
        FileHead {
            file: FileNo(number),
            key: [number as u8; 32],
            stamp,
            settled: number.is_multiple_of(2),
            lossy: number.is_multiple_of(3),
            bare: SkipReason::of_number((number % 17) as u8),
            class: Class::of_number((number % 11) as u8),
            lines: 100 + number,
            definitions: number,
        }
    }

    pub(crate) fn push(files: &mut Files, path: &str, number: u32) {
        files.begin(path, head(number));
        for at in 0..number as usize % 4 {
            let name = format!("name_{}", at / 2);
            let symbol = (at > 0).then_some(name.as_str());
            let hash = PieceHash::of(&[path.as_bytes(), &[at as u8]]);
            files.push_chunk(ChunkRef {
                hash,
                start: at * 10 + 1,
                end: at * 12 + 5,
                symbol,
                kind: kind_of_number(at as u8),
                small: at % 2 == 0,
            });
        }
    }

    /// Everything, in comparable form.
    pub(crate) fn listed(files: &Files) -> Vec<(String, FileHead, Vec<ChunkRef<'_>>)> {
        (0..files.len())
            .map(|row| (files.path(row).to_owned(), files.head(row).clone(), files.chunks(row).collect()))
            .collect()
    }

    #[test]
    fn the_last_row_of_a_number_counts_and_the_dead_are_gone() {
        let mut files = Files::default();
        push(&mut files, "b", 1);
        push(&mut files, "a", 2);
        push(&mut files, "c", 3);
        files.begin("b", FileHead { lines: 9, ..head(1) });
        files.settle(&FxHashSet::from_iter([3]));
        assert_eq!((files.len(), files.path(0), files.path(1)), (2, "a", "b"));
        assert_eq!(files.head(1).lines, 9);
        assert_eq!((files.find("b"), files.find("c"), files.lower_bound("aa")), (Some(1), None, 1));
        assert_eq!((files.row_of(FileNo(2)), files.row_of(FileNo(3))), (Some(0), None));
    }
}
