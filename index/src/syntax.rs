//! Does this file parse?

use tree_sitter::{Node, Tree};

use crate::parsed::{Parsed, parse_once};

/// The first place that does not fit the grammar. Lines and columns count from 1, columns in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in line {line}, column {column}: {what}")]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// `missing "…"`, or `unexpected …` with the text that stands there.
    pub what: String,
}

/// Whether `bytes` fit the grammar of the language that `path` names; nothing where no grammar is built in or the
/// parse took too long.
///
/// The grammars recover from errors and know no preprocessor, so C and C++ that lean on macros can fail here and
/// compile all the same. Compare with the answer for the file before the edit.
pub fn parses(path: &str, bytes: &[u8]) -> Option<Result<(), SyntaxError>> {
    parse_once(path, bytes)?.verdict(bytes)
}

impl Parsed {
    /// Whether `bytes`, which are those that were parsed, fit the grammar; nothing where there is none.
    pub(crate) fn verdict(&self, bytes: &[u8]) -> Option<Result<(), SyntaxError>> {
        Some(match first_error(self.tree.as_ref()?) {
            Some(node) => Err(describe(node, bytes)),
            None => Ok(()),
        })
    }
}

/// Walks only into nodes that hold an error, with a cursor and not with the thread's stack.
fn first_error(tree: &Tree) -> Option<Node<'_>> {
    let root = tree.root_node();
    if !root.has_error() {
        return None;
    }
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            return Some(innermost_error(node));
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(root);
            }
        }
    }
}

/// An error node can span the whole file; the place that helps is the first error inside it, or its own start.
fn innermost_error(node: Node<'_>) -> Node<'_> {
    if node.is_missing() {
        return node;
    }
    let mut cursor = node.walk();
    let mut inside = cursor.goto_first_child();
    while inside {
        let child = cursor.node();
        if child.is_error() || child.is_missing() {
            return child;
        }
        inside = cursor.goto_next_sibling();
    }
    node
}

fn describe(node: Node<'_>, bytes: &[u8]) -> SyntaxError {
    let at = node.start_position();
    let what = if node.is_missing() {
        format!("missing {:?}", node.kind())
    } else {
        let text = String::from_utf8_lossy(&bytes[node.byte_range()]);
        let line = text.lines().next().unwrap_or_default().trim();
        let short: String = line.chars().take(60).collect();
        format!("unexpected {short:?}")
    };
    SyntaxError { line: at.row + 1, column: at.column + 1, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_parses_is_ok_and_one_that_does_not_names_its_line() {
        assert_eq!(parses("a.py", b"def f():\n    return 1\n"), Some(Ok(())));
        let error = parses("a.py", b"x = 1\ndef f(:\n    return 1\n").unwrap().unwrap_err();
        assert_eq!(error.line, 2, "{error}");
        assert!(parses("a.rs", b"fn f() { let x = 1;\n").unwrap().is_err());
        assert!(parses("a.java", b"class A { int f( { } }").unwrap().is_err());
    }

    #[test]
    fn a_language_without_grammar_gets_no_verdict() {
        assert_eq!(parses("notes.txt", b"(((("), None);
    }

    #[test]
    fn an_empty_file_parses() {
        assert_eq!(parses("a.go", b""), Some(Ok(())));
    }
}
