//! Ruby.

use super::{Found, NONE, Rules, Site, text};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Name, Type};

pub(super) const RULES: Rules = Rules {
    defines: &[("method", Kind::Function), ("singleton_method", Kind::Method), ("alias", Kind::Method)],
    asks: &["class", "module", "assignment"],
    special,
    targets: &[("call", "method", Call), ("scope_resolution", "name", Type)],
    names: &[("identifier", Name), ("constant", Type)],
    importers: &["require", "require_relative", "load", "autoload"],
    is_exported: |name, _| !name.starts_with('_'),
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    let kind = match site.node.kind() {
        "class" => Kind::Class,
        // Its functions are methods of whoever includes it.
        "module" => Kind::Trait,
        _ => {
            let left = site.field("left").filter(|left| left.kind() == "constant");
            return Found::at(left, Kind::Constant);
        }
    };
    let name = site.field("name")?;
    let found = Found::at(name.child_by_field_name("name").or(Some(name)), kind)?;
    let owner = name.child_by_field_name("scope").map(|scope| text(scope, site.bytes).replace("::", "."));
    Some(Found { owner, ..found })
}
