//! What does one pass over a file's syntax tree find? Its definitions, what it uses and what it imports.
//!
//! A file is parsed once ([`parse_once`]) and walked once ([`Parsed::read`]); outline, references and chunks are all
//! taken from that. The walk keeps its own stack: a file of a million nested brackets must not overflow the thread's.

use std::cmp::Reverse;

use rustc_hash::FxHashSet;
use tree_sitter::{Node, Point, Tree};

use crate::language::Language;
use crate::outline::{Definition, HEAD_BYTES_MAX, Kind, Outlined, signature};
use crate::outline_rules::{Entry, Found, Site, Table, first_argument, imports};
use crate::references::{NO_DEFINITION, Use, UseKind};
use crate::sql;

/// Definitions beyond this many in one file are not listed.
pub(crate) const DEFINITIONS_MAX: usize = 20_000;
/// Uses beyond this many in one file are not listed.
const USES_MAX: usize = 200_000;
/// Imports beyond this many in one file are not listed.
const IMPORTS_MAX: usize = 2000;
/// Definitions nested deeper than this are not listed.
const NESTING_MAX: usize = 64;
/// A longer name is cut; a longer identifier is no use of anything.
pub(crate) const NAME_BYTES_MAX: usize = 200;
/// Nodes that dress one definition.
const WRAPPERS_MAX: usize = 8;
/// Nodes between a call and the name of what it calls.
const TARGET_DEPTH_MAX: usize = 8;

/// A file, parsed.
pub(crate) struct Parsed {
    pub language: Language,
    /// Nothing for a language without a grammar that a reader of our own reads.
    pub tree: Option<Tree>,
}

/// What a file defines, uses and imports.
#[derive(Debug, Default)]
pub(crate) struct Syntax {
    /// In the order of their first byte, outer before inner.
    pub outline: Vec<Outlined>,
    /// In the order of the walk; their definitions are places in `outline`.
    pub uses: Vec<Use>,
    /// Module paths and file names as written, without quotes.
    pub imports: Vec<String>,
}

/// Parses a file; nothing where its language is not read or the parse took too long.
pub(crate) fn parse_once(path: &str, bytes: &[u8]) -> Option<Parsed> {
    let language = Language::detect(path, bytes)?;
    let tree = match language {
        Language::Sql => None,
        _ => Some(language.parse(bytes)?),
    };
    Some(Parsed { language, tree })
}

/// Parses a file and walks over it; nothing where [`parse_once`] gives nothing.
pub(crate) fn read(path: &str, bytes: &[u8]) -> Option<Syntax> {
    Some(parse_once(path, bytes)?.read(bytes))
}

impl Parsed {
    /// Walks over the tree. `bytes` are those that were parsed.
    pub(crate) fn read(&self, bytes: &[u8]) -> Syntax {
        let Some(tree) = &self.tree else {
            return Syntax { outline: sql::outline(bytes), ..Syntax::default() };
        };
        let Some(table) = Table::of(self.language) else { return Syntax::default() };
        let mut walk = Walk::new(table, bytes);
        let mut cursor = tree.walk();
        'walk: loop {
            let node = cursor.node();
            if !walk.visit(node) {
                break;
            }
            if cursor.goto_first_child() {
                walk.enter(node);
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    break 'walk;
                }
                walk.leave();
            }
        }
        walk.finish()
    }
}

/// An enclosing definition.
struct Scope {
    /// Number of ancestors of its node.
    depth: usize,
    /// Its place among the items.
    item: u32,
    kind: Kind,
}

/// Comments and attributes that stand on consecutive lines, directly above what comes next.
#[derive(Clone, Copy)]
struct Above {
    top_row: usize,
    last_row: usize,
    /// Where the first attribute begins below which there are only attributes.
    attribute: Option<(usize, Point)>,
}

/// The children of one node, as far as they were visited.
#[derive(Clone, Copy, Default)]
struct Level<'tree> {
    node: Option<Node<'tree>>,
    /// Above `node`, when it is no comment itself.
    above: Option<Above>,
    run: Option<Above>,
}

struct Walk<'tree, 'a> {
    table: &'static Table,
    bytes: &'a [u8],
    ancestors: Vec<Node<'tree>>,
    /// One more than ancestors.
    levels: Vec<Level<'tree>>,
    scopes: Vec<Scope>,
    items: Vec<Outlined>,
    uses: Vec<Use>,
    imports: Vec<String>,
    /// Where identifiers begin that are ahead in the walk and spoken for already: names of definitions and of what
    /// is called. The last is met first.
    spoken_for: Vec<usize>,
    /// What begins before this byte is part of an import.
    import_end: usize,
}

impl<'tree, 'a> Walk<'tree, 'a> {
    fn new(table: &'static Table, bytes: &'a [u8]) -> Walk<'tree, 'a> {
        Walk {
            table,
            bytes,
            ancestors: Vec::new(),
            levels: vec![Level::default()],
            scopes: Vec::new(),
            items: Vec::new(),
            uses: Vec::new(),
            imports: Vec::new(),
            spoken_for: Vec::new(),
            import_end: 0,
        }
    }

    fn enter(&mut self, node: Node<'tree>) {
        self.ancestors.push(node);
        self.levels.push(Level::default());
    }

    fn leave(&mut self) {
        self.ancestors.pop();
        self.levels.pop();
    }

    /// False when there is more than anybody wants to know.
    fn visit(&mut self, node: Node<'tree>) -> bool {
        let entry = self.table.entry(node.kind_id());
        let depth = self.ancestors.len();
        let level = &mut self.levels[depth];
        let before = level.node.replace(node);
        match entry.attached {
            Some(is_attribute) => level.run = joined(level.run, node, before, is_attribute),
            None => level.above = level.run.take(),
        }
        // A sibling of the scope's node is no longer inside it.
        while self.scopes.last().is_some_and(|scope| scope.depth >= depth) {
            self.scopes.pop();
        }
        if entry.idle {
            return true;
        }
        if let Some(form) = entry.import {
            self.import(imports(form, node, self.bytes), node);
        }
        if entry.defines.is_some() || entry.asks {
            self.define(entry, node);
        }
        if let Some((field, how)) = entry.target {
            self.target(node, field.get(), how);
        }
        if let Some(how) = entry.name {
            self.identifier(node, how);
        }
        self.items.len() < DEFINITIONS_MAX && self.uses.len() < USES_MAX
    }

    fn import(&mut self, found: Vec<String>, node: Node<'tree>) {
        if !found.is_empty() {
            self.import_end = self.import_end.max(node.end_byte());
        }
        let room = IMPORTS_MAX.saturating_sub(self.imports.len());
        self.imports.extend(found.into_iter().take(room));
    }

    fn define(&mut self, entry: &Entry, node: Node<'tree>) {
        if self.scopes.len() >= NESTING_MAX {
            return;
        }
        let site = Site { node, ancestors: &self.ancestors, bytes: self.bytes };
        let Some(found) = self.table.found(entry, &site) else { return };
        let inside_callable = self.scopes.iter().any(|scope| scope.kind.is_callable());
        if inside_callable && matches!(found.kind, Kind::Constant | Kind::Type) {
            return;
        }
        let kind = match found.kind {
            Kind::Function if self.scopes.last().is_some_and(|scope| scope.kind.has_methods()) => Kind::Method,
            Kind::Function if found.owner.is_some() => Kind::Method,
            kind => kind,
        };
        if kind != Kind::Impl {
            self.spoken_for.push(found.name.start);
        }
        let item = self.item(node, found, kind, inside_callable);
        self.scopes.push(Scope { depth: self.ancestors.len(), item: self.items.len() as u32, kind });
        self.items.push(item);
    }

    fn item(&self, node: Node<'tree>, found: Found, kind: Kind, inside_callable: bool) -> Outlined {
        let (outer, level) = self.outermost_wrapper(node);
        let start = outer.start_position();
        let above = self.levels[level].above.filter(|above| above.last_row + 1 >= start.row);
        let (first_byte, first) = above.and_then(|above| above.attribute).unwrap_or((outer.start_byte(), start));
        let line_start = first_byte - first.column;
        // Take the indentation along, unless something else stands before the definition on its line.
        let indented = self.bytes[line_start..first_byte].iter().all(u8::is_ascii_whitespace);

        let body = self.body(node).map_or(node.end_byte(), |body| body.start_byte()).max(node.start_byte());
        let head_line_start = node.start_byte() - node.start_position().column;
        let blanks = self.bytes[head_line_start..node.start_byte()].iter().take_while(|b| b.is_ascii_whitespace());
        let head_start = head_line_start + blanks.count();
        let signature = signature(&self.bytes[node.start_byte()..body]);

        let scope = self.scopes.last().map(|scope| &self.items[scope.item as usize].definition);
        let owner = found.owner.map(|owner| owner.replace("::", "."));
        let parent = match (scope.map(Definition::qualified), owner) {
            (Some(outer), Some(owner)) => Some(format!("{outer}.{owner}")),
            (outer, owner) => outer.or(owner),
        };
        let mut name = String::from_utf8_lossy(&self.bytes[found.name]).into_owned();
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        let outer_head =
            &self.bytes[outer.start_byte()..body.min(outer.start_byte() + HEAD_BYTES_MAX).max(outer.start_byte())];
        let exported = (self.table.rules.is_exported)(&name, &String::from_utf8_lossy(outer_head));
        Outlined {
            doc_line: above.map_or(first.row, |above| above.top_row) + 1,
            head_line: node.start_position().row + 1,
            head_bytes: (body - head_start).min(HEAD_BYTES_MAX),
            definition: Definition {
                name,
                kind,
                parent,
                signature,
                start_line: first.row + 1,
                end_line: last_row(outer) + 1,
                start_byte: if indented { line_start } else { first_byte },
                end_byte: outer.end_byte(),
            },
            inside_callable,
            listed: kind != Kind::Impl,
            exported,
        }
    }

    fn body(&self, node: Node<'tree>) -> Option<Node<'tree>> {
        let last = || node.named_child((node.named_child_count() as u32).checked_sub(1)?);
        let by_kind = || last().filter(|last| self.table.entry(last.kind_id()).is_body);
        node.child_by_field_name("body").or_else(by_kind)
    }

    /// The `export`, the decorators or the `template<>` around a definition, and its level.
    fn outermost_wrapper(&self, node: Node<'tree>) -> (Node<'tree>, usize) {
        let (mut outer, mut level) = (node, self.ancestors.len());
        while let Some(around) = level.checked_sub(1).map(|at| self.ancestors[at]) {
            let wraps = self.table.entry(around.kind_id()).wraps || (self.table.rules.wraps_if)(&around, &outer);
            if !wraps || self.ancestors.len() - level >= WRAPPERS_MAX {
                break;
            }
            (outer, level) = (around, level - 1);
        }
        (outer, level)
    }

    /// A node whose field leads to what it uses: `a.b.c()` calls `c`.
    fn target(&mut self, node: Node<'tree>, field: u16, how: UseKind) {
        let mut at = node.child_by_field_id(field);
        for _ in 0..TARGET_DEPTH_MAX {
            let Some(leaf) = at else { return };
            let entry = self.table.entry(leaf.kind_id());
            if entry.name.is_some() {
                if self.spoken_for.last() != Some(&leaf.start_byte()) {
                    self.spoken_for.push(leaf.start_byte());
                    self.push(leaf, if self.is_before_parenthesis(leaf) { UseKind::Call } else { how });
                }
                if how == UseKind::Call && self.is_importer(leaf) {
                    self.import(first_argument(node, self.bytes).into_iter().collect(), leaf);
                }
                return;
            }
            let Some((field, _)) = entry.target else { return };
            at = leaf.child_by_field_id(field.get());
        }
    }

    fn is_importer(&self, leaf: Node<'tree>) -> bool {
        let importers = self.table.rules.importers;
        !importers.is_empty() && importers.iter().any(|name| name.as_bytes() == &self.bytes[leaf.byte_range()])
    }

    fn identifier(&mut self, node: Node<'tree>, how: UseKind) {
        let start = node.start_byte();
        // Some names are never met as identifiers (operators), so that the last is not always the one.
        if let Some(back) = self.spoken_for.iter().rev().take(4).position(|&at| at == start) {
            self.spoken_for.truncate(self.spoken_for.len() - back - 1);
            return;
        }
        let how = match how {
            _ if self.is_before_parenthesis(node) => UseKind::Call,
            // A variable, in the languages that mark them so.
            _ if start.checked_sub(1).and_then(|before| self.bytes.get(before)) == Some(&b'$') => UseKind::Name,
            how => how,
        };
        self.push(node, how);
    }

    /// Inside a macro, and in grammars without a field for what is called, this is how a call is known.
    fn is_before_parenthesis(&self, node: Node<'tree>) -> bool {
        self.bytes.get(node.end_byte()) == Some(&b'(')
    }

    fn push(&mut self, node: Node<'tree>, kind: UseKind) {
        let range = node.byte_range();
        // A name of one letter is a type parameter or a variable.
        if range.len() < 2 || range.len() > NAME_BYTES_MAX {
            return;
        }
        let kind = if range.start < self.import_end { UseKind::Import } else { kind };
        let definition = self.scopes.last().map_or(NO_DEFINITION, |scope| scope.item);
        let line = node.start_position().row as u32 + 1;
        self.uses.push(Use { start: range.start as u32, bytes: range.len() as u32, line, kind, definition });
    }

    fn finish(mut self) -> Syntax {
        self.keep_telling_uses();
        let key = |item: &Outlined| (item.definition.start_byte, Reverse(item.definition.end_byte));
        if !self.items.is_sorted_by_key(key) {
            let mut order: Vec<u32> = (0..self.items.len() as u32).collect();
            order.sort_by_key(|&at| key(&self.items[at as usize]));
            let mut places = vec![0; order.len()];
            order.iter().enumerate().for_each(|(place, &at)| places[at as usize] = place as u32);
            for used in self.uses.iter_mut().filter(|used| used.definition != NO_DEFINITION) {
                used.definition = places[used.definition as usize];
            }
            self.items.sort_by_key(key);
        }
        Syntax { outline: self.items, uses: self.uses, imports: self.imports }
    }

    /// A plain name is most often a variable. It stays when the file defines or imports it, or when it is written
    /// like a type or a constant.
    fn keep_telling_uses(&mut self) {
        let bytes = self.bytes;
        let mut known: FxHashSet<&[u8]> = self.items.iter().map(|item| item.definition.name.as_bytes()).collect();
        let imported = self.uses.iter().filter(|used| used.kind == UseKind::Import);
        known.extend(imported.map(|used| used.text(bytes)));
        self.uses.retain(|used| {
            let text = used.text(bytes);
            used.kind != UseKind::Name || text[0].is_ascii_uppercase() || known.contains(text)
        });
    }
}

/// The run of comments and attributes with `node` at its end.
fn joined(run: Option<Above>, node: Node<'_>, before: Option<Node<'_>>, is_attribute: bool) -> Option<Above> {
    let (start, last_row) = (node.start_position(), last_row(node));
    match run.filter(|run| run.last_row + 1 >= start.row) {
        Some(run) => {
            let attribute = if is_attribute { run.attribute.or(Some((node.start_byte(), start))) } else { None };
            Some(Above { last_row, attribute, ..run })
        }
        // A comment at the end of the line before belongs to that line.
        None if before.is_some_and(|before| self::last_row(before) == start.row) => None,
        None => {
            Some(Above { top_row: start.row, last_row, attribute: is_attribute.then(|| (node.start_byte(), start)) })
        }
    }
}

/// The last row that holds a byte of the node. Some grammars end a node after its newline.
fn last_row(node: Node<'_>) -> usize {
    let end = node.end_position();
    if end.column == 0 && end.row > node.start_position().row { end.row - 1 } else { end.row }
}
