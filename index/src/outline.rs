//! What does this file define, and on which lines?
//!
//! The walk over the syntax tree keeps its own stack: a file of a million nested brackets must not overflow the
//! thread's.

use std::fmt;

use serde::{Deserialize, Serialize};
use tree_sitter::Node;

use crate::language::Language;
use crate::outline_rules::{Found, is_attached, is_wrapper, rule};

/// Definitions beyond this many in one file are not listed.
const DEFINITIONS_MAX: usize = 20_000;
/// Definitions nested deeper than this are not listed.
const NESTING_MAX: usize = 64;
/// A signature is cut at this many bytes.
const SIGNATURE_BYTES_MAX: usize = 240;

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
        match &self.parent {
            Some(parent) => format!("{parent}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The definitions of a file in the order of their first byte. Empty where the language has no built-in grammar.
pub fn outline(path: &str, bytes: &[u8]) -> Vec<Definition> {
    outlined(path, bytes)
        .unwrap_or_default()
        .into_iter()
        .filter(|item| item.listed)
        .map(|item| item.definition)
        .collect()
}

/// A definition with what the chunker needs beside it.
#[derive(Debug, Clone)]
pub(crate) struct Outlined {
    pub definition: Definition,
    /// First line of the comments that stand directly above, or of the definition itself.
    pub doc_line: usize,
    /// Whether it lies inside a function.
    pub inside_callable: bool,
    /// False for impl blocks, which hold definitions and are none.
    pub listed: bool,
}

/// Like [`outline`] with impl blocks, or nothing where there is no grammar.
pub(crate) fn outlined(path: &str, bytes: &[u8]) -> Option<Vec<Outlined>> {
    let language = Language::detect(path, bytes)?;
    let tree = language.parse(bytes)?;
    let mut walk = Walk { language, bytes, ancestors: Vec::new(), scopes: Vec::new(), items: Vec::new() };
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        walk.visit(node);
        if walk.items.len() >= DEFINITIONS_MAX {
            break;
        }
        if cursor.goto_first_child() {
            walk.ancestors.push(node);
            continue;
        }
        let mut finished = false;
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                finished = true;
                break;
            }
            walk.leave();
        }
        if finished {
            break;
        }
    }
    walk.items.sort_by_key(|item| (item.definition.start_byte, std::cmp::Reverse(item.definition.end_byte)));
    Some(walk.items)
}

/// An enclosing definition.
struct Scope {
    /// Number of ancestors of its node.
    depth: usize,
    name: String,
    kind: Kind,
}

struct Walk<'tree, 'bytes> {
    language: Language,
    bytes: &'bytes [u8],
    ancestors: Vec<Node<'tree>>,
    scopes: Vec<Scope>,
    items: Vec<Outlined>,
}

impl<'tree> Walk<'tree, '_> {
    fn leave(&mut self) {
        self.ancestors.pop();
        while self.scopes.last().is_some_and(|scope| scope.depth >= self.ancestors.len()) {
            self.scopes.pop();
        }
    }

    fn visit(&mut self, node: Node<'tree>) {
        // A sibling of the scope's node is no longer inside it.
        while self.scopes.last().is_some_and(|scope| scope.depth >= self.ancestors.len()) {
            self.scopes.pop();
        }
        if !node.is_named() {
            return;
        }
        if self.scopes.len() >= NESTING_MAX {
            return;
        }
        let Some(found) = rule(self.language, node, &self.ancestors, self.bytes) else {
            return;
        };
        let inside_callable = self.scopes.iter().any(|scope| scope.kind.is_callable());
        if inside_callable && matches!(found.kind, Kind::Constant | Kind::Type) {
            return;
        }
        let kind = match found.kind {
            Kind::Function if self.scopes.last().is_some_and(|scope| scope.kind.has_methods()) => Kind::Method,
            Kind::Function if found.owner.is_some() => Kind::Method,
            kind => kind,
        };
        let name = found.name.clone();
        let item = self.item(node, found, kind, inside_callable);
        self.items.push(item);
        self.scopes.push(Scope { depth: self.ancestors.len(), name, kind });
    }

    fn item(&self, node: Node<'tree>, found: Found, kind: Kind, inside_callable: bool) -> Outlined {
        let outer = self.outermost_wrapper(node);
        let (first, doc) = self.attached_above(outer);
        let mut names: Vec<&str> = self.scopes.iter().map(|scope| scope.name.as_str()).collect();
        names.extend(found.owner.as_deref());
        let start = self.bytes[..first.start_byte()].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        // Take the indentation along, unless something else stands before the definition on its line.
        let indented = self.bytes[start..first.start_byte()].iter().all(|byte| byte.is_ascii_whitespace());
        let definition = Definition {
            name: found.name,
            kind,
            parent: (!names.is_empty()).then(|| names.join(".")),
            signature: signature(self.bytes, node),
            start_line: first.start_position().row + 1,
            end_line: last_row(outer) + 1,
            start_byte: if indented { start } else { first.start_byte() },
            end_byte: outer.end_byte(),
        };
        Outlined { doc_line: doc.start_position().row + 1, definition, inside_callable, listed: kind != Kind::Impl }
    }

    /// The `export`, the decorators or the `template<>` around a definition.
    fn outermost_wrapper(&self, node: Node<'tree>) -> Node<'tree> {
        let mut outer = node;
        for ancestor in self.ancestors.iter().rev() {
            if !is_wrapper(self.language, ancestor, &outer) {
                break;
            }
            outer = *ancestor;
        }
        outer
    }

    /// The first attribute directly above, and the first comment or attribute directly above.
    fn attached_above(&self, node: Node<'tree>) -> (Node<'tree>, Node<'tree>) {
        let (mut first, mut top) = (node, node);
        let mut only_attributes = true;
        while let Some(above) = top.prev_sibling() {
            let Some(is_attribute) = is_attached(self.language, &above) else { break };
            if last_row(above) + 1 < top.start_position().row {
                break;
            }
            // A comment at the end of the line before belongs to that line.
            if above.prev_sibling().is_some_and(|before| last_row(before) == above.start_position().row) {
                break;
            }
            top = above;
            only_attributes &= is_attribute;
            if is_attribute && only_attributes {
                first = above;
            }
        }
        (first, top)
    }
}

/// The last row that holds a byte of the node. Some grammars end a node after its newline.
fn last_row(node: Node<'_>) -> usize {
    let end = node.end_position();
    if end.column == 0 && end.row > node.start_position().row { end.row - 1 } else { end.row }
}

/// The text from the node to its body, with white space made single.
fn signature(bytes: &[u8], node: Node<'_>) -> String {
    let body = node.child_by_field_name("body").map_or(node.end_byte(), |body| body.start_byte());
    let end = body.min(node.start_byte() + SIGNATURE_BYTES_MAX * 2).max(node.start_byte());
    let text = String::from_utf8_lossy(&bytes[node.start_byte()..end]);
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = (0..=line.len().min(SIGNATURE_BYTES_MAX)).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
    line.truncate(cut);
    line.trim_end_matches(['{', ':', ' ']).to_owned()
}
