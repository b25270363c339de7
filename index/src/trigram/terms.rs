//! Where is the list of a trigram?
//!
//! The trigrams ascend. Of every 64 of them the first stands in a table of fixed width (4 bytes trigram, 4 bytes
//! where its block begins, 8 bytes where its list begins), which is searched by halving. The block has per trigram
//! three varints: the distance to the one before, how many pages, how many bytes of list.

use super::{Trigram, u32_at};
use crate::segment::SegmentError;
use crate::varint::{put, take};

const BLOCK_TERMS: usize = 64;
const ENTRY_BYTES: usize = 16;

/// A trigram and where its list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    pub trigram: Trigram,
    /// Pages in the list.
    pub count: u32,
    /// Where the list begins.
    pub start: u64,
    /// Bytes of the list.
    pub length: u64,
}

/// Collects the terms of a segment that is being written.
#[derive(Default)]
pub(super) struct TermsWriter {
    pub blocks: Vec<u8>,
    pub terms: Vec<u8>,
    written: usize,
    last: Trigram,
    lists_bytes: u64,
}

impl TermsWriter {
    pub(super) fn push(&mut self, trigram: Trigram, count: u32, length: u64) {
        if self.written.is_multiple_of(BLOCK_TERMS) {
            self.blocks.extend(trigram.to_le_bytes());
            // At most 2^24 terms of 14 bytes.
            self.blocks.extend((self.terms.len() as u32).to_le_bytes());
            self.blocks.extend(self.lists_bytes.to_le_bytes());
            self.last = trigram;
        }
        put(&mut self.terms, u64::from(trigram - self.last));
        put(&mut self.terms, u64::from(count));
        put(&mut self.terms, length);
        self.last = trigram;
        self.written += 1;
        self.lists_bytes += length;
    }
}

/// The terms of a segment that is being read.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub blocks: &'a [u8],
    pub terms: &'a [u8],
}

impl<'a> Terms<'a> {
    pub(super) fn find(&self, trigram: Trigram) -> Result<Option<Term>, SegmentError> {
        let (mut low, mut high) = (0, self.block_count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first_of(middle)? <= trigram {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(block) = low.checked_sub(1) else { return Ok(None) };
        for term in self.block(block)? {
            let term = term?;
            if term.trigram >= trigram {
                return Ok((term.trigram == trigram).then_some(term));
            }
        }
        Ok(None)
    }

    pub(super) fn block_count(&self) -> usize {
        self.blocks.len() / ENTRY_BYTES
    }

    /// The terms of one block.
    pub(super) fn block(&self, block: usize) -> Result<Block<'a>, SegmentError> {
        let entry = block * ENTRY_BYTES;
        let start = u32_at(self.blocks, entry + 4).ok_or(SegmentError::Damaged)? as usize;
        let end = u32_at(self.blocks, entry + ENTRY_BYTES + 4).map_or(self.terms.len(), |end| end as usize);
        let low = u32_at(self.blocks, entry + 8).ok_or(SegmentError::Damaged)?;
        let high = u32_at(self.blocks, entry + 12).ok_or(SegmentError::Damaged)?;
        Ok(Block {
            rest: self.terms.get(start..end).ok_or(SegmentError::Damaged)?,
            trigram: self.first_of(block)?,
            list: u64::from(high) << 32 | u64::from(low),
        })
    }

    fn first_of(&self, block: usize) -> Result<Trigram, SegmentError> {
        u32_at(self.blocks, block * ENTRY_BYTES).ok_or(SegmentError::Damaged)
    }
}

/// Reads the terms of a block one by one.
pub(super) struct Block<'a> {
    rest: &'a [u8],
    trigram: Trigram,
    list: u64,
}

impl Block<'_> {
    fn read(&mut self) -> Option<Term> {
        let distance = take(&mut self.rest)?;
        let count = u32::try_from(take(&mut self.rest)?).ok()?;
        let length = take(&mut self.rest)?;
        self.trigram = u64::from(self.trigram).checked_add(distance)?.try_into().ok()?;
        let start = self.list;
        self.list = start.checked_add(length)?;
        Some(Term { trigram: self.trigram, count, start, length })
    }
}

impl Iterator for Block<'_> {
    type Item = Result<Term, SegmentError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let term = self.read();
        if term.is_none() {
            self.rest = &[];
        }
        Some(term.ok_or(SegmentError::Damaged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_is_found_and_no_other() {
        let mut writer = TermsWriter::default();
        let trigrams: Vec<Trigram> = (0..1000).map(|at| 5 + at * at % 7 + at * 16_000).collect();
        trigrams.iter().enumerate().for_each(|(at, trigram)| writer.push(*trigram, at as u32, at as u64 % 300));
        let terms = Terms { blocks: &writer.blocks, terms: &writer.terms };
        let mut start = 0;
        for (at, &trigram) in trigrams.iter().enumerate() {
            let term = terms.find(trigram).unwrap().unwrap();
            assert_eq!(term, Term { trigram, count: at as u32, start, length: at as u64 % 300 });
            assert_eq!(terms.find(trigram + 1).unwrap(), None);
            start += term.length;
        }
        assert_eq!(terms.find(0).unwrap(), None);
        assert_eq!(Terms { blocks: &[], terms: &[] }.find(7).unwrap(), None);
    }
}
