//! What does this file define, and on which lines?
//!
//! What is found is found by the walk of `parsed.rs`; which nodes define something is in `outline_rules`.

use std::fmt;

use crate::parsed::read;
use serde::{Deserialize, Serialize};

/// A signature is cut at this many bytes.
const SIGNATURE_BYTES_MAX: usize = 240;
/// A signature is made of this many bytes of the text at most.
pub(crate) const HEAD_BYTES_MAX: usize = 2 * SIGNATURE_BYTES_MAX;

/// What kind of thing a definition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A function outside any type.
    Function,
    /// A function of a class, an impl, a trait or an interface; also a constructor.
    Method,
    /// A class.
    Class,
    /// A struct, union or record.
    Struct,
    /// An enumeration.
    Enum,
    /// A trait.
    Trait,
    /// An interface.
    Interface,
    /// A module or namespace with a body.
    Module,
    /// A Rust impl block. Never listed as a definition: it is named after the type that it extends.
    Impl,
    /// A type alias.
    Type,
    /// A constant or a variable of the whole file.
    Constant,
    /// A macro.
    Macro,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Function => "function",
            Kind::Method => "method",
            Kind::Class => "class",
            Kind::Struct => "struct",
            Kind::Enum => "enum",
            Kind::Trait => "trait",
            Kind::Interface => "interface",
            Kind::Module => "module",
            Kind::Impl => "impl",
            Kind::Type => "type",
            Kind::Constant => "constant",
            Kind::Macro => "macro",
        }
    }

    /// All kinds, each at the place that is its number on disk.
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Function,
        Kind::Method,
        Kind::Class,
        Kind::Struct,
        Kind::Enum,
        Kind::Trait,
        Kind::Interface,
        Kind::Module,
        Kind::Impl,
        Kind::Type,
        Kind::Constant,
        Kind::Macro,
    ];

    /// Whether functions inside it are its methods.
    pub(crate) fn has_methods(self) -> bool {
        matches!(self, Kind::Class | Kind::Struct | Kind::Enum | Kind::Trait | Kind::Interface | Kind::Impl)
    }

    /// Whether its inside is code that runs, so that it is one piece whatever is nested in it.
    pub(crate) fn is_callable(self) -> bool {
        matches!(self, Kind::Function | Kind::Method | Kind::Macro)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One definition. Lines count from 1 and both ends belong to it; bytes are an offset range into the given bytes.
/// Decorators, attributes, `export` and `template<>` belong to the definition; comments above it do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The plain name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The names that enclose it, outermost first, joined by `.`: `Outer.Inner`.
    pub parent: Option<String>,
    /// The head of the definition on one line, without its body.
    pub signature: String,
    /// First line, from 1.
    pub start_line: usize,
    /// Last line, from 1.
    pub end_line: usize,
    /// Where its text begins.
    pub start_byte: usize,
    /// Where its text ends (exclusive).
    pub end_byte: usize,
}

impl Definition {
    /// `Outer.Inner.name`.
    pub fn qualified(&self) -> String {
        qualified(self.parent.as_deref(), &self.name)
    }
}

/// `Outer.Inner.name`.
pub(crate) fn qualified(parent: Option<&str>, name: &str) -> String {
    match parent {
        Some(parent) => format!("{parent}.{name}"),
        None => name.to_owned(),
    }
}

/// The definitions of a file in the order of their first byte. Empty where the language has no built-in grammar.
pub fn outline(path: &str, bytes: &[u8]) -> Vec<Definition> {
    let syntax = read(path, bytes).unwrap_or_default();
    syntax.outline.into_iter().filter(|item| item.listed).map(|item| item.definition).collect()
}

/// A definition with what the chunker and the symbol lane need beside it.
#[derive(Debug, Clone)]
pub(crate) struct Outlined {
    pub definition: Definition,
    /// First line of the comments that stand directly above, or of the definition itself.
    pub doc_line: usize,
    /// The line with the definition's first word, after its attributes.
    pub head_line: usize,
    /// Bytes from the first word of that line to the body, and never more than [`HEAD_BYTES_MAX`].
    pub head_bytes: usize,
    /// Whether it lies inside a function.
    pub inside_callable: bool,
    /// False for impl blocks, which hold definitions and are none.
    pub listed: bool,
    /// Whether others see it, by the customs of its language.
    pub exported: bool,
}

/// Like [`outline`] with impl blocks, or nothing where there is no grammar.
#[cfg(test)]
pub(crate) fn outlined(path: &str, bytes: &[u8]) -> Option<Vec<Outlined>> {
    Some(read(path, bytes)?.outline)
}

/// The head of a definition, with white space made single and without what opens its body.
pub(crate) fn signature(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(&head[..head.len().min(HEAD_BYTES_MAX)]);
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line.truncate(line.floor_char_boundary(SIGNATURE_BYTES_MAX));
    line.truncate(line.trim_end_matches(['{', ':', ' ']).len());
    line
}
