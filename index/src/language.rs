//! Which grammar reads this file?

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

/// A parse that takes longer is given up; the file is then cut by lines.
const PARSE_TIME_MAX: Duration = Duration::from_secs(10);

/// A language with a built-in grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    JavaScript,
    TypeScript,
    Tsx,
    Go,
    Java,
    C,
    Cpp,
}

impl Language {
    /// By the ending of the name; for a file without one, by its `#!` line; for `.h`, by words that only C++ has.
    pub(crate) fn detect(path: &str, bytes: &[u8]) -> Option<Language> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some((_, ending)) = name.rsplit_once('.') else {
            return Language::of_shebang(bytes);
        };
        Some(match ending.to_ascii_lowercase().as_str() {
            "rs" => Language::Rust,
            "py" | "pyi" | "pyw" => Language::Python,
            "js" | "mjs" | "cjs" | "jsx" => Language::JavaScript,
            "ts" | "mts" | "cts" => Language::TypeScript,
            "tsx" => Language::Tsx,
            "go" => Language::Go,
            "java" => Language::Java,
            "c" => Language::C,
            "h" if looks_like_cpp(bytes) => Language::Cpp,
            "h" => Language::C,
            "cc" | "cpp" | "cxx" | "c++" | "hpp" | "hh" | "hxx" | "h++" | "ipp" | "inl" => Language::Cpp,
            _ => return None,
        })
    }

    fn of_shebang(bytes: &[u8]) -> Option<Language> {
        let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let line = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        if line.contains("python") {
            Some(Language::Python)
        } else if line.contains("node") {
            Some(Language::JavaScript)
        } else {
            None
        }
    }

    fn grammar(self) -> tree_sitter::Language {
        match self {
            Language::Rust => tree_sitter_rust::LANGUAGE.into(),
            Language::Python => tree_sitter_python::LANGUAGE.into(),
            Language::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Language::Go => tree_sitter_go::LANGUAGE.into(),
            Language::Java => tree_sitter_java::LANGUAGE.into(),
            Language::C => tree_sitter_c::LANGUAGE.into(),
            Language::Cpp => tree_sitter_cpp::LANGUAGE.into(),
        }
    }

    /// The syntax tree, or nothing when the parse took too long. A tree comes back for any bytes at all; what does
    /// not fit the grammar is an error node in it.
    pub(crate) fn parse(self, bytes: &[u8]) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.grammar()).ok()?;
        let start = Instant::now();
        let mut on_progress = |_: &tree_sitter::ParseState| {
            if start.elapsed() > PARSE_TIME_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut on_progress);
        parser.parse_with_options(&mut |from, _| bytes.get(from..).unwrap_or_default(), None, Some(options))
    }
}

fn looks_like_cpp(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::trim_start).any(|line| {
        ["class ", "namespace ", "template<", "template <", "using ", "public:", "private:", "protected:"]
            .iter()
            .any(|start| line.starts_with(start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, bytes: &str, expected: Option<Language>) {
        assert_eq!(Language::detect(path, bytes.as_bytes()), expected);
    }

    #[test]
    fn a_language_is_known_by_its_ending_or_its_first_line() {
        check("a/b.rs", "", Some(Language::Rust));
        check("a/b.TSX", "", Some(Language::Tsx));
        check("bin/tool", "#!/usr/bin/env python3\n", Some(Language::Python));
        check("bin/tool", "#!/bin/sh\n", None);
        check("x.h", "struct a { int b; };", Some(Language::C));
        check("x.h", "namespace a {\nclass B;\n}", Some(Language::Cpp));
        check("README.md", "", None);
        check("a.rs/README", "", None);
    }
}
