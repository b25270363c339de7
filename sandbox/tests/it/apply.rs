//! Does an apply do all or nothing, and never what it must not?

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use sandbox::{ApplyError, Change, ChangeKind, Node, Refusal, apply};

use crate::harness::{Yard, snapshot};

fn change(path: &str, before: Option<&str>, after: Option<&str>) -> Change {
    let kind = match (before, after) {
        (None, _) => ChangeKind::Created,
        (_, None) => ChangeKind::Deleted,
        _ => ChangeKind::Changed,
    };
    Change {
        path: path.into(),
        kind,
        node: Node::File,
        before: before.map(Into::into),
        after: after.map(Into::into),
        binary: false,
        before_mode: before.map(|_| 0o644),
        mode: after.map(|_| 0o644),
    }
}

fn journals(yard: &Yard) -> PathBuf {
    yard.state().join("journals")
}

#[track_caller]
fn refused(yard: &Yard, change: Change) -> Refusal {
    let before = snapshot(&yard.repo());
    let fine = self::change("fine", None, Some("would be fine"));
    let answer = apply(&[fine, change], &yard.repo(), &journals(yard));
    assert_eq!(snapshot(&yard.repo()), before, "something was applied");
    match answer {
        Err(ApplyError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_are_created_replaced_removed_and_change_their_mode() {
    let yard = Yard::new();
    let mut executable = change("src/util.py", Some("x = 1\n"), Some("x = 1\n"));
    executable.kind = ChangeKind::ModeChanged;
    executable.mode = Some(0o755);
    let changes = [
        change("a/b/new.txt", None, Some("new")),
        change("README.md", Some("read me\n"), None),
        change("src/main.py", Some("print('one')\n"), Some("two")),
        executable,
    ];
    let applied = apply(&changes, &yard.repo(), &journals(&yard)).expect("apply");
    assert_eq!((applied.written.len(), applied.removed.len()), (3, 1));
    assert_eq!(fs::read_to_string(yard.repo().join("a/b/new.txt")).expect("new"), "new");
    assert_eq!(fs::read_to_string(yard.repo().join("src/main.py")).expect("main"), "two");
    assert!(!yard.repo().join("README.md").exists());
    let mode = fs::metadata(yard.repo().join("src/util.py")).expect("util").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let names: Vec<_> =
        snapshot(&yard.repo()).into_iter().filter(|file| file.0.to_string_lossy().contains(".cloister")).collect();
    assert!(names.is_empty(), "{names:?}");
    assert_eq!(fs::read_dir(journals(&yard)).expect("journals").count(), 0);
}

#[test]
fn a_directory_whose_last_file_is_removed_goes_too() {
    let yard = Yard::new();
    let changes = [change("src/main.py", Some("print('one')\n"), None), change("src/util.py", Some("x = 1\n"), None)];
    apply(&changes, &yard.repo(), &journals(&yard)).expect("apply");
    assert!(!yard.repo().join("src").exists());
}

#[test]
fn paths_that_lead_outside_or_into_git_are_refused() {
    let yard = Yard::new();
    for path in ["/etc/passwd", "../x", "src/../../x", "a\0b"] {
        assert!(matches!(refused(&yard, change(path, None, Some("x"))), Refusal::Path(_)), "{path}");
    }
    for path in [".git/hooks/post-checkout", "sub/.git/config", ".GIT/config"] {
        assert_eq!(refused(&yard, change(path, None, Some("x"))), Refusal::Git, "{path}");
    }
    assert_eq!(refused(&yard, change("", None, Some("x"))), Refusal::Shape);
}

#[test]
fn links_devices_and_set_id_bits_are_refused() {
    let yard = Yard::new();
    let outside = tempfile::tempdir().expect("outside");
    symlink(outside.path(), yard.repo().join("out")).expect("link");
    symlink(outside.path().join("file"), yard.repo().join("outfile")).expect("link");
    assert_eq!(refused(&yard, change("out/x", None, Some("x"))), Refusal::Symlink);
    assert_eq!(refused(&yard, change("outfile", None, Some("x"))), Refusal::Symlink);
    assert_eq!(refused(&yard, change("outfile", Some(""), Some("x"))), Refusal::Symlink);
    let with = |node, mode| Change { node, mode: Some(mode), ..change("x", None, Some("x")) };
    assert_eq!(refused(&yard, with(Node::Symlink, 0o777)), Refusal::Symlink);
    assert_eq!(refused(&yard, with(Node::Special, 0o644)), Refusal::Special);
    assert_eq!(refused(&yard, with(Node::Large { bytes: 1 << 40 }, 0o644)), Refusal::TooLarge);
    for mode in [0o4755, 0o2755, 0o1755] {
        assert_eq!(refused(&yard, with(Node::File, mode)), Refusal::SetId);
    }
    assert_eq!(fs::read_dir(outside.path()).expect("outside").count(), 0);
}

#[test]
fn changes_that_do_not_fit_together_or_the_tree_are_refused() {
    let yard = Yard::new();
    assert_eq!(refused(&yard, change("fine", None, Some("x"))), Refusal::Overlaps);
    assert_eq!(refused(&yard, change("fine/below", None, Some("x"))), Refusal::Overlaps);
    assert_eq!(refused(&yard, change("src", None, Some("x"))), Refusal::Shape);
    assert_eq!(refused(&yard, change("README.md/x", None, Some("x"))), Refusal::Shape);
    let empty = Change { after: None, ..change("x", None, Some("x")) };
    assert_eq!(refused(&yard, empty), Refusal::Incomplete);
}

#[test]
fn a_file_that_somebody_changed_meanwhile_stops_everything() {
    let yard = Yard::new();
    let before = snapshot(&yard.repo());
    for late in [
        change("src/main.py", Some("print('other')\n"), Some("two")),
        change("README.md", None, Some("already there")),
        change("missing", Some("gone"), Some("x")),
        change("src/util.py", Some("x = 2\n"), None),
    ] {
        let changes = [change("fine/dir/x", None, Some("x")), late];
        assert!(matches!(apply(&changes, &yard.repo(), &journals(&yard)), Err(ApplyError::Conflict { .. })));
        assert_eq!(snapshot(&yard.repo()), before);
    }
}
