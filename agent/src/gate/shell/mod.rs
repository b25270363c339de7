//! What would bash run, if it were given this text?
//!
//! Two readings. One proves: when a script is nothing but words joined by `&&`, `||`, `;`, `|` and newlines, with
//! `if`, redirections and here-documents at most, it gives its commands; a lexer of our own and a second reader must
//! agree on them. The second reader is the tree of tree-sitter, or, where a script is so plain that it takes no
//! grammar, one that knows plain words and joints and nothing else. The other reading finds: every literal command
//! anywhere in the tree, in substitutions, behind wrappers and in the text given to another shell. Doubt in either is
//! a [`Doubt`], and the gate denies it.

mod elide;
mod find;
mod lex;
mod plain;
mod prove;
mod search;
mod tree;
mod unwrap;
mod word;

use std::ops::Deref;
use std::rc::Rc;

use compact_str::CompactString;

use super::Access;
use tree::Grammar;

pub(super) use search::{found_by_find, roots};
pub(super) use unwrap::{is_input, program, unversioned};

/// Longer commands are not read.
const COMMAND_BYTES_MAX: usize = 16 << 10;
/// Commands in one script, those of scripts inside it counted too.
const PARTS_MAX: usize = 64;
/// Shells inside shells.
const DEPTH_MAX: usize = 8;

/// What a POSIX shell does itself, or may: some of these are programs too, which say other things.
const BUILTINS: [&str; 46] = [
    ".", ":", "[", "alias", "bg", "break", "builtin", "cd", "chdir", "command", "continue", "declare", "echo", "eval",
    "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "jobs", "kill", "let", "local", "printf", "pwd",
    "read", "readonly", "return", "set", "shift", "source", "test", "time", "times", "trap", "true", "type", "typeset",
    "ulimit", "umask", "unalias", "unset", "wait",
];

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word {
    /// Without its quotes; of an expansion, only what is written out.
    pub text: CompactString,
    /// Whether the shell expands it to names of files.
    pub glob: bool,
    /// Whether `text` is all of it.
    pub known: bool,
}

impl Word {
    fn empty() -> Word {
        Word { text: CompactString::default(), glob: false, known: true }
    }
}

/// A command's name and arguments, shared by all who look at it.
pub(super) type Words = Rc<[Word]>;

/// The words of a command from one of them on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    words: Words,
    from: usize,
}

impl Deref for Tail {
    type Target = [Word];

    fn deref(&self) -> &[Word] {
        &self.words[self.from..]
    }
}

/// One simple command of a plain script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Its name and arguments; never empty.
    pub words: Words,
    /// Variables set for it alone.
    pub assigned: Vec<(String, Word)>,
    /// Files that it reads from or writes to by redirection; /dev/null is left out.
    pub redirects: Vec<(Access, Word)>,
    /// Whether text of the script is its input.
    pub input: bool,
}

/// A script that is plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proven {
    /// Its commands, as they are written.
    pub parts: Vec<Part>,
    /// The commands that these start: what `env`, `xargs`, `sh -c` and the like run.
    pub inner: Vec<Part>,
}

/// A script that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// Every command found anywhere, none of them empty. A superset of what is proven.
    pub found: Vec<Words>,
    /// What may be a command because a wrapper runs it; its words are in `found` too.
    pub wrapped: Vec<Tail>,
    /// Files that redirections name.
    pub redirects: Vec<(Access, Word)>,
    /// The parts, when the script is plain.
    pub proven: Result<Proven, Doubt>,
}

impl Script {
    /// Reads a script. Total: what cannot be read is a doubt.
    pub(super) fn read(command: &str) -> Script {
        Script::read_with(command, &mut Grammar::new())
    }

    /// The words, where the script is a program and its arguments and leaves a shell nothing to do.
    pub(super) fn program_alone(command: &str) -> Option<Vec<String>> {
        // Redirections to nowhere and a comment leave no trace in the parts.
        if command.contains(['<', '>', '&', '|', ';', '#', '\n']) {
            return None;
        }
        let proven = Script::read(command).proven.ok()?;
        let [Part { words, assigned, .. }] = &proven.parts[..] else { return None };
        let alone = assigned.is_empty()
            && words.iter().all(|word| word.known && !word.glob)
            && !BUILTINS.contains(&words[0].text.as_str());
        alone.then(|| words.iter().map(|word| word.text.to_string()).collect())
    }

    /// Everything that may be a command.
    pub(super) fn commands(&self) -> impl Iterator<Item = &[Word]> {
        self.found.iter().map(|words| &**words).chain(self.wrapped.iter().map(|words| &**words))
    }

    fn read_with(command: &str, grammar: &mut Grammar) -> Script {
        let read = match grammar.parse(command) {
            Ok(read) => read,
            Err(doubt) => return Script { found: vec![], wrapped: vec![], redirects: vec![], proven: Err(doubt) },
        };
        let found = find::find(&read, grammar);
        let proven = match found.doubt {
            Some(doubt) => Err(doubt),
            None => prove::prove(&read).and_then(|parts| {
                let inner = unwrap::started(parts, grammar)?;
                Ok(Proven { parts: parts.to_vec(), inner })
            }),
        };
        Script { found: found.commands, wrapped: found.wrapped, redirects: found.redirects, proven }
    }
}

/// Why a script is not judged to be safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Doubt {
    #[error("it is longer than {COMMAND_BYTES_MAX} bytes")]
    TooLong,
    #[error("it has more than {PARTS_MAX} parts")]
    TooManyParts,
    #[error("it has more words, quotes and expansions than are read in one command")]
    TooManyWords,
    #[error("it starts shells inside shells more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("it contains control or invisible characters")]
    Characters,
    #[error("it is not valid shell syntax, for example because a quote is not closed")]
    Syntax,
    #[error("it uses {0}")]
    Construct(String),
    #[error("two readers of shell syntax disagree about what it means")]
    Disagree,
}

impl Doubt {
    /// What to write instead.
    pub(super) fn instead(&self) -> String {
        match self {
            Doubt::TooLong | Doubt::TooManyParts | Doubt::TooManyWords => "run fewer, shorter commands, one at a time".into(),
            Doubt::Syntax => "write one plain command and close every quote".into(),
            _ => "write plain words, joined by && or | if needed, without $, backquotes, parentheses, braces, & or redirection; \
                  to change a file use edit_file or write_file"
                .into(),
        }
    }
}

#[cfg(test)]
mod tests;
