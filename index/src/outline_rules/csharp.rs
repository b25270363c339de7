//! C#.

use super::{Found, ImportForm, NONE, Rules, Site};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name, Type};

pub(super) const RULES: Rules = Rules {
    defines: &[
        ("class_declaration", Kind::Class),
        ("struct_declaration", Kind::Struct),
        ("record_declaration", Kind::Struct),
        ("interface_declaration", Kind::Interface),
        ("enum_declaration", Kind::Enum),
        ("delegate_declaration", Kind::Type),
        ("method_declaration", Kind::Method),
        ("constructor_declaration", Kind::Method),
        ("local_function_statement", Kind::Function),
        ("property_declaration", Kind::Constant),
        ("namespace_declaration", Kind::Module),
    ],
    asks: &["field_declaration"],
    special: constant,
    targets: &[
        ("invocation_expression", "function", Call),
        ("object_creation_expression", "type", Call),
        ("member_access_expression", "name", Member),
        ("member_binding_expression", "name", Member),
        ("attribute", "name", Type),
    ],
    names: &[("identifier", Name)],
    imports: &[("using_directive", ImportForm::Path)],
    is_exported: |_, head| head.contains("public ") || head.contains("internal ") || head.contains("protected "),
    ..NONE
};

/// `const` and `static readonly` fields.
fn constant(site: &Site<'_, '_>) -> Option<Found> {
    let is_word = |at| {
        let modifier = site.node.child(at).filter(|child| child.kind() == "modifier");
        modifier.is_some_and(|word| matches!(&super::text(word, site.bytes)[..], "const" | "readonly"))
    };
    let declarator = super::first_of(site.node, &["variable_declarator"])?;
    if (0..6).any(is_word) { Found::at(declarator.child_by_field_name("name"), Kind::Constant) } else { None }
}
