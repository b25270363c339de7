//! Java, Kotlin and Scala.

use tree_sitter::Node;

use super::{Found, ImportForm, NONE, Rules, Site, first_of};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name, Type};

pub(super) const JAVA: Rules = Rules {
    defines: &[
        ("class_declaration", Kind::Class),
        ("record_declaration", Kind::Struct),
        ("interface_declaration", Kind::Interface),
        ("annotation_type_declaration", Kind::Interface),
        ("enum_declaration", Kind::Enum),
        ("method_declaration", Kind::Method),
        ("constructor_declaration", Kind::Method),
        ("compact_constructor_declaration", Kind::Method),
    ],
    asks: &["field_declaration"],
    special: |site| {
        let is_constant = site.node.named_child(0).is_some_and(|first| {
            let modifiers = super::text(first, site.bytes);
            first.kind() == "modifiers" && modifiers.contains("static") && modifiers.contains("final")
        });
        let name = site.field("declarator").and_then(|declarator| declarator.child_by_field_name("name"));
        if is_constant { Found::at(name, Kind::Constant) } else { None }
    },
    targets: &[
        ("method_invocation", "name", Call),
        ("object_creation_expression", "type", Call),
        ("field_access", "field", Member),
        ("annotation", "name", Type),
        ("marker_annotation", "name", Type),
    ],
    names: &[("identifier", Name), ("type_identifier", Type)],
    imports: &[("import_declaration", ImportForm::Path)],
    ..NONE
};

pub(super) const KOTLIN: Rules = Rules {
    defines: &[("function_declaration", Kind::Function), ("object_declaration", Kind::Class)],
    asks: &["class_declaration", "property_declaration", "type_alias", "companion_object"],
    special: kotlin,
    bodies: &["function_body", "class_body", "enum_class_body"],
    names: &[("identifier", Name)],
    imports: &[("import", ImportForm::Path)],
    ..NONE
};

fn kotlin(site: &Site<'_, '_>) -> Option<Found> {
    match site.node.kind() {
        "class_declaration" => {
            let last = site.node.named_child((site.node.named_child_count() as u32).saturating_sub(1));
            let kind = match last.map(|last| last.kind()) {
                _ if has_word(site.node, "interface") => Kind::Interface,
                Some("enum_class_body") => Kind::Enum,
                _ => Kind::Class,
            };
            Found::at(site.field("name"), kind)
        }
        "type_alias" => Found::at(site.field("type"), Kind::Type),
        // A companion without a name is called Companion; its members belong to the class around it.
        "companion_object" => Found::at(site.field("name"), Kind::Class),
        _ => {
            let whole = site.ancestors.len() == 1 || matches!(site.parent_kind(), "class_body" | "enum_class_body");
            let variable = site.node.named_children(&mut site.node.walk()).find(|c| c.kind() == "variable_declaration");
            let name = variable.and_then(|variable| first_of(variable, &["identifier"]));
            if whole { Found::at(name, Kind::Constant) } else { None }
        }
    }
}

/// Whether one of the first children is this word.
fn has_word(node: Node<'_>, word: &str) -> bool {
    (0..8).filter_map(|at| node.child(at)).any(|child| child.kind() == word)
}

pub(super) const SCALA: Rules = Rules {
    defines: &[
        ("class_definition", Kind::Class),
        ("object_definition", Kind::Class),
        ("trait_definition", Kind::Trait),
        ("enum_definition", Kind::Enum),
        ("function_definition", Kind::Function),
        ("function_declaration", Kind::Function),
        ("type_definition", Kind::Type),
        ("given_definition", Kind::Constant),
    ],
    asks: &["val_definition", "var_definition", "val_declaration", "package_object"],
    special: |site| match site.node.kind() {
        "package_object" => Found::at(site.field("name"), Kind::Module),
        kind => {
            let whole = site.ancestors.len() == 1 || site.parent_kind() == "template_body";
            let name = site.field(if kind == "val_declaration" { "name" } else { "pattern" });
            let name = name.filter(|name| whole && name.kind() == "identifier");
            Found::at(name, Kind::Constant)
        }
    },
    targets: &[
        ("call_expression", "function", Call),
        ("generic_function", "function", Call),
        ("field_expression", "field", Member),
    ],
    names: &[("identifier", Name), ("type_identifier", Type)],
    imports: &[("import_declaration", ImportForm::Path)],
    ..NONE
};
