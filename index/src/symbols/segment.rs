//! What does one segment of the symbol lane know?
//!
//! A segment is read whole once when it is opened, to compare its checksums: what is behind them was written by
//! this crate, so that the fst may be walked without fear. All that is decoded is decoded with a bound all the same.

use std::path::Path;
use std::sync::Arc;

use fst::{IntoStreamer, Map, Streamer};

use super::SymbolError;
use super::fold::Folded;
use super::wire::{self, Parent, Stored, fixed, number};
use crate::file_no::FileNo;
use crate::outline::{HEAD_BYTES_MAX, Kind, qualified, signature};
use crate::segment::{Segment, Tag};
use crate::varint::take_ascending;

/// Names that one look-up without regard to case goes through.
const NAMES_MAX: usize = 4096;

/// A definition as the lane knows it. Lines are those of the indexed version of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub file: FileNo,
    pub name: String,
    pub kind: Kind,
    /// `Outer.Inner`.
    pub parent: Option<String>,
    /// From 1; attributes and decorators belong to it.
    pub start_line: usize,
    pub end_line: usize,
    /// The line with its first word after the attributes.
    pub head_line: usize,
    head_bytes: usize,
    pub exported: bool,
    pub inside_callable: bool,
}

impl Place {
    /// `Outer.Inner.name`.
    pub(crate) fn qualified(&self) -> String {
        qualified(self.parent.as_deref(), &self.name)
    }

    /// The head of the definition on one line, out of the file's bytes; nothing where the name does not stand in that
    /// line any more, because the file is another one than was indexed.
    pub(crate) fn signature(&self, file: &[u8]) -> Option<String> {
        let line_starts = file.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let start = std::iter::once(0).chain(line_starts).nth(self.head_line.checked_sub(1)?)?;
        let head = file.get(start..)?.trim_ascii_start();
        let head = &head[..head.len().min(self.head_bytes.min(HEAD_BYTES_MAX))];
        let signature = signature(head);
        signature.contains(&self.name).then_some(signature)
    }
}

/// A posting: the definitions of a name as (place of the file, place in its block), and the files that use it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Posting {
    pub definitions: Vec<(u32, u32)>,
    pub used_in: Vec<u32>,
}

/// What a block says of one file.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub definitions: Vec<Stored>,
    pub imports: Vec<u32>,
}

/// One section as the data of an fst.
struct Section(Arc<Segment>, Tag);

impl AsRef<[u8]> for Section {
    fn as_ref(&self) -> &[u8] {
        self.0.section(self.1)
    }
}

/// A segment of the symbol lane.
pub(crate) struct SymbolSegment {
    segment: Arc<Segment>,
    names: Map<Section>,
    words: Map<Section>,
    imports: Map<Section>,
    /// How many definitions it holds, of dead files too.
    pub definition_count: usize,
}

impl SymbolSegment {
    /// Opens a segment and compares its checksums.
    pub(crate) fn open(path: &Path) -> Result<SymbolSegment, SymbolError> {
        SymbolSegment::of(Segment::open(path, wire::FORMAT)?)
    }

    pub(super) fn of(segment: Segment) -> Result<SymbolSegment, SymbolError> {
        let segment = Arc::new(segment);
        segment.verify()?;
        let fst = |tag| Map::new(Section(segment.clone(), tag));
        let (names, words, imports) = (fst(wire::NAMES)?, fst(wire::WORDS)?, fst(wire::IMPORTS)?);
        let mut counts = segment.section(wire::COUNTS);
        let counted = (number(&mut counts), number(&mut counts));
        let definition_count = counted.1.ok_or(SymbolError::Damaged)? as usize;
        Ok(SymbolSegment { names, words, imports, definition_count, segment })
    }

    fn section(&self, tag: Tag) -> &[u8] {
        self.segment.section(tag)
    }

    pub(crate) fn file_count(&self) -> usize {
        self.section(wire::FILES).len() / 4
    }

    /// The number of the file at a place.
    pub(crate) fn file(&self, place: u32) -> Option<FileNo> {
        fixed(self.section(wire::FILES), place as usize).map(FileNo)
    }

    /// The place of a file.
    pub(crate) fn place_of(&self, file: FileNo) -> Option<u32> {
        let (mut low, mut high) = (0, self.file_count());
        while low < high {
            let middle = low + (high - low) / 2;
            match fixed(self.section(wire::FILES), middle)?.cmp(&file.0) {
                std::cmp::Ordering::Equal => return Some(middle as u32),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The posting of exactly this name.
    pub(crate) fn posting(&self, name: &str) -> Option<Posting> {
        self.posting_at(self.names.get(name)?)
    }

    pub(crate) fn posting_at(&self, offset: u64) -> Option<Posting> {
        let mut bytes = self.section(wire::POSTINGS).get(usize::try_from(offset).ok()?..)?;
        let count = number(&mut bytes)? as usize;
        let mut definitions = Vec::with_capacity(count.min(bytes.len()));
        let (mut file, mut place) = (0u32, 0u32);
        for _ in 0..count {
            let step = number(&mut bytes)?;
            let given = number(&mut bytes)?;
            place = if step == 0 { place.checked_add(given)? } else { given };
            file = file.checked_add(step)?;
            definitions.push((file, place));
        }
        Some(Posting { definitions, used_in: take_ascending(&mut bytes)? })
    }

    /// How many definitions a name has here, without reading them.
    pub(super) fn count_at(&self, offset: u64) -> Option<u32> {
        number(&mut self.section(wire::POSTINGS).get(usize::try_from(offset).ok()?..)?)
    }

    /// Names equal to `name` but for the case of ASCII letters.
    pub(crate) fn names_like(&self, name: &str) -> Vec<(String, u64)> {
        let mut stream = self.names.search(Folded::new(name)).into_stream();
        let mut found = Vec::new();
        while found.len() < NAMES_MAX
            && let Some((name, offset)) = stream.next()
        {
            found.extend(String::from_utf8(name.to_vec()).ok().map(|name| (name, offset)));
        }
        found
    }

    /// The name whose posting lies at `offset`.
    pub(crate) fn name_at(&self, offset: u64) -> Option<String> {
        String::from_utf8(self.names.as_fst().get_key(offset)?).ok()
    }

    /// The names that have this part, by the offsets of their postings.
    pub(super) fn names_with(&self, word: &str) -> Option<Vec<u32>> {
        let offset = self.words.get(word)?;
        take_ascending(&mut self.section(wire::WORD_POSTINGS).get(usize::try_from(offset).ok()?..)?)
    }

    /// How many names have this part.
    pub(super) fn count_with(&self, word: &str) -> usize {
        let Some(offset) = self.words.get(word) else { return 0 };
        let bytes = self.section(wire::WORD_POSTINGS).get(offset as usize..);
        bytes.and_then(|mut bytes| number(&mut bytes)).unwrap_or(0) as usize
    }

    /// The definitions at `places` of one file's block, ascending.
    pub(crate) fn definitions(&self, file: u32, places: &[u32]) -> Option<Vec<Place>> {
        let last = *places.last()? as usize;
        let (block, _) = self.read_block(file, last + 1)?;
        let number = self.file(file)?;
        let mut found: Vec<Place> = Vec::with_capacity(places.len());
        let mut known: Option<(u32, String)> = None;
        for &place in places {
            let stored = block.definitions.get(place as usize)?;
            if known.as_ref().is_none_or(|(of, _)| *of != stored.name) {
                known = Some((stored.name, self.name_at(u64::from(stored.name))?));
            }
            let start = stored.start_line as usize;
            found.push(Place {
                file: number,
                name: known.as_ref()?.1.clone(),
                kind: stored.kind,
                parent: self.parent(&block.definitions, place as usize)?,
                start_line: start,
                end_line: start + stored.more_lines as usize,
                head_line: start + stored.head_after as usize,
                head_bytes: stored.head_bytes as usize,
                exported: stored.exported,
                inside_callable: stored.inside_callable,
            });
        }
        Some(found)
    }

    /// All definitions of a file.
    pub(crate) fn outline(&self, file: u32) -> Option<Vec<Place>> {
        let count = self.read_block(file, usize::MAX)?.0.definitions.len() as u32;
        if count == 0 { Some(Vec::new()) } else { self.definitions(file, &(0..count).collect::<Vec<_>>()) }
    }

    /// What encloses a definition, in words.
    fn parent(&self, block: &[Stored], place: usize) -> Option<Option<String>> {
        let mut names: Vec<String> = Vec::new();
        let mut at = place;
        // Every step goes to an earlier place.
        loop {
            while matches!(block.get(at)?.parent, Parent::Same) {
                at = at.checked_sub(1)?;
            }
            match &block[at].parent {
                Parent::Place(place) if (*place as usize) < at => {
                    at = *place as usize;
                    names.push(self.name_at(u64::from(block[at].name))?);
                }
                Parent::Text(text) => {
                    names.push(text.clone());
                    break;
                }
                Parent::None => break,
                Parent::Same | Parent::Place(_) => return None,
            }
        }
        names.reverse();
        Some((!names.is_empty()).then(|| names.join(".")))
    }

    /// The first definitions of a block, and what is left of its bytes.
    fn read_block(&self, file: u32, definitions_max: usize) -> Option<(Block, &[u8])> {
        let starts = self.section(wire::BLOCK_STARTS);
        let range = fixed(starts, file as usize)? as usize..fixed(starts, file as usize + 1)? as usize;
        let mut bytes = self.section(wire::BLOCKS).get(range)?;
        let count = (number(&mut bytes)? as usize).min(definitions_max);
        let mut block = Block { definitions: Vec::with_capacity(count.min(bytes.len())), imports: Vec::new() };
        let mut before = 0;
        for _ in 0..count {
            let stored = Stored::take(&mut bytes, before)?;
            before = stored.start_line;
            block.definitions.push(stored);
        }
        Some((block, bytes))
    }

    /// A whole block.
    pub(super) fn block(&self, file: u32) -> Option<Block> {
        let (mut block, mut bytes) = self.read_block(file, usize::MAX)?;
        block.imports = take_ascending(&mut bytes)?;
        Some(block)
    }

    /// What a file imports, as written.
    pub(crate) fn imports(&self, file: u32) -> Option<Vec<String>> {
        self.block(file)?.imports.iter().map(|at| self.import(*at)).collect()
    }

    pub(super) fn import(&self, at: u32) -> Option<String> {
        String::from_utf8(self.imports.as_fst().get_key(u64::from(at))?).ok()
    }

    pub(super) fn name_stream(&self) -> fst::map::Stream<'_> {
        self.names.stream()
    }

    /// All names in order, with the offsets of their postings.
    pub(super) fn each_name(&self, mut visit: impl FnMut(&str, u64) -> Option<()>) -> Option<()> {
        let mut stream = self.names.stream();
        while let Some((name, offset)) = stream.next() {
            visit(std::str::from_utf8(name).ok()?, offset)?;
        }
        Some(())
    }
}

#[cfg(test)]
impl SymbolSegment {
    /// How many bytes each section takes.
    pub(crate) fn section_bytes(&self) -> [(&'static str, usize); 8] {
        let size = |tag| self.section(tag).len();
        [
            ("files", size(wire::FILES)),
            ("block starts", size(wire::BLOCK_STARTS)),
            ("blocks", size(wire::BLOCKS)),
            ("names", size(wire::NAMES)),
            ("postings", size(wire::POSTINGS)),
            ("words", size(wire::WORDS)),
            ("word postings", size(wire::WORD_POSTINGS)),
            ("imports", size(wire::IMPORTS)),
        ]
    }
}
