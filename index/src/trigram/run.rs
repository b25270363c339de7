//! How are more trigrams sorted than fit into memory? In runs: sorted, written away, read back side by side.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::path::Path;

use super::Trigram;
use crate::segment::SegmentError;
use crate::varint::{put, put_ascending};

/// Buffer for reading a run back.
const RUN_BUFFER_BYTES: usize = 64 * 1024;

/// Gives trigrams in ascending order, each once.
pub(super) trait Source {
    /// Puts the pages of the next trigram into `pages`, ascending, in place of what was there.
    fn next(&mut self, pages: &mut Vec<u32>) -> Result<Option<Trigram>, SegmentError>;
}

/// A trigram and a page in one number, which sorts as it should.
pub(super) fn pair(trigram: Trigram, page: u32) -> u64 {
    u64::from(trigram) << 32 | u64::from(page)
}

/// Sorts pairs by trigram. Those of one trigram keep their order: pages were counted up, so they ascend.
pub(super) fn sort(pairs: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    scratch.resize(pairs.len(), 0);
    for shift in [32, 40, 48] {
        let digit = |pair: u64| (pair >> shift) as usize & 0xff;
        let mut places = [0usize; 256];
        pairs.iter().for_each(|&pair| places[digit(pair)] += 1);
        let mut start = 0;
        for place in &mut places {
            start += std::mem::replace(place, start);
        }
        for &pair in pairs.iter() {
            let place = &mut places[digit(pair)];
            scratch[*place] = pair;
            *place += 1;
        }
        std::mem::swap(pairs, scratch);
    }
}

/// Sorted pairs that are still in memory.
pub(super) struct MemoryRun {
    pub pairs: Vec<u64>,
    pub at: usize,
}

impl Source for MemoryRun {
    fn next(&mut self, pages: &mut Vec<u32>) -> Result<Option<Trigram>, SegmentError> {
        pages.clear();
        let Some(&first) = self.pairs.get(self.at) else { return Ok(None) };
        let same = self.pairs[self.at..].iter().take_while(|pair| *pair >> 32 == first >> 32);
        pages.extend(same.map(|&pair| pair as u32));
        self.at += pages.len();
        Ok(Some((first >> 32) as Trigram))
    }
}

/// Sorted pairs in a temporary file without a name.
pub(super) struct SpilledRun(BufReader<File>);

impl SpilledRun {
    /// Writes what the source has.
    pub(super) fn write(source: &mut dyn Source, directory: &Path) -> Result<SpilledRun, SegmentError> {
        let mut file = BufWriter::new(tempfile::tempfile_in(directory)?);
        let (mut pages, mut bytes) = (Vec::new(), Vec::new());
        while let Some(trigram) = source.next(&mut pages)? {
            bytes.clear();
            put(&mut bytes, u64::from(trigram));
            put_ascending(&mut bytes, &pages);
            file.write_all(&bytes)?;
        }
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(SpilledRun(BufReader::with_capacity(RUN_BUFFER_BYTES, file)))
    }

    fn number(&mut self) -> Result<u32, SegmentError> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = *self.0.fill_buf()?.first().ok_or(SegmentError::Damaged)?;
            self.0.consume(1);
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).map_err(|_| SegmentError::Damaged);
            }
            shift += 7;
            if shift > 28 {
                return Err(SegmentError::Damaged);
            }
        }
    }
}

impl Source for SpilledRun {
    fn next(&mut self, pages: &mut Vec<u32>) -> Result<Option<Trigram>, SegmentError> {
        pages.clear();
        if self.0.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let trigram = self.number()?;
        let mut page = 0u32;
        for _ in 0..self.number()? {
            page = page.checked_add(self.number()?).ok_or(SegmentError::Damaged)?;
            pages.push(page);
        }
        Ok(Some(trigram))
    }
}

/// What is done with a trigram and its pages.
pub(super) type Take<'a> = dyn FnMut(Trigram, &[u32]) -> Result<(), SegmentError> + 'a;

/// Reads all sources side by side and hands on every trigram once, with the pages of all of them. The pages of an
/// earlier source lie before those of a later one.
pub(super) fn merge_sources(mut sources: Vec<Box<dyn Source + '_>>, take: &mut Take<'_>) -> Result<(), SegmentError> {
    let mut lists = vec![Vec::new(); sources.len()];
    let mut heads = BinaryHeap::new();
    for (at, source) in sources.iter_mut().enumerate() {
        heads.extend(source.next(&mut lists[at])?.map(|trigram| Reverse((trigram, at))));
    }
    let mut pages: Vec<u32> = Vec::new();
    while let Some(Reverse((trigram, at))) = heads.pop() {
        pages.extend(&lists[at]);
        heads.extend(sources[at].next(&mut lists[at])?.map(|trigram| Reverse((trigram, at))));
        if heads.peek().is_none_or(|Reverse((next, _))| *next != trigram) {
            take(trigram, &pages)?;
            pages.clear();
        }
    }
    Ok(())
}
