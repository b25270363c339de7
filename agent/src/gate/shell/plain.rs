//! Is a script so plain that it takes no grammar to see that these are its commands?
//!
//! The grammar takes some microseconds for every word, and most scripts are nothing but plain words and what joins
//! them. For these this is the second reader: it reads the text by rules of its own, which are few, and compares
//! each word with the lexer's. Whatever it does not know is left to the grammar, so every rule here is one that can be
//! taken away. That the tree says the same is tried on random scripts and on the labelled ones.

use super::{Access, Part, Word};

/// What the lexer gives for a path that means no file.
const NULL: &str = "/dev/null";

/// Whether these are the commands of the script, for certain.
pub(super) fn says(script: &str, parts: &[Part]) -> bool {
    // Other spaces may be spaces to one reader and letters to another.
    let other_space = |c: char| !c.is_ascii() && c.is_whitespace();
    if parts.is_empty() || !script.is_ascii() && script.chars().any(other_space) {
        return false;
    }
    let mut plain = Plain { rest: script };
    plain.lines();
    parts.iter().all(|part| {
        plain.blanks();
        plain.command(part)
    }) && plain.rest.is_empty()
}

/// The text that is left.
struct Plain<'a> {
    rest: &'a str,
}

impl Plain<'_> {
    fn blanks(&mut self) {
        let blanks = self.rest.bytes().take_while(|b| matches!(b, b' ' | b'\t')).count();
        self.rest = &self.rest[blanks..];
    }

    fn lines(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
    }

    fn accept(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// One command and what ends it.
    fn command(&mut self, part: &Part) -> bool {
        if part.input || part.words.iter().any(|w| is_special(&w.text)) {
            return false;
        }
        for (name, value) in &part.assigned {
            if !(self.accept(name) && self.accept("=") && self.word(value)) {
                return false;
            }
            self.blanks();
        }
        let Word { text: name, known: true, glob: false } = &part.words[0] else { return false };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b)) {
            return false;
        }
        for word in part.words.iter() {
            let begins = self.rest;
            if !self.word(word) || self.rest.len() == begins.len() {
                return false;
            }
            self.blanks();
        }
        self.redirects(&part.redirects) && self.joint()
    }

    /// One word, which may be empty, up to a space or a joint.
    fn word(&mut self, word: &Word) -> bool {
        let mut said = Said { left: &word.text, glob: false, known: true };
        // Alone it is an operator to the grammar.
        if self.rest.starts_with('=') {
            return false;
        }
        // Beside other things the grammar does not see it.
        if self.rest.starts_with('$') {
            return self.variable() && self.ends_word() && *word == Word { known: false, ..Word::empty() };
        }
        let agree = loop {
            let run = self.rest.bytes().position(|b| !is_plain(b)).unwrap_or(self.rest.len());
            let (plain, rest) = self.rest.split_at(run);
            self.rest = rest;
            if !said.text(plain) {
                break false;
            }
            match rest.bytes().next() {
                _ if self.ends_word() => break true,
                Some(b'*' | b'?') => {
                    said.glob = true;
                    self.rest = &rest[1..];
                    if !said.text(&rest[..1]) {
                        break false;
                    }
                }
                Some(b'\'') => {
                    let Some((quoted, after)) = rest[1..].split_once('\'') else { break false };
                    self.rest = after;
                    if !said.text(quoted) {
                        break false;
                    }
                }
                Some(b'"') => {
                    self.rest = &rest[1..];
                    if !self.quoted(&mut said) {
                        break false;
                    }
                }
                _ => break false,
            }
        };
        agree && said.left.is_empty() && said.glob == word.glob && said.known == word.known
    }

    /// After a double quote, up to the one that closes it. Of lines and variables there is one kind.
    fn quoted(&mut self, said: &mut Said<'_>) -> bool {
        let (mut lines, mut variables) = (false, false);
        while let Some(run) = self.rest.find(['"', '$', '`', '\\']) {
            let (plain, rest) = self.rest.split_at(run);
            self.rest = rest;
            lines |= plain.contains('\n');
            if !said.text(plain) || lines && variables {
                return false;
            }
            if self.accept("\"") {
                return true;
            }
            // The grammar takes a space for none where nothing else stands before the variable.
            if self.rest.starts_with('$') && !plain.is_empty() && plain.trim_ascii().is_empty() {
                return false;
            }
            let escaped = ["\\\\", "\\\"", "\\$"].into_iter().find(|escape| self.accept(escape));
            let fits = match escaped {
                Some(escape) => said.text(&escape[1..]),
                None => {
                    (said.known, variables) = (false, true);
                    self.variable()
                }
            };
            if !fits {
                return false;
            }
        }
        false
    }

    /// Whether a word ends here.
    fn ends_word(&self) -> bool {
        self.rest.bytes().next().is_none_or(|b| b" \t\n;|&".contains(&b))
    }

    /// `$NAME` or `${NAME}`.
    fn variable(&mut self) -> bool {
        let Some(after) = self.rest.strip_prefix('$') else { return false };
        let inner = after.strip_prefix('{').unwrap_or(after);
        let length = inner.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'_')).unwrap_or(inner.len());
        if length == 0 || inner.as_bytes()[0].is_ascii_digit() {
            return false;
        }
        let braced = inner.len() < after.len();
        match inner[length..].strip_prefix('}') {
            Some(rest) if braced => self.rest = rest,
            _ if braced => return false,
            _ => self.rest = &inner[length..],
        }
        true
    }

    /// Redirections at the end of a command: to files, and of what is said to what is printed.
    fn redirects(&mut self, redirects: &[(Access, Word)]) -> bool {
        let mut expected = redirects.iter();
        loop {
            if ["2>&1", "1>&2", ">&2", ">&1"].into_iter().any(|copy| self.accept(copy)) {
                if !self.ends_word() || self.rest.starts_with('&') && !self.rest.starts_with("&&") {
                    return false;
                }
            } else if let Some(operator) =
                ["2>>", "1>>", ">>", "2>", "1>", "&>", ">", "<"].into_iter().find(|operator| self.accept(operator))
            {
                let access = if operator == "<" { Access::Read } else { Access::Write };
                self.blanks();
                let null = self.rest.strip_prefix(NULL).map(|rest| Plain { rest }).filter(Plain::ends_word);
                match null {
                    Some(after) => *self = after,
                    None => match expected.next() {
                        Some((to, file)) if *to == access && !file.text.is_empty() && self.word(file) => {}
                        _ => return false,
                    },
                }
            } else {
                return expected.next().is_none();
            }
            self.blanks();
        }
    }

    /// What stands between two commands, or the end.
    fn joint(&mut self) -> bool {
        if self.accept("&&") || self.accept("||") || self.accept("|") {
            // `|&` is another joint, and after these a command must follow.
            self.lines();
            return !self.rest.is_empty() && !self.rest.starts_with('&');
        }
        let semicolon = self.accept(";");
        self.blanks();
        let newline = self.accept("\n");
        self.blanks();
        // Across an empty line, or a line behind a semicolon, the grammar may go on with the command.
        let goes_on = newline && semicolon || self.rest.starts_with('\n');
        self.lines();
        if goes_on && !self.rest.is_empty() {
            return false;
        }
        (semicolon || newline || self.rest.is_empty()) && !self.rest.starts_with([';', '|', '&'])
    }
}

/// What of a word the text has not said yet.
struct Said<'a> {
    left: &'a str,
    glob: bool,
    known: bool,
}

impl Said<'_> {
    fn text(&mut self, text: &str) -> bool {
        match self.left.strip_prefix(text) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

/// What is only itself wherever it stands in a word.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || !byte.is_ascii()
        || matches!(byte, b'_' | b'.' | b'/' | b',' | b':' | b'@' | b'%' | b'+' | b'-' | b'=')
}

/// Words that the grammar knows by name, and builtins of which it makes more than commands. Where one of them stands,
/// the grammar is asked.
#[rustfmt::skip]
fn is_special(word: &str) -> bool {
    matches!(word,
        "if" | "then" | "elif" | "else" | "fi" | "for" | "in" | "do" | "done" | "while" | "until" | "case" | "esac"
        | "select" | "function" | "time" | "coproc" | "declare" | "typeset" | "export" | "readonly" | "local"
        | "unset" | "unsetenv")
}
