//! What does tree-sitter see in a script?

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::elide::Shorter;
use super::{COMMAND_BYTES_MAX, Doubt, Part, Word, lex, plain};
use crate::text::is_invisible;

/// The parser reports its progress every hundred operations, and a report is 0.02 ms in an optimised build. One
/// command and all scripts inside it share these. The longest of the labelled harmless commands needs 3
/// (`honest_commands_stay_far_below_what_the_parser_may_take` prints them); plain scripts need none.
pub(super) const PARSE_REPORTS_MAX: usize = 24;

/// What was read of a script.
#[derive(Debug)]
pub(super) struct Read {
    /// What the lexer reads in it.
    pub parts: Result<Vec<Part>, Doubt>,
    /// What the grammar reads in it; none when it is so plain that the parts are certain without it.
    pub source: Option<Source>,
}

/// A script without syntax errors, and its tree.
#[derive(Debug)]
pub(super) struct Source {
    script: String,
    pub tree: Tree,
    /// What the tree was made from.
    shorter: Shorter,
}

impl Source {
    /// What stands in the script for a node.
    pub fn text(&self, node: Node<'_>) -> &str {
        self.between(node.start_byte(), node.end_byte())
    }

    /// What stands in the script between two places of the tree.
    fn between(&self, from: usize, to: usize) -> &str {
        self.script.get(self.shorter.in_script(from)..self.shorter.in_script(to)).unwrap_or_default()
    }

    /// The words for which a node stands: mostly one.
    pub fn literals(&self, node: Node<'_>) -> Vec<Word> {
        match self.shorter.left_out(&node.byte_range()) {
            Some(words) => self.script[words].split_ascii_whitespace().map(unquoted).collect(),
            None => vec![literal(node, self)],
        }
    }
}

/// The parser, and what it has read of one command and of the scripts inside it.
pub(super) struct Grammar {
    parser: Parser,
    /// Reports of progress that may still come.
    reports_left: usize,
    /// What of a script the parser is given.
    shorten: fn(&str) -> Shorter,
    /// Whether a script needs no parser.
    is_plain: fn(&str, &[Part]) -> bool,
    read: HashMap<String, Result<Rc<Read>, Doubt>>,
}

impl Grammar {
    pub fn new() -> Grammar {
        Grammar {
            parser: Parser::new(),
            reports_left: PARSE_REPORTS_MAX,
            shorten: Shorter::of,
            is_plain: plain::says,
            read: HashMap::new(),
        }
    }

    /// One that is given every word of every script.
    #[cfg(test)]
    pub fn whole() -> Grammar {
        Grammar { shorten: Shorter::none, ..Grammar::of_all() }
    }

    /// One that is given every script.
    #[cfg(test)]
    pub fn of_all() -> Grammar {
        Grammar { is_plain: |_, _| false, ..Grammar::boundless() }
    }

    /// One that takes its time.
    #[cfg(test)]
    pub fn boundless() -> Grammar {
        Grammar { reports_left: usize::MAX, ..Grammar::new() }
    }

    /// How often a boundless one has reported progress.
    #[cfg(test)]
    pub fn reports(&self) -> usize {
        usize::MAX - self.reports_left
    }

    /// What is read in a script without syntax errors.
    pub fn parse(&mut self, script: &str) -> Result<Rc<Read>, Doubt> {
        if let Some(read) = self.read.get(script) {
            return read.clone();
        }
        let read = self.parsed(script).map(Rc::new);
        self.read.insert(script.to_owned(), read.clone());
        read
    }

    fn parsed(&mut self, script: &str) -> Result<Read, Doubt> {
        if script.len() > COMMAND_BYTES_MAX {
            return Err(Doubt::TooLong);
        }
        let controls = script.bytes().any(|b| b.is_ascii_control() && b != b'\n' && b != b'\t');
        let hides = |c: char| !c.is_ascii() && (c.is_control() || is_invisible(c));
        if controls || !script.is_ascii() && script.chars().any(hides) {
            return Err(Doubt::Characters);
        }
        let parts = lex::lex(script);
        let needs_no_grammar = parts.as_ref().is_ok_and(|parts| (self.is_plain)(script, parts));
        let source = if needs_no_grammar { None } else { Some(self.grown(script)?) };
        Ok(Read { parts, source })
    }

    /// The tree.
    fn grown(&mut self, script: &str) -> Result<Source, Doubt> {
        self.parser.set_language(&tree_sitter_bash::LANGUAGE.into()).map_err(|_| Doubt::Syntax)?;
        let shorter = (self.shorten)(script);
        // A parse that is too short for a report is not free either.
        self.reports_left = self.reports_left.checked_sub(1).ok_or(Doubt::TooManyWords)?;
        let left = &mut self.reports_left;
        let mut progress = |_: &_| match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let bytes = shorter.text.as_bytes();
        let tree =
            self.parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
        let Some(tree) = tree else {
            self.parser.reset();
            return Err(Doubt::TooManyWords);
        };
        if tree.root_node().has_error() {
            return Err(Doubt::Syntax);
        }
        Ok(Source { script: script.to_owned(), tree, shorter })
    }
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
pub(super) fn words(command: Node<'_>, source: &Source) -> Vec<Word> {
    let skip = ["variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"];
    if command.kind() == "test_command" {
        return tested(command, source);
    }
    children(command).into_iter().filter(|n| !skip.contains(&n.kind())).flat_map(|n| source.literals(n)).collect()
}

/// The words of `[ .. ]`, which to bash is a command like others; the grammar makes expressions of them.
fn tested(command: Node<'_>, source: &Source) -> Vec<Word> {
    let mut words = Vec::new();
    let mut stack = vec![command];
    while let Some(node) = stack.pop() {
        match node.kind() {
            "test_command" | "unary_expression" | "binary_expression" => {
                stack.extend(children(node).into_iter().rev());
            }
            "[" | "]" | "=" | "!=" | "!" => {
                words.push(Word { text: node.kind().into(), glob: false, known: true });
            }
            _ => words.push(literal(node, source)),
        }
    }
    words
}

/// What a node that stands for a word says, as far as it is written out.
pub(super) fn literal(node: Node<'_>, source: &Source) -> Word {
    let text = source.text(node);
    match node.kind() {
        "word" | "number" | "test_operator" if node.child_count() == 0 => unquoted(text),
        "raw_string" => Word { text: trim(text, "'").into(), glob: false, known: true },
        "string" => string(node, source),
        // The escapes in $'..' are not read, so it proves nothing.
        "ansi_c_string" | "translated_string" => {
            let text = text.trim_start_matches('$').trim_matches(['\'', '"']).into();
            Word { text, glob: false, known: false }
        }
        "concatenation" | "command_name" => {
            let parts = children(node).into_iter().map(|child| match child.kind() {
                // One level is all there is: the grammar does not nest concatenations.
                "concatenation" if node.kind() == "concatenation" => {
                    Word { text: "".into(), glob: false, known: false }
                }
                _ => literal(child, source),
            });
            parts.reduce(join).unwrap_or(Word { text: "".into(), glob: false, known: false })
        }
        // What stands for a found name in `find -exec` and `xargs -I`.
        "{}" => Word { text: text.into(), glob: false, known: true },
        // Expansions, and punctuation such as `]` at the end of a test.
        _ if node.is_named() => Word { text: "".into(), glob: false, known: false },
        _ => Word { text: text.into(), glob: false, known: false },
    }
}

/// A text in double quotes, with a hole where something is expanded.
fn string(node: Node<'_>, source: &Source) -> Word {
    let mut word = Word::empty();
    let mut from = node.start_byte() + 1;
    for hole in children(node).into_iter().filter(|c| c.is_named() && c.kind() != "string_content") {
        word.known = false;
        word.text += &double_quoted(source.between(from, hole.start_byte()));
        from = hole.end_byte();
    }
    word.text += &double_quoted(source.between(from, node.end_byte().saturating_sub(1)));
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
    if !source.contains(['\\', '*', '?', '[']) {
        return Word { text: source.into(), glob: false, known: true };
    }
    let mut word = Word { text: "".into(), glob: false, known: true };
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
