//! Which commands run, for certain, when bash is given this script?

use tree_sitter::Node;

use super::{Doubt, PARTS_MAX, Word, lex, tree};

/// The commands of a plain script. Both readers must agree on every word.
pub(super) fn prove(script: &str) -> Result<Vec<Vec<Word>>, Doubt> {
    let tree = tree::parse(script)?;
    let lexed = lex::lex(script)?;
    if lexed.len() > PARTS_MAX {
        return Err(Doubt::TooManyParts);
    }
    let mut commands = Vec::new();
    let mut stack = vec![tree.root_node()];
    while let Some(node) = stack.pop() {
        match node.kind() {
            "program" | "list" | "pipeline" | "redirected_statement" => {
                stack.extend(tree::children(node).into_iter().rev())
            }
            "command" => commands.push(simple_command(node, script)?),
            "file_redirect" if goes_nowhere(node, script) => {}
            "&&" | "||" | ";" | "|" | "\n" => {}
            other => return Err(Doubt::Construct(format!("the shell construct `{}`", other.replace('_', " ")))),
        }
    }
    if commands == lexed { Ok(commands) } else { Err(Doubt::Disagree) }
}

fn simple_command(command: Node<'_>, script: &str) -> Result<Vec<Word>, Doubt> {
    for child in tree::children(command) {
        match child.kind() {
            "command_name" | "word" | "number" | "raw_string" | "string" | "concatenation" => {}
            "file_redirect" if goes_nowhere(child, script) => {}
            other => return Err(Doubt::Construct(format!("the shell construct `{}`", other.replace('_', " ")))),
        }
    }
    let words = tree::words(command, script);
    if words.iter().all(|w| w.known) { Ok(words) } else { Err(Doubt::Construct("an expansion".into())) }
}

/// `2>&1`, `>/dev/null`, and nothing else.
fn goes_nowhere(redirect: Node<'_>, script: &str) -> bool {
    let mut cursor = redirect.walk();
    let targets: Vec<_> = redirect.children_by_field_name("destination", &mut cursor).collect();
    let [target] = targets[..] else { return false };
    let operator = tree::children(redirect).into_iter().find(|n| !n.is_named()).map(|n| n.kind());
    match (operator, &script[target.byte_range()]) {
        (Some(">&"), "1" | "2") => true,
        (Some(">" | ">>" | "&>" | "&>>"), "/dev/null") => true,
        _ => false,
    }
}
