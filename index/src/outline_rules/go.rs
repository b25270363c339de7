//! Go.

use super::{Found, ImportForm, NONE, Rules, Site, first_of, text};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name, Type};

/// source_file > var_declaration > var_spec_list > var_spec
const WHOLE_FILE_DEPTH_MAX: usize = 3;

pub(super) const RULES: Rules = Rules {
    defines: &[("function_declaration", Kind::Function)],
    asks: &["method_declaration", "type_spec", "type_alias", "const_spec", "var_spec", "method_elem"],
    special,
    wraps_if: |outer, _| {
        matches!(outer.kind(), "type_declaration" | "const_declaration" | "var_declaration")
            && outer.named_child_count() == 1
    },
    targets: &[
        ("call_expression", "function", Call),
        ("selector_expression", "field", Member),
        ("qualified_type", "name", Type),
    ],
    names: &[("identifier", Name), ("type_identifier", Type), ("field_identifier", Member)],
    imports: &[("import_spec", ImportForm::Field("path"))],
    is_exported: |name, _| name.starts_with(char::is_uppercase),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    match site.node.kind() {
        "method_declaration" => {
            let receiver = site.field("receiver").and_then(|receiver| first_of(receiver, &["type_identifier"]));
            let found = Found::at(site.field("name"), Kind::Method)?;
            Some(Found { owner: receiver.map(|receiver| text(receiver, site.bytes)), ..found })
        }
        "method_elem" => Found::at(site.field("name"), Kind::Method),
        "type_spec" | "type_alias" => {
            let kind = match site.field("type").map(|of| of.kind()) {
                Some("struct_type") => Kind::Struct,
                Some("interface_type") => Kind::Interface,
                _ => Kind::Type,
            };
            Found::at(site.field("name"), kind)
        }
        _ if site.ancestors.len() <= WHOLE_FILE_DEPTH_MAX => Found::at(site.field("name"), Kind::Constant),
        _ => None,
    }
}
