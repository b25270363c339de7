//! Does something come back out of the box that must not?

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use sandbox::{ApplyError, Ending, Node, Refusal, Sandbox, apply};

use super::{has, py};
use crate::harness::{Yard, everywhere, sh, snapshot, text};

/// Applies every change alone and expects each to be refused, with the tree as it was.
#[track_caller]
fn all_refused(yard: &Yard, sandbox: &Sandbox) {
    let before = snapshot(&yard.repo());
    let changes = sandbox.view().changes(|_| true).expect("changes");
    assert!(!changes.is_empty());
    for change in changes {
        let path = change.path.clone();
        let answer = apply(&[change], &yard.repo(), &yard.state().join("journals"));
        assert!(matches!(answer, Err(ApplyError::Refused { .. })), "{path:?}: {answer:?}");
    }
    assert_eq!(snapshot(&yard.repo()), before);
}

#[test]
fn a_link_of_any_kind_leads_neither_the_harness_nor_an_apply_outside() {
    everywhere(|yard, sandbox| {
        let outside = tempfile::tempdir().expect("outside");
        fs::write(outside.path().join("file"), "theirs").expect("file");
        let script = format!(
            "ln -s /etc/passwd file; ln -s /etc dir; ln -s ../../../../etc up; rm -r src; ln -s {0} src; ln -s /proc/self/fd fds
             ln -s /proc/self/fd/3 fd; ln -s /proc/self/cwd/README.md cwd; ln -s loop loop; ln -sf {0}/file README.md; ln -s . here",
            outside.path().display()
        );
        assert_eq!(sh(sandbox, &script).ending, Ending::Exited(0));
        let view = sandbox.view();
        for path in
            ["file", "dir/passwd", "up/passwd", "src/file", "fds/3", "fd", "cwd", "loop", "README.md", "here/README.md"]
        {
            assert!(view.read(path).is_err(), "read {path}");
            assert!(view.write(path, b"x").is_err(), "write {path}");
            assert!(view.list(path).is_err(), "list {path}");
        }
        let changes = view.changes(|_| true).expect("changes");
        for change in changes.iter().filter(|change| change.after.is_some()) {
            assert_eq!(change.node, Node::Symlink, "{:?}", change.path);
            let answer = apply(std::slice::from_ref(change), &yard.repo(), &yard.state().join("journals"));
            assert!(matches!(answer, Err(ApplyError::Refused { reason: Refusal::Symlink, .. })), "{:?}", change.path);
        }
        assert_eq!(fs::read_to_string(outside.path().join("file")).expect("file"), "theirs");
        assert_eq!(fs::read_dir(outside.path()).expect("outside").count(), 1);
    });
}

#[test]
fn a_fifo_a_socket_or_a_set_id_file_neither_arrives_nor_holds_up_whoever_reads() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|yard, sandbox| {
        let program = "
os.mkfifo('pipe'); os.unlink('README.md'); os.mkfifo('README.md')
s = socket.socket(socket.AF_UNIX); s.bind('sock')
for name, mode in (('suid', 0o4755), ('sgid', 0o2755), ('sticky', 0o1644)):
    open(name, 'w').write('x'); os.chmod(name, mode)
os.chmod('src/util.py', 0o6755)
";
        assert_eq!(py(sandbox, program), "");
        let started = Instant::now();
        for path in ["pipe", "README.md", "sock"] {
            assert!(sandbox.view().read(path).is_err(), "read {path}");
            assert!(sandbox.view().write(path, b"x").is_err(), "write {path}");
        }
        all_refused(yard, sandbox);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    });
}

#[test]
fn no_marker_of_an_overlay_can_be_planted_to_delete_or_expose_a_file() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|_, sandbox| {
        let program = "
import stat
print('whiteout', told(lambda: os.mknod('src/main.py.new', stat.S_IFCHR, 0)), told(lambda: os.mknod('white', stat.S_IFCHR, 0)))
open('.wh.README.md', 'w').close(); open('src/.wh..wh..opq', 'w').close(); open('.wh.src', 'w').close()
open('empty', 'w').close(); os.mkdir('made'); open('made/x', 'w').close()
for prefix in ('user.overlay.', 'trusted.overlay.', 'user.overlay.overlay.'):
    for name, value in (('opaque', b'y'), ('opaque', b'x'), ('whiteout', b''), ('redirect', b'/src'), ('metacopy', b''), ('origin', b'x'),
            ('impure', b'y'), ('nlink', b'U+1'), ('protattr', b'')):
        for file in ('src', 'made', 'empty', 'README.md', '.'):
            try: os.setxattr(file, prefix + name, value)
            except OSError: pass
";
        assert!(py(sandbox, program).starts_with("whiteout E"), "a whiteout was made");
        // What the harness sees is what the next job sees, and nothing of the repository went or came.
        let seen: BTreeSet<String> =
            text(&sh(sandbox, "find . -mindepth 1 | sed 's|^./||' | sort")).lines().map(str::to_owned).collect();
        let walked: BTreeSet<String> = sandbox
            .view()
            .walk(|_| true)
            .expect("walk")
            .into_iter()
            .map(|entry| entry.path.display().to_string())
            .collect();
        assert_eq!(seen, walked);
        for path in ["README.md", "src/main.py", "src/util.py", ".wh.README.md", "empty", "made/x"] {
            assert!(seen.contains(path), "{path} is gone");
            assert!(sandbox.view().read(path).is_ok(), "{path} is not read");
        }
    });
}

#[test]
fn a_hard_link_or_a_rename_through_a_deleted_name_exposes_and_deletes_nothing_else() {
    everywhere(|yard, sandbox| {
        let script = "rm README.md && ln src/util.py README.md && echo y >> README.md && mv src/main.py moved.py
            rm -r src && mkdir src && ln README.md src/main.py && mkdir -p a && mv a src/a";
        assert!(sh(sandbox, script).ending.succeeded());
        let told: Vec<_> = sandbox
            .view()
            .changes(|_| true)
            .expect("changes")
            .into_iter()
            .map(|change| {
                (
                    change.path.display().to_string(),
                    change.after.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
                )
            })
            .collect();
        let file = |path: &str, text: Option<&str>| (path.to_owned(), text.map(str::to_owned));
        let both = Some("x = 1\ny\n");
        assert_eq!(
            told,
            [
                file("README.md", both),
                file("moved.py", Some("print('one')\n")),
                file("src/main.py", both),
                file("src/util.py", None)
            ]
        );
        assert_eq!(fs::read_to_string(yard.repo().join("src/util.py")).expect("util"), "x = 1\n");
    });
}

#[test]
fn no_program_that_git_would_run_is_run_by_looking_at_a_change_or_applying_it() {
    everywhere(|yard, sandbox| {
        let canary = yard.repo().with_file_name("canary");
        let run = format!("touch {}", canary.display());
        let config = format!(
            "[core]\nfsmonitor = {run}\nhooksPath = hooks\nsshCommand = {run}\npager = {run}\neditor = {run}\n[diff]\nexternal = {run}\n\
             [diff \"x\"]\ntextconv = {run}\n[filter \"x\"]\nclean = {run}\nsmudge = {run}\n[alias]\nstatus = !{run}\n[include]\npath = evil\n"
        );
        for (path, content) in [
            (".git/HEAD", "ref: refs/heads/x\n"),
            (".git/config", &config),
            (".gitattributes", "* filter=x diff=x\n"),
            ("hooks/post-checkout", "#!/bin/sh\n"),
        ] {
            let path = yard.repo().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::write(path, content).expect("file");
        }
        sh(sandbox, "echo two > src/main.py; rm src/util.py");
        let changes = sandbox.view().changes(|_| true).expect("changes");
        apply(&changes, &yard.repo(), &yard.state().with_file_name("journals")).expect("apply");
        assert!(!canary.exists(), "a program was run");
    });
}
