//! Which names are not what they look like, and which files does something act on later?
//!
//! What HFS+, APFS and NTFS take for one name, and what an eye takes for one. The spellings of `.git` are those that git itself
//! refuses (core.protectHFS and core.protectNTFS, its path.c and utf8.c).

use std::fmt;
use std::path::Path;

use unicode_normalization_alignments::UnicodeNormalization;

/// Whether a file system takes this name for `.git`.
pub(crate) fn is_git(name: &str) -> bool {
    // A backslash separates names on NTFS, a colon begins a stream of the file before it.
    name.split('\\').any(|part| {
        let part: String = part.chars().filter(|sign| !is_invisible(*sign)).collect();
        let part = part.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']).to_lowercase();
        let short = part.strip_prefix("git~").is_some_and(|rest| rest.parse::<u32>().is_ok());
        part == ".git" || short
    })
}

/// What is odd about a new name; `None` when it reads the same everywhere.
pub(crate) fn oddity(name: &str) -> Option<&'static str> {
    let bytes = name.as_bytes();
    if name.chars().any(char::is_control) {
        Some("contains a control character")
    } else if name.chars().any(is_invisible) {
        Some("contains an invisible or direction-changing character")
    } else if name.contains('\\') {
        Some("contains a backslash, which separates directories elsewhere")
    } else if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        Some("begins or ends with a space or a dot that is lost elsewhere")
    } else if bytes.get(1) == Some(&b':') && bytes[0].is_ascii_alphabetic() {
        Some("begins like a drive")
    } else {
        None
    }
}

/// Names with the same key are one name on some file system, or to an eye.
pub(crate) fn twin_key(name: &str) -> String {
    let visible: String = name.chars().filter(|sign| !is_invisible(*sign)).collect();
    let folded = visible.nfkc().map(|(sign, _)| sign).collect::<String>().to_lowercase();
    // Lower case can be decomposed again.
    folded.nfkc().map(|(sign, _)| sign).collect()
}

/// Writes `text` so that nothing in it moves the cursor, hides or turns the direction.
pub(crate) fn show(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.chars().try_for_each(|sign| {
        if sign.is_control() || is_invisible(sign) {
            write!(out, "{}", sign.escape_unicode())
        } else {
            write!(out, "{sign}")
        }
    })
}

/// Format characters: zero width, joiners, directions, tags, variation selectors, the byte-order mark.
fn is_invisible(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Who acts on a file later, outside of any box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protected {
    /// git, when a person uses it.
    Git,
    /// A hook that is run at a commit or a check-out.
    Hook,
    /// The build servers.
    Ci,
    /// An editor that opens the directory.
    Editor,
    /// Another coding agent, which takes it for orders.
    Agent,
    /// A shell that enters the directory.
    Shell,
    /// Whoever builds or tests next.
    Build,
}

impl fmt::Display for Protected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Protected::Git => "git acts on it",
            Protected::Hook => "it is run at a commit or a check-out",
            Protected::Ci => "it decides what runs on the build servers",
            Protected::Editor => "an editor acts on it when the directory is opened",
            Protected::Agent => "a coding agent takes it for orders",
            Protected::Shell => "a shell acts on it when the directory is entered",
            Protected::Build => "it decides what the next build or test runs",
        })
    }
}

/// Directories whose whole content is protected, in lower case.
const DIRS: [(&str, Protected); 20] = [
    (".husky", Protected::Hook),
    (".githooks", Protected::Hook),
    (".github", Protected::Ci),
    (".gitlab", Protected::Ci),
    (".circleci", Protected::Ci),
    (".ci", Protected::Ci),
    (".woodpecker", Protected::Ci),
    (".buildkite", Protected::Ci),
    (".vscode", Protected::Editor),
    (".idea", Protected::Editor),
    (".devcontainer", Protected::Editor),
    (".vs", Protected::Editor),
    (".zed", Protected::Editor),
    (".cursor", Protected::Agent),
    (".claude", Protected::Agent),
    (".codex", Protected::Agent),
    (".agents", Protected::Agent),
    (".cloister", Protected::Agent),
    (".cargo", Protected::Build),
    (".mvn", Protected::Build),
];

/// Files, by their whole name in lower case.
const FILES: [(Protected, &[&str]); 7] = [
    (Protected::Git, &[".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig"]),
    (Protected::Hook, &[".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml"]),
    (
        Protected::Ci,
        &[
            ".gitlab-ci.yml",
            ".travis.yml",
            "jenkinsfile",
            "azure-pipelines.yml",
            ".drone.yml",
            ".woodpecker.yml",
            "appveyor.yml",
            "bitbucket-pipelines.yml",
        ],
    ),
    (Protected::Editor, &[".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".editorconfig"]),
    (Protected::Agent, &["agents.md", "claude.md", "gemini.md", ".mcp.json", ".cursorrules", ".windsurfrules"]),
    (
        Protected::Shell,
        &[
            ".envrc",
            ".env",
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".profile",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".inputrc",
            ".mise.toml",
            "mise.toml",
            ".tool-versions",
        ],
    ),
    (
        Protected::Build,
        &[
            "makefile",
            "gnumakefile",
            "justfile",
            "taskfile.yml",
            "build.rs",
            "rust-toolchain",
            "rust-toolchain.toml",
            "package.json",
            ".npmrc",
            ".yarnrc.yml",
            "setup.py",
            "conftest.py",
            "noxfile.py",
            "sitecustomize.py",
            "usercustomize.py",
            "cmakelists.txt",
            "build.gradle",
            "build.gradle.kts",
            "gradlew",
            "pom.xml",
            "rakefile",
            "gemfile",
            "dockerfile",
        ],
    ),
];

impl Protected {
    /// Why a file at this path is protected, whether or not it exists.
    pub fn of(path: &Path) -> Option<Protected> {
        let parts: Vec<String> = path.iter().map(|part| twin_key(&part.to_string_lossy())).collect();
        let name = parts.last()?;
        if parts.iter().any(|part| is_git(part)) {
            return Some(Protected::Git);
        }
        let in_dir = DIRS.iter().find(|(dir, _)| parts[..parts.len() - 1].iter().any(|part| part == dir));
        let named = FILES.iter().find(|(_, names)| names.contains(&name.as_str()));
        let ending = || (name.ends_with(".pth") || name.ends_with(".mk")).then_some(Protected::Build);
        in_dir.map(|(_, why)| *why).or(named.map(|(why, _)| *why)).or_else(ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_that_a_file_system_takes_for_git_is_seen() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{202e}t",
            "git~1",
            "GIT~2",
            ".git.",
            ".git ",
            ".git. .",
            ".git::$INDEX_ALLOCATION",
            ".git:stream",
            "a\\.git",
            ".git\\hooks",
        ] {
            assert!(is_git(name), "{name:?}");
        }
        for name in [".gitignore", "git", ".git-old", "git~", "git~x", ".github", "a.git", ".gita"] {
            assert!(!is_git(name), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_reads_differently_elsewhere_is_odd_and_ordinary_ones_are_not() {
        for name in [
            "a\nb",
            "a\u{1b}[2Jb",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\\b",
            "a.",
            "a ",
            " a",
            "C:",
            "c:x",
            "\u{7f}",
            "tag\u{e0041}",
        ] {
            assert!(oddity(name).is_some(), "{name:?}");
        }
        for name in ["a", ".a", "a b", "Ünï.rs", "日本.txt", "ab:c", "C", "a.b.c", "[x]", "$a", "x..y"] {
            assert_eq!(oddity(name), None, "{name:?}");
        }
    }

    #[test]
    fn twins_have_one_key_and_different_names_do_not() {
        for (one, other) in [
            ("Makefile", "MAKEFILE"),
            ("\u{e9}t\u{e9}", "e\u{301}te\u{301}"),
            ("ﬁle", "file"),
            ("a\u{200d}b", "ab"),
            ("K", "\u{212a}"),
        ] {
            assert_eq!(twin_key(one), twin_key(other), "{one:?} {other:?}");
        }
        assert_ne!(twin_key("a"), twin_key("ä"));
    }

    #[test]
    fn what_acts_later_is_protected_wherever_it_is_and_however_it_is_spelled() {
        for (path, expected) in [
            (".git/hooks/post-checkout", Protected::Git),
            ("sub/.gitattributes", Protected::Git),
            (".gitmodules", Protected::Git),
            (".husky/pre-commit", Protected::Hook),
            (".github/workflows/x.yml", Protected::Ci),
            (".VSCode/tasks.json", Protected::Editor),
            (".idea/workspace.xml", Protected::Editor),
            (".mcp.json", Protected::Agent),
            ("deep/AGENTS.md", Protected::Agent),
            (".envrc", Protected::Shell),
            ("Makefile", Protected::Build),
            ("src/rules.mk", Protected::Build),
        ] {
            assert_eq!(Protected::of(Path::new(path)), Some(expected), "{path}");
        }
        for path in ["src/main.rs", "docs/agents.html", "README.md", ".gitignore", "makefile.txt", "", ".github"] {
            assert_eq!(Protected::of(Path::new(path)), None, "{path}");
        }
    }
}
