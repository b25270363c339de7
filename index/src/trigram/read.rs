//! What is in a segment?

use std::ops::Range;
use std::path::Path;

use rustc_hash::FxHashSet;

use super::codec::{decode, intersect, intersect_lists};
use super::plan::Plan;
use super::run::Source;
use super::terms::{Block, Term, Terms};
use super::{BLOCKS, FILES, FIRST_PAGES, FORMAT, LISTS, OPAQUE, PAGE_COUNT, TERMS, Trigram, u32_at};
use crate::file_no::FileNo;
use crate::segment::{Segment, SegmentError};

/// With so few pages left it is cheaper to read their files than one more list.
const PAGES_FEW: usize = 4;

/// A segment of the lane, mapped. Its lists are checked as they are read: damage is an error, and only
/// [`TrigramSegment::verify`] finds all of it.
pub(crate) struct TrigramSegment {
    segment: Segment,
    pages: u32,
    files: Vec<FileNo>,
    first_pages: Vec<u32>,
    opaque: FxHashSet<u32>,
}

impl TrigramSegment {
    pub(crate) fn open(path: &Path) -> Result<TrigramSegment, SegmentError> {
        let segment = Segment::open(path, FORMAT)?;
        let pages = u32_at(segment.section(PAGE_COUNT), 0).ok_or(SegmentError::Damaged)?;
        let files: Vec<FileNo> = numbers(segment.section(FILES)).map(FileNo).collect();
        let first_pages: Vec<u32> = numbers(segment.section(FIRST_PAGES)).collect();
        let opaque: FxHashSet<u32> = numbers(segment.section(OPAQUE)).collect();
        let in_order = first_pages.is_sorted() && first_pages.last().is_none_or(|last| *last <= pages);
        if !in_order || first_pages.len() != files.len() || opaque.iter().any(|at| *at as usize >= files.len()) {
            return Err(SegmentError::Damaged);
        }
        Ok(TrigramSegment { segment, pages, files, first_pages, opaque })
    }

    /// Reads every byte and compares the checksums.
    pub(crate) fn verify(&self) -> Result<(), SegmentError> {
        self.segment.verify()
    }

    /// The files that this segment knows.
    pub(crate) fn files(&self) -> &[FileNo] {
        &self.files
    }

    /// Adds those files to `found` that the plan does not rule out.
    pub(crate) fn candidates(&self, plan: &Plan, found: &mut FxHashSet<FileNo>) -> Result<(), SegmentError> {
        let pages = match self.pages(&self.resolve(plan)?)? {
            Pages::All => {
                found.extend(&self.files);
                return Ok(());
            }
            Pages::Some(pages) => pages,
        };
        found.extend(self.opaque.iter().map(|&at| self.files[at as usize]));
        let mut rest = pages.as_slice();
        while let Some(&page) = rest.first() {
            // Files without a page have the same first page as the next; the last of them has the page.
            let after = self.first_pages.partition_point(|first| *first <= page);
            let Some(at) = after.checked_sub(1) else { return Err(SegmentError::Damaged) };
            found.insert(self.files[at]);
            let end = self.pages_of(at).end;
            rest = &rest[rest.iter().take_while(|page| **page < end).count().max(1)..];
        }
        Ok(())
    }

    pub(super) fn page_count(&self) -> u32 {
        self.pages
    }

    pub(super) fn is_opaque(&self, at: usize) -> bool {
        self.opaque.contains(&(at as u32))
    }

    pub(super) fn pages_of(&self, at: usize) -> Range<u32> {
        self.first_pages[at]..self.first_pages.get(at + 1).copied().unwrap_or(self.pages)
    }

    /// All lists, with the pages named anew; those without a new name are left out.
    pub(super) fn source(&self, new_pages: Vec<Option<u32>>) -> SegmentSource<'_> {
        SegmentSource { segment: self, new_pages, block: 0, terms: None }
    }

    fn terms(&self) -> Terms<'_> {
        Terms { blocks: self.segment.section(BLOCKS), terms: self.segment.section(TERMS) }
    }

    fn bytes_of(&self, term: &Term) -> Result<&[u8], SegmentError> {
        let start = usize::try_from(term.start).map_err(|_| SegmentError::Damaged)?;
        let end = term.start.checked_add(term.length).and_then(|end| usize::try_from(end).ok());
        let lists = self.segment.section(LISTS);
        end.and_then(|end| lists.get(start..end)).ok_or(SegmentError::Damaged)
    }

    fn list(&self, term: &Term) -> Result<Vec<u32>, SegmentError> {
        decode(self.bytes_of(term)?, term.count, self.pages).ok_or(SegmentError::Damaged)
    }

    /// Looks up every trigram of the plan. The depth of a plan is bounded, see [`Plan`].
    fn resolve(&self, plan: &Plan) -> Result<Resolved, SegmentError> {
        Ok(match plan {
            Plan::All => Resolved::All,
            Plan::Nothing => Resolved::Nothing,
            Plan::Trigram(trigram) => self.terms().find(*trigram)?.map_or(Resolved::Nothing, Resolved::List),
            Plan::And(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match self.resolve(part)? {
                        Resolved::Nothing => return Ok(Resolved::Nothing),
                        Resolved::All => {}
                        part => all.push(part),
                    }
                }
                all.sort_by_key(Resolved::pages_max);
                if all.is_empty() { Resolved::All } else { Resolved::And(all) }
            }
            Plan::Or(parts) => {
                let mut any = Vec::new();
                for part in parts {
                    match self.resolve(part)? {
                        Resolved::Nothing => {}
                        Resolved::All => return Ok(Resolved::All),
                        part => any.push(part),
                    }
                }
                if any.is_empty() { Resolved::Nothing } else { Resolved::Or(any) }
            }
        })
    }

    fn pages(&self, resolved: &Resolved) -> Result<Pages, SegmentError> {
        Ok(match resolved {
            Resolved::All => Pages::All,
            Resolved::Nothing => Pages::Some(Vec::new()),
            Resolved::List(term) => Pages::Some(self.list(term)?),
            Resolved::And(parts) => {
                let mut kept = Pages::All;
                for part in parts {
                    kept = self.narrow(kept, part)?;
                    if matches!(&kept, Pages::Some(pages) if pages.len() <= PAGES_FEW) {
                        break;
                    }
                }
                kept
            }
            Resolved::Or(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match self.pages(part)? {
                        Pages::All => return Ok(Pages::All),
                        Pages::Some(pages) => all.extend(pages),
                    }
                }
                all.sort_unstable();
                all.dedup();
                Pages::Some(all)
            }
        })
    }

    fn narrow(&self, kept: Pages, part: &Resolved) -> Result<Pages, SegmentError> {
        let mut kept = match kept {
            Pages::All => return self.pages(part),
            Pages::Some(kept) => kept,
        };
        if let Resolved::List(term) = part {
            intersect(self.bytes_of(term)?, term.count, self.pages, &mut kept).ok_or(SegmentError::Damaged)?;
        } else if let Pages::Some(pages) = self.pages(part)? {
            intersect_lists(&pages, &mut kept);
        }
        Ok(Pages::Some(kept))
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes")))
}

/// A set of pages.
enum Pages {
    All,
    /// Ascending.
    Some(Vec<u32>),
}

/// A plan with its trigrams looked up, the rarest first.
enum Resolved {
    All,
    Nothing,
    List(Term),
    And(Vec<Resolved>),
    Or(Vec<Resolved>),
}

impl Resolved {
    fn pages_max(&self) -> u64 {
        match self {
            Resolved::All => u64::MAX,
            Resolved::Nothing => 0,
            Resolved::List(term) => u64::from(term.count),
            Resolved::And(parts) => parts.iter().map(Resolved::pages_max).min().unwrap_or(u64::MAX),
            Resolved::Or(parts) => parts.iter().map(Resolved::pages_max).fold(0, u64::saturating_add),
        }
    }
}

/// Reads a segment from its first trigram to its last.
pub(super) struct SegmentSource<'a> {
    segment: &'a TrigramSegment,
    new_pages: Vec<Option<u32>>,
    block: usize,
    terms: Option<Block<'a>>,
}

impl Source for SegmentSource<'_> {
    fn next(&mut self, pages: &mut Vec<u32>) -> Result<Option<Trigram>, SegmentError> {
        loop {
            if let Some(term) = self.terms.as_mut().and_then(Iterator::next) {
                let term = term?;
                let list = self.segment.list(&term)?;
                pages.clear();
                pages.extend(list.into_iter().filter_map(|page| self.new_pages[page as usize]));
                if pages.is_empty() {
                    continue;
                }
                return Ok(Some(term.trigram));
            }
            if self.block == self.segment.terms().block_count() {
                return Ok(None);
            }
            self.terms = Some(self.segment.terms().block(self.block)?);
            self.block += 1;
        }
    }
}
