//! Which words is this piece of code made of?
//!
//! An identifier gives itself whole and its parts: `parseHTTPHeader_v2` gives `parsehttpheader_v2`, `parse`, `http`,
//! `header`, `v`, `2`. All lower-cased. Queries go through the same function, so a part finds the whole and the whole
//! finds itself first.

/// Longer identifiers (encoded data) give no token.
const TOKEN_BYTES_MAX: usize = 100;

/// Changes whenever the tokens change; an index built by another version is rebuilt.
pub(crate) const TOKENIZER_VERSION: u32 = 1;

/// One token and where the text that it stands for lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub text: String,
    pub start: usize,
    pub end: usize,
}

/// All tokens of `text` in order; an identifier comes before its parts.
pub(crate) fn words(text: &str) -> Words<'_> {
    Words { text, at: 0, pending: Vec::new().into_iter() }
}

/// See [`words`].
pub(crate) struct Words<'text> {
    text: &'text str,
    at: usize,
    pending: std::vec::IntoIter<Word>,
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        loop {
            if let Some(word) = self.pending.next() {
                return Some(word);
            }
            let start = self.at + self.text[self.at..].find(is_identifier)?;
            let rest = &self.text[start..];
            let end = start + rest.find(|c| !is_identifier(c)).unwrap_or(rest.len());
            self.at = end;
            if end - start <= TOKEN_BYTES_MAX {
                self.pending = identifier(&self.text[start..end], start).into_iter();
            }
        }
    }
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The whole and the parts of one identifier.
fn identifier(text: &str, offset: usize) -> Vec<Word> {
    let mut words = Vec::new();
    let mut push = |start: usize, end: usize| {
        words.push(Word { text: text[start..end].to_lowercase(), start: offset + start, end: offset + end });
    };
    let parts = parts(text);
    let is_whole = |&(start, end): &(usize, usize)| start == 0 && end == text.len();
    if !parts.is_empty() && !parts.iter().any(is_whole) {
        push(0, text.len());
    }
    for (start, end) in parts {
        push(start, end);
    }
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Underscore,
    Lower,
    Upper,
    Digit,
    /// Letters of scripts without case, where words are not separated: each stands alone.
    Caseless,
}

fn class(c: char) -> Class {
    if c == '_' {
        Class::Underscore
    } else if c.is_numeric() {
        Class::Digit
    } else if c.is_uppercase() {
        Class::Upper
    } else if c.is_lowercase() || (c as u32) < 0x2E80 {
        Class::Lower
    } else {
        Class::Caseless
    }
}

/// Byte ranges of the parts of an identifier, without underscores.
fn parts(text: &str) -> Vec<(usize, usize)> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..=chars.len() {
        if at < chars.len() && !is_border(&chars, at) {
            continue;
        }
        if class(chars[start].1) != Class::Underscore {
            parts.push((chars[start].0, chars.get(at).map_or(text.len(), |next| next.0)));
        }
        start = at;
    }
    parts
}

/// Whether a part ends before `chars[at]`.
fn is_border(chars: &[(usize, char)], at: usize) -> bool {
    let (before, here) = (class(chars[at - 1].1), class(chars[at].1));
    match (before, here) {
        (Class::Caseless, _) => true,
        (Class::Upper, Class::Lower) => false,
        // The last capital of a run belongs to the word that follows: HTTPServer is HTTP and Server.
        (Class::Upper, Class::Upper) => chars.get(at + 1).is_some_and(|next| class(next.1) == Class::Lower),
        (before, here) => before != here,
    }
}

/// Words of a question that say nothing about code. Left out of queries as long as another word remains.
const STOP_WORDS: &[&str] = &[
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "code", "do", "does", "find", "for", "from",
    "function", "how", "i", "in", "into", "is", "it", "its", "me", "of", "on", "or", "show", "that", "the", "their",
    "there", "this", "to", "us", "used", "using", "was", "we", "what", "when", "where", "which", "who", "why", "with",
];

/// More words of a query than this are not looked up.
pub(crate) const QUERY_WORDS_MAX: usize = 48;

/// The distinct words of a query, in order, without stop words where other words remain.
pub(crate) fn query_words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words(text) {
        if !all.contains(&word.text) {
            all.push(word.text);
        }
        if all.len() >= QUERY_WORDS_MAX * 4 {
            break;
        }
    }
    let telling: Vec<String> = all.iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).cloned().collect();
    let mut chosen = if telling.is_empty() { all } else { telling };
    chosen.truncate(QUERY_WORDS_MAX);
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let got: Vec<String> = words(text).map(|word| word.text).collect();
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn an_identifier_gives_itself_and_its_parts() {
        check("parse_header", &["parse_header", "parse", "header"]);
        check("parseHeader", &["parseheader", "parse", "header"]);
        check("HTTPServer", &["httpserver", "http", "server"]);
        check("sha256sum", &["sha256sum", "sha", "256", "sum"]);
        check("MAX_RETRIES", &["max_retries", "max", "retries"]);
        check("__init__", &["__init__", "init"]);
        check("plain", &["plain"]);
        check("a.b(c)", &["a", "b", "c"]);
        check("___", &[]);
        check("", &[]);
    }

    #[test]
    fn scripts_without_case_are_split_by_letter() {
        check("重试", &["重试", "重", "试"]);
        check("größeMax", &["größemax", "größe", "max"]);
    }

    #[test]
    fn stop_words_fall_out_of_a_query_unless_nothing_else_is_there() {
        assert_eq!(query_words("where is the retry_delay"), ["retry_delay", "retry", "delay"]);
        assert_eq!(query_words("where is it"), ["where", "is", "it"]);
    }

    proptest! {
        #[test]
        fn every_token_is_the_lower_case_of_the_text_that_it_points_at(text in "\\PC{0,60}") {
            for word in words(&text) {
                prop_assert_eq!(&word.text, &text[word.start..word.end].to_lowercase());
                prop_assert!(!word.text.is_empty());
            }
        }

        #[test]
        fn an_identifier_finds_itself_however_it_is_written(parts in proptest::collection::vec("[a-z]{1,8}", 1..5)) {
            let camel: String = parts.iter().map(|part| format!("{}{}", part[..1].to_uppercase(), &part[1..])).collect();
            for written in [parts.join("_"), parts.join("_").to_uppercase()] {
                let tokens: Vec<String> = words(&written).map(|word| word.text).collect();
                for part in &parts {
                    prop_assert!(tokens.contains(part), "{} lacks {}", written, part);
                }
                prop_assert_eq!(&tokens[0], &written.to_lowercase());
            }
            prop_assert_eq!(words(&camel).next().unwrap().text, camel.to_lowercase());
        }

        #[test]
        fn parts_never_overlap_and_leave_out_only_underscores(text in "[A-Za-z0-9_]{1,30}") {
            let found = parts(&text);
            prop_assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let kept: String = found.iter().map(|&(start, end)| &text[start..end]).collect();
            prop_assert_eq!(kept, text.replace('_', ""));
        }
    }
}
