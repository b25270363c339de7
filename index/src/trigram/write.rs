//! How does a segment come to be? From files, added one by one, or from older segments.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::codec::encode;
use super::pages::{Extractor, pages};
use super::read::TrigramSegment;
use super::run::{MemoryRun, Source, SpilledRun, merge_sources, pair, sort};
use super::terms::TermsWriter;
use super::{BLOCKS, FILES, FIRST_PAGES, FORMAT, LISTS, OPAQUE, PAGE_COUNT, TERMS, TRIGRAM_MAX};
use crate::file_no::FileNo;
use crate::segment::{SegmentError, SegmentWriter};

/// Fewer pairs than this are never written away.
const PAIRS_MIN: usize = 1 << 16;
/// A pair, and its place in the other half while it is sorted.
const PAIR_BYTES: usize = 16;

/// Makes one segment. Each file is added once; the order does not matter, near files are best added together.
pub(crate) struct TrigramWriter {
    spill_directory: PathBuf,
    pub(super) pairs_max: usize,
    pairs: Vec<u64>,
    scratch: Vec<u64>,
    runs: Vec<SpilledRun>,
    files: FileTable,
    extractor: Extractor,
}

/// What a segment says about its files.
#[derive(Default)]
pub(super) struct FileTable {
    files: Vec<u32>,
    first_pages: Vec<u32>,
    opaque: Vec<u32>,
    pages: u32,
}

impl FileTable {
    fn begin(&mut self, file: FileNo) {
        self.files.push(file.0);
        self.first_pages.push(self.pages);
    }

    fn mark_opaque(&mut self) {
        let last = self.files.len() as u32 - 1;
        if self.opaque.last() != Some(&last) {
            self.opaque.push(last);
        }
    }

    /// The number of a new page of the last file.
    fn page(&mut self) -> Result<u32, SegmentError> {
        let page = self.pages;
        self.pages = page.checked_add(1).ok_or_else(|| std::io::Error::other("too many pages for one segment"))?;
        Ok(page)
    }
}

impl TrigramWriter {
    /// Keeps about `memory_bytes_max` in memory and the rest in nameless files in `spill_directory`.
    pub(crate) fn new(spill_directory: &Path, memory_bytes_max: usize) -> TrigramWriter {
        TrigramWriter {
            spill_directory: spill_directory.to_path_buf(),
            pairs_max: (memory_bytes_max / PAIR_BYTES).max(PAIRS_MIN),
            pairs: Vec::new(),
            scratch: Vec::new(),
            runs: Vec::new(),
            files: FileTable::default(),
            extractor: Extractor::new(),
        }
    }

    /// Adds a file with all of its bytes, as they are in the tree.
    pub(crate) fn add(&mut self, file: FileNo, bytes: &[u8]) -> Result<(), SegmentError> {
        self.files.begin(file);
        // What holds a NUL is binary and never searched.
        if memchr::memchr(0, bytes).is_some() {
            return Ok(());
        }
        if is_decoded_before_search(bytes) {
            self.files.mark_opaque();
            return Ok(());
        }
        for text in pages(bytes) {
            let Some(trigrams) = self.extractor.trigrams(text) else {
                self.files.mark_opaque();
                continue;
            };
            let page = self.files.page()?;
            self.pairs.extend(trigrams.iter().map(|&trigram| pair(trigram, page)));
            if self.pairs.len() >= self.pairs_max {
                self.spill()?;
            }
        }
        Ok(())
    }

    /// Writes the segment under a path that does not exist yet. Returns its size in bytes.
    pub(crate) fn finish(mut self, path: &Path) -> Result<u64, SegmentError> {
        sort(&mut self.pairs, &mut self.scratch);
        drop(self.scratch);
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for run in self.runs {
            sources.push(Box::new(run));
        }
        sources.push(Box::new(MemoryRun { pairs: self.pairs, at: 0 }));
        write_segment(path, &self.files, sources)
    }

    fn spill(&mut self) -> Result<(), SegmentError> {
        sort(&mut self.pairs, &mut self.scratch);
        let mut run = MemoryRun { pairs: std::mem::take(&mut self.pairs), at: 0 };
        self.runs.push(SpilledRun::write(&mut run, &self.spill_directory)?);
        self.pairs = run.pairs;
        self.pairs.clear();
        Ok(())
    }
}

/// grep-searcher decodes a text that begins like UTF-16 before it looks for the pattern.
fn is_decoded_before_search(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// Makes one segment of several, without the files that are not `alive`. A file that is in several of them is in
/// the new one as often. Returns its size in bytes.
pub(crate) fn merge(
    segments: &[TrigramSegment],
    alive: &dyn Fn(FileNo) -> bool,
    path: &Path,
) -> Result<u64, SegmentError> {
    let mut table = FileTable::default();
    let mut sources: Vec<Box<dyn Source + '_>> = Vec::new();
    for segment in segments {
        let mut new_pages = vec![None; segment.page_count() as usize];
        for at in 0..segment.files().len() {
            if !alive(segment.files()[at]) {
                continue;
            }
            table.begin(segment.files()[at]);
            if segment.is_opaque(at) {
                table.mark_opaque();
            }
            for page in segment.pages_of(at) {
                new_pages[page as usize] = Some(table.page()?);
            }
        }
        sources.push(Box::new(segment.source(new_pages)));
    }
    write_segment(path, &table, sources)
}

fn write_segment(path: &Path, table: &FileTable, sources: Vec<Box<dyn Source + '_>>) -> Result<u64, SegmentError> {
    let mut segment = SegmentWriter::create(path, FORMAT)?;
    segment.section(PAGE_COUNT)?;
    segment.write_all(&table.pages.to_le_bytes())?;
    for (tag, numbers) in [(FILES, &table.files), (FIRST_PAGES, &table.first_pages), (OPAQUE, &table.opaque)] {
        segment.section(tag)?;
        for number in numbers {
            segment.write_all(&number.to_le_bytes())?;
        }
    }
    segment.section(LISTS)?;
    let mut terms = TermsWriter::default();
    let (mut bytes, mut next) = (Vec::new(), 0);
    merge_sources(sources, &mut |trigram, list| {
        if trigram < next || trigram > TRIGRAM_MAX {
            return Err(SegmentError::Damaged);
        }
        next = trigram + 1;
        bytes.clear();
        encode(list, table.pages, &mut bytes);
        segment.write_all(&bytes)?;
        terms.push(trigram, list.len() as u32, bytes.len() as u64);
        Ok(())
    })?;
    segment.section(TERMS)?;
    segment.write_all(&terms.terms)?;
    segment.section(BLOCKS)?;
    segment.write_all(&terms.blocks)?;
    Ok(segment.finish()?)
}
