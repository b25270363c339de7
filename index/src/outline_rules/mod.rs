//! Which nodes of which grammar define something, which use something, which import? A catalogue: one file for each
//! family of languages, and here how the catalogue is read.

mod c_family;
mod csharp;
mod go;
mod jvm;
mod lua;
mod php;
mod python;
mod ruby;
mod rust;
mod script;
mod shell;
mod swift;

use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::OnceLock;

use tree_sitter::Node;

use crate::language::{LANGUAGE_COUNT, Language};
use crate::outline::Kind;
use crate::references::UseKind;

/// What there is to know about the grammars of one family. Node kinds are named as the grammar names them; a test
/// holds that each exists.
pub(crate) struct Rules {
    /// Nodes that define what their field `name` says.
    pub defines: &'static [(&'static str, Kind)],
    /// Nodes that may define something: `special` says what.
    pub asks: &'static [&'static str],
    pub special: fn(&Site<'_, '_>) -> Option<Found>,
    /// Nodes that only dress the definition inside them: decorators, `export`, `template<>`.
    pub wraps: &'static [&'static str],
    /// Nodes that dress a definition under a condition on the two.
    pub wraps_if: fn(&Node<'_>, &Node<'_>) -> bool,
    /// Attributes and decorators that stand above a definition as its siblings.
    pub attributes: &'static [&'static str],
    /// Children that are a body where the grammar gives them no such field.
    pub bodies: &'static [&'static str],
    /// Nodes, the field that leads to what they use, and how they use it.
    pub targets: &'static [(&'static str, &'static str, UseKind)],
    /// Leaves that are identifiers, and what their use is when nothing above says it better.
    pub names: &'static [(&'static str, UseKind)],
    /// Nodes that import, and how what is imported is read from them.
    pub imports: &'static [(&'static str, ImportForm)],
    /// Functions whose first string argument is an import.
    pub importers: &'static [&'static str],
    /// Whether others see it, from its name and its head.
    pub is_exported: fn(&str, &str) -> bool,
}

/// Rules that find nothing, to be filled in with `..NONE`.
const NONE: Rules = Rules {
    defines: &[],
    asks: &[],
    special: |_| None,
    wraps: &[],
    wraps_if: |_, _| false,
    attributes: &[],
    bodies: &[],
    targets: &[],
    names: &[],
    imports: &[],
    importers: &[],
    is_exported: |_, head| !head.contains("private "),
};

/// How a node says what it imports.
#[derive(Clone, Copy)]
pub(crate) enum ImportForm {
    /// A path, a word before it (`import`, `using static`), perhaps `as` after it.
    Path,
    /// The first string inside.
    Quoted,
    /// The text of a field, without quotes.
    Field(&'static str),
    /// As the family says.
    Special(fn(Node<'_>, &[u8]) -> Vec<String>),
}

/// A definition that a rule recognised.
pub(crate) struct Found {
    /// Where its name stands.
    pub name: Range<usize>,
    pub kind: Kind,
    /// A type that the definition belongs to although it stands outside of it (Go receivers, C++ `Type::name`).
    pub owner: Option<String>,
}

impl Found {
    fn at(name: Option<Node<'_>>, kind: Kind) -> Option<Found> {
        let name = name?.byte_range();
        (!name.is_empty()).then_some(Found { name, kind, owner: None })
    }
}

/// A node with what is around it.
pub(crate) struct Site<'tree, 'a> {
    pub node: Node<'tree>,
    /// Outermost first, the node's parent last.
    pub ancestors: &'a [Node<'tree>],
    pub bytes: &'a [u8],
}

impl<'tree> Site<'tree, '_> {
    fn field(&self, name: &str) -> Option<Node<'tree>> {
        self.node.child_by_field_name(name)
    }

    fn parent_kind(&self) -> &'tree str {
        self.ancestors.last().map_or("", |node| node.kind())
    }
}

/// What the walk does at a kind of node. All that a node needs is one look into a table.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entry {
    /// Nothing of the rest is set.
    pub idle: bool,
    pub defines: Option<Kind>,
    pub asks: bool,
    pub wraps: bool,
    /// It may stand above a definition and belong to it: true for an attribute, false for a comment.
    pub attached: Option<bool>,
    pub is_body: bool,
    pub target: Option<(NonZeroU16, UseKind)>,
    pub name: Option<UseKind>,
    pub import: Option<ImportForm>,
}

/// The rules of one language, by the numbers of its grammar.
pub(crate) struct Table {
    pub rules: &'static Rules,
    pub name_field: Option<NonZeroU16>,
    entries: Vec<Entry>,
}

impl Table {
    /// Made once for each language; nothing where there is no grammar.
    pub(crate) fn of(language: Language) -> Option<&'static Table> {
        static TABLES: [OnceLock<Option<Table>>; LANGUAGE_COUNT] = [const { OnceLock::new() }; LANGUAGE_COUNT];
        TABLES.get(language as usize)?.get_or_init(|| Some(Table::make(language.grammar()?, rules(language)?))).as_ref()
    }

    fn make(grammar: tree_sitter::Language, rules: &'static Rules) -> Table {
        let entry = |id: u16| {
            let kind = grammar.node_kind_for_id(id).unwrap_or_default();
            let named = grammar.node_kind_is_named(id);
            let has = |list: &[&str]| named && list.contains(&kind);
            let target = rules.targets.iter().find(|(of, ..)| named && *of == kind);
            let mut entry = Entry {
                idle: false,
                defines: rules.defines.iter().find(|(of, _)| named && *of == kind).map(|(_, kind)| *kind),
                asks: has(rules.asks),
                wraps: has(rules.wraps),
                attached: has(rules.attributes).then_some(true).or(has(COMMENTS).then_some(false)),
                is_body: has(rules.bodies),
                target: target.and_then(|(_, field, how)| Some((grammar.field_id_for_name(field)?, *how))),
                name: rules.names.iter().find(|(of, _)| named && *of == kind).map(|(_, how)| *how),
                import: rules.imports.iter().find(|(of, _)| named && *of == kind).map(|(_, form)| *form),
            };
            let marked = entry.defines.is_some() || entry.asks || entry.wraps || entry.attached.is_some();
            entry.idle = !marked && entry.target.is_none() && entry.name.is_none() && entry.import.is_none();
            entry
        };
        let count = u16::try_from(grammar.node_kind_count()).unwrap_or(u16::MAX);
        Table { rules, name_field: grammar.field_id_for_name("name"), entries: (0..count).map(entry).collect() }
    }

    /// The entry of a kind of node. Error nodes have none.
    pub(crate) fn entry(&self, kind: u16) -> &Entry {
        const IDLE: Entry = Entry {
            idle: true,
            defines: None,
            asks: false,
            wraps: false,
            attached: None,
            is_body: false,
            target: None,
            name: None,
            import: None,
        };
        self.entries.get(usize::from(kind)).unwrap_or(&IDLE)
    }

    /// What `site` defines, if anything.
    pub(crate) fn found(&self, entry: &Entry, site: &Site<'_, '_>) -> Option<Found> {
        if let Some(kind) = entry.defines {
            return Found::at(site.node.child_by_field_id(self.name_field?.get()), kind);
        }
        if entry.asks { (self.rules.special)(site) } else { None }
    }
}

/// What the grammars call a comment.
const COMMENTS: &[&str] = &["comment", "line_comment", "block_comment", "multiline_comment", "doc_comment"];

fn rules(language: Language) -> Option<&'static Rules> {
    Some(match language {
        Language::Rust => &rust::RULES,
        Language::Python => &python::RULES,
        Language::JavaScript | Language::TypeScript | Language::Tsx => &script::RULES,
        Language::Go => &go::RULES,
        Language::Java => &jvm::JAVA,
        Language::Kotlin => &jvm::KOTLIN,
        Language::Scala => &jvm::SCALA,
        Language::C | Language::Cpp => &c_family::RULES,
        Language::CSharp => &csharp::RULES,
        Language::Ruby => &ruby::RULES,
        Language::Php => &php::RULES,
        Language::Swift => &swift::RULES,
        Language::Bash => &shell::RULES,
        Language::Lua => &lua::RULES,
        Language::Sql => return None,
    })
}

/// The text of a node; bytes that are not UTF-8 are replaced.
fn text(node: Node<'_>, bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(node.byte_range()).unwrap_or_default()).into_owned()
}

/// Nodes that a search inside one node looks at.
const SEARCH_NODES_MAX: usize = 300;
/// Children of one node that such a search looks at.
const SEARCH_CHILDREN_MAX: u32 = 50;

/// The first node of one of these kinds inside `node`, or itself.
fn first_of<'tree>(node: Node<'tree>, kinds: &[&str]) -> Option<Node<'tree>> {
    let mut stack = vec![node];
    for _ in 0..SEARCH_NODES_MAX {
        let node = stack.pop()?;
        if kinds.contains(&node.kind()) {
            return Some(node);
        }
        let count = (node.named_child_count() as u32).min(SEARCH_CHILDREN_MAX);
        stack.extend((0..count).rev().filter_map(|at| node.named_child(at)));
    }
    None
}

/// Longer texts are no import.
const IMPORT_BYTES_MAX: usize = 300;

/// What `node` imports.
pub(crate) fn imports(form: ImportForm, node: Node<'_>, bytes: &[u8]) -> Vec<String> {
    let one = match form {
        ImportForm::Path => path_of(&text(node, bytes)),
        ImportForm::Quoted => return quoted(node, bytes).into_iter().collect(),
        ImportForm::Field(name) => node.child_by_field_name(name).map(|node| unquoted(&text(node, bytes))),
        ImportForm::Special(read) => return read(node, bytes).into_iter().filter(|text| is_import(text)).collect(),
    };
    one.filter(|text| is_import(text)).into_iter().collect()
}

/// The first string inside `node`, where it is a plain one.
fn quoted(node: Node<'_>, bytes: &[u8]) -> Option<String> {
    const STRINGS: &[&str] =
        &["string", "string_literal", "interpreted_string_literal", "encapsed_string", "raw_string"];
    Some(unquoted(&text(first_of(node, STRINGS)?, bytes))).filter(|text| is_import(text))
}

/// The text that a call of an importer brings in.
pub(crate) fn first_argument(call: Node<'_>, bytes: &[u8]) -> Option<String> {
    match call.child_by_field_name("argument") {
        Some(argument) => Some(unquoted(&text(argument, bytes))).filter(|text| is_import(text)),
        None => quoted(call, bytes),
    }
}

fn is_import(text: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '(' | ')' | '{' | '}' | ';' | '$');
    !text.is_empty() && text.len() <= IMPORT_BYTES_MAX && !text.contains(odd)
}

fn unquoted(text: &str) -> String {
    text.trim_matches(['"', '\'', '`', '<', '>']).to_owned()
}

/// `import static a.b.C as D;` speaks of `a.b.C`.
fn path_of(text: &str) -> Option<String> {
    const WORDS: &[&str] = &["import", "using", "static", "global", "package", "typealias", "struct", "class", "func"];
    let text = text.trim_end_matches([';', ' ']);
    let text = text.rsplit('=').next().unwrap_or(text);
    let path = text.split_whitespace().find(|word| !WORDS.contains(word) && !word.starts_with('@'))?;
    let path = path.split('{').next().unwrap_or(path);
    Some(path.trim_end_matches(".*").trim_end_matches("._").trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind that no grammar of the family has is a misspelling.
    #[test]
    fn every_kind_and_field_that_the_catalogue_names_is_one_of_the_grammar() {
        use Language::*;
        let families: &[&[Language]] = &[
            &[Rust],
            &[Python],
            &[JavaScript, TypeScript, Tsx],
            &[Go],
            &[Java],
            &[Kotlin],
            &[Scala],
            &[C, Cpp],
            &[CSharp],
            &[Ruby],
            &[Php],
            &[Swift],
            &[Bash],
            &[Lua],
        ];
        for family in families {
            let rules = rules(family[0]).unwrap();
            let grammars: Vec<_> = family.iter().map(|language| language.grammar().unwrap()).collect();
            let known = |kind: &str| grammars.iter().any(|grammar| grammar.id_for_node_kind(kind, true) != 0);
            let kinds = rules.defines.iter().map(|(kind, _)| *kind);
            let kinds = kinds.chain(rules.asks.iter().chain(rules.wraps).chain(rules.attributes).copied());
            let kinds = kinds.chain(rules.targets.iter().map(|(kind, ..)| *kind)).chain(rules.bodies.iter().copied());
            let kinds = kinds.chain(rules.names.iter().map(|(kind, _)| *kind));
            for kind in kinds.chain(rules.imports.iter().map(|(kind, _)| *kind)) {
                assert!(known(kind), "{family:?} has no {kind}");
            }
            for (kind, field, _) in rules.targets {
                let known = grammars.iter().any(|grammar| grammar.field_id_for_name(field).is_some());
                assert!(known, "{family:?}: {kind} has no field {field}");
            }
        }
    }
}
