//! Which file in the workspace does this path mean, and can a pattern of the shell mean a protected one?
//!
//! Where symbolic links are resolved: not here. The gate is a pure function of names. A tool's path is resolved by the
//! workspace, which opens it beneath its top, component by component, and refuses a link that leads out of it or to
//! another file than the name that was judged. A command's path is resolved by the kernel in the box, where a link
//! can lead to no file that is not mounted there: what may not be read is left out when the box is filled, and
//! what may not be written is refused when the changes are read back, both by the real path. A rule about paths
//! therefore holds for real paths in the end, and here already for every path that is written out.

use std::borrow::Cow;

use crate::text;

/// Linux takes paths up to this long.
const PATH_BYTES_MAX: usize = 4096;

/// Where the box shows the repository.
const WORKSPACE: &str = "/workspace";

/// Why a path means no file in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Absolute, or through a parent directory, or from a home directory.
    #[error("it leads out of the workspace")]
    Outside,
    /// NUL, newline, escape and the like.
    #[error("it contains control characters")]
    Control,
    /// Two names that look alike must not mean two files.
    #[error("it contains invisible characters")]
    Invisible,
    /// On another system it would be a separator.
    #[error("it contains a backslash")]
    Backslash,
    /// Longer than the system takes.
    #[error("it is longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
}

/// The path relative to the workspace, with single slashes and without `.`; the workspace itself is `.`.
pub fn normalise(path: &str) -> Result<String, PathError> {
    if path.len() > PATH_BYTES_MAX {
        return Err(PathError::TooLong);
    }
    if path.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    if path.chars().any(text::is_invisible) {
        return Err(PathError::Invisible);
    }
    if path.contains('\\') {
        return Err(PathError::Backslash);
    }
    let inside = match path.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ if path.starts_with(['/', '~']) => return Err(PathError::Outside),
        _ => path,
    };
    let mut parts = Vec::new();
    for part in inside.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(PathError::Outside),
            part => parts.push(part),
        }
    }
    Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

/// Where a path of a command leads when it is used in `dir`: relative to the workspace, or absolute in the box.
/// `..` is taken literally, as it is without links.
pub(super) fn located(dir: &str, path: &str) -> Result<String, PathError> {
    if path.starts_with('~') {
        return Err(PathError::Outside);
    }
    // Most paths are in their normal form already.
    let is_normal = |part: &str| !matches!(part, "" | "." | "..");
    if dir == "." && path.len() < PATH_BYTES_MAX && path.bytes().all(is_plain) && path.split('/').all(is_normal) {
        return Ok(path.to_owned());
    }
    let mut parts: Vec<&str> = match (path.starts_with('/'), dir.strip_prefix('/')) {
        (true, _) => vec![],
        (false, Some(outside)) => outside.split('/').filter(|part| !part.is_empty()).collect(),
        (false, None) => std::iter::once(&WORKSPACE[1..]).chain(dir.split('/').filter(|part| *part != ".")).collect(),
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    match parts.split_first() {
        Some((first, inside)) if *first == &WORKSPACE[1..] => normalise(&inside.join("/")),
        _ => normalise(&parts.join("/")).map(|path| if path == "." { "/".into() } else { format!("/{path}") }),
    }
}

/// What hides nothing and leads nowhere.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'\\'
}

/// The path as a sloppy file system would see it: without dots and spaces at the ends of its parts.
pub(super) fn twin(path: &str) -> Cow<'_, str> {
    if !path.split('/').any(|part| part.ends_with(['.', ' '])) {
        return Cow::Borrowed(path);
    }
    let part = |p: &str| match p.trim_end_matches(['.', ' ']) {
        "" => p.to_owned(),
        trimmed => trimmed.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/").into()
}

/// The path and the directories that it lies in, from the outermost.
pub(super) fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// Whether some path can match both: a pattern of the shell, and a rule's glob or a directory it protects. Errs
/// towards yes.
pub(super) fn can_meet(shell: &str, rule: &str) -> bool {
    let shell: Vec<_> = shell.to_lowercase().split('/').map(str::to_owned).collect();
    let rule: Vec<_> = rule.to_lowercase().split('/').map(str::to_owned).collect();
    // `reach[r]`: the first `r` parts of the rule can match what was read of the shell's pattern so far.
    let mut reach = vec![false; rule.len() + 1];
    reach[0] = true;
    skip_stars(&rule, &mut reach);
    for part in &shell {
        if reach[rule.len()] {
            return true;
        }
        let mut next = vec![false; rule.len() + 1];
        for (at, open) in reach[..rule.len()].iter().enumerate() {
            if !open {
                continue;
            }
            if rule[at] == "**" {
                next[at] = true;
            } else if part_can_meet(part, &rule[at]) {
                next[at + 1] = true;
            }
        }
        skip_stars(&rule, &mut next);
        reach = next;
    }
    reach[rule.len()]
}

/// `**` matches no part at all too.
fn skip_stars(rule: &[String], reach: &mut [bool]) {
    for at in 0..rule.len() {
        if rule[at] == "**" && reach[at] {
            reach[at + 1] = true;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Piece {
    Char(char),
    Any,
    Star,
}

/// Classes in brackets count as any character, braces as anything.
fn pieces(pattern: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        out.push(match c {
            '*' | '{' | '}' => Piece::Star,
            '?' => Piece::Any,
            '[' => match rest.char_indices().skip(1).find(|(_, c)| *c == ']') {
                Some((end, _)) => {
                    rest = &rest[end + 1..];
                    Piece::Any
                }
                None => Piece::Char('['),
            },
            c => Piece::Char(c),
        });
    }
    if pattern.contains('{') { vec![Piece::Star] } else { out }
}

/// How many bytes at the beginning and at the end of a part of a pattern are only themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    first: usize,
    last: usize,
}

impl Ends {
    pub(super) fn of(part: &str) -> Ends {
        if part.contains(['{', '}']) {
            return Ends { first: 0, last: 0 };
        }
        let acts = |c: char| matches!(c, '*' | '?' | '[' | ']');
        let first = part.find(acts).unwrap_or(part.len());
        Ends { first, last: part.rfind(acts).map_or(part.len(), |at| part.len() - at - 1) }
    }

    /// The byte with which everything begins that the part matches.
    pub(super) fn first_byte(self, part: &str) -> Option<u8> {
        part.bytes().next().filter(|_| self.first > 0)
    }

    /// Whether the ends of two parts allow that they meet.
    pub(super) fn fit(self, part: &str, other_ends: &Ends, other: &str) -> bool {
        let (first, last) = (self.first.min(other_ends.first), self.last.min(other_ends.last));
        let (a, b) = (part.as_bytes(), other.as_bytes());
        // The first and the last byte tell most apart.
        (first == 0 || a[0] == b[0])
            && (last == 0 || a[a.len() - 1] == b[b.len() - 1])
            && a[..first] == b[..first]
            && a[a.len() - last..] == b[b.len() - last..]
    }
}

/// The same about one part of each, in lower case.
pub(super) fn part_can_meet(shell: &str, rule: &str) -> bool {
    let (a, b) = (pieces(shell), pieces(rule));
    // The shell's wildcards do not match a leading dot.
    if rule.starts_with('.') && shell.starts_with(['*', '?']) {
        return false;
    }
    // `row[j]`: what is left of `a` can match what is left of `b` from `j` on.
    let mut row: Vec<bool> = vec![false; b.len() + 1];
    for i in (0..=a.len()).rev() {
        let below = row.clone();
        for j in (0..=b.len()).rev() {
            row[j] = match (a.get(i), b.get(j)) {
                (None, None) => true,
                (Some(Piece::Star), None) => below[j],
                (None, Some(Piece::Star)) => row[j + 1],
                (None, Some(_)) | (Some(_), None) => false,
                (Some(Piece::Star), Some(_)) => below[j] || row[j + 1],
                (Some(_), Some(Piece::Star)) => row[j + 1] || below[j],
                (Some(Piece::Char(x)), Some(Piece::Char(y))) => x == y && below[j + 1],
                (Some(_), Some(_)) => below[j + 1],
            };
        }
    }
    row[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Result<&str, PathError>) {
        assert_eq!(normalise(path), expected.map(str::to_owned), "{path:?}");
    }

    #[test]
    fn a_path_is_brought_into_one_form() {
        check("src/a.py", Ok("src/a.py"));
        check("./src//./a.py", Ok("src/a.py"));
        check("/workspace/src/a.py", Ok("src/a.py"));
        check("/workspace", Ok("."));
        check("", Ok("."));
        check("a/", Ok("a"));
        check("...", Ok("..."));
    }

    #[test]
    fn a_path_that_leaves_the_workspace_or_hides_something_is_refused() {
        check("../x", Err(PathError::Outside));
        check("a/../b", Err(PathError::Outside));
        check("/etc/passwd", Err(PathError::Outside));
        check("/workspaces/x", Err(PathError::Outside));
        check("/workspace/../etc", Err(PathError::Outside));
        check("~/x", Err(PathError::Outside));
        check("a\0b", Err(PathError::Control));
        check("a\nb", Err(PathError::Control));
        check(".g\u{200C}it/config", Err(PathError::Invisible));
        check("a\\b", Err(PathError::Backslash));
        check(&"a/".repeat(3000), Err(PathError::TooLong));
    }

    #[test]
    fn a_pattern_of_the_shell_meets_a_glob_when_one_path_can_match_both() {
        let meets = [
            (".e*", "**/.env"),
            ("[.]env", "**/.env"),
            ("a/*/key.p?m", "**/*.pem"),
            (".gi?/config", "**/.git/**"),
            (".git*", "**/.git/**"),
            ("id_*", "**/id_rsa"),
            ("*", "**/*.pem"),
            (".E?V", "**/.env"),
            (".env/*", "**/.env"),
        ];
        for (shell, rule) in meets {
            assert!(can_meet(shell, rule), "{shell} {rule}");
        }
        let apart = [
            ("*.py", "**/*.pem"),
            ("*", "**/.env"),
            ("src/*.rs", "**/.git/**"),
            ("test_*", "**/id_rsa"),
            ("*/x", ".cloister/**"),
        ];
        for (shell, rule) in apart {
            assert!(!can_meet(shell, rule), "{shell} {rule}");
        }
    }
}
