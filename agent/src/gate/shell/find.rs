//! Which commands stand anywhere in this script, whether or not they would run?
//!
//! Errs towards finding too much: of a wrapper (`env`, `sudo`, `xargs`, ..) every word after the first may begin a
//! command, and where another shell is started every text may be its script.

use tree_sitter::Node;

use super::tree::{Grammar, Read, Source};
use super::{Access, DEPTH_MAX, Doubt, PARTS_MAX, Part, Tail, Word, Words, tree, unwrap};

/// Programs that run the program named by their arguments.
const WRAPPERS: [&str; 31] = [
    "env",
    "sudo",
    "doas",
    "su",
    "nice",
    "ionice",
    "nohup",
    "timeout",
    "setsid",
    "stdbuf",
    "time",
    "command",
    "builtin",
    "exec",
    "xargs",
    "parallel",
    "watch",
    "busybox",
    "toybox",
    "script",
    "chroot",
    "unshare",
    "nsenter",
    "flock",
    "strace",
    "ltrace",
    "taskset",
    "chrt",
    "runuser",
    "coproc",
    "caffeinate",
];

/// Builtins and programs beside the shells that read shell text from their arguments or their input.
const READERS: [&str; 5] = ["eval", "trap", "ssh", "at", "batch"];

/// Words of one wrapper that are looked at.
const WRAPPED_WORDS_MAX: usize = 256;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub commands: Vec<Words>,
    pub wrapped: Vec<Tail>,
    pub redirects: Vec<(Access, Word)>,
    /// Why there may be more than was found.
    pub doubt: Option<Doubt>,
}

/// Everything in the script and in the scripts inside it. A text inside that cannot be read leaves a doubt, and
/// the search goes on: a named danger says more than a doubt.
pub(super) fn find(read: &Read, grammar: &mut Grammar) -> Found {
    let mut found = Found::default();
    let mut waiting = Vec::new();
    match one_script(read, &mut found) {
        Ok(inner) => waiting.extend(inner.into_iter().map(|text| (text, 1))),
        Err(doubt) => found.doubt = Some(doubt),
    }
    let mut scripts = 1;
    while let Some((script, depth)) = waiting.pop() {
        scripts += 1;
        let read = match (depth > DEPTH_MAX, scripts > PARTS_MAX) {
            (true, _) => Err(Doubt::TooDeep),
            (_, true) => Err(Doubt::TooManyParts),
            _ => grammar.parse(&script).and_then(|read| one_script(&read, &mut found)),
        };
        match read {
            Ok(inner) => waiting.extend(inner.into_iter().map(|text| (text, depth + 1))),
            Err(doubt) => found.doubt = found.doubt.or(Some(doubt)),
        }
        if scripts > PARTS_MAX {
            break;
        }
    }
    found
}

/// Adds what stands in one script; returns the texts that may be scripts themselves.
fn one_script(read: &Read, found: &mut Found) -> Result<Vec<String>, Doubt> {
    let (commands, bodies) = match &read.source {
        Some(source) => in_tree(source, found)?,
        None => (in_parts(read.parts.as_deref().unwrap_or_default(), found)?, vec![]),
    };
    let starts_shell = commands.iter().any(|words| starts_shell(words));
    let mut inner = if starts_shell { bodies } else { Vec::new() };
    let wrapped = &mut found.wrapped;
    for words in &commands {
        let wraps = WRAPPERS.contains(&program(&words[0])) && !unwrap::asks_where(words);
        let finds = program(&words[0]) == "find";
        if words.len() > WRAPPED_WORDS_MAX && (wraps || finds) {
            return Err(Doubt::TooManyParts);
        }
        let runs = wraps || finds || starts_shell;
        for (at, word) in words.iter().enumerate().skip(1).filter(|_| runs) {
            if wraps || finds && executes_next(&words[at - 1]) {
                wrapped.push(Tail { words: words.clone(), from: at });
            }
            if (wraps || starts_shell) && looks_like_script(&word.text) {
                inner.push(word.text.to_string());
            }
        }
        // `sh -c reboot`: one plain word is a script too.
        if reads_shell(&words[0]) {
            let one = |w: &Word| Tail { words: [w.clone()].into(), from: 0 };
            wrapped.extend(words[1..].iter().take(WRAPPED_WORDS_MAX).map(one));
        }
    }
    found.commands.extend(commands);
    Ok(inner)
}

/// The commands of a script that needs no grammar.
fn in_parts(parts: &[Part], found: &mut Found) -> Result<Vec<Words>, Doubt> {
    if found.commands.len() + parts.len() > PARTS_MAX {
        return Err(Doubt::TooManyParts);
    }
    found.redirects.extend(parts.iter().flat_map(|part| part.redirects.iter().cloned()));
    Ok(parts.iter().map(|part| part.words.clone()).collect())
}

/// The commands in a tree, and the texts that are the input of one.
fn in_tree(source: &Source, found: &mut Found) -> Result<(Vec<Words>, Vec<String>), Doubt> {
    let mut commands = Vec::new();
    let mut bodies = Vec::new();
    for node in tree::preorder(&source.tree) {
        match node.kind() {
            "command" => commands.push(tree::words(node, source)),
            // `export`, `declare`, `unset`, `[`: builtins that the grammar knows by name.
            "declaration_command" | "unset_command" | "test_command" => commands.push(tree::words(node, source)),
            "file_redirect" => commands.extend(redirect(node, source, &mut found.redirects)),
            "heredoc_body" => bodies.push(source.text(node).to_owned()),
            "herestring_redirect" => {
                bodies.extend(tree::children(node).last().map(|n| tree::literal(*n, source).text.into_string()))
            }
            _ => {}
        }
        if found.commands.len() + commands.len() > PARTS_MAX {
            return Err(Doubt::TooManyParts);
        }
    }
    let commands = commands.into_iter().filter(|words: &Vec<Word>| !words.is_empty()).map(Words::from);
    Ok((commands.collect(), bodies))
}

/// Whether a command is a shell, or may start one as a wrapper does.
fn starts_shell(words: &[Word]) -> bool {
    let name = program(&words[0]);
    let may_start = WRAPPERS.contains(&name) || name == "find";
    let reach = if may_start { words } else { &words[..1] };
    reach.iter().any(reads_shell)
}

fn reads_shell(word: &Word) -> bool {
    let name = program(word);
    READERS.contains(&name) || unwrap::SHELLS.contains(&unwrap::unversioned(name))
}

/// The last part of a path is the program's name.
fn program(word: &Word) -> &str {
    unwrap::program(&word.text)
}

/// `find . -exec PROGRAM`.
fn executes_next(before: &Word) -> bool {
    ["-exec", "-execdir", "-ok", "-okdir"].contains(&before.text.as_str())
}

fn looks_like_script(text: &str) -> bool {
    let joins = |b: u8| b.is_ascii_whitespace() || b == 0x0b || b";|&$`()<>{}".contains(&b);
    text.bytes().any(joins) || !text.is_ascii() && text.contains(char::is_whitespace)
}

/// Notes the file of a redirection. The grammar takes the words that follow it for more files, though to bash they
/// are a command's words: these are returned.
fn redirect(node: Node<'_>, source: &Source, redirects: &mut Vec<(Access, Word)>) -> Option<Vec<Word>> {
    let mut cursor = node.walk();
    let mut targets = node.children_by_field_name("destination", &mut cursor).flat_map(|n| source.literals(n));
    let operator = tree::children(node).into_iter().find(|n| !n.is_named()).map(|n| n.kind());
    let access = if operator == Some("<") || operator == Some("<&") { Access::Read } else { Access::Write };
    if let Some(target) = targets.next() {
        let duplicates =
            matches!(operator, Some(">&" | "<&")) && target.text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if !duplicates && target.text != "/dev/null" {
            redirects.push((access, target));
        }
    }
    let words: Vec<_> = targets.collect();
    (!words.is_empty()).then_some(words)
}
