//! Is this script nothing but words and the operators `&&`, `||`, `;`, `|`, perhaps with `if` and redirections?
//!
//! Written by hand, so that a mistake in a grammar and a mistake here must coincide before they do harm.

use super::word::Reader;
use super::{Access, DEPTH_MAX, Doubt, Part, Word};

/// The commands of a plain script, or the first thing in it that is not plain. An empty script has none.
pub(super) fn lex(script: &str) -> Result<Vec<Part>, Doubt> {
    let mut lexer = Lexer { reader: Reader { rest: script }, parts: Vec::new(), depth: 0 };
    lexer.list(false)?;
    Ok(lexer.parts)
}

pub(super) struct Lexer<'a> {
    pub reader: Reader<'a>,
    parts: Vec<Part>,
    depth: usize,
}

/// A here-document whose text begins after the next newline.
struct Pending {
    delimiter: String,
    quoted: bool,
    tabs: bool,
}

/// The command that is being read.
#[derive(Default)]
struct Open {
    words: Vec<Word>,
    /// The rest of it.
    part: Part,
    /// `fi` was read: only an operator can follow.
    closed: bool,
    pending: Vec<Pending>,
}

impl Lexer<'_> {
    /// Commands to the end of the text, or to the parenthesis that closes a substitution.
    pub fn list(&mut self, inside: bool) -> Result<(), Doubt> {
        if self.depth > DEPTH_MAX {
            return Err(Doubt::TooDeep);
        }
        self.depth += 1;
        let mut open = Open::default();
        loop {
            self.reader.skip_blanks();
            let Some(c) = self.reader.peek() else {
                self.end(&mut open)?;
                break if inside || !open.pending.is_empty() { Err(Doubt::Syntax) } else { Ok(()) };
            };
            match c {
                ')' if inside => {
                    self.reader.next();
                    self.end(&mut open)?;
                    break if open.pending.is_empty() { Ok(()) } else { Err(Doubt::Syntax) };
                }
                '(' | ')' => break construct("parentheses (a subshell)"),
                '#' => self.reader.skip_line(),
                '\n' => {
                    self.reader.next();
                    self.end(&mut open)?;
                    self.bodies(&mut open.pending)?;
                }
                ';' | '|' | '&' => self.operator(c, &mut open)?,
                '<' | '>' => self.redirect(None, &mut open)?,
                _ => self.word(&mut open)?,
            }
        }?;
        self.depth -= 1;
        Ok(())
    }

    fn operator(&mut self, c: char, open: &mut Open) -> Result<(), Doubt> {
        let name = match c {
            '&' if self.reader.rest.starts_with("&>") => return self.redirect(None, open),
            '&' if self.reader.accept("&&") => "&&",
            '&' => return construct("& (a background job)"),
            '|' if self.reader.accept("||") => "||",
            '|' if self.reader.rest.starts_with("|&") => return construct("|&"),
            '|' => "|",
            _ if self.reader.rest.starts_with(";;") => return construct(";;"),
            _ => ";",
        };
        if name.len() == 1 {
            self.reader.next();
        }
        if open.words.is_empty() && !open.closed {
            return construct(&format!("{name} without a command before it"));
        }
        self.end(open)
    }

    /// Ends the command that is being read, if one is.
    fn end(&mut self, open: &mut Open) -> Result<(), Doubt> {
        let part = std::mem::take(&mut open.part);
        open.closed = false;
        if !open.words.is_empty() {
            self.parts.push(Part { words: open.words.drain(..).collect(), ..part });
            return Ok(());
        }
        match (part.assigned.is_empty(), part.redirects.is_empty() && !part.input) {
            (false, _) => construct("= (a variable assignment)"),
            (_, false) => construct("a redirection without a command"),
            _ => Ok(()),
        }
    }

    /// One word, which may be a name with a value, a keyword, or the number of a redirection.
    fn word(&mut self, open: &mut Open) -> Result<(), Doubt> {
        let begins = open.words.is_empty();
        if begins && let Some(name) = self.reader.assignment() {
            let value = self.value()?;
            open.part.assigned.push((name, value));
            return Ok(());
        }
        let start = self.reader.rest;
        let mut word = self.read(begins)?;
        let raw = &start[..start.len() - self.reader.rest.len()];
        if matches!(raw, "0" | "1" | "2") && self.reader.rest.starts_with(['<', '>']) {
            return self.redirect(raw.chars().next(), open);
        }
        if open.closed {
            return construct("a word after `fi`");
        }
        if !begins {
            open.words.push(word);
            return Ok(());
        }
        let keyword_may_stand = open.part.assigned.is_empty() && open.part.redirects.is_empty();
        match raw {
            // The tree says whether they stand where they may; what follows is a command.
            "if" | "then" | "elif" | "else" if keyword_may_stand => {}
            "fi" if keyword_may_stand => open.closed = true,
            "while" | "until" | "for" | "do" | "done" | "case" | "esac" | "in" | "select" | "function" | "coproc"
            | "[[" | "]]" | "{" | "}" | "!" => return construct(&format!("`{raw}`")),
            // A bracket by itself is a name and no pattern.
            "[" => {
                word.glob = false;
                open.words.push(word);
            }
            _ => open.words.push(word),
        }
        Ok(())
    }

    /// A redirection; its operator is next.
    fn redirect(&mut self, descriptor: Option<char>, open: &mut Open) -> Result<(), Doubt> {
        if open.closed {
            return construct("a redirection of a whole `if`");
        }
        let both = self.reader.accept("&>");
        if !both && self.reader.accept("<<<") {
            self.reader.skip_blanks();
            self.target()?;
            open.part.input = true;
            return Ok(());
        }
        if !both && self.reader.accept("<<") {
            let tabs = self.reader.accept("-");
            self.reader.skip_blanks();
            let (delimiter, quoted) = self.reader.delimiter()?;
            open.pending.push(Pending { delimiter, quoted, tabs });
            open.part.input = true;
            return Ok(());
        }
        let reads = !both && self.reader.accept("<");
        if !both && !reads {
            self.reader.accept(">");
        }
        if !reads && !self.reader.accept(">") && !both {
            self.reader.accept("|");
        }
        if !both && self.reader.accept("&") {
            let to = self.reader.next();
            let whole = self.reader.peek().is_none_or(|c| " \t\n;|&<>)".contains(c));
            let quiet = !reads && descriptor != Some('0') && matches!(to, Some('1' | '2')) && whole;
            return if quiet { Ok(()) } else { construct("a redirection to a descriptor") };
        }
        if self.reader.rest.starts_with(['>', '<', '(', '&', '|']) || reads && descriptor.is_some_and(|d| d != '0') {
            return construct("a redirection of an unusual kind");
        }
        self.reader.skip_blanks();
        if self.reader.peek() == Some('#') {
            return Err(Doubt::Syntax);
        }
        let target = self.target()?;
        if !target.known || target.glob || target.text.is_empty() {
            return construct("a redirection to a file that is not written out");
        }
        if target.text != "/dev/null" {
            open.part.redirects.push((if reads { Access::Read } else { Access::Write }, target));
        }
        Ok(())
    }

    /// The word after an operator. Digits right before another operator are that operator's descriptor.
    fn target(&mut self) -> Result<Word, Doubt> {
        let start = self.reader.rest;
        let word = self.value()?;
        let raw = &start[..start.len() - self.reader.rest.len()];
        let digits = !raw.is_empty() && raw.bytes().all(|b| b.is_ascii_digit());
        if digits && self.reader.rest.starts_with(['<', '>']) { Err(Doubt::Syntax) } else { Ok(word) }
    }

    /// The texts of here-documents. Only plain text is understood.
    fn bodies(&mut self, pending: &mut Vec<Pending>) -> Result<(), Doubt> {
        for here in pending.drain(..) {
            loop {
                let (line, rest) = match self.reader.rest.split_once('\n') {
                    Some((line, rest)) => (line, rest),
                    None if self.reader.rest.is_empty() => return Err(Doubt::Syntax),
                    None => (self.reader.rest, ""),
                };
                self.reader.rest = rest;
                let line = if here.tabs { line.trim_start_matches('\t') } else { line };
                if line == here.delimiter {
                    break;
                }
                if !here.quoted && line.contains(['$', '`', '\\']) {
                    return construct("an expansion in a here-document");
                }
            }
        }
        Ok(())
    }
}

pub(super) fn construct<T>(what: &str) -> Result<T, Doubt> {
    Err(Doubt::Construct(what.to_owned()))
}
