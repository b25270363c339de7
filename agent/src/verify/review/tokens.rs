//! How does Python text read, line by line? A lexer that knows strings, comments, brackets and blocks, and no more.

/// Lines of a block that are looked at.
const BODY_LINES_MAX: usize = 200;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A name or a keyword.
    Name,
    /// A number, with its sign where it is one.
    Number,
    /// A string; its text is without quotes and prefix.
    Text,
    /// Anything else, one operator or bracket.
    Mark,
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub sort: Sort,
    /// Its text.
    pub text: String,
}

impl Token {
    /// Is it this name or operator?
    pub fn is(&self, text: &str) -> bool {
        self.sort != Sort::Text && self.text == text
    }
}

/// A logical line: what stands between two line ends outside of brackets.
#[derive(Debug, Clone)]
pub struct Line {
    /// First and last physical line, from 1.
    pub span: (usize, usize),
    /// Columns before the first token.
    pub indent: usize,
    /// Its tokens, at least one.
    pub tokens: Vec<Token>,
    /// The lines that open the blocks around it, outermost first.
    pub blocks: Vec<usize>,
}

impl Line {
    /// Does it begin with this name, `async` aside?
    pub fn opens(&self, word: &str) -> bool {
        let at = usize::from(self.tokens[0].is("async"));
        self.tokens.get(at).is_some_and(|token| token.is(word))
    }

    /// Does the line hold this sequence of names and operators, written with spaces between them?
    pub fn has(&self, sequence: &str) -> bool {
        self.find(sequence).is_some()
    }

    /// Where the sequence begins.
    pub fn find(&self, sequence: &str) -> Option<usize> {
        let words: Vec<&str> = sequence.split(' ').collect();
        self.tokens
            .windows(words.len())
            .position(|window| window.iter().zip(&words).all(|(token, word)| token.is(word)))
    }

    /// As [`Line::find`], and not an attribute of something else: `self.time.time` is no `time.time`.
    pub fn calls(&self, sequence: &str) -> bool {
        self.find(sequence).is_some_and(|at| at == 0 || !self.tokens[at - 1].is("."))
    }

    /// The strings of the line.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter(|token| token.sort == Sort::Text).map(|token| token.text.as_str())
    }
}

/// A whole file.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Its logical lines.
    pub lines: Vec<Line>,
}

impl Source {
    /// Reads a text; total: whatever is no Python gives some lines all the same.
    pub fn read(text: &str) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for (span, indent, tokens) in Lexer::new(text) {
            while open.last().is_some_and(|at: &usize| lines[*at].indent >= indent) {
                open.pop();
            }
            let opens = tokens.last().is_some_and(|token| token.is(":"));
            lines.push(Line { span, indent, tokens, blocks: open.clone() });
            if opens {
                open.push(lines.len() - 1);
            }
        }
        Self { lines }
    }

    /// Does the line run when the file is imported? Not inside a function, not under `if __name__ == "__main__"`.
    pub fn runs_at_import(&self, at: usize) -> bool {
        let line = &self.lines[at];
        let quiet = |line: &Line| line.opens("def") || (line.opens("if") && line.has("__name__"));
        !line.blocks.iter().any(|block| quiet(&self.lines[*block])) && !quiet(line)
    }

    /// The function around a line: the index of its `def`.
    pub fn function(&self, at: usize) -> Option<usize> {
        self.lines[at].blocks.iter().rev().copied().find(|block| self.lines[*block].opens("def"))
    }

    /// What a line with a colon governs: the rest of the line, or the lines of its block.
    pub fn body(&self, at: usize) -> Vec<&[Token]> {
        let head = &self.lines[at];
        if let Some(colon) = colon(&head.tokens)
            && colon + 1 < head.tokens.len()
        {
            return vec![&head.tokens[colon + 1..]];
        }
        let inside = self.lines[at + 1..].iter().take_while(|line| line.indent > head.indent).take(BODY_LINES_MAX);
        inside.map(|line| line.tokens.as_slice()).collect()
    }
}

/// The colon that ends the head of a compound statement.
pub fn colon(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0usize;
    let mut lambdas = 0usize;
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.sort != Sort::Text) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "lambda" if depth == 0 => lambdas += 1,
            ":" if depth == 0 && lambdas > 0 => lambdas -= 1,
            ":" if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Gives logical lines: span, indent, tokens.
struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    /// After a semicolon: where the statement before it stood.
    after: Option<usize>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1, after: None }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn name_bytes(&self) -> usize {
        self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len())
    }

    /// The string that begins here, if one does: quotes after at most two prefix letters.
    fn text(&mut self) -> Option<String> {
        let prefix = self.rest.bytes().take_while(|byte| b"rRbBuUfFtT".contains(byte)).count();
        let body = self.rest.get(prefix..)?;
        let quote = body.chars().next().filter(|c| matches!(c, '"' | '\'') && prefix <= 2)?;
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let mark = if body.starts_with(&triple) { triple.as_str() } else { &triple[..1] };
        let mut at = prefix + mark.len();
        let bytes = self.rest.as_bytes();
        while at < bytes.len() && !self.rest[at..].starts_with(mark) {
            if mark.len() == 1 && bytes[at] == b'\n' {
                break;
            }
            // A backslash takes the next character with it, whatever raw strings say: a quote after it is no end there either.
            at += if bytes[at] == b'\\' { 1 } else { 0 };
            at += self.rest.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
        }
        let end = at.min(self.rest.len());
        let inner = self.rest[prefix + mark.len()..end].to_owned();
        let closed = if self.rest[end..].starts_with(mark) { mark.len() } else { 0 };
        self.take(end + closed);
        Some(inner)
    }

    fn token(&mut self, before: Option<&Token>) -> Token {
        if let Some(text) = self.text() {
            return Token { sort: Sort::Text, text };
        }
        let first = self.rest.chars().next().unwrap_or(' ');
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        // A sign belongs to the number where no value stands before it.
        let value = before.is_some_and(|token| {
            token.sort != Sort::Mark && !token.is("return") && !token.is("in")
                || matches!(&*token.text, ")" | "]" | "}")
        });
        let signed = first == '-' && !value && digit(self.rest.chars().nth(1));
        if signed || digit(Some(first)) {
            let skip = usize::from(signed);
            let length = self.rest[skip..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
            let text = self.take(length.map_or(self.rest.len(), |length| length + skip)).replace('_', "");
            return Token { sort: Sort::Number, text };
        }
        if first.is_alphabetic() || first == '_' {
            let bytes = self.name_bytes();
            return Token { sort: Sort::Name, text: self.take(bytes).to_owned() };
        }
        let pair = ["==", "!=", "<=", ">=", ":=", "->", "**", "//", "+=", "-="];
        let bytes = pair.iter().find(|pair| self.rest.starts_with(**pair)).map_or(first.len_utf8(), |pair| pair.len());
        Token { sort: Sort::Mark, text: self.take(bytes).to_owned() }
    }
}

impl Iterator for Lexer<'_> {
    type Item = ((usize, usize), usize, Vec<Token>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut tokens: Vec<Token> = Vec::new();
        let same_line = self.after.take();
        let (mut indent, mut depth, mut first) = (same_line.unwrap_or(0), 0usize, self.line);
        while let Some(c) = self.rest.chars().next() {
            match c {
                '\n' => {
                    let line = self.line;
                    self.take(1);
                    if depth == 0 && !tokens.is_empty() {
                        return Some(((first, line), indent, tokens));
                    }
                    indent = if tokens.is_empty() { 0 } else { indent };
                }
                '#' => {
                    let bytes = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.take(bytes);
                }
                '\\' if self.rest[1..].starts_with('\n') => {
                    self.take(2);
                }
                ';' if depth == 0 => {
                    self.take(1);
                    if !tokens.is_empty() {
                        self.after = Some(indent);
                        return Some(((first, self.line), indent, tokens));
                    }
                }
                c if c.is_whitespace() || c == '\u{feff}' => {
                    let counts = tokens.is_empty() && (same_line.is_none() || self.line > first);
                    indent += usize::from(counts) * if c == '\t' { 8 } else { 1 };
                    self.take(c.len_utf8());
                }
                _ => {
                    if tokens.is_empty() {
                        first = self.line;
                    }
                    let token = self.token(tokens.last());
                    if token.sort == Sort::Mark {
                        match token.text.as_str() {
                            "(" | "[" | "{" => depth += 1,
                            ")" | "]" | "}" => depth = depth.saturating_sub(1),
                            _ => {}
                        }
                    }
                    tokens.push(token);
                }
            }
        }
        (!tokens.is_empty()).then_some(((first, self.line), indent, tokens))
    }
}
