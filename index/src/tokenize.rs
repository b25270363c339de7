//! Which words is this piece of code made of?
//!
//! An identifier gives itself whole and its parts: `parseHTTPHeader_v2` gives `parsehttpheader_v2`, `parse`, `http`,
//! `header`, `v2`. All lower-cased. Scripts that write no spaces between words give pairs of neighbouring letters.
//! Queries go through the same function, so a part finds the whole and the whole finds itself first.
//!
//! Absent on purpose: parts of one letter, single digits, and the parts of encoded data. They find nothing that
//! anybody looks for and would be a tenth of the index.

/// Longer identifiers (encoded data) give no token.
const TOKEN_BYTES_MAX: usize = 100;
/// An identifier of more parts than this (a hash, a mangled name) gives only itself.
const PARTS_MAX: usize = 12;

/// Changes whenever the tokens change; an index built by another version is rebuilt.
pub(crate) const TOKENIZER_VERSION: u32 = 3;

/// One token and where the text that it stands for lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub text: String,
    pub start: usize,
    pub end: usize,
}

/// All tokens of `text` in order; an identifier comes before its parts.
pub(crate) fn words(text: &str) -> Words<'_> {
    Words { text, at: 0, letters: Vec::new(), found: Vec::new(), next: 0 }
}

/// See [`words`].
pub(crate) struct Words<'text> {
    text: &'text str,
    at: usize,
    /// Offsets and classes of the identifier at hand; kept to be used again.
    letters: Vec<(usize, Class)>,
    /// Where the tokens of the identifier at hand lie.
    found: Vec<(usize, usize)>,
    next: usize,
}

impl Words<'_> {
    /// Writes the next token into `into` and says where its text lies. Allocates nothing once the buffers have grown.
    pub(crate) fn advance(&mut self, into: &mut String) -> Option<(usize, usize)> {
        while self.next == self.found.len() {
            self.found.clear();
            self.next = 0;
            self.identifier()?;
        }
        let (start, end) = self.found[self.next];
        self.next += 1;
        into.clear();
        let text = &self.text[start..end];
        if text.is_ascii() {
            into.push_str(text);
            into.make_ascii_lowercase();
        } else {
            into.extend(text.chars().flat_map(char::to_lowercase));
        }
        Some((start, end))
    }

    /// Reads the next identifier and finds its tokens, if it has any.
    fn identifier(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        let mut start = self.at;
        let first = loop {
            let byte = *bytes.get(start)?;
            let (class, length) = if byte < 0x80 { (ASCII[usize::from(byte)], 1) } else { self.wide(start) };
            match class {
                Some(class) => break class,
                None => start += length,
            }
        };
        self.letters.clear();
        let mut end = start;
        let mut mixed = false;
        while let Some(&byte) = bytes.get(end) {
            let (class, length) = if byte < 0x80 { (ASCII[usize::from(byte)], 1) } else { self.wide(end) };
            let Some(class) = class else { break };
            if (class == Class::Caseless) != (first == Class::Caseless) {
                break;
            }
            mixed |= class != first;
            self.letters.push((end, class));
            end += length;
        }
        self.at = end;
        match first {
            Class::Caseless => self.pairs(end),
            _ if end - start > TOKEN_BYTES_MAX => {}
            _ if !mixed => {
                let is_noise = first == Class::Underscore || (first == Class::Digit && end - start == 1);
                self.found.extend((!is_noise).then_some((start, end)));
            }
            _ => self.whole_and_parts(end),
        }
        Some(())
    }

    /// The class and the length of the character at `at`, which is not ASCII.
    fn wide(&self, at: usize) -> (Option<Class>, usize) {
        self.text[at..].chars().next().map_or((None, 1), |c| (class(c), c.len_utf8()))
    }

    fn pairs(&mut self, end: usize) {
        let offset = |at: usize| self.letters.get(at).map_or(end, |letter| letter.0);
        let count = self.letters.len();
        let pairs = (0..count.saturating_sub(1).max(1)).map(|at| (offset(at), offset(at + 2)));
        self.found.extend(pairs);
    }

    fn whole_and_parts(&mut self, end: usize) {
        let whole = (self.letters[0].0, end);
        self.found.push(whole);
        let is_digit = |letter: &(usize, Class)| letter.1 == Class::Digit;
        let turns = self.letters.windows(2).filter(|pair| is_digit(&pair[0]) != is_digit(&pair[1])).count();
        if turns > PARTS_MAX {
            return;
        }
        let mut first = 0;
        for at in 1..=self.letters.len() {
            if at == self.letters.len() || is_border(&self.letters, at) {
                self.part(first, at, end);
                first = at;
            }
        }
        if self.found.len() > PARTS_MAX + 1 {
            self.found.truncate(1);
        }
        if self.letters.iter().all(|letter| letter.1 == Class::Underscore) {
            self.found.clear();
        }
    }

    /// A part between underscores and changes of case; and where letters and digits meet in it, what they divide.
    fn part(&mut self, first: usize, last: usize, end: usize) {
        if self.letters[first].1 == Class::Underscore {
            return;
        }
        let range = |from: usize, to: usize| (self.letters[from].0, self.letters.get(to).map_or(end, |next| next.0));
        if last - first > 1 && range(first, last) != self.found[0] {
            self.found.push(range(first, last));
        }
        let is_digit = |at: usize| self.letters[at].1 == Class::Digit;
        let mut from = first;
        for at in first + 1..=last {
            if at < last && is_digit(at) == is_digit(at - 1) {
                continue;
            }
            let is_all = from == first && at == last;
            if at - from > 1 && !is_all {
                self.found.push(range(from, at));
            }
            from = at;
        }
    }
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        let mut text = String::new();
        let (start, end) = self.advance(&mut text)?;
        Some(Word { text, start, end })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Underscore,
    Lower,
    Upper,
    Digit,
    /// Letters of scripts that put no spaces between words.
    Caseless,
}

const ASCII: [Option<Class>; 128] = {
    let mut table = [None; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'_' => Some(Class::Underscore),
            b'0'..=b'9' => Some(Class::Digit),
            b'a'..=b'z' => Some(Class::Lower),
            b'A'..=b'Z' => Some(Class::Upper),
            _ => None,
        };
        byte += 1;
    }
    table
};

/// The class of a character that is not ASCII; nothing where it belongs to no word.
fn class(c: char) -> Option<Class> {
    let code = c as u32;
    // Signs that stand on or between the letters of a word: accents, and the vowel signs of the Indic scripts.
    let is_sign = matches!(code, 0x300..=0x36F | 0x900..=0xDFF);
    if !c.is_alphanumeric() && !is_sign {
        return None;
    }
    let unspaced = matches!(code, 0xE00..=0xEFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2E80..=0xA4CF
        | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x20000..=0x3FFFF);
    Some(if unspaced {
        Class::Caseless
    } else if c.is_numeric() {
        Class::Digit
    } else if c.is_uppercase() {
        Class::Upper
    } else {
        Class::Lower
    })
}

/// Whether a part ends before `letters[at]`. Digits belong to the letters before them.
fn is_border(letters: &[(usize, Class)], at: usize) -> bool {
    match (letters[at - 1].1, letters[at].1) {
        (Class::Underscore, here) => here != Class::Underscore,
        (before, Class::Underscore) => before != Class::Underscore,
        (Class::Lower | Class::Digit, Class::Upper) => true,
        // The last capital of a run belongs to the word that follows: HTTPServer is HTTP and Server.
        (Class::Upper, Class::Upper) => letters.get(at + 1).is_some_and(|next| next.1 == Class::Lower),
        _ => false,
    }
}

/// Words of a question that say nothing about code. Left out of queries as long as another word remains.
const STOP_WORDS: &[&str] = &[
    "a", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "code", "could",
    "did", "do", "does", "don", "find", "for", "from", "function", "get", "had", "has", "have", "how", "i", "if", "in",
    "into", "is", "it", "its", "just", "like", "me", "my", "no", "not", "of", "on", "or", "our", "out", "should",
    "show", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "to", "us", "use", "used", "using", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "will", "with", "would", "you", "your",
];

/// Whether a word says nothing about code.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
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
        check("MAX_RETRIES", &["max_retries", "max", "retries"]);
        check("__init__", &["__init__", "init"]);
        check("plain", &["plain"]);
        check("a.b(c)", &["a", "b", "c"]);
        check("___", &[]);
        check("", &[]);
    }

    #[test]
    fn digits_stay_with_the_letters_before_them_and_stand_alone_too() {
        check("sha256sum", &["sha256sum", "sha", "256", "sum"]);
        check("utf8", &["utf8", "utf"]);
        check("parse_http_v2", &["parse_http_v2", "parse", "http", "v2"]);
        check("HTTP2Server", &["http2server", "http2", "http", "server"]);
        check("404 7", &["404"]);
    }

    #[test]
    fn what_nobody_looks_for_gives_no_parts() {
        check("x_offset", &["x_offset", "offset"]);
        check("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", &["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"]);
        check(&"x".repeat(101), &[]);
    }

    #[test]
    fn scripts_without_spaces_give_pairs_of_letters() {
        check("重试次数 count", &["重试", "试次", "次数", "count"]);
        check("重", &["重"]);
        check("retry重试", &["retry", "重试"]);
        check("größeMax", &["größemax", "größe", "max"]);
        check("हिन्दी", &["हिन्दी"]);
    }

    #[test]
    fn stop_words_are_known() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("where") && !is_stop_word("retry"));
    }

    proptest! {
        #[test]
        fn every_token_is_the_lower_case_of_the_text_that_it_points_at(text in "\\PC{0,60}") {
            for word in words(&text) {
                let lower: String = text[word.start..word.end].chars().flat_map(char::to_lowercase).collect();
                prop_assert_eq!(&word.text, &lower);
                prop_assert!(!word.text.is_empty());
            }
        }

        #[test]
        fn an_identifier_finds_itself_however_it_is_written(parts in proptest::collection::vec("[a-z]{2,8}", 1..5)) {
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
    }
}
