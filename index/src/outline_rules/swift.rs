//! Swift.

use super::{Found, ImportForm, NONE, Rules, Site, first_of, text};
use crate::outline::Kind;
use crate::references::UseKind::{Member, Name, Type};

pub(super) const RULES: Rules = Rules {
    defines: &[
        ("function_declaration", Kind::Function),
        ("protocol_function_declaration", Kind::Method),
        ("init_declaration", Kind::Method),
        ("protocol_declaration", Kind::Interface),
        ("typealias_declaration", Kind::Type),
    ],
    asks: &["class_declaration", "property_declaration"],
    special,
    targets: &[("navigation_suffix", "suffix", Member)],
    names: &[("simple_identifier", Name), ("type_identifier", Type)],
    imports: &[("import_declaration", ImportForm::Path)],
    ..NONE
};

fn special(site: &Site<'_, '_>) -> Option<Found> {
    if site.node.kind() == "property_declaration" {
        let whole = site.ancestors.len() == 1 || matches!(site.parent_kind(), "class_body" | "enum_class_body");
        let name = first_of(site.field("name")?, &["simple_identifier"]);
        return if whole { Found::at(name, Kind::Constant) } else { None };
    }
    let kind = match site.field("declaration_kind").map(|word| text(word, site.bytes)).as_deref() {
        Some("struct") => Kind::Struct,
        Some("enum") => Kind::Enum,
        // An extension holds methods of a type and is none, as an impl of Rust.
        Some("extension") => Kind::Impl,
        _ => Kind::Class,
    };
    Found::at(site.field("name"), kind)
}
