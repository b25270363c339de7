//! What does tree-sitter see in a script?

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::{COMMAND_BYTES_MAX, Doubt, Word};
use crate::text::is_invisible;

/// The parser reports its progress every hundred operations; far more than any honest script of the permitted
/// length needs.
const PARSE_REPORTS_MAX: usize = 20_000;

/// The tree of a script without syntax errors.
pub(super) fn parse(script: &str) -> Result<Tree, Doubt> {
    if script.len() > COMMAND_BYTES_MAX {
        return Err(Doubt::TooLong);
    }
    if script.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || is_invisible(c)) {
        return Err(Doubt::Characters);
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|_| Doubt::Syntax)?;
    let mut reports = 0;
    let mut progress = |_: &_| {
        reports += 1;
        if reports > PARSE_REPORTS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = script.as_bytes();
    let tree = parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
    let tree = tree.ok_or(Doubt::Syntax)?;
    if tree.root_node().has_error() { Err(Doubt::Syntax) } else { Ok(tree) }
}

/// Every node, parents before children, in the order of the text. Not recursive: depth is the attacker's choice.
pub(super) fn preorder(tree: &Tree) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    let mut cursor = tree.walk();
    loop {
        nodes.push(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return nodes;
            }
        }
    }
}

/// All children, punctuation included.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// The name and the arguments of a `command`. Assignments before the name and redirections are left out.
pub(super) fn words(command: Node<'_>, script: &str) -> Vec<Word> {
    let skip = ["variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"];
    if command.kind() == "test_command" {
        return tested(command, script);
    }
    children(command).into_iter().filter(|n| !skip.contains(&n.kind())).map(|n| literal(n, script)).collect()
}

/// The words of `[ .. ]`, which to bash is a command like others; the grammar makes expressions of them.
fn tested(command: Node<'_>, script: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut stack = vec![command];
    while let Some(node) = stack.pop() {
        match node.kind() {
            "test_command" | "unary_expression" | "binary_expression" => {
                stack.extend(children(node).into_iter().rev());
            }
            "[" | "]" | "=" | "!=" | "!" => {
                words.push(Word { text: node.kind().to_owned(), glob: false, known: true });
            }
            _ => words.push(literal(node, script)),
        }
    }
    words
}

/// What a node that stands for a word says, as far as it is written out.
pub(super) fn literal(node: Node<'_>, script: &str) -> Word {
    let source = &script[node.byte_range()];
    match node.kind() {
        "word" | "number" | "test_operator" if node.child_count() == 0 => unquoted(source),
        "raw_string" => Word { text: trim(source, "'").to_owned(), glob: false, known: true },
        "string" => string(node, script),
        // The escapes in $'..' are not read, so it proves nothing.
        "ansi_c_string" | "translated_string" => {
            let text = source.trim_start_matches('$').trim_matches(['\'', '"']).to_owned();
            Word { text, glob: false, known: false }
        }
        "concatenation" | "command_name" => {
            let parts = children(node).into_iter().map(|child| match child.kind() {
                // One level is all there is: the grammar does not nest concatenations.
                "concatenation" if node.kind() == "concatenation" => {
                    Word { text: String::new(), glob: false, known: false }
                }
                _ => literal(child, script),
            });
            parts.reduce(join).unwrap_or(Word { text: String::new(), glob: false, known: false })
        }
        // What stands for a found name in `find -exec` and `xargs -I`.
        "{}" => Word { text: source.to_owned(), glob: false, known: true },
        // Expansions, and punctuation such as `]` at the end of a test.
        _ if node.is_named() => Word { text: String::new(), glob: false, known: false },
        _ => Word { text: source.to_owned(), glob: false, known: false },
    }
}

/// A text in double quotes, with a hole where something is expanded.
fn string(node: Node<'_>, script: &str) -> Word {
    let mut word = Word::empty();
    let mut from = node.start_byte() + 1;
    for hole in children(node).into_iter().filter(|c| c.is_named() && c.kind() != "string_content") {
        word.known = false;
        word.text += &double_quoted(script.get(from..hole.start_byte()).unwrap_or_default());
        from = hole.end_byte();
    }
    word.text += &double_quoted(script.get(from..node.end_byte().saturating_sub(1)).unwrap_or_default());
    word
}

fn join(a: Word, b: Word) -> Word {
    Word { text: a.text + &b.text, glob: a.glob || b.glob, known: a.known && b.known }
}

fn trim<'a>(source: &'a str, quote: &str) -> &'a str {
    let inner = source.strip_prefix(quote).unwrap_or(source);
    inner.strip_suffix(quote).unwrap_or(inner)
}

fn unquoted(source: &str) -> Word {
    let mut word = Word { text: String::new(), glob: false, known: true };
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.text.extend(chars.next().filter(|c| *c != '\n')),
            '*' | '?' | '[' => {
                word.glob = true;
                word.text.push(c);
            }
            c => word.text.push(c),
        }
    }
    word
}

fn double_quoted(inner: &str) -> String {
    let mut text = String::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('$' | '`' | '"' | '\\')) => text.extend(chars.next()),
            ('\\', Some('\n')) => drop(chars.next()),
            (c, _) => text.push(c),
        }
    }
    text
}
