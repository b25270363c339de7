//! Where is this name defined, and which files use it?
//!
//! The lane of symbols: `writer` makes a segment, `segment` reads one, `merge` makes one of several, `lane` is what a
//! refresh sees of them, `lookup` and `rank` ask all of them.

mod fold;
mod lane;
mod lookup;
mod merge;
mod names;
mod rank;
mod segment;
mod wire;
mod writer;

pub(crate) use lane::{SYMBOL_PREFIX, SymbolLane};
pub(crate) use lookup::{Living, Lookup, Symbols};
pub(crate) use segment::{Place as SymbolPlace, SymbolSegment};
pub(crate) use writer::SymbolWriter;

#[cfg(test)]
pub(crate) use merge::merge;

use crate::outline::{Kind, qualified};

/// Why a segment of the symbol lane cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SymbolError {
    /// It cannot be read, is of another version or is damaged.
    #[error("the symbol lane: {0}")]
    Segment(#[from] crate::segment::SegmentError),
    /// It cannot be written.
    #[error("the symbol lane cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// Its dictionaries are not what they should be.
    #[error("the symbol lane is damaged: {0}")]
    Dictionary(#[from] fst::Error),
    /// Its numbers are not what they should be.
    #[error("the symbol lane is damaged")]
    Damaged,
    /// More than 4 GiB of symbols.
    #[error("the symbol lane is too large for one segment")]
    TooLarge,
}

/// A definition and the file that it is in. Lines are those of the indexed version of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolDefinition {
    /// Relative to the root.
    pub path: String,
    /// The plain name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The names that enclose it, outermost first, joined by `.`: `Outer.Inner`.
    pub parent: Option<String>,
    /// First line, from 1.
    pub start_line: usize,
    /// Last line, from 1.
    pub end_line: usize,
    /// The head of the definition on one line, as the tree has it now; nothing where it stands there no more.
    pub signature: Option<String>,
}

impl SymbolDefinition {
    /// `Outer.Inner.name`.
    pub fn qualified(&self) -> String {
        qualified(self.parent.as_deref(), &self.name)
    }
}

/// The answer to "where is this name defined?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolAnswer {
    /// One definition bears the name.
    Exact(SymbolDefinition),
    /// Several do.
    Ambiguous {
        /// At most 50 of them, best first: code before tests, what others see before what they do not.
        first: Vec<SymbolDefinition>,
        /// How many there are.
        count: usize,
    },
    /// None does.
    NotFound,
}

impl SymbolAnswer {
    /// What was found, best first.
    pub fn definitions(self) -> Vec<SymbolDefinition> {
        match self {
            SymbolAnswer::Exact(one) => vec![one],
            SymbolAnswer::Ambiguous { first, .. } => first,
            SymbolAnswer::NotFound => Vec::new(),
        }
    }
}
