//! Does a name lead somebody astray: the host's file system, an eye, a program that acts later?

use std::fs;

use sandbox::{Change, ChangeKind, Node, Protected, Refusal, RelPath, apply};

use crate::harness::{Yard, everywhere, sh, snapshot};

fn created(path: &str) -> Change {
    Change {
        path: path.into(),
        kind: ChangeKind::Created,
        node: Node::File,
        before: None,
        after: Some(b"x".to_vec()),
        binary: false,
        before_mode: None,
        mode: Some(0o644),
    }
}

/// Tries to apply all of `changes`, with an innocent one before them, and gives the reason for the refusal.
#[track_caller]
fn refused(yard: &Yard, changes: &[Change]) -> Refusal {
    let before = snapshot(&yard.repo());
    let all: Vec<Change> = [created("innocent")].into_iter().chain(changes.iter().cloned()).collect();
    let answer = apply(&all, &yard.repo(), &yard.state().join("journals"));
    assert_eq!(snapshot(&yard.repo()), before, "something was applied");
    match answer {
        Err(sandbox::ApplyError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn accepted(yard: &Yard, changes: &[Change]) {
    apply(changes, &yard.repo(), &yard.state().join("journals")).expect("an ordinary change");
}

#[test]
fn no_spelling_of_git_reaches_the_working_tree() {
    let yard = Yard::new();
    for git in [
        ".git",
        ".GIT",
        ".gIt",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".git\u{2060}",
        "git~1",
        "GIT~1",
        ".git ",
        ".git.",
        ".git::$INDEX_ALLOCATION",
    ] {
        for path in [format!("{git}/hooks/pre-commit"), format!("src/{git}/config"), git.to_owned()] {
            assert_eq!(refused(&yard, &[created(&path)]), Refusal::Git, "{path:?}");
        }
    }
    assert_eq!(refused(&yard, &[created("src\\.git\\config")]), Refusal::Git);
}

#[test]
fn no_new_name_hides_turns_moves_or_reads_differently_elsewhere() {
    let yard = Yard::new();
    for name in [
        "a\nb",
        "a\rb",
        "a\u{1b}]52;c;ZXZpbA==\u{7}",
        "\u{1b}[2J",
        "a\u{202e}gpj.exe",
        "a\u{200b}b",
        "a\\b",
        "..\\x",
        "C:",
        "c:\\x",
        "con.",
        "x ",
        " x",
        "...",
    ] {
        assert!(matches!(refused(&yard, &[created(name)]), Refusal::Name(_)), "{name:?}");
        assert!(matches!(refused(&yard, &[created(&format!("src/{name}/x"))]), Refusal::Name(_)), "{name:?}");
    }
    for name in ["new dir/ü", "日本/語.txt", ".hidden/..x", "ab:c"] {
        accepted(&yard, &[created(name)]);
    }
}

#[test]
fn no_new_name_is_another_spelling_of_one_that_is_there_or_arrives_too() {
    let yard = Yard::new();
    fs::write(yard.repo().join("caf\u{e9}"), "x").expect("file");
    for (path, twin) in [
        ("readme.md", "README.md"),
        ("SRC/new.py", "src"),
        ("src/MAIN.py", "main.py"),
        ("cafe\u{301}", "caf\u{e9}"),
        ("src/util\u{ff0e}py", "util.py"),
    ] {
        assert_eq!(refused(&yard, &[created(path)]), Refusal::Twin(twin.into()), "{path:?}");
    }
    assert!(matches!(refused(&yard, &[created("new/One"), created("new/one")]), Refusal::Twin(_)));
    assert!(matches!(refused(&yard, &[created("New/a"), created("new/b")]), Refusal::Twin(_)));
    let gone =
        Change { kind: ChangeKind::Deleted, before: Some(b"read me\n".to_vec()), after: None, ..created("README.md") };
    accepted(&yard, &[gone, created("Readme.md")]);
}

#[test]
fn no_directory_becomes_a_git_repository_by_an_apply() {
    let yard = Yard::new();
    let all = ["lib/HEAD", "lib/config", "lib/objects/info/x", "lib/refs/heads/main"];
    let repository = |dir: &str| Refusal::Repository(dir.into());
    assert_eq!(refused(&yard, &all.map(created)), repository("lib"));
    assert_eq!(refused(&yard, &["HEAD", "objects/x", "refs/x"].map(created)), repository(""));
    assert_eq!(refused(&yard, &["lib/head", "lib/Objects/x", "lib/REFS/x"].map(created)), repository("lib"));
    accepted(&yard, &["half/HEAD", "half/objects/x"].map(created));
    assert_eq!(refused(&yard, &[created("half/refs/x")]), repository("half"));
    accepted(&yard, &["docs/refs/x", "docs/objects/y", "docs/HEADER"].map(created));
}

#[test]
fn whatever_acts_later_is_named_although_it_was_not_there_at_the_start() {
    everywhere(|yard, sandbox| {
        let script = "mkdir -p .git/hooks .vscode .idea .github/workflows sub .husky .cargo
            for f in .git/hooks/post-checkout .gitattributes .gitmodules .envrc .vscode/tasks.json .idea/workspace.xml .mcp.json sub/AGENTS.md \\
                .github/workflows/x.yml .gitlab-ci.yml Makefile .husky/pre-commit .cargo/config.toml sub/conftest.py; do echo x > $f; done; echo x > plain.py";
        assert!(sh(sandbox, script).ending.succeeded());
        let changes = sandbox.view().changes(|_| true).expect("changes");
        let unnamed: Vec<_> =
            changes.iter().filter(|change| change.protected().is_none()).map(|change| change.path.clone()).collect();
        assert_eq!((changes.len(), unnamed), (15, vec!["plain.py".into()]));
        let hook = changes.iter().find(|change| change.path.starts_with(".git")).expect("the hook").clone();
        assert_eq!((hook.protected(), refused(yard, &[hook])), (Some(Protected::Git), Refusal::Git));
    });
}

#[test]
fn a_path_shown_to_a_person_moves_no_cursor_and_hides_nothing() {
    let shown = |path: &str| RelPath::parse(path).expect("path").to_string();
    assert_eq!(shown("a\u{1b}]0;title\u{7}b"), "a\\u{1b}]0;title\\u{7}b");
    assert_eq!(shown("a\u{202e}gpj.exe\n"), "a\\u{202e}gpj.exe\\u{a}");
    assert_eq!(shown("ünï/日本"), "ünï/日本");
}
