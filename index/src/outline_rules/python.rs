//! Python.

use tree_sitter::Node;

use super::{Found, ImportForm, NONE, Rules, Site, text};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name};

pub(super) const RULES: Rules = Rules {
    defines: &[("function_definition", Kind::Function), ("class_definition", Kind::Class)],
    asks: &["assignment", "type_alias_statement"],
    special,
    wraps: &["decorated_definition"],
    wraps_if: |outer, inner| outer.kind() == "expression_statement" && inner.kind() == "assignment",
    targets: &[("call", "function", Call), ("attribute", "attribute", Member)],
    names: &[("identifier", Name)],
    imports: &[
        ("import_statement", ImportForm::Special(imported)),
        ("import_from_statement", ImportForm::Special(imported_from)),
    ],
    is_exported: |name, _| !name.starts_with('_') || name.starts_with("__"),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    if site.node.kind() == "type_alias_statement" {
        return Found::at(super::first_of(site.field("left")?, &["identifier"]), Kind::Type);
    }
    // An assignment of the whole module: module > expression_statement > assignment.
    let left = site.field("left").filter(|left| site.ancestors.len() == 2 && left.kind() == "identifier");
    Found::at(left, Kind::Constant)
}

/// `import a.b as c, d`
fn imported(node: Node<'_>, bytes: &[u8]) -> Vec<String> {
    names(node, None, bytes)
}

/// `from a.b import c, d` names `a.b.c` and `a.b.d`, `from . import c` names `.c`.
fn imported_from(node: Node<'_>, bytes: &[u8]) -> Vec<String> {
    let Some(module) = node.child_by_field_name("module_name") else { return Vec::new() };
    let from = text(module, bytes);
    let names = names(node, Some(module), bytes);
    if names.is_empty() {
        return vec![from];
    }
    let joint = if from.ends_with('.') { "" } else { "." };
    names.into_iter().map(|name| format!("{from}{joint}{name}")).collect()
}

fn names(node: Node<'_>, except: Option<Node<'_>>, bytes: &[u8]) -> Vec<String> {
    let mut cursor = node.walk();
    let children = node.named_children(&mut cursor).filter(|child| Some(*child) != except);
    let named = children.filter(|child| matches!(child.kind(), "dotted_name" | "aliased_import"));
    named.map(|child| text(child.child_by_field_name("name").unwrap_or(child), bytes)).collect()
}
