//! Where does a word of the shell end, and what does it say?
//!
//! Belongs to the reader of our own; see [`super::lex`].

use super::lex::{Lexer, construct};
use super::{Doubt, Word};

/// The text that is left, and the questions that need no state.
pub(super) struct Reader<'a> {
    pub rest: &'a str,
}

impl Reader<'_> {
    pub fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// The next bytes, which end at a character.
    fn take(&mut self, bytes: usize) -> &str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    pub fn accept(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub fn skip_blanks(&mut self) {
        let blanks = self.rest.bytes().take_while(|b| matches!(b, b' ' | b'\t')).count();
        self.rest = &self.rest[blanks..];
    }

    /// A comment, up to the newline.
    pub fn skip_line(&mut self) {
        self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
    }

    /// `NAME=`, and nothing fancier such as `NAME+=` or `NAME[1]=`.
    pub fn assignment(&mut self) -> Option<String> {
        let end = name_end(self.rest);
        let rest = self.rest[end..].strip_prefix('=')?;
        if end == 0 {
            return None;
        }
        let name = self.rest[..end].to_owned();
        self.rest = rest;
        Some(name)
    }

    /// The word that ends a here-document, and whether quotes make its text literal.
    pub fn delimiter(&mut self) -> Result<(String, bool), Doubt> {
        let quote = self.peek().filter(|c| matches!(c, '\'' | '"'));
        let inner = if quote.is_some() { &self.rest[1..] } else { self.rest };
        let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let rest = match quote {
            Some(quote) => rest.strip_prefix(quote),
            None => Some(rest),
        };
        let whole = rest.filter(|rest| {
            !name.is_empty() && (rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '|', '&', '<', '>']))
        });
        match whole {
            Some(rest) => {
                self.rest = rest;
                Ok((name.to_owned(), quote.is_some()))
            }
            None => construct("a here-document with an unusual end"),
        }
    }
}

impl Lexer<'_> {
    /// The value of an assignment or the target of a redirection; it may be empty.
    pub fn value(&mut self) -> Result<Word, Doubt> {
        self.read(false)
    }

    /// One word of a command; more is refused in its name.
    pub fn read(&mut self, is_name: bool) -> Result<Word, Doubt> {
        let mut word = Word::empty();
        let mut starts = true;
        while let Some(c) = self.reader.peek() {
            let run = self.reader.rest.bytes().position(|b| !says_itself(b)).unwrap_or(self.reader.rest.len());
            if run > 0 && starts && word.text.is_empty() {
                word.text = self.reader.take(run).into();
                starts = false;
                continue;
            }
            if run > 0 {
                word.text.push_str(self.reader.take(run));
                starts = false;
                continue;
            }
            if " \t\n;|&<>()".contains(c) {
                // `a(`: a function or an extended pattern.
                return if c == '(' { construct("parentheses (a subshell)") } else { Ok(word) };
            }
            self.reader.next();
            match c {
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => match self.reader.next() {
                    None | Some('\n') => return construct("a backslash at the end of a line"),
                    Some(escaped) => word.text.push(escaped),
                },
                '$' => self.expansion(&mut word)?,
                '`' => return construct("a backquote (a command inside a command)"),
                '{' if starts && self.reader.rest.starts_with('}') => {
                    self.reader.next();
                    word.text.push_str("{}");
                }
                '{' | '}' => return construct("braces"),
                '!' if starts && is_name => return construct("!"),
                '~' if starts || word.text.ends_with(['=', ':']) => return construct("~ (a home directory)"),
                '=' if is_name => return construct("= (a variable assignment)"),
                '*' | '?' | '[' => {
                    word.glob = true;
                    word.text.push(c);
                }
                c => word.text.push(c),
            }
            starts = false;
        }
        Ok(word)
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), Doubt> {
        let (inner, rest) = self.reader.rest.split_once('\'').ok_or(Doubt::Syntax)?;
        self.reader.rest = rest;
        word.text.push_str(inner);
        Ok(())
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), Doubt> {
        loop {
            let run = self.reader.rest.find(['"', '`', '$', '\\']).ok_or(Doubt::Syntax)?;
            word.text.push_str(self.reader.take(run));
            match self.reader.next().ok_or(Doubt::Syntax)? {
                '"' => return Ok(()),
                '`' => return construct("a backquote (a command inside a command)"),
                // A dollar before the closing quote or a space is only a dollar: the end of a line, in a pattern.
                '$' if self.reader.rest.starts_with(['"', ' ']) => word.text.push('$'),
                '$' => self.expansion(word)?,
                '\\' => match self.reader.peek() {
                    Some('\n') => return construct("a backslash at the end of a line"),
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        self.reader.next();
                        word.text.push(c);
                    }
                    _ => word.text.push('\\'),
                },
                c => word.text.push(c),
            }
        }
    }

    /// After a dollar. A plain variable leaves a hole in the word; the commands of a substitution are read too.
    fn expansion(&mut self, word: &mut Word) -> Result<(), Doubt> {
        word.known = false;
        let rest = self.reader.rest;
        if rest.starts_with("((") {
            return construct("$(( (arithmetic)");
        }
        if self.reader.accept("(") {
            return self.list(true);
        }
        let length = match rest.strip_prefix('{') {
            Some(inner) => inner.find('}').filter(|end| is_plain_parameter(&inner[..*end])).map(|end| end + 2),
            None => match rest.chars().next() {
                Some('?' | '#' | '@' | '*' | '$' | '-' | '0'..='9') => Some(1),
                _ => Some(name_end(rest)).filter(|end| *end > 0),
            },
        };
        match length {
            Some(length) => {
                self.reader.rest = &rest[length..];
                Ok(())
            }
            None => construct("$ (an expansion that computes)"),
        }
    }
}

/// A character that is only itself wherever it stands in a word.
fn says_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b',' | b':' | b'@' | b'%' | b'+' | b'-')
}

/// `NAME`, `#NAME`, `NAME[@]`, `NAME[*]`, `NAME[3]`, `?`, `1`: nothing that computes, assigns or runs.
pub(super) fn is_plain_parameter(inner: &str) -> bool {
    let body = inner.strip_prefix('#').filter(|body| !body.is_empty()).unwrap_or(inner);
    if matches!(body, "?" | "@" | "*" | "$" | "-" | "#") {
        return true;
    }
    if !body.is_empty() && body.len() < 4 && body.bytes().all(|b| b.is_ascii_digit()) {
        return true;
    }
    let end = name_end(body);
    let index = body[end..].strip_prefix('[').and_then(|index| index.strip_suffix(']'));
    let plain_index = |index: &str| {
        index == "@"
            || index == "*"
            || !index.is_empty() && index.len() < 8 && index.bytes().all(|b| b.is_ascii_digit())
    };
    end > 0 && (end == body.len() || index.is_some_and(plain_index))
}

/// Where the name of a variable at the start of `text` ends.
fn name_end(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}
