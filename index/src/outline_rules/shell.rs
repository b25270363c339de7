//! Bash and what is close to it.

use super::{Found, NONE, Rules};
use crate::outline::Kind;
use crate::references::UseKind::{Call, Name};

pub(super) const RULES: Rules = Rules {
    defines: &[("function_definition", Kind::Function)],
    asks: &["variable_assignment"],
    special: |site| {
        // program > variable_assignment, or program > declaration_command > variable_assignment
        let whole =
            site.ancestors.len() == 1 || site.ancestors.len() == 2 && site.parent_kind() == "declaration_command";
        let name = site.field("name").filter(|name| whole && name.kind() == "variable_name");
        Found::at(name, Kind::Constant)
    },
    targets: &[("command", "name", Call)],
    names: &[("command_name", Call), ("variable_name", Name)],
    importers: &["source", "."],
    is_exported: |name, _| !name.starts_with('_'),
    ..NONE
};
