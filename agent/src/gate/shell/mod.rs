//! What would bash run, if it were given this text?
//!
//! Two readings. One proves: when a script is nothing but plain words joined by `&&`, `||`, `;`, `|` and newlines,
//! it gives those words; a lexer of our own and the tree of tree-sitter must agree on them. The other finds: every
//! literal command anywhere in the tree, in substitutions, behind wrappers and in the text given to another shell.
//! Doubt in either is a [`Doubt`], and the gate denies it.

mod find;
mod lex;
mod prove;
mod tree;

use super::Access;

/// Longer commands are not read.
const COMMAND_BYTES_MAX: usize = 16 << 10;
/// Commands in one script, those of scripts inside it counted too.
const PARTS_MAX: usize = 64;
/// Shells inside shells.
const DEPTH_MAX: usize = 8;

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Without its quotes; of an expansion, only what is written out.
    pub text: String,
    /// Whether the shell expands it to names of files.
    pub glob: bool,
    /// Whether `text` is all of it.
    pub known: bool,
}

/// A script that was read.
#[derive(Debug)]
pub(super) struct Script {
    /// Every command found anywhere, none of them empty. A superset of what is proven.
    pub found: Vec<Vec<Word>>,
    /// What may be a command because a wrapper runs it; its words are in `found` too.
    pub wrapped: Vec<Vec<Word>>,
    /// Files that redirections name.
    pub redirects: Vec<(Access, Word)>,
    /// The parts, when the script is plain.
    pub proven: Result<Vec<Vec<Word>>, Doubt>,
}

impl Script {
    /// Reads a script. Total: what cannot be read is a doubt.
    pub(super) fn read(command: &str) -> Script {
        let found = find::find(command);
        let proven = match found.doubt {
            Some(doubt) => Err(doubt),
            None => prove::prove(command),
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
    #[error("it starts shells inside shells more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("it contains control or invisible characters")]
    Characters,
    #[error("it is not valid shell syntax, for example because a quote is not closed")]
    Syntax,
    #[error("it is empty")]
    Empty,
    #[error("it uses {0}")]
    Construct(String),
    #[error("two readers of shell syntax disagree about what it means")]
    Disagree,
}

impl Doubt {
    /// What to write instead.
    pub(super) fn instead(&self) -> String {
        match self {
            Doubt::TooLong | Doubt::TooManyParts => "run fewer, shorter commands, one at a time".into(),
            Doubt::Syntax => "write one plain command and close every quote".into(),
            _ => "write plain words, joined by && or | if needed, without $, backquotes, parentheses, braces, & or redirection; \
                  to change a file use edit_file or write_file"
                .into(),
        }
    }
}
