//! Which nodes of which grammar define something? A catalogue: one function per language.

use tree_sitter::Node;

use crate::language::Language;
use crate::outline::Kind;

/// A definition that a rule recognised.
pub(crate) struct Found {
    pub name: String,
    pub kind: Kind,
    /// A type that the definition belongs to although it stands outside of it (Go receivers, C++ `Type::name`).
    pub owner: Option<String>,
}

fn found(name: String, kind: Kind) -> Option<Found> {
    (!name.is_empty()).then_some(Found { name, kind, owner: None })
}

/// What `node` defines, if anything.
pub(crate) fn rule(language: Language, node: Node<'_>, ancestors: &[Node<'_>], bytes: &[u8]) -> Option<Found> {
    match language {
        Language::Rust => rust(node, bytes),
        Language::Python => python(node, ancestors, bytes),
        Language::JavaScript | Language::TypeScript | Language::Tsx => script(node, ancestors, bytes),
        Language::Go => go(node, ancestors, bytes),
        Language::Java => java(node, bytes),
        Language::C | Language::Cpp => c_family(node, bytes),
    }
}

/// Whether `outer` only dresses the definition `inner`: decorators, `export`, `template<>`, a declaration with one
/// declarator.
pub(crate) fn is_wrapper(language: Language, outer: &Node<'_>, inner: &Node<'_>) -> bool {
    match (language, outer.kind()) {
        (Language::Python, "decorated_definition") => true,
        (Language::Python, "expression_statement") => inner.kind() == "assignment",
        (Language::JavaScript | Language::TypeScript | Language::Tsx, kind) => match kind {
            "export_statement" | "ambient_declaration" => true,
            "lexical_declaration" | "variable_declaration" => outer.named_child_count() == 1,
            "expression_statement" => matches!(inner.kind(), "internal_module" | "module" | "assignment_expression"),
            _ => false,
        },
        (Language::Go, "type_declaration" | "const_declaration" | "var_declaration") => outer.named_child_count() == 1,
        (Language::Cpp, "template_declaration") => true,
        _ => false,
    }
}

/// Whether a node directly above a definition belongs to it: `Some(true)` for an attribute or decorator,
/// `Some(false)` for a comment, nothing for anything else.
pub(crate) fn is_attached(language: Language, node: &Node<'_>) -> Option<bool> {
    match (language, node.kind()) {
        (_, "comment" | "line_comment" | "block_comment") => Some(false),
        (Language::Rust, "attribute_item") => Some(true),
        (Language::TypeScript | Language::Tsx | Language::JavaScript, "decorator") => Some(true),
        _ => None,
    }
}

fn text(node: Option<Node<'_>>, bytes: &[u8]) -> String {
    node.map(|node| String::from_utf8_lossy(&bytes[node.byte_range()]).into_owned()).unwrap_or_default()
}

fn field(node: Node<'_>, name: &str, bytes: &[u8]) -> String {
    text(node.child_by_field_name(name), bytes)
}

fn rust(node: Node<'_>, bytes: &[u8]) -> Option<Found> {
    let kind = match node.kind() {
        "function_item" | "function_signature_item" => Kind::Function,
        "struct_item" | "union_item" => Kind::Struct,
        "enum_item" => Kind::Enum,
        "trait_item" => Kind::Trait,
        "impl_item" => {
            let of = node.child_by_field_name("type")?;
            let of = of.child_by_field_name("type").unwrap_or(of);
            return found(text(Some(of), bytes), Kind::Impl);
        }
        "mod_item" => {
            node.child_by_field_name("body")?;
            Kind::Module
        }
        "const_item" | "static_item" => Kind::Constant,
        "type_item" => Kind::Type,
        "macro_definition" => Kind::Macro,
        _ => return None,
    };
    found(field(node, "name", bytes), kind)
}

fn python(node: Node<'_>, ancestors: &[Node<'_>], bytes: &[u8]) -> Option<Found> {
    match node.kind() {
        "function_definition" => found(field(node, "name", bytes), Kind::Function),
        "class_definition" => found(field(node, "name", bytes), Kind::Class),
        // An assignment of the whole module: module > expression_statement > assignment.
        "assignment" if ancestors.len() == 2 => {
            let left = node.child_by_field_name("left").filter(|left| left.kind() == "identifier")?;
            found(text(Some(left), bytes), Kind::Constant)
        }
        _ => None,
    }
}

fn script(node: Node<'_>, ancestors: &[Node<'_>], bytes: &[u8]) -> Option<Found> {
    let kind = match node.kind() {
        "function_declaration" | "generator_function_declaration" | "function_signature" => Kind::Function,
        "method_definition" | "abstract_method_signature" => Kind::Method,
        "class_declaration" | "abstract_class_declaration" => Kind::Class,
        "interface_declaration" => Kind::Interface,
        "type_alias_declaration" => Kind::Type,
        "enum_declaration" => Kind::Enum,
        "internal_module" | "module" => {
            node.child_by_field_name("body")?;
            Kind::Module
        }
        "variable_declarator" => return script_variable(node, ancestors, bytes),
        "assignment_expression" => return script_assignment(node, bytes),
        "public_field_definition" | "field_definition" => {
            let value = node.child_by_field_name("value")?;
            let name = node.child_by_field_name("name").or_else(|| node.child_by_field_name("property"));
            return if is_script_function(value) { found(text(name, bytes), Kind::Method) } else { None };
        }
        _ => return None,
    };
    found(field(node, "name", bytes), kind)
}

fn is_script_function(value: Node<'_>) -> bool {
    matches!(value.kind(), "arrow_function" | "function_expression" | "generator_function" | "function")
}

/// `const f = () => …` is a function, `const C = class …` a class, and any other variable of the whole file a constant.
fn script_variable(node: Node<'_>, ancestors: &[Node<'_>], bytes: &[u8]) -> Option<Found> {
    let name = node.child_by_field_name("name").filter(|name| name.kind() == "identifier")?;
    let name = text(Some(name), bytes);
    if let Some(value) = node.child_by_field_name("value") {
        if is_script_function(value) {
            return found(name, Kind::Function);
        }
        if value.kind() == "class" {
            return found(name, Kind::Class);
        }
    }
    let holders = ancestors.iter().rev().skip(1).map(|ancestor| ancestor.kind());
    let whole_file = holders.take_while(|kind| *kind != "program").all(|kind| kind == "export_statement");
    if whole_file { found(name, Kind::Constant) } else { None }
}

/// `exports.f = function …` and `A.prototype.f = function …` define `f`.
fn script_assignment(node: Node<'_>, bytes: &[u8]) -> Option<Found> {
    node.child_by_field_name("right").filter(|value| is_script_function(*value))?;
    let left = node.child_by_field_name("left").filter(|left| left.kind() == "member_expression")?;
    found(field(left, "property", bytes), Kind::Function)
}

fn go(node: Node<'_>, ancestors: &[Node<'_>], bytes: &[u8]) -> Option<Found> {
    let whole_file = ancestors.iter().all(|ancestor| ancestor.kind() != "block");
    match node.kind() {
        "function_declaration" => found(field(node, "name", bytes), Kind::Function),
        "method_declaration" => {
            let receiver = node.child_by_field_name("receiver");
            let owner = receiver.and_then(|receiver| first_of(receiver, &["type_identifier"], bytes));
            let name = field(node, "name", bytes);
            (!name.is_empty()).then_some(Found { name, kind: Kind::Method, owner })
        }
        "type_spec" | "type_alias" => {
            let kind = match node.child_by_field_name("type").map(|of| of.kind()) {
                Some("struct_type") => Kind::Struct,
                Some("interface_type") => Kind::Interface,
                _ => Kind::Type,
            };
            found(field(node, "name", bytes), kind)
        }
        "const_spec" | "var_spec" if whole_file => found(field(node, "name", bytes), Kind::Constant),
        _ => None,
    }
}

fn java(node: Node<'_>, bytes: &[u8]) -> Option<Found> {
    let kind = match node.kind() {
        "class_declaration" => Kind::Class,
        "record_declaration" => Kind::Struct,
        "interface_declaration" | "annotation_type_declaration" => Kind::Interface,
        "enum_declaration" => Kind::Enum,
        "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => Kind::Method,
        _ => return None,
    };
    found(field(node, "name", bytes), kind)
}

fn c_family(node: Node<'_>, bytes: &[u8]) -> Option<Found> {
    match node.kind() {
        "function_definition" => c_function(node, bytes),
        "struct_specifier" | "union_specifier" | "class_specifier" | "enum_specifier" => {
            node.child_by_field_name("body")?;
            let kind = match node.kind() {
                "class_specifier" => Kind::Class,
                "enum_specifier" => Kind::Enum,
                _ => Kind::Struct,
            };
            found(field(node, "name", bytes), kind)
        }
        "type_definition" => {
            let kind = match node.child_by_field_name("type") {
                Some(of) if of.child_by_field_name("body").is_some() => match of.kind() {
                    "enum_specifier" => Kind::Enum,
                    _ => Kind::Struct,
                },
                _ => Kind::Type,
            };
            let name = first_of(node.child_by_field_name("declarator")?, &["type_identifier"], bytes)?;
            found(name, kind)
        }
        "alias_declaration" => found(field(node, "name", bytes), Kind::Type),
        "namespace_definition" => found(field(node, "name", bytes), Kind::Module),
        "preproc_function_def" => found(field(node, "name", bytes), Kind::Macro),
        "preproc_def" => {
            // An include guard has no value and is no definition.
            node.child_by_field_name("value")?;
            found(field(node, "name", bytes), Kind::Constant)
        }
        _ => None,
    }
}

/// Follows the declarators (`*`, `&`, parentheses) of a function down to its name.
fn c_function(node: Node<'_>, bytes: &[u8]) -> Option<Found> {
    let mut at = node.child_by_field_name("declarator")?;
    let mut owner: Vec<String> = Vec::new();
    loop {
        match at.kind() {
            "identifier" | "field_identifier" | "destructor_name" | "operator_name" | "operator_cast" => break,
            "qualified_identifier" => {
                let scope = field(at, "scope", bytes);
                if !scope.is_empty() {
                    owner.push(scope);
                }
                at = at.child_by_field_name("name")?;
            }
            "template_function" => at = at.child_by_field_name("name")?,
            _ => at = at.child_by_field_name("declarator").or_else(|| at.named_child(0))?,
        }
    }
    let name = text(Some(at), bytes);
    let owner = (!owner.is_empty()).then(|| owner.join("."));
    (!name.is_empty()).then_some(Found { name, kind: Kind::Function, owner })
}

/// The text of the first node of one of these kinds, looking at most a few hundred nodes deep.
fn first_of(node: Node<'_>, kinds: &[&str], bytes: &[u8]) -> Option<String> {
    let mut stack = vec![node];
    let mut budget = 300;
    while let Some(node) = stack.pop() {
        if kinds.contains(&node.kind()) {
            return Some(text(Some(node), bytes));
        }
        budget -= 1;
        if budget == 0 {
            return None;
        }
        let count = (node.named_child_count() as u32).min(50);
        stack.extend((0..count).rev().filter_map(|at| node.named_child(at)));
    }
    None
}
