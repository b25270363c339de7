//! Which tests stand in a file, and which of their lines can fail?
//!
//! Read by lines, for Python, JavaScript and TypeScript, Go, Rust and Java: good enough to compare two states of one file.

use crate::test_files::is_script;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Script,
    Go,
    Rust,
    Java,
}

impl Language {
    pub fn of(path: &str) -> Option<Self> {
        Some(match path.rsplit_once('.')?.1 {
            "py" => Self::Python,
            _ if is_script(path) => Self::Script,
            "go" => Self::Go,
            "rs" => Self::Rust,
            "java" | "kt" => Self::Java,
            _ => return None,
        })
    }

    /// The name of the test that begins in this line; `marked` says that the line above it marks one.
    fn test_name(self, line: &str, marked: bool) -> Option<String> {
        let word = |rest: &str| {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            (!name.is_empty()).then_some(name)
        };
        match self {
            Self::Python => {
                let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
                word(rest).filter(|name| name.starts_with("test"))
            }
            Self::Go => word(line.strip_prefix("func ")?)
                .filter(|name| ["Test", "Fuzz", "Benchmark"].iter().any(|s| name.starts_with(s))),
            Self::Rust => {
                let at = line.find("fn ").filter(|_| marked)?;
                word(&line[at + 3..])
            }
            Self::Java => {
                let end = line.find('(').filter(|_| marked && !line.starts_with('@'))?;
                word(line[..end].rsplit(' ').next()?)
            }
            Self::Script => {
                let call = ["it", "test", "xit", "xtest", "fit"].iter().find_map(|name| line.strip_prefix(name))?;
                let call = [".skip", ".only", ".todo", ".failing", ".concurrent"]
                    .iter()
                    .find_map(|end| call.strip_prefix(end))
                    .unwrap_or(call);
                let text = call.strip_prefix('(')?.trim_start();
                let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
                Some(text[1..].split(quote).next().unwrap_or_default().to_owned()).filter(|name| !name.is_empty())
            }
        }
    }
}

/// Every test with the lines of its body.
pub(super) fn tests(language: Language, text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut name: Option<(String, usize)> = None;
    let mut marked = false;
    for line in text.lines() {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        if trimmed.is_empty() || trimmed.starts_with("//") || trimmed.starts_with('#') && !trimmed.starts_with("#[") {
            continue;
        }
        if let Some(begun) = language.test_name(trimmed, marked) {
            // Two classes may hold a test of the same name: the second is another.
            let mut unique = begun;
            while found.contains_key(&unique) {
                unique.push('\'');
            }
            found.insert(unique.clone(), Vec::new());
            name = Some((unique, indent));
            marked = false;
            // `it('x', () => expect(f()).toBe(1))` and `fn x() { assert!(f()) }` hold their body in the same line.
            if let Some((name, _)) = name.as_ref().filter(|_| is_assert(trimmed)) {
                found.entry(name.clone()).or_default().push(trimmed);
            }
            continue;
        }
        marked = [
            "#[test",
            "#[tokio::test",
            "#[rstest",
            "#[ignore",
            "#[should_panic",
            "@Test",
            "@ParameterizedTest",
            "@Disabled",
            "@Ignore",
        ]
        .iter()
        .any(|mark| trimmed.starts_with(mark))
            || marked && (trimmed.starts_with("#[") || trimmed.starts_with('@'));
        let inside = name.as_ref().filter(|(_, start)| indent > *start);
        if let Some((name, _)) = inside {
            found.entry(name.clone()).or_default().push(trimmed);
        } else if !trimmed.starts_with(['}', ')', ']']) {
            name = None;
        }
    }
    found
}

/// Functions of the file, by name, that assert themselves: to call one is to assert.
pub(super) fn helpers(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut name: Option<(String, usize)> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (trimmed, indent) = (line.trim(), line.len() - line.trim_start().len());
        let begins = ["def ", "async def ", "function ", "fn ", "pub fn ", "func ", "const "]
            .iter()
            .find_map(|start| trimmed.strip_prefix(start));
        if let Some(rest) = begins {
            let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let is_test = word.starts_with("test") || word.starts_with("Test");
            name = Some((word, indent)).filter(|(word, _)| !word.is_empty() && !is_test);
        }
        if let Some((word, start)) = &name
            && indent > *start
            && is_assert(trimmed)
        {
            found.insert(word.clone());
        }
    }
    found
}

/// A line that can fail a test.
pub(super) fn is_assert(line: &str) -> bool {
    const SIGNS: &str = "assert |assert(|assert_|assert!|assertEqual|assertThat|assertTrue|.assert|expect(|t.Error|t.Fatal|\
        require.|pytest.raises|should.|.should(|panic!";
    SIGNS.split('|').any(|sign| line.contains(sign))
        || line.starts_with("assert")
        || line.contains("self.fail(")
        || line.contains("raise AssertionError")
}

pub(super) fn asserts<'a>(body: &[&'a str], helpers: &BTreeSet<String>) -> Vec<&'a str> {
    let calls = |line: &str| {
        line.match_indices('(').any(|(at, _)| {
            let name = line[..at].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            helpers.contains(name)
        })
    };
    body.iter().copied().filter(|line| is_assert(line) || calls(line)).collect()
}
