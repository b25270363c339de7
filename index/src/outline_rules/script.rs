//! JavaScript and TypeScript.

use tree_sitter::Node;

use super::{Found, ImportForm, NONE, Rules, Site};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name, Type};

pub(super) const RULES: Rules = Rules {
    defines: &[
        ("function_declaration", Kind::Function),
        ("generator_function_declaration", Kind::Function),
        ("function_signature", Kind::Function),
        ("method_definition", Kind::Method),
        ("abstract_method_signature", Kind::Method),
        ("class_declaration", Kind::Class),
        ("abstract_class_declaration", Kind::Class),
        ("interface_declaration", Kind::Interface),
        ("type_alias_declaration", Kind::Type),
        ("enum_declaration", Kind::Enum),
    ],
    asks: &[
        "internal_module",
        "module",
        "variable_declarator",
        "assignment_expression",
        "public_field_definition",
        "field_definition",
    ],
    special,
    wraps: &["export_statement", "ambient_declaration"],
    wraps_if: |outer, inner| match outer.kind() {
        "lexical_declaration" | "variable_declaration" => outer.named_child_count() == 1,
        "expression_statement" => matches!(inner.kind(), "internal_module" | "module" | "assignment_expression"),
        _ => false,
    },
    attributes: &["decorator"],
    targets: &[
        ("call_expression", "function", Call),
        ("new_expression", "constructor", Call),
        ("member_expression", "property", Member),
        ("nested_type_identifier", "name", Type),
        ("jsx_opening_element", "name", Call),
        ("jsx_self_closing_element", "name", Call),
    ],
    names: &[
        ("identifier", Name),
        ("type_identifier", Type),
        ("property_identifier", Member),
        ("shorthand_property_identifier", Name),
    ],
    imports: &[("import_statement", ImportForm::Field("source")), ("export_statement", ImportForm::Field("source"))],
    importers: &["require", "import"],
    is_exported: |_, head| head.starts_with("export") || head.starts_with("exports.") || head.starts_with("module."),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    match site.node.kind() {
        "internal_module" | "module" => {
            site.field("body")?;
            Found::at(site.field("name"), Kind::Module)
        }
        "variable_declarator" => variable(site),
        "assignment_expression" => assignment(site),
        _ => {
            let name = site.field("name").or_else(|| site.field("property"));
            if is_function(site.field("value")?) { Found::at(name, Kind::Method) } else { None }
        }
    }
}

fn is_function(value: Node<'_>) -> bool {
    matches!(value.kind(), "arrow_function" | "function_expression" | "generator_function" | "function")
}

/// `const f = () => …` is a function, `const C = class …` a class, and any other variable of the whole file a constant.
fn variable(site: &Site<'_, '_>) -> Option<Found> {
    let name = site.field("name").filter(|name| name.kind() == "identifier")?;
    let kind = match site.field("value") {
        Some(value) if is_function(value) => Kind::Function,
        Some(value) if value.kind() == "class" => Kind::Class,
        _ => Kind::Constant,
    };
    // program > export_statement > lexical_declaration > variable_declarator
    let whole_file = match site.ancestors {
        [_, _] => true,
        [_, holder, _] => holder.kind() == "export_statement",
        _ => false,
    };
    if kind != Kind::Constant || whole_file { Found::at(Some(name), kind) } else { None }
}

/// `exports.f = function …` and `A.prototype.f = function …` define `f`.
fn assignment(site: &Site<'_, '_>) -> Option<Found> {
    site.field("right").filter(|value| is_function(*value))?;
    let left = site.field("left").filter(|left| left.kind() == "member_expression")?;
    Found::at(left.child_by_field_name("property"), Kind::Function)
}
