//! What does this SQL define? A reader of our own, because the grammar's crate pins a `cc` that is too old: it knows
//! `CREATE … name` and where a statement ends, and nothing else of the language.

use crate::outline::{Definition, HEAD_BYTES_MAX, Kind, Outlined, signature};
use crate::parsed::{DEFINITIONS_MAX, NAME_BYTES_MAX};

/// The definitions of a file, in order.
pub(crate) fn outline(bytes: &[u8]) -> Vec<Outlined> {
    let mut items = Vec::new();
    let mut tokens = Tokens { bytes, at: 0, line: 1 };
    let mut first = true;
    while let Some(token) = tokens.next() {
        if first && token.is(bytes, "create") && items.len() < DEFINITIONS_MAX {
            items.extend(definition(bytes, token, &mut tokens));
            continue;
        }
        first = token.is(bytes, ";") || token.is(bytes, "go") || token.is(bytes, "begin");
    }
    items
}

/// From `CREATE` to the `;` that ends the statement.
fn definition(bytes: &[u8], create: Token, tokens: &mut Tokens<'_>) -> Option<Outlined> {
    let mut kind = None;
    let mut name = None;
    let (mut end, mut head) = (create.end, create.end);
    let mut end_line = create.line;
    let mut depth = 0usize;
    let mut after_end = false;
    while let Some(token) = tokens.next() {
        if token.is(bytes, ";") && depth == 0 {
            break;
        }
        (end, end_line) = (token.end, token.line);
        match (kind, &name) {
            (None, _) => kind = kind_of(bytes, &token),
            (Some(_), None) if token.is_one_of(bytes, &["if", "not", "exists", "concurrently", "body"]) => {}
            (Some(_), None) if token.is_one_of(bytes, &["(", "on", "as"]) => return None,
            (Some(_), None) => {
                name = Some(tokens.qualified(token));
                head = tokens.at;
            }
            (Some(_), Some(_)) if token.is_one_of(bytes, &["begin", "case"]) => depth += 1,
            (Some(_), Some(_)) if token.is(bytes, "end") => depth = depth.saturating_sub(1),
            // `END IF` ends what no `BEGIN` began.
            (Some(_), Some(_)) if after_end && token.is_one_of(bytes, &["if", "loop", "while", "repeat"]) => depth += 1,
            (Some(Kind::Function), Some(_)) if depth == 0 && token.is(bytes, ")") => head = token.end,
            _ => {}
        }
        after_end = token.is(bytes, "end");
    }
    let (mut names, kind) = (name?, kind?);
    let name = names.pop()?;
    let head_bytes = (head - create.start).min(HEAD_BYTES_MAX);
    let definition = Definition {
        name,
        kind,
        parent: (!names.is_empty()).then(|| names.join(".")),
        signature: signature(&bytes[create.start..create.start + head_bytes]),
        start_line: create.line,
        end_line,
        start_byte: create.start,
        end_byte: end,
    };
    let line = create.line;
    Some(Outlined {
        definition,
        doc_line: line,
        head_line: line,
        head_bytes,
        inside_callable: false,
        listed: true,
        exported: true,
    })
}

fn kind_of(bytes: &[u8], token: &Token) -> Option<Kind> {
    const KINDS: &[(&str, Kind)] = &[
        ("table", Kind::Struct),
        ("view", Kind::Struct),
        ("function", Kind::Function),
        ("procedure", Kind::Function),
        ("proc", Kind::Function),
        ("trigger", Kind::Function),
        ("index", Kind::Constant),
        ("sequence", Kind::Constant),
        ("type", Kind::Type),
        ("domain", Kind::Type),
        ("schema", Kind::Module),
        ("package", Kind::Module),
    ];
    KINDS.iter().find(|(word, _)| token.is(bytes, word)).map(|(_, kind)| *kind)
}

#[derive(Clone, Copy)]
struct Token {
    start: usize,
    end: usize,
    line: usize,
}

impl Token {
    fn is(&self, bytes: &[u8], word: &str) -> bool {
        bytes[self.start..self.end].eq_ignore_ascii_case(word.as_bytes())
    }

    fn is_one_of(&self, bytes: &[u8], words: &[&str]) -> bool {
        words.iter().any(|word| self.is(bytes, word))
    }
}

/// Words, quoted names, and single signs; no comments and no strings.
struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl Tokens<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Over everything up to and with `end`, or to the end of the file.
    fn skip_past(&mut self, end: &[u8]) {
        let rest = &self.bytes[self.at..];
        let found = rest.windows(end.len()).position(|window| window == end);
        let length = found.map_or(rest.len(), |at| at + end.len());
        self.line += rest[..length].iter().filter(|&&byte| byte == b'\n').count();
        self.at += length;
    }

    /// `$$` or `$tag$`, where one stands here.
    fn dollar_tag(&self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().skip(1).take(NAME_BYTES_MAX).position(|&byte| byte == b'$')?;
        let tag = &rest[..length + 2];
        tag[1..=length].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').then(|| tag.to_vec())
    }

    fn next(&mut self) -> Option<Token> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            let (start, line) = (self.at, self.line);
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                b'-' if self.peek(1) == b'-' => self.skip_past(b"\n"),
                b'#' if self.peek(1) == b' ' => self.skip_past(b"\n"),
                b'/' if self.peek(1) == b'*' => self.skip_past(b"*/"),
                b'\'' => {
                    self.at += 1;
                    self.skip_past(b"'");
                }
                b'$' if self.dollar_tag().is_some() => {
                    let tag = self.dollar_tag().unwrap_or_default();
                    self.at += tag.len();
                    self.skip_past(&tag);
                }
                b'"' | b'`' | b'[' => {
                    self.at += 1;
                    self.skip_past(if byte == b'[' { b"]" } else { std::slice::from_ref(&byte) });
                    return Some(Token { start, end: self.at, line });
                }
                byte if is_word(byte) => {
                    let length = self.bytes[start..].iter().take_while(|byte| is_word(**byte)).count();
                    self.at += length;
                    return Some(Token { start, end: self.at, line });
                }
                _ => {
                    self.at += 1;
                    return Some(Token { start, end: self.at, line });
                }
            }
        }
    }

    /// `first.second.third`, beginning with a token that was taken.
    fn qualified(&mut self, first: Token) -> Vec<String> {
        let mut names = vec![self.plain(first)];
        while self.peek(0) == b'.' && names.len() < 4 {
            self.at += 1;
            match self.next() {
                Some(token) => names.push(self.plain(token)),
                None => break,
            }
        }
        names.retain(|name| !name.is_empty());
        names
    }

    fn plain(&self, token: Token) -> String {
        let text = &self.bytes[token.start..token.end.min(token.start + NAME_BYTES_MAX)];
        String::from_utf8_lossy(text).trim_matches(['"', '`', '[', ']']).to_owned()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@' || byte >= 0x80
}
