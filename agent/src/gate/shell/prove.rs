//! Which commands run, for certain, when bash is given this script?

use tree_sitter::Node;

use super::tree::{Read, Source};
use super::word::is_plain_parameter;
use super::{Access, Doubt, PARTS_MAX, Part, Word, Words, tree};

/// The commands of a plain script. Both readers must agree on every word.
pub(super) fn prove(read: &Read) -> Result<&[Part], Doubt> {
    let parts = read.parts.as_deref().map_err(Clone::clone)?;
    if parts.len() > PARTS_MAX {
        return Err(Doubt::TooManyParts);
    }
    let Some(source) = &read.source else { return Ok(parts) };
    let seen = Seen::of_tree(source)?;
    if seen.sorted() == Seen::of_parts(parts).sorted() { Ok(parts) } else { Err(Doubt::Disagree) }
}

/// What both readers must agree on. The grammar does not say reliably which command a redirection belongs to, so
/// that is left to the lexer.
#[derive(Default, PartialEq)]
struct Seen {
    commands: Vec<Words>,
    assigned: Vec<(String, Word)>,
    redirects: Vec<(Access, Word)>,
    /// Commands with a here-document or a here-string.
    inputs: usize,
}

impl Seen {
    fn sorted(mut self) -> Seen {
        self.commands.sort();
        self.assigned.sort();
        self.redirects.sort();
        self
    }

    fn of_parts(parts: &[Part]) -> Seen {
        let mut seen = Seen::default();
        for part in parts {
            seen.commands.push(part.words.clone());
            seen.assigned.extend(part.assigned.iter().cloned());
            seen.redirects.extend(part.redirects.iter().cloned());
            seen.inputs += usize::from(part.input);
        }
        seen
    }

    fn of_tree(source: &Source) -> Result<Seen, Doubt> {
        let mut seen = Seen::default();
        let mut stack = vec![source.tree.root_node()];
        while let Some(node) = stack.pop() {
            match node.kind() {
                "program"
                | "list"
                | "pipeline"
                | "redirected_statement"
                | "if_statement"
                | "elif_clause"
                | "else_clause"
                | "command"
                | "command_name"
                | "concatenation"
                | "command_substitution" => {
                    stack.extend(tree::children(node));
                    if node.kind() == "command" {
                        seen.commands.push(tree::words(node, source).into());
                    }
                }
                // A dollar that expands nothing stands in it without a name.
                "string" => stack.extend(tree::children(node).into_iter().filter(|c| c.is_named())),
                // `[[` evaluates more than words, so it stays refused.
                "test_command" => {
                    seen.commands.push(tree::words(node, source).into());
                    stack.extend(tree::children(node));
                }
                "variable_assignment" => {
                    seen.assigned.push(assigned(node, source)?);
                    stack.extend(tree::children(node));
                }
                "expansion" if is_plain_expansion(node, source) => {}
                "file_redirect" => seen.redirects.extend(redirect(node, source)?),
                "herestring_redirect" => {
                    seen.inputs += 1;
                    stack.extend(tree::children(node));
                }
                "heredoc_redirect" => {
                    seen.inputs += 1;
                    heredoc(node)?;
                }
                "word" | "number" | "raw_string" | "string_content" | "simple_expansion" | "comment"
                | "variable_name" | "{}" | "test_operator" => {}
                "unary_expression" | "binary_expression" => stack.extend(tree::children(node)),
                "&&" | "||" | ";" | "|" | "\n" | "if" | "then" | "elif" | "else" | "fi" | "$(" | ")" | "=" | "<<<"
                | "[" | "]" | "!=" | "!" => {}
                other => return Err(Doubt::Construct(format!("the shell construct `{}`", other.replace('_', " ")))),
            }
        }
        Ok(seen)
    }
}

/// `NAME=value`, not `NAME+=value`, not an array.
fn assigned(node: Node<'_>, source: &Source) -> Result<(String, Word), Doubt> {
    let refused = || Doubt::Construct("an unusual assignment".into());
    let name = node.child_by_field_name("name").filter(|n| n.kind() == "variable_name").ok_or_else(refused)?;
    let plain = tree::children(node).iter().any(|c| c.kind() == "=");
    let value = node.child_by_field_name("value").filter(|v| v.start_byte() < v.end_byte());
    let value = value.map_or_else(Word::empty, |v| tree::literal(v, source));
    if plain { Ok((source.text(name).to_owned(), value)) } else { Err(refused()) }
}

fn is_plain_expansion(node: Node<'_>, source: &Source) -> bool {
    let inner = source.text(node).strip_prefix("${").and_then(|inner| inner.strip_suffix('}'));
    inner.is_some_and(is_plain_parameter)
}

/// The file of a redirection; none for `2>&1` and /dev/null.
fn redirect(node: Node<'_>, source: &Source) -> Result<Option<(Access, Word)>, Doubt> {
    let mut cursor = node.walk();
    let targets: Vec<_> = node.children_by_field_name("destination", &mut cursor).collect();
    let operator = tree::children(node).into_iter().find(|n| !n.is_named()).map(|n| n.kind());
    let [target] = targets[..] else { return Err(Doubt::Construct("words after a redirection".into())) };
    let word = tree::literal(target, source);
    match operator {
        Some(">&") if word.text == "1" || word.text == "2" => Ok(None),
        Some(">" | ">>" | "&>" | "&>>" | ">|") if word.text == "/dev/null" => Ok(None),
        Some("<") if word.text == "/dev/null" => Ok(None),
        Some(">" | ">>" | "&>" | "&>>" | ">|") => Ok(Some((Access::Write, word))),
        Some("<") => Ok(Some((Access::Read, word))),
        _ => Err(Doubt::Construct("a redirection of an unusual kind".into())),
    }
}

/// Nothing but the text may stand in it: the grammar puts the rest of the line there too.
fn heredoc(node: Node<'_>) -> Result<(), Doubt> {
    let plain = ["<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end", "\n"];
    match tree::children(node).iter().find(|c| !plain.contains(&c.kind())) {
        None => Ok(()),
        Some(_) => Err(Doubt::Construct("a command after the beginning of a here-document".into())),
    }
}
