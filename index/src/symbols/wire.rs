//! In which bytes does the symbol lane lie?
//!
//! Sections: the files' numbers; for each file a block with its definitions and imports; the names as an fst that
//! leads to postings; the parts of defined names as an fst that leads to names; the imports as an fst.
//!
//! A name is known by the offset of its posting. The offsets ascend with the names, so the fst is read both ways.
//! A posting: the count of definitions, each as (file, place in the file's block); then the files that use the name
//! and do not define it. No lines of uses: the tree is read for those, as it is for signatures. That keeps the lane
//! small and makes every line number one of the file as it is now.

use crate::outline::Kind;
use crate::segment::{Format, Tag};
use crate::varint::{put, take};

pub(super) const FORMAT: Format = Format { kind: *b"SYMBOLS\0", version: 1 };

/// u32 numbers, ascending.
pub(super) const FILES: Tag = 1;
/// u32 offsets into the blocks, one more than files.
pub(super) const BLOCK_STARTS: Tag = 2;
pub(super) const BLOCKS: Tag = 3;
pub(super) const NAMES: Tag = 4;
pub(super) const POSTINGS: Tag = 5;
pub(super) const WORDS: Tag = 6;
pub(super) const WORD_POSTINGS: Tag = 7;
pub(super) const IMPORTS: Tag = 8;
pub(super) const COUNTS: Tag = 9;

/// One definition as it lies in a block; `N` is how a name is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub name: u32,
    pub kind: Kind,
    pub exported: bool,
    pub inside_callable: bool,
    pub start_line: u32,
    /// Lines after the first.
    pub more_lines: u32,
    /// Lines of attributes before the head.
    pub head_after: u32,
    pub head_bytes: u32,
    pub parent: Parent,
}

/// What encloses a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parent {
    None,
    /// The same as of the definition before.
    Same,
    /// A definition of the same file, by its place.
    Place(u32),
    /// Something that is no definition of this file: the type of an impl block, say.
    Text(String),
}

const EXPORTED: u8 = 1 << 4;
const INSIDE: u8 = 1 << 5;
const HEAD_FIRST: u8 = 1 << 6;

impl Stored {
    /// Appends it; `before` is the first line of the definition before it.
    pub(super) fn put(&self, bytes: &mut Vec<u8>, before: u32) {
        put(bytes, u64::from(self.name));
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u8;
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let flags = flag(self.exported, EXPORTED) | flag(self.inside_callable, INSIDE);
        bytes.push(kind | flags | flag(self.head_after == 0, HEAD_FIRST));
        put(bytes, u64::from(self.start_line.saturating_sub(before)));
        put(bytes, u64::from(self.more_lines));
        if self.head_after != 0 {
            put(bytes, u64::from(self.head_after));
        }
        put(bytes, u64::from(self.head_bytes));
        match &self.parent {
            Parent::None => bytes.push(0),
            Parent::Same => bytes.push(1),
            Parent::Text(text) => {
                bytes.push(2);
                put(bytes, text.len() as u64);
                bytes.extend(text.as_bytes());
            }
            Parent::Place(place) => put(bytes, 3 + u64::from(*place)),
        }
    }

    /// Takes what [`Stored::put`] appended.
    pub(super) fn take(bytes: &mut &[u8], before: u32) -> Option<Stored> {
        let name = number(bytes)?;
        let (&flags, rest) = bytes.split_first()?;
        *bytes = rest;
        let start_line = before.checked_add(number(bytes)?)?;
        let more_lines = number(bytes)?;
        let head_after = if flags & HEAD_FIRST == 0 { number(bytes)? } else { 0 };
        let head_bytes = number(bytes)?;
        let parent = match number(bytes)? {
            0 => Parent::None,
            1 => Parent::Same,
            2 => Parent::Text(text(bytes)?),
            place => Parent::Place(place - 3),
        };
        Some(Stored {
            name,
            kind: *Kind::ALL.get(usize::from(flags & 0x0f))?,
            exported: flags & EXPORTED != 0,
            inside_callable: flags & INSIDE != 0,
            start_line,
            more_lines,
            head_after,
            head_bytes,
            parent,
        })
    }
}

/// A number of 32 bits.
pub(super) fn number(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(bytes)?).ok()
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// The `at`-th number of a section of u32.
pub(super) fn fixed(section: &[u8], at: usize) -> Option<u32> {
    let bytes = section.get(at.checked_mul(4)?..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_taken_and_any_bytes_are_taken_without_a_panic(
            numbers in proptest::array::uniform6(0u32..1 << 20), flags in any::<(bool, bool, bool)>(),
            kind in 0usize..12, parent in 0u32..6, text in "\\PC{0,12}", bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let parent = match parent {
                0 => Parent::None,
                1 => Parent::Same,
                2 => Parent::Text(text),
                place => Parent::Place(place),
            };
            let [name, start_line, more_lines, head_after, head_bytes, before] = numbers;
            let (exported, inside_callable, head_first) = flags;
            let head_after = if head_first { 0 } else { head_after };
            let stored = Stored {
                name, kind: Kind::ALL[kind], exported, inside_callable, start_line: before + start_line, more_lines,
                head_after, head_bytes, parent,
            };
            let mut written = Vec::new();
            stored.put(&mut written, before);
            let mut rest = written.as_slice();
            prop_assert_eq!(Stored::take(&mut rest, before), Some(stored));
            prop_assert!(rest.is_empty());
            let _ = Stored::take(&mut bytes.as_slice(), before);
        }
    }
}
