//! Which bytes of a file are prose, and which are code?
//!
//! Comments, doc strings and text files are prose. Known by the marks of the language's family, without a parser: a
//! chunk may begin anywhere, and a wrong guess costs a little rank and nothing else. Linear and total.

/// A string is looked at for this many bytes; a quote that does not close within them is none.
const QUOTED_BYTES_MAX: usize = 512;

/// How the comments of a family of languages look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    /// Begin a comment that ends with the line.
    line: &'static [&'static str],
    /// Begin and end a comment of any length.
    block: &'static [(&'static str, &'static str)],
    /// Bytes between which marks mean nothing, within one line.
    quotes: &'static [u8],
}

const C_LIKE: Marks = Marks { line: &["//"], block: &[("/*", "*/")], quotes: b"\"" };
const SCRIPT: Marks = Marks { line: &["//"], block: &[("/*", "*/")], quotes: b"\"'`" };
const PHP: Marks = Marks { line: &["//", "#"], block: &[("/*", "*/")], quotes: b"\"'" };
const PYTHON: Marks = Marks { line: &["#"], block: &[("\"\"\"", "\"\"\""), ("'''", "'''")], quotes: b"\"'" };
const HASH: Marks = Marks { line: &["#"], block: &[], quotes: b"\"'" };
const RUBY: Marks = Marks { line: &["#"], block: &[("\n=begin", "\n=end")], quotes: b"\"'" };
const DASH: Marks = Marks { line: &["--"], block: &[("/*", "*/"), ("{-", "-}"), ("--[[", "]]")], quotes: b"\"'" };
const LISP: Marks = Marks { line: &[";"], block: &[], quotes: b"\"" };
const TAGS: Marks = Marks { line: &[], block: &[("<!--", "-->")], quotes: b"" };

/// What a file is made of, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Text for people.
    Prose,
    /// A language whose comments are known.
    Code(MarksOf),
    /// Anything else: all of it counts as code.
    Unknown,
}

/// See [`Marks`]; opaque outside of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MarksOf(Marks);

impl Script {
    pub(crate) fn of(path: &str) -> Script {
        let name = path.rsplit('/').next().unwrap_or(path);
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        let marks = match ending.as_str() {
            "md" | "markdown" | "rst" | "txt" | "adoc" | "asciidoc" | "org" | "tex" => return Script::Prose,
            "rs" | "c" | "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" | "java" | "go" | "cs" | "kt" | "kts"
            | "scala" | "swift" | "proto" | "dart" | "zig" | "groovy" | "gradle" | "m" | "mm" | "cu" | "v" | "sv" => {
                C_LIKE
            }
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "css" | "scss" | "less" | "vue"
            | "svelte" => SCRIPT,
            "php" => PHP,
            "py" | "pyi" | "pyx" => PYTHON,
            "rb" | "rake" => RUBY,
            "sh" | "bash" | "zsh" | "yaml" | "yml" | "toml" | "pl" | "pm" | "r" | "jl" | "ex" | "exs" | "mk"
            | "cmake" | "tf" | "nix" | "ini" | "cfg" | "conf" => HASH,
            "sql" | "lua" | "hs" | "elm" | "adb" | "ads" => DASH,
            "lisp" | "el" | "clj" | "scm" => LISP,
            "html" | "htm" | "xml" | "svg" => TAGS,
            _ if matches!(name, "Makefile" | "Dockerfile" | "CMakeLists.txt") => HASH,
            _ => return Script::Unknown,
        };
        Script::Code(MarksOf(marks))
    }
}

/// Copies `text` into `code` and `prose`, each byte into one of them, words never joined.
pub(crate) fn divide(script: Script, text: &str, code: &mut String, prose: &mut String) {
    let marks = match script {
        Script::Prose => return prose.push_str(text),
        Script::Unknown => return code.push_str(text),
        Script::Code(MarksOf(marks)) => marks,
    };
    let mut starts = [false; 256];
    let first_bytes = marks.line.iter().chain(marks.block.iter().map(|(open, _)| open)).map(|mark| mark.as_bytes()[0]);
    first_bytes.chain(marks.quotes.iter().copied()).for_each(|byte| starts[usize::from(byte)] = true);
    let bytes = text.as_bytes();
    let (mut at, mut from) = (0, 0);
    while at < bytes.len() {
        if !starts[usize::from(bytes[at])] {
            at += 1;
            continue;
        }
        let rest = &text[at..];
        if let Some(length) = comment(marks, rest) {
            code.push_str(&text[from..at]);
            code.push('\n');
            prose.push_str(&rest[..length]);
            prose.push('\n');
            at += length;
            from = at;
        } else if marks.quotes.contains(&bytes[at]) {
            at += quoted(&bytes[at..]);
        } else {
            at += 1;
        }
    }
    code.push_str(&text[from..]);
}

/// The length of the comment that `rest` begins with.
fn comment(marks: Marks, rest: &str) -> Option<usize> {
    if let Some((open, close)) = marks.block.iter().find(|(open, _)| rest.starts_with(open)) {
        let inner = &rest[open.len()..];
        return Some(inner.find(close).map_or(rest.len(), |at| open.len() + at + close.len()));
    }
    marks.line.iter().any(|mark| rest.starts_with(mark)).then(|| rest.find('\n').unwrap_or(rest.len()))
}

/// The length of the string that `bytes` begin with, or 1 where its line ends first.
fn quoted(bytes: &[u8]) -> usize {
    let end = bytes.len().min(QUOTED_BYTES_MAX);
    let mut at = 1;
    while at < end && bytes[at] != b'\n' {
        match bytes[at] {
            byte if byte == bytes[0] => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected_code: &str, expected_prose: &str) {
        let (mut code, mut prose) = (String::new(), String::new());
        divide(Script::of(path), text, &mut code, &mut prose);
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((flat(&code).as_str(), flat(&prose).as_str()), (expected_code, expected_prose), "{path}: {text}");
    }

    #[test]
    fn comments_are_prose_and_marks_in_strings_are_none() {
        check("a.rs", "let a = 1; // one\nb /* two */ c", "let a = 1; b c", "// one /* two */");
        check("a.rs", "fn f<'a>(x: &'a str) {} // x", "fn f<'a>(x: &'a str) {}", "// x");
        check("a.js", "get('http://x') // y", "get('http://x')", "// y");
        check("a.py", "def f():\n  \"\"\"Doc.\"\"\"\n  x = '#' # y", "def f(): x = '#'", "\"\"\"Doc.\"\"\" # y");
        check("a.md", "Some `code`.", "", "Some `code`.");
        check("a.sql", "select 1 -- one", "select 1", "-- one");
        check("a.unheard", "x // y", "x // y", "");
        check("a.c", "/* never closed", "", "/* never closed");
    }

    proptest! {
        #[test]
        fn no_word_is_lost_joined_or_seen_twice(text in "[a-z \"'`#/*\\\\\n\\-é]{0,80}", at in 0usize..6) {
            let path = ["a.rs", "a.py", "a.js", "a.rb", "a.lua", "a.html"][at];
            let (mut code, mut prose) = (String::new(), String::new());
            divide(Script::of(path), &text, &mut code, &mut prose);
            let letters = |text: &str| {
                let mut letters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
                letters.sort_unstable();
                letters
            };
            prop_assert_eq!(letters(&text), letters(&(code + &prose)));
        }
    }
}
