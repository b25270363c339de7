//! Which grammar reads this file?

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

/// A parse that takes longer is given up; the file is then cut by lines.
const PARSE_TIME_MAX: Duration = Duration::from_secs(10);
/// A `#!` line is read this far.
const SHEBANG_BYTES_MAX: usize = 200;
/// Languages with a built-in grammar.
pub(crate) const LANGUAGE_COUNT: usize = Language::Lua as usize + 1;

/// A language that is read: with a built-in grammar, or (SQL) by a reader of our own.
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
    CSharp,
    Ruby,
    Php,
    Kotlin,
    Scala,
    Swift,
    Bash,
    Lua,
    /// Its grammar crate pins a `cc` that is too old, so a small reader of our own finds the definitions.
    Sql,
}

impl Language {
    /// By the ending of the name or the name; for a file without one, by its `#!` line; for `.h`, by words that only
    /// C++ has.
    pub(crate) fn detect(path: &str, bytes: &[u8]) -> Option<Language> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            "Rakefile" | "Gemfile" | "Vagrantfile" | "Podfile" | "Fastfile" => return Some(Language::Ruby),
            ".bashrc" | ".bash_profile" | ".bash_aliases" | ".profile" | "PKGBUILD" => return Some(Language::Bash),
            _ => {}
        }
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
            "cc" | "cpp" | "cxx" | "c++" | "hpp" | "hh" | "hxx" | "h++" | "ipp" | "inl" | "cu" | "cuh" => Language::Cpp,
            "cs" => Language::CSharp,
            "rb" | "rake" | "gemspec" | "ru" => Language::Ruby,
            "php" | "phtml" | "php5" | "php7" | "php8" => Language::Php,
            "kt" | "kts" => Language::Kotlin,
            "scala" | "sc" | "sbt" => Language::Scala,
            "swift" => Language::Swift,
            "sh" | "bash" | "bats" | "ebuild" => Language::Bash,
            "lua" => Language::Lua,
            "sql" | "ddl" | "pgsql" => Language::Sql,
            _ => return None,
        })
    }

    fn of_shebang(bytes: &[u8]) -> Option<Language> {
        let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let line = String::from_utf8_lossy(&line[..line.len().min(SHEBANG_BYTES_MAX)]).into_owned();
        let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        let program = words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
        Some(match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "python" | "pypy" => Language::Python,
            "node" | "nodejs" | "bun" => Language::JavaScript,
            "deno" | "ts-node" | "tsx" => Language::TypeScript,
            "sh" | "bash" | "dash" | "ksh" => Language::Bash,
            "ruby" => Language::Ruby,
            "php" => Language::Php,
            "lua" | "luajit" => Language::Lua,
            _ => return None,
        })
    }

    /// The grammar, where one is built in.
    pub(crate) fn grammar(self) -> Option<tree_sitter::Language> {
        Some(match self {
            Language::Rust => tree_sitter_rust::LANGUAGE.into(),
            Language::Python => tree_sitter_python::LANGUAGE.into(),
            Language::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Language::Go => tree_sitter_go::LANGUAGE.into(),
            Language::Java => tree_sitter_java::LANGUAGE.into(),
            Language::C => tree_sitter_c::LANGUAGE.into(),
            Language::Cpp => tree_sitter_cpp::LANGUAGE.into(),
            Language::CSharp => tree_sitter_c_sharp::LANGUAGE.into(),
            Language::Ruby => tree_sitter_ruby::LANGUAGE.into(),
            Language::Php => tree_sitter_php::LANGUAGE_PHP.into(),
            Language::Kotlin => tree_sitter_kotlin_ng::LANGUAGE.into(),
            Language::Scala => tree_sitter_scala::LANGUAGE.into(),
            Language::Swift => tree_sitter_swift::LANGUAGE.into(),
            Language::Bash => tree_sitter_bash::LANGUAGE.into(),
            Language::Lua => tree_sitter_lua::LANGUAGE.into(),
            Language::Sql => return None,
        })
    }

    /// The syntax tree, or nothing where there is no grammar or the parse took too long. A tree comes back for any
    /// bytes at all; what does not fit the grammar is an error node in it.
    pub(crate) fn parse(self, bytes: &[u8]) -> Option<Tree> {
        // Making a parser for every file costs more than parsing a small one: each thread keeps one a language.
        thread_local! {
            static PARSERS: RefCell<[Option<Parser>; LANGUAGE_COUNT]> = const { RefCell::new([const { None }; LANGUAGE_COUNT]) };
        }
        PARSERS.with_borrow_mut(|parsers| {
            let place = parsers.get_mut(self as usize)?;
            if place.is_none() {
                let mut parser = Parser::new();
                parser.set_language(&self.grammar()?).ok()?;
                *place = Some(parser);
            }
            parse_with(place.as_mut()?, bytes)
        })
    }
}

fn parse_with(parser: &mut Parser, bytes: &[u8]) -> Option<Tree> {
    let start = Instant::now();
    let mut on_progress = |_: &tree_sitter::ParseState| {
        if start.elapsed() > PARSE_TIME_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut on_progress);
    let tree = parser.parse_with_options(&mut |from, _| bytes.get(from..).unwrap_or_default(), None, Some(options));
    if tree.is_none() {
        // Otherwise the next parse would go on with this one.
        parser.reset();
    }
    tree
}

fn looks_like_cpp(bytes: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] =
        [b"class ", b"namespace ", b"template<", b"template <", b"using ", b"public:", b"private:", b"protected:"];
    let mut lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_start);
    lines.any(|line| STARTS.iter().any(|start| line.starts_with(start)))
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
        check("bin/tool", "#!/usr/bin/env -S FOO=1 ruby -w\n", Some(Language::Ruby));
        check("bin/tool", "#!/bin/sh\n", Some(Language::Bash));
        check("bin/tool", "#!/bin/awk\n", None);
        check("Rakefile", "", Some(Language::Ruby));
        check("x.h", "struct a { int b; };", Some(Language::C));
        check("x.h", "namespace a {\nclass B;\n}", Some(Language::Cpp));
        check("README.md", "", None);
        check("a.rs/README", "", None);
    }
}
