//! Is this script nothing but plain words and the operators `&&`, `||`, `;`, `|`?
//!
//! Written by hand, so that a mistake in a grammar and a mistake here must coincide before they do harm.

use super::{Doubt, Word};

/// The commands of a plain script, or the first thing in it that is not plain.
pub(super) fn lex(script: &str) -> Result<Vec<Vec<Word>>, Doubt> {
    let mut lexer = Lexer { rest: script, word: None, words: Vec::new(), commands: Vec::new() };
    while let Some(c) = lexer.next() {
        lexer.take(c)?;
    }
    lexer.end_word();
    if !lexer.words.is_empty() {
        lexer.end_command(";")?;
    }
    if lexer.commands.is_empty() { Err(Doubt::Empty) } else { Ok(lexer.commands) }
}

struct Lexer<'a> {
    rest: &'a str,
    word: Option<Word>,
    words: Vec<Word>,
    commands: Vec<Vec<Word>>,
}

impl Lexer<'_> {
    fn take(&mut self, c: char) -> Result<(), Doubt> {
        match c {
            ' ' | '\t' => self.end_word(),
            '\n' => {
                self.end_word();
                if !self.words.is_empty() {
                    self.end_command("a newline")?;
                }
            }
            ';' => self.end_command(";")?,
            '|' if self.accept("|") => self.end_command("||")?,
            '|' if self.rest.starts_with('&') => return construct("|&"),
            '|' => self.end_command("|")?,
            '&' if self.accept("&") => self.end_command("&&")?,
            '&' if self.rest.starts_with('>') => {
                self.end_word();
                self.rest = &self.rest[1..];
                self.quiet_redirect(false)?;
            }
            '&' => return construct("& (a background job)"),
            '>' => self.redirect()?,
            '<' => return construct("< (input from a file or a here-document)"),
            '\'' => self.single_quoted()?,
            '"' => self.double_quoted()?,
            '\\' => match self.next() {
                None | Some('\n') => return construct("a backslash at the end of a line"),
                Some(escaped) => self.push(escaped),
            },
            '$' => return construct("$ (an expansion)"),
            '`' => return construct("a backquote (a command inside a command)"),
            '(' | ')' => return construct("parentheses (a subshell)"),
            '{' | '}' => return construct("braces"),
            '#' if self.word.is_none() => return construct("# (a comment)"),
            '!' if self.word.is_none() => return construct("!"),
            '~' if self.word.as_ref().is_none_or(|w| w.text.ends_with(['=', ':'])) => {
                return construct("~ (a home directory)");
            }
            '=' if self.words.is_empty() => return construct("= (a variable assignment)"),
            '*' | '?' | '[' => {
                self.push(c);
                self.open().glob = true;
            }
            c => self.push(c),
        }
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn accept(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn open(&mut self) -> &mut Word {
        self.word.get_or_insert_with(|| Word { text: String::new(), glob: false, known: true })
    }

    fn push(&mut self, c: char) {
        self.open().text.push(c);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_command(&mut self, operator: &str) -> Result<(), Doubt> {
        self.end_word();
        if self.words.is_empty() {
            return construct(&format!("{operator} without a command before it"));
        }
        self.commands.push(std::mem::take(&mut self.words));
        Ok(())
    }

    fn single_quoted(&mut self) -> Result<(), Doubt> {
        let (inner, rest) = self.rest.split_once('\'').ok_or(Doubt::Syntax)?;
        self.rest = rest;
        self.open().text.push_str(inner);
        Ok(())
    }

    fn double_quoted(&mut self) -> Result<(), Doubt> {
        self.open();
        loop {
            match self.next().ok_or(Doubt::Syntax)? {
                '"' => return Ok(()),
                '`' => return construct("a backquote (a command inside a command)"),
                // A dollar before the closing quote or a space is only a dollar: the end of a line, in a pattern.
                '$' if !self.rest.starts_with(['"', ' ']) => return construct("$ (an expansion)"),
                '\\' => match self.rest.chars().next() {
                    Some('\n') => return construct("a backslash at the end of a line"),
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        self.next();
                        self.push(c);
                    }
                    _ => self.push('\\'),
                },
                c => self.push(c),
            }
        }
    }

    /// After `>`: `2>&1` and a redirection to /dev/null go nowhere and are left out; all others are refused.
    fn redirect(&mut self) -> Result<(), Doubt> {
        match &self.word {
            None => {}
            Some(w) if w.text == "1" || w.text == "2" => self.word = None,
            Some(_) => self.end_word(),
        }
        self.quiet_redirect(true)
    }

    fn quiet_redirect(&mut self, may_duplicate: bool) -> Result<(), Doubt> {
        self.accept(">");
        let spaces = self.rest.len() - self.rest.trim_start_matches(' ').len();
        let quiet = (may_duplicate && (self.accept("&1") || self.accept("&2"))) || {
            self.rest = &self.rest[spaces..];
            self.accept("/dev/null")
        };
        let ends = self.rest.is_empty() || self.rest.starts_with([' ', '\t', '\n', ';', '|', '&']);
        if quiet && ends { Ok(()) } else { construct("a redirection to a file") }
    }
}

fn construct<T>(what: &str) -> Result<T, Doubt> {
    Err(Doubt::Construct(what.to_owned()))
}
