//! Which files could hold a line that this pattern matches?
//!
//! A lane on disk that narrows a search before anything is read: for every three bytes in a row, on which pages they
//! occur. A page is a run of whole lines of one file. What a pattern needs on a line ([`Plan`]) is looked up here
//! ([`TrigramLane::candidates`]), and the files that may match are then read and searched as if there were no index.
//!
//! Bytes are folded to ASCII lower case before they are counted, so one lane serves both kinds of search and letter
//! case is left to the search itself. No trigram crosses the end of a line, because no match does.
//!
//! The lane may say yes too often, never no wrongly. Where it cannot know (a text in UTF-16, which the search
//! decodes; a page with more trigrams than we care to keep) the file is always a candidate.

mod codec;
mod lane;
mod pages;
mod plan;
mod read;
mod run;
mod segments;
mod sets;
mod terms;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use lane::{Candidates, TrigramLane};
pub(crate) use plan::Plan;
pub(crate) use segments::{TRIGRAM_PREFIX, Trigrams};
pub(crate) use write::TrigramWriter;

use crate::segment::{Format, Tag};

/// Three bytes, folded, the first one highest.
pub(crate) type Trigram = u32;
const TRIGRAM_MAX: Trigram = 0xff_ffff;

const FORMAT: Format = Format { kind: *b"CLTRIGRM", version: 1 };

/// Four bytes: how many pages there are.
const PAGE_COUNT: Tag = 1;
/// Four bytes a file: its number.
const FILES: Tag = 2;
/// Four bytes a file: its first page. The pages of a file follow each other.
const FIRST_PAGES: Tag = 3;
/// Four bytes each: places in `FILES` of those that are always candidates.
const OPAQUE: Tag = 4;
/// The lists of pages, see [`codec`].
const LISTS: Tag = 5;
/// The trigrams, see [`terms`].
const TERMS: Tag = 6;
/// Where to look for a trigram, see [`terms`].
const BLOCKS: Tag = 7;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
