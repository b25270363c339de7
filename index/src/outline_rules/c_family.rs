//! C and C++.

use super::{Found, ImportForm, NONE, Rules, Site, first_of, text};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name, Type};

/// Declarators inside each other that are followed down to a name.
const DECLARATORS_MAX: usize = 64;

pub(super) const RULES: Rules = Rules {
    defines: &[
        ("alias_declaration", Kind::Type),
        ("namespace_definition", Kind::Module),
        ("preproc_function_def", Kind::Macro),
        ("concept_definition", Kind::Trait),
    ],
    asks: &[
        "function_definition",
        "struct_specifier",
        "union_specifier",
        "class_specifier",
        "enum_specifier",
        "type_definition",
        "preproc_def",
    ],
    special,
    wraps: &["template_declaration"],
    targets: &[
        ("call_expression", "function", Call),
        ("field_expression", "field", Member),
        ("qualified_identifier", "name", Member),
        ("template_function", "name", Call),
        ("template_type", "name", Type),
    ],
    names: &[
        ("identifier", Name),
        ("type_identifier", Type),
        ("field_identifier", Member),
        ("namespace_identifier", Name),
    ],
    imports: &[("preproc_include", ImportForm::Field("path"))],
    is_exported: |_, head| !head.starts_with("static ") || head.starts_with("static inline"),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    match site.node.kind() {
        "function_definition" => function(site),
        "type_definition" => {
            let kind = match site.field("type") {
                Some(of) if of.child_by_field_name("body").is_some() => match of.kind() {
                    "enum_specifier" => Kind::Enum,
                    _ => Kind::Struct,
                },
                _ => Kind::Type,
            };
            Found::at(first_of(site.field("declarator")?, &["type_identifier"]), kind)
        }
        "preproc_def" => {
            // An include guard has no value and is no definition.
            site.field("value")?;
            Found::at(site.field("name"), Kind::Constant)
        }
        kind => {
            site.field("body")?;
            let kind = match kind {
                "class_specifier" => Kind::Class,
                "enum_specifier" => Kind::Enum,
                _ => Kind::Struct,
            };
            Found::at(site.field("name"), kind)
        }
    }
}

/// Follows the declarators (`*`, `&`, parentheses) of a function down to its name.
fn function(site: &Site<'_, '_>) -> Option<Found> {
    let mut at = site.field("declarator")?;
    let mut owner: Vec<String> = Vec::new();
    for _ in 0..DECLARATORS_MAX {
        match at.kind() {
            "identifier" | "field_identifier" | "destructor_name" | "operator_name" | "operator_cast" => {
                let found = Found::at(Some(at), Kind::Function)?;
                return Some(Found { owner: (!owner.is_empty()).then(|| owner.join(".")), ..found });
            }
            "qualified_identifier" => {
                owner.extend(at.child_by_field_name("scope").map(|scope| text(scope, site.bytes)));
                at = at.child_by_field_name("name")?;
            }
            "template_function" => at = at.child_by_field_name("name")?,
            _ => at = at.child_by_field_name("declarator").or_else(|| at.named_child(0))?,
        }
    }
    None
}
