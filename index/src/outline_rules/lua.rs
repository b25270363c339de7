//! Lua.

use super::{Found, NONE, Rules, Site, text};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Member, Name};

pub(super) const RULES: Rules = Rules {
    asks: &["function_declaration", "assignment_statement", "field"],
    special,
    wraps: &["variable_declaration"],
    targets: &[
        ("function_call", "name", Call),
        ("dot_index_expression", "field", Member),
        ("method_index_expression", "method", Call),
    ],
    names: &[("identifier", Name)],
    importers: &["require", "dofile"],
    is_exported: |_, head| !head.starts_with("local "),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    match site.node.kind() {
        "function_declaration" => {
            let name = site.field("name")?;
            let plain = name.child_by_field_name("method").or_else(|| name.child_by_field_name("field"));
            let found = Found::at(plain.or(Some(name)), Kind::Function)?;
            let owner = name.child_by_field_name("table").map(|table| text(table, site.bytes).replace(':', "."));
            Some(Found { owner, ..found })
        }
        "field" => {
            site.field("value").filter(|value| value.kind() == "function_definition")?;
            Found::at(site.field("name").filter(|name| name.kind() == "identifier"), Kind::Function)
        }
        _ => {
            let (left, right) = (site.node.named_child(0)?, site.node.named_child(1)?);
            let is_function = right.named_child(0).is_some_and(|value| value.kind() == "function_definition");
            let whole = site.ancestors.len() <= 2;
            let name = left.named_child(0)?;
            let plain = name.child_by_field_name("field").unwrap_or(name);
            match (is_function, whole && name.kind() == "identifier") {
                (true, _) => Found::at(Some(plain), Kind::Function),
                (false, true) => Found::at(Some(plain), Kind::Constant),
                _ => None,
            }
        }
    }
}
