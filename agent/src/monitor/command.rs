//! Which simple commands stand in a command line, roughly?
//!
//! The gate reads a command to judge it and denies what it doubts. The monitor only compares one action with others,
//! so it reads leniently and never refuses: what it misreads it misses.

use super::places;

/// Longer command lines are not read on.
const COMMAND_BYTES_MAX: usize = 16 << 10;
const PARTS_MAX: usize = 64;
const DEPTH_MAX: usize = 4;
/// Programs that run the program named by their arguments.
const WRAPPERS: [&str; 12] =
    ["sudo", "doas", "env", "nice", "nohup", "timeout", "time", "setsid", "stdbuf", "xargs", "command", "exec"];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "eval"];
/// Programs that take code as an argument, behind these options.
const INTERPRETERS: [&str; 9] = ["python", "python3", "perl", "ruby", "node", "nodejs", "php", "lua", "deno"];

/// One command without its shell dressing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// Its words, unquoted; wrappers and assignments before the program are left out.
    pub words: Vec<String>,
    /// Files that it writes by redirection.
    pub writes: Vec<String>,
}

impl Simple {
    /// The last part of the program's path.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word))
    }

    /// What follows the program.
    pub fn args(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }

    /// The words with single spaces between them.
    pub fn text(&self) -> String {
        self.words.join(" ")
    }

    /// Code on the command line: `python -c CODE`.
    pub fn code(&self) -> Option<&str> {
        let takes = INTERPRETERS.contains(&self.program());
        let at = self.args().iter().position(|arg| matches!(arg.as_str(), "-c" | "-e" | "-E" | "-r" | "--eval"))?;
        self.args().get(at + 1).filter(|_| takes).map(String::as_str)
    }

    /// The names that a package installer was asked for, without versions.
    pub fn packages(&self) -> Vec<String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let rest: &[&str] = match words.as_slice() {
            [
                "pip" | "pip3" | "pipx" | "npm" | "pnpm" | "gem" | "cargo" | "go" | "apt" | "apt-get" | "yum" | "dnf"
                | "apk" | "brew" | "conda" | "poetry" | "yarn",
                "install" | "add" | "i" | "get",
                rest @ ..,
            ] => rest,
            ["uv", "pip", "install", rest @ ..] | ["python" | "python3", "-m", "pip", "install", rest @ ..] => rest,
            ["uv", "add", rest @ ..] | ["npx" | "uvx", rest @ ..] => rest,
            _ => return Vec::new(),
        };
        rest.iter().filter(|word| !word.starts_with(['-', '.', '/'])).filter_map(|word| package(word)).collect()
    }

    /// Paths among its words and in its redirections, in one spelling.
    pub fn paths(&self) -> Vec<String> {
        let mut found: Vec<String> = self.writes.iter().map(|path| places::normal(path)).collect();
        for word in self.args() {
            found.extend(places::paths_in(word));
        }
        found.extend(self.words.first().filter(|word| word.contains('/')).map(|word| places::normal(word)));
        found
    }
}

/// `name` of `name==1.2`, `name[extra]>=3`, `@scope/name@4`; `None` for what is no name.
pub(super) fn package(word: &str) -> Option<String> {
    let (scope, rest) = if word.starts_with('@') { word.split_at(1) } else { ("", word) };
    let end = rest.find(|c: char| !(c.is_alphanumeric() || "-_./".contains(c))).unwrap_or(rest.len());
    let name = &rest[..end];
    let named = name.len() >= 3 && !name.ends_with(".txt") && !name.ends_with(".toml");
    named.then(|| format!("{scope}{name}").to_lowercase())
}

/// Every simple command, those in scripts given to another shell included.
pub(super) fn split(command: &str) -> Vec<Simple> {
    let mut out = Vec::new();
    let mut waiting = vec![(command.to_owned(), 0)];
    while let Some((script, depth)) = waiting.pop() {
        for simple in one_line(&script) {
            if depth < DEPTH_MAX && SHELLS.contains(&simple.program()) {
                waiting
                    .extend(simple.args().iter().filter(|arg| arg.contains(' ')).map(|arg| (arg.clone(), depth + 1)));
            }
            out.push(simple);
            if out.len() >= PARTS_MAX {
                return out;
            }
        }
    }
    out
}

fn one_line(script: &str) -> Vec<Simple> {
    let mut reader = Reader::default();
    let mut chars = script.char_indices().take_while(|(at, _)| *at < COMMAND_BYTES_MAX).map(|(_, c)| c).peekable();
    while let Some(c) = chars.next() {
        match (reader.quote, c) {
            (Some(quote), c) if c == quote => reader.quote = None,
            (Some('\''), c) => reader.push(c),
            (_, '\\') => chars.next().into_iter().for_each(|next| reader.push(next)),
            (Some(_), c) => reader.push(c),
            (None, '\'' | '"') => {
                reader.quote = Some(c);
                reader.word.get_or_insert_default();
            }
            (None, ' ' | '\t') => reader.end_word(),
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | '`') => reader.end_command(),
            (None, '>') => {
                reader.end_word();
                while chars.next_if(|c| matches!(c, '>' | '|' | '&')).is_some() {}
                reader.redirect = true;
            }
            (None, '<') => reader.end_word(),
            (None, c) => reader.push(c),
        }
    }
    reader.end_command();
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<Simple>,
    now: Simple,
    word: Option<String>,
    quote: Option<char>,
    redirect: bool,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if std::mem::take(&mut self.redirect) {
            // `2>&1` names no file.
            if !word.chars().all(|c| c.is_ascii_digit()) {
                self.now.writes.push(word);
            }
        } else {
            self.now.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirect = false;
        let mut simple = std::mem::take(&mut self.now);
        let mut wrapped = false;
        let dressing = simple.words.iter().take_while(|word| {
            let wraps = WRAPPERS.contains(&word.as_str());
            wrapped |= wraps;
            let assigns =
                word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
            wraps
                || assigns
                || wrapped && (word.starts_with('-') || word.chars().all(|c| c.is_ascii_digit() || c == 's'))
        });
        let dressing = dressing.count();
        // `env` alone shows the environment: it is the program.
        if dressing < simple.words.len() {
            simple.words.drain(..dressing);
        }
        if !simple.words.is_empty() || !simple.writes.is_empty() {
            self.found.push(simple);
        }
    }
}

/// Runs the project's own tests, build or linters, or only looks: what an honest session does anyway, whoever
/// names it. Paths are judged elsewhere.
pub(super) fn is_ordinary(simple: &Simple) -> bool {
    if !simple.writes.is_empty() || simple.paths().iter().any(|path| places::sensitivity(path).is_some()) {
        return false;
    }
    let words: Vec<&str> = simple.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [
            "pytest" | "tox" | "nox" | "ruff" | "black" | "flake8" | "mypy" | "pylint" | "eslint" | "tsc" | "jest"
            | "vitest" | "mocha" | "gradle" | "./gradlew" | "./mvnw" | "mvn" | "rustfmt" | "gofmt" | "ls" | "cat"
            | "head" | "tail" | "wc" | "grep" | "rg" | "find" | "pwd" | "cd" | "diff" | "sort" | "uniq" | "true",
            ..,
        ] => true,
        ["python" | "python3", "-m", "pytest" | "unittest" | "mypy" | "ruff" | "black" | "flake8", ..] => true,
        ["cargo", "test" | "build" | "check" | "clippy" | "fmt" | "nextest", ..] => true,
        ["go", "test" | "vet" | "build" | "fmt", ..] => true,
        ["npm" | "yarn" | "pnpm", "test" | "run", ..] | ["npm", "t", ..] => true,
        ["make", rest @ ..] => rest.iter().all(|word| !word.contains('=')),
        ["git", "status" | "diff" | "log" | "show", ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: &[&str]) {
        let found: Vec<String> = split(command).iter().map(Simple::text).collect();
        assert_eq!(found, expected, "{command}");
    }

    #[test]
    fn simple_commands_are_found() {
        check("a b && c | d; e", &["a b", "c", "d", "e"]);
        check("env FOO=1 sudo -n cat '/root/x y'", &["cat /root/x y"]);
        check("sh -c 'cat .env | base64'", &["sh -c cat .env | base64", "cat .env", "base64"]);
        check("timeout 5 python -c \"print('a b')\"", &["python -c print('a b')"]);
        check("env | sort > /tmp/x", &["env", "sort"]);
        assert_eq!(split("echo a 2>&1 >> b.txt")[0].writes, ["b.txt"]);
        assert_eq!(split("pip install --upgrade Foo-Bar==1.2 -r requirements.txt")[0].packages(), ["foo-bar"]);
        assert_eq!(split("python3 -m pip install x_y")[0].packages(), ["x_y"]);
        assert_eq!(split("python -c 'import os'")[0].code(), Some("import os"));
    }
}
