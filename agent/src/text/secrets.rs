//! Which strings look like credentials that nobody meant to show to a model?
//!
//! The shapes are data (`secrets.toml`). It is a courtesy, not a wall: the wall is that secrets are denied by path
//! and are not in the box. What is replaced must be rare in honest code, because a model that edits a function it
//! saw redacted would write the mark back; [`restore_secrets`] undoes that.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use std::ops::Range;
use std::sync::LazyLock;

const SHAPES: &str = include_str!("secrets.toml");
/// The most that one compiled expression may take.
const REGEX_BYTES_MAX: usize = 8 << 20;
const ROUNDS_MAX: usize = 4;
/// How every mark begins.
const MARK: &str = "[redacted: ";
/// Words that say of a value that it is none.
const PLACEHOLDERS: [&str; 22] = [
    "example",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "placeholder",
    "dummy",
    "sample",
    "fake",
    "xxxx",
    "test",
    "foobar",
    "password",
    "passwd",
    "secret",
    "replace",
    "redacted",
    "insert",
    "abcdef",
    "123456",
    "mock",
    "hunter2",
];
/// A placeholder says nothing of a shape that nobody writes by hand.
const TYPED_BYTES_MAX: usize = 80;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    secret: Vec<WrittenShape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenShape {
    id: String,
    kind: String,
    regex: String,
    keywords: Vec<String>,
    #[serde(default)]
    entropy: f64,
    #[serde(default)]
    mixed: bool,
    #[serde(default, rename = "match")]
    #[cfg_attr(not(test), expect(dead_code, reason = "examples are tried by the tests"))]
    matches: Vec<String>,
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "examples are tried by the tests"))]
    not_match: Vec<String>,
}

struct Shape {
    written: WrittenShape,
    regex: Regex,
}

static COMPILED: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let written: Written = toml::from_str(SHAPES).expect("secrets.toml is part of this program and tested");
    let compile = |written: WrittenShape| {
        let regex = RegexBuilder::new(&written.regex).size_limit(REGEX_BYTES_MAX).build();
        Shape { regex: regex.unwrap_or_else(|error| panic!("{}: {error}", written.id)), written }
    };
    written.secret.into_iter().map(compile).collect()
});

/// Replaces what looks like a credential by `[redacted: KIND]`. Returns the text and how many.
#[must_use]
pub fn redact_secrets(text: &str) -> (String, u64) {
    redact(text, false)
}

/// As [`redact_secrets`], with as many lines as before, so that the numbers of the others stay.
#[must_use]
pub fn redact_keeping_lines(text: &str) -> String {
    redact(text, true).0
}

fn redact(text: &str, keep_lines: bool) -> (String, u64) {
    let mut text = text.to_owned();
    let mut count = 0;
    // What is left between two marks can be a secret in its own right; it is taken in the next round.
    for _ in 0..ROUNDS_MAX {
        let found = find(&text);
        if found.is_empty() {
            break;
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (range, kind) in &found {
            out.push_str(&text[from..range.start]);
            out.push_str(&mark(kind));
            if keep_lines {
                out.push_str(&"\n".repeat(text[range.clone()].matches('\n').count()));
            }
            from = range.end;
        }
        out.push_str(&text[from..]);
        text = out;
        count += found.len() as u64;
    }
    (text, count)
}

/// Puts what was redacted in `old` back where `new` repeats the mark: an edit was written by somebody who saw only
/// the mark. `None` when a mark could mean two secrets, or one that `old` does not hold.
#[must_use]
pub fn restore_secrets(new: &str, old: &str) -> Option<String> {
    if !new.contains(MARK) {
        return Some(new.to_owned());
    }
    let mut text = new.to_owned();
    let found = find(old);
    for (range, kind) in &found {
        let mark = mark(kind);
        let secret = &old[range.clone()];
        let alone = found.iter().all(|(other, theirs)| theirs != kind || old[other.clone()] == *secret);
        if alone && !old.contains(&mark) {
            text = text.replace(&mark, secret);
        }
    }
    let marks = |text: &str| text.matches(MARK).count();
    (marks(&text) <= marks(old)).then_some(text)
}

fn mark(kind: &str) -> String {
    format!("{MARK}{kind}]")
}

/// Where they are, in order, without overlap; the earliest and then the longest wins.
fn find(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let mut all: Vec<(Range<usize>, &'static str)> = Vec::new();
    for shape in COMPILED.iter().filter(|shape| shape.written.keywords.iter().any(|word| lower.contains(word.as_str())))
    {
        let captured = shape.regex.captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(0)));
        let meant = captured.filter(|found| shape.takes(found.as_str()));
        all.extend(meant.map(|found| (found.range(), shape.written.kind.as_str())));
    }
    all.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    all.retain(|(range, _)| {
        let free = range.start >= end && !range.is_empty();
        end = if free { range.end } else { end };
        free
    });
    all
}

impl Shape {
    fn takes(&self, value: &str) -> bool {
        let lower = value.to_ascii_lowercase();
        let typed = self.written.entropy > 0.0 && value.len() <= TYPED_BYTES_MAX;
        if typed && PLACEHOLDERS.iter().any(|word| lower.contains(word)) {
            return false;
        }
        let has = |class: fn(&u8) -> bool| value.bytes().any(|byte| class(&byte));
        let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        entropy(value) >= self.written.entropy && (mixed || !self.written.mixed)
    }
}

/// Shannon's, in bits per byte.
pub(crate) fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let part = |count: &u32| f64::from(*count) / total;
    counts.iter().filter(|count| **count > 0).map(part).map(|p| -p * p.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `{ab*3}` is `ababab`.
    fn expand(example: &str) -> String {
        let stands = Regex::new(r"\{([^{}*]+)\*(\d+)\}").unwrap();
        stands.replace_all(example, |found: &regex::Captures<'_>| found[1].repeat(found[2].parse().unwrap())).into()
    }

    #[test]
    fn every_shape_finds_its_examples_and_leaves_the_others() {
        let mut wrong = Vec::new();
        for shape in COMPILED.iter() {
            assert!(!shape.written.matches.is_empty(), "{} has no example", shape.written.id);
            for example in shape.written.matches.iter().map(|text| expand(text)) {
                let found = shape.regex.captures_iter(&example).filter_map(|c| c.get(1).or_else(|| c.get(0)));
                let found = found.filter(|found| shape.takes(found.as_str())).count();
                if found == 0 || redact_secrets(&example).1 == 0 {
                    wrong.push(format!("{} misses {example}", shape.written.id));
                }
            }
            for example in shape.written.not_match.iter().map(|text| expand(text)) {
                if redact_secrets(&example).1 > 0 {
                    wrong.push(format!("{} takes {example}: {}", shape.written.id, redact_secrets(&example).0));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
        assert!(COMPILED.len() >= 40, "{} shapes", COMPILED.len());
    }

    #[test]
    fn a_keyword_is_written_in_lower_case_and_stands_in_the_examples() {
        for shape in COMPILED.iter() {
            let known = |example: &String| {
                let lower = expand(example).to_ascii_lowercase();
                shape.written.keywords.iter().any(|word| lower.contains(word.as_str()))
            };
            assert!(shape.written.matches.iter().all(known), "{}", shape.written.id);
        }
    }

    #[test]
    fn source_code_about_secrets_is_not_redacted() {
        let code = "def login(user, password):\n    token = request.headers['Authorization']\n    \
            secret_key = os.environ['SECRET_KEY']\n    if password != self.password_hash:\n        raise Error('bad password')\n    \
            api_key = load(\"config/keys.toml\")\n    client.auth_token = make_token(secret=settings.SECRET, ttl=3600)\n    \
            assert hash_password('correct horse') == '5e884898da28047151d0e56f8dc62927'\n    private_key = rsa.generate(2048)\n";
        assert_eq!(redact_secrets(code), (code.to_owned(), 0));
    }

    #[test]
    fn an_edit_of_a_redacted_function_keeps_the_secret() {
        let token = format!("ghp_{}", "a1".repeat(18));
        let old = format!("TOKEN = '{token}'\n\ndef f():\n    return 1\n");
        let seen = redact_secrets(&old).0;
        let new = seen.replace("return 1", "return 2");
        assert_eq!(restore_secrets(&new, &old), Some(old.replace("return 1", "return 2")));
        let two = format!("{old}OTHER = 'ghp_{}'\n", "b2".repeat(18));
        assert_eq!(restore_secrets(&new, &two), None, "which of the two?");
        assert_eq!(restore_secrets("x = '[redacted: password]'", "x = 1\n"), None);
        assert_eq!(restore_secrets("x = 2", "x = 1"), Some("x = 2".into()));
    }

    proptest! {
        #[test]
        fn redacting_twice_is_redacting_once(parts in proptest::collection::vec(prop_oneof![
            Just("password = \"".to_owned()), Just("AKIA".to_owned()), Just("-----BEGIN PRIVATE KEY-----\n".to_owned()),
            Just("-----END PRIVATE KEY-----".to_owned()), Just("a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6".to_owned()),
            Just("://u:".to_owned()), Just("@h".to_owned()), Just("ghp_".to_owned()), Just("\"\n".to_owned()),
            Just("[redacted: ".to_owned()), Just("API_KEY=".to_owned()), "[ -~]{0,6}", ".{0,3}",
        ], 0..24)) {
            let once = redact_secrets(&parts.concat()).0;
            let (twice, more) = redact_secrets(&once);
            prop_assert_eq!(twice, once);
            prop_assert_eq!(more, 0);
        }
    }
}
