//! Rust.

use tree_sitter::Node;

use super::{Found, ImportForm, NONE, Rules, Site, text};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name, Type};

pub(super) const RULES: Rules = Rules {
    defines: &[
        ("function_item", Kind::Function),
        ("function_signature_item", Kind::Function),
        ("struct_item", Kind::Struct),
        ("union_item", Kind::Struct),
        ("enum_item", Kind::Enum),
        ("trait_item", Kind::Trait),
        ("const_item", Kind::Constant),
        ("static_item", Kind::Constant),
        ("type_item", Kind::Type),
        ("associated_type", Kind::Type),
        ("macro_definition", Kind::Macro),
    ],
    asks: &["impl_item", "mod_item"],
    special,
    attributes: &["attribute_item"],
    targets: &[
        ("call_expression", "function", Call),
        ("macro_invocation", "macro", Call),
        ("generic_function", "function", Call),
        ("field_expression", "field", Member),
        ("scoped_identifier", "name", Member),
        ("scoped_type_identifier", "name", Type),
    ],
    names: &[
        ("identifier", Name),
        ("type_identifier", Type),
        ("field_identifier", Member),
        ("shorthand_field_identifier", Name),
    ],
    imports: &[("use_declaration", ImportForm::Special(uses)), ("mod_item", ImportForm::Special(module))],
    is_exported: |_, head| head.starts_with("pub"),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    match site.node.kind() {
        "impl_item" => {
            let of = site.field("type")?;
            let of = of.child_by_field_name("type").unwrap_or(of);
            // `impl a::B` extends `B`.
            Found::at(of.child_by_field_name("name").or(Some(of)), Kind::Impl)
        }
        _ => {
            site.field("body")?;
            Found::at(site.field("name"), Kind::Module)
        }
    }
}

/// `mod a;` brings in the file `a.rs` or `a/mod.rs`.
fn module(node: Node<'_>, bytes: &[u8]) -> Vec<String> {
    match (node.child_by_field_name("body"), node.child_by_field_name("name")) {
        (None, Some(name)) => vec![format!("self::{}", text(name, bytes))],
        _ => Vec::new(),
    }
}

/// More paths of one `use` are not listed.
const PATHS_MAX: usize = 200;

/// `use a::{b, c::{d, e}};` names `a::b`, `a::c::d` and `a::c::e`.
fn uses(node: Node<'_>, bytes: &[u8]) -> Vec<String> {
    let Some(argument) = node.child_by_field_name("argument") else { return Vec::new() };
    let text = text(argument, bytes);
    let (mut paths, mut prefixes, mut word) = (Vec::new(), vec![String::new()], String::new());
    let mut finish = |prefix: &str, word: &mut String| {
        let plain = word.split(" as ").next().unwrap_or_default().trim();
        let path = format!("{prefix}{plain}");
        let path = path.strip_suffix("::*").or_else(|| path.strip_suffix("::self")).unwrap_or(&path);
        if !plain.is_empty() && !path.is_empty() && paths.len() < PATHS_MAX {
            paths.push(path.to_owned());
        }
        word.clear();
    };
    for c in text.chars() {
        match c {
            '{' => {
                let prefix = format!("{}{}", prefixes.last().map_or("", String::as_str), word.trim());
                // What nobody writes: paths without end inside each other.
                if prefix.len() > super::IMPORT_BYTES_MAX {
                    return Vec::new();
                }
                prefixes.push(prefix);
                word.clear();
            }
            ',' => finish(prefixes.last().map_or("", String::as_str), &mut word),
            '}' => {
                finish(prefixes.last().map_or("", String::as_str), &mut word);
                prefixes.pop();
            }
            c => word.push(c),
        }
    }
    finish(prefixes.last().map_or("", String::as_str), &mut word);
    paths
}
