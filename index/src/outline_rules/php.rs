//! PHP.

use super::{Found, ImportForm, NONE, Rules, first_of};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Type};

pub(super) const RULES: Rules = Rules {
    defines: &[
        ("function_definition", Kind::Function),
        ("method_declaration", Kind::Method),
        ("class_declaration", Kind::Class),
        ("interface_declaration", Kind::Interface),
        ("trait_declaration", Kind::Trait),
        ("enum_declaration", Kind::Enum),
    ],
    asks: &["const_element", "namespace_definition"],
    special: |site| match site.node.kind() {
        "namespace_definition" => {
            site.field("body")?;
            Found::at(site.field("name"), Kind::Module)
        }
        _ => Found::at(first_of(site.node, &["name"]), Kind::Constant),
    },
    wraps_if: |outer, inner| {
        outer.kind() == "const_declaration" && inner.kind() == "const_element" && outer.named_child_count() == 1
    },
    targets: &[
        ("function_call_expression", "function", Call),
        ("member_call_expression", "name", Call),
        ("nullsafe_member_call_expression", "name", Call),
        ("scoped_call_expression", "name", Call),
        ("member_access_expression", "name", Member),
        ("nullsafe_member_access_expression", "name", Member),
    ],
    names: &[("name", Type)],
    imports: &[
        ("namespace_use_clause", ImportForm::Path),
        ("include_expression", ImportForm::Quoted),
        ("include_once_expression", ImportForm::Quoted),
        ("require_expression", ImportForm::Quoted),
        ("require_once_expression", ImportForm::Quoted),
    ],
    ..NONE
};
