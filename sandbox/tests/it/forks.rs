//! Is a fork what its box was, and a box that went back what it was before?

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::{
    Change, ChangeKind, Ending, ForkError, Job, Kind, LAYERS_MAX, Limits, RollbackError, Sandbox, SnapshotError,
};

use crate::harness::{Yard, as_nobody, everywhere, run, sh, snapshot, text};

#[track_caller]
fn kinds(sandbox: &Sandbox) -> Vec<(String, ChangeKind)> {
    let changes = sandbox.view().changes(|_| true).expect("changes");
    changes.into_iter().map(|change| (change.path.display().to_string(), change.kind)).collect()
}

#[test]
fn a_fork_holds_what_its_box_did_and_neither_sees_what_the_other_does_next() {
    everywhere(|yard, sandbox| {
        let before = snapshot(&yard.repo());
        let mut parent = Sandbox::open_on_footing(&yard.spec(), sandbox.footing().clone()).expect("opens");
        assert!(sh(&parent, "echo two > src/main.py; rm src/util.py; mkdir new; echo a > new/a").ending.succeeded());
        let mut child = parent.fork().expect("forks");
        assert_eq!(kinds(&child), kinds(&parent));
        // The harness and the box write on both sides, over and below what was frozen.
        child.view().write("src/util.py", b"back").expect("write");
        child.view().remove("new/a").expect("remove");
        let script =
            "cat src/main.py; test ! -e src/util.py && cat new/a; rm -r new; mkdir new; echo b > new/b; ls new";
        assert_eq!(text(&sh(&parent, script)), "two\na\nb\n");
        assert_eq!(
            text(&sh(&child, "cat src/util.py; ls new; rmdir new; echo three > README.md; ls")),
            "backREADME.md\nsrc\n"
        );
        assert_eq!(parent.view().read("README.md").expect("read"), b"read me\n");
        let grandchild = child.fork().expect("forks");
        assert_eq!(text(&sh(&grandchild, "cat src/main.py README.md; rm src/main.py")), "two\nthree\n");
        drop(child);
        use ChangeKind::{Changed, Created, Deleted};
        let told = |told: &[(&str, ChangeKind)]| {
            told.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&parent), told(&[("new/b", Created), ("src/main.py", Changed), ("src/util.py", Deleted)]));
        assert_eq!(
            kinds(&grandchild),
            told(&[("README.md", Changed), ("src/main.py", Deleted), ("src/util.py", Changed)])
        );
        // The box that the lineage began with may be the first to go.
        parent.close().expect("closes");
        assert_eq!(text(&sh(&grandchild, "cat README.md; ls src")), "three\nutil.py\n");
        grandchild.close().expect("closes");
        let left: Vec<_> =
            fs::read_dir(yard.state()).expect("state").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [sandbox.id()]);
        assert_eq!(snapshot(&yard.repo()), before);
    });
}

#[test]
fn forks_serve_an_ordinary_user_too() {
    let tests = ["forks::a_fork", "forks::a_box", "forks::random"];
    if let Some(told) = as_nobody(&tests) {
        assert!(told.contains("3 passed"), "{told}");
    }
}

#[test]
fn a_box_goes_back_to_a_snapshot_and_forward_to_a_later_one() {
    let yard = Yard::new();
    let Some(mut sandbox) = yard.open() else { return };
    let empty = sandbox.snapshot().expect("snapshot");
    sh(&sandbox, "echo 1 > src/main.py; chmod 700 src; chmod 500 .");
    let first = sandbox.snapshot().expect("snapshot");
    sh(&sandbox, "chmod 700 .; rm -r src; echo 2 > made");
    let second = sandbox.snapshot().expect("snapshot");
    sh(&sandbox, "rm made README.md");
    sandbox.rollback(&first).expect("back");
    assert_eq!(text(&sh(&sandbox, "cat src/main.py; ls; stat -c %a . src")), "1\nREADME.md\nsrc\n700\n700\n");
    sandbox.rollback(&second).expect("forward");
    assert_eq!(text(&sh(&sandbox, "cat made; ls")), "2\nREADME.md\nmade\n");
    sandbox.rollback(&empty).expect("back");
    assert!(kinds(&sandbox).is_empty());
    // Layers go with the last snapshot over them.
    let frozen = yard.state().join(sandbox.id()).join("frozen");
    let layers = || fs::read_dir(&frozen).expect("frozen").count();
    assert_eq!(layers(), 2);
    drop(second);
    assert_eq!(layers(), 1);
    sandbox.rollback(&first).expect("back");
    drop((first, empty));
    assert_eq!(layers(), 1);
    let other = yard.open().expect("opens").snapshot().expect("snapshot");
    assert!(matches!(sandbox.rollback(&other), Err(RollbackError::Foreign)));
    assert_eq!(sandbox.view().read("src/main.py").expect("read"), b"1\n");
}

#[test]
fn a_snapshot_of_nothing_new_costs_no_layer_and_too_many_layers_are_refused() {
    let yard = Yard::new();
    let Some(mut sandbox) = yard.open() else { return };
    for number in 0..LAYERS_MAX {
        sandbox.view().write(format!("file{number}"), b"x").expect("write");
        sandbox.snapshot().expect("snapshot");
        sandbox.snapshot().expect("again");
    }
    // All of them are mounted, from a short path and from one that is longer than one option takes.
    assert_eq!(text(&sh(&sandbox, "ls file* | wc -l; rm file0; echo y > file7")), format!("{LAYERS_MAX}\n"));
    let refused = sandbox.fork().err().expect("too deep");
    assert!(matches!(refused, ForkError::Snapshot(SnapshotError::TooDeep { layers_max: LAYERS_MAX })), "{refused}");
    assert_eq!(sandbox.view().read("file7").expect("read"), b"y\n");
    assert_eq!(kinds(&sandbox).len(), LAYERS_MAX - 1);
}

#[test]
fn what_is_frozen_counts_against_the_limit_of_the_disk() {
    let yard = Yard::new();
    let Some(mut sandbox) = yard.open() else { return };
    let limits = Limits { upper_bytes_max: 3 << 20, ..Limits::DEFAULT };
    let write = |name: &str| Job {
        limits: Some(limits.clone()),
        ..Job::new(["dd", "if=/dev/zero", &format!("of={name}"), "bs=1M", "count=2"])
    };
    assert!(run(&sandbox, &write("one")).ending.succeeded());
    let fork = sandbox.fork().expect("forks");
    for sandbox in [&sandbox, &fork] {
        assert_eq!(run(sandbox, &write("two")).ending, Ending::DiskLimit);
    }
}

/// Knuth's generator; the seed is printed by whoever uses it.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn path(&mut self) -> String {
        let depth = 1 + self.below(3);
        (0..depth).map(|_| ["a", "b", "src", "main.py"][self.below(4)]).collect::<Vec<_>>().join("/")
    }

    /// One edit that a shell makes. The same words in two equal trees do the same, or fail the same.
    fn edit(&mut self) -> String {
        let (path, other, number) = (self.path(), self.path(), self.below(1000));
        match self.below(9) {
            0 | 1 => format!("mkdir -p $(dirname {path}); echo {number} > {path}"),
            2 => format!("rm -rf {path}"),
            3 => format!("mkdir -p {path}"),
            4 | 5 => format!("test -e {other} || mv {path} {other}"),
            6 => format!("test -f {path} && chmod {} {path}", ["600", "644", "755"][self.below(3)]),
            7 => format!("test -e {path} || test -L {path} || ln -s {other} {path}"),
            _ => format!("test -d {path} && rm -rf {path} && mkdir {path} && echo {number} > {path}/b"),
        }
    }
}

/// What a path stands for: its kind, its mode where that is told, its bytes or its target.
type Tree = BTreeMap<PathBuf, (Kind, u32, Vec<u8>)>;

fn tree(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(&at).expect("read").flatten() {
            let (path, meta) = (entry.path(), entry.metadata().expect("stat"));
            let mode = meta.permissions().mode() & 0o777;
            let told = if meta.is_dir() {
                waiting.push(path.clone());
                (Kind::Dir, mode, Vec::new())
            } else if meta.is_symlink() {
                (Kind::Symlink, 0, fs::read_link(&path).expect("link").into_os_string().into_encoded_bytes())
            } else {
                (Kind::File, mode, fs::read(&path).expect("bytes"))
            };
            tree.insert(path.strip_prefix(dir).expect("below").to_owned(), told);
        }
    }
    tree
}

/// The same, as the harness sees a box.
fn seen(sandbox: &Sandbox) -> Tree {
    let (view, links) = (sandbox.view(), sandbox.view().changes(|_| true).expect("changes"));
    let told = |entry: sandbox::Entry| {
        let bytes = match entry.kind {
            Kind::File => view.read(&entry.path).expect("read"),
            Kind::Symlink => {
                let change = links.iter().find(|change| change.path == entry.path);
                change.and_then(|change| change.after.clone()).expect("the repository has no links")
            }
            _ => Vec::new(),
        };
        let mode = if entry.kind == Kind::Symlink { 0 } else { entry.mode };
        (entry.path, (entry.kind, mode, bytes))
    };
    view.walk(|_| true).expect("walk").into_iter().map(told).collect()
}

/// The difference between two trees, file by file, in the words of the sandbox.
fn difference(base: &Tree, now: &Tree) -> Vec<(PathBuf, ChangeKind)> {
    let leaf = |tree: &Tree, path: &PathBuf| tree.get(path).filter(|it| it.0 != Kind::Dir).cloned();
    let paths: std::collections::BTreeSet<&PathBuf> = base.keys().chain(now.keys()).collect();
    let mut told = Vec::new();
    for path in paths {
        let kind = match (leaf(base, path), leaf(now, path)) {
            (None, None) => continue,
            (None, Some(_)) => ChangeKind::Created,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(old), Some(new)) if (old.0, &old.2) != (new.0, &new.2) => ChangeKind::Changed,
            (Some(old), Some(new)) if old.1 != new.1 => ChangeKind::ModeChanged,
            _ => continue,
        };
        told.push((path.clone(), kind));
    }
    told
}

/// A box, and a plain copy of the repository in which all is done that is done in the box.
struct Pair {
    sandbox: Sandbox,
    model: PathBuf,
}

impl Pair {
    fn edit(&self, script: &str) {
        let script = format!("umask 022; {script}");
        sh(&self.sandbox, &script);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).current_dir(&self.model).output().expect("a shell");
    }

    /// The harness's own edits, which must meet the same obstacles as a file system's.
    fn write(&self, path: &str, bytes: &[u8]) {
        let model = self.model.join(path);
        let is_link = |path: &Path| path.is_symlink();
        if model.ancestors().take_while(|at| *at != self.model).any(is_link) {
            return;
        }
        let parent = model.parent().expect("parent");
        let made = fs::create_dir_all(parent).is_ok() && !model.is_dir();
        assert_eq!(self.sandbox.view().write(path, bytes).is_ok(), made, "{path}");
        if made {
            fs::write(&model, bytes).expect("write");
            for at in model.ancestors().take_while(|at| *at != self.model) {
                let mode =
                    self.sandbox.view().metadata(at.strip_prefix(&self.model).expect("below")).expect("there").mode;
                fs::set_permissions(at, fs::Permissions::from_mode(mode)).expect("mode");
            }
        }
    }

    #[track_caller]
    fn check(&self, base: &Tree, story: &[String]) {
        let model = tree(&self.model);
        let story = || story.join("\n");
        assert_eq!(seen(&self.sandbox), model, "the harness sees another tree:\n{}", story());
        let told = self.sandbox.view().changes(|_| true).expect("changes");
        let told: Vec<_> = told.into_iter().map(|Change { path, kind, .. }| (path, kind)).collect();
        assert_eq!(told, difference(base, &model), "{}", story());
        let list = "find . -mindepth 1 -printf '%P %y %m\\n' | sort";
        let listed = Command::new("/bin/sh").args(["-c", list]).current_dir(&self.model).output().expect("a shell");
        let own = Job::new(["/bin/sh", "-c", list]);
        assert_eq!(text(&run(&self.sandbox, &own)), String::from_utf8_lossy(&listed.stdout), "{}", story());
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(copied.success());
}

#[test]
fn random_edits_snapshots_forks_and_rollbacks_agree_with_plain_copies() {
    let rounds = if std::env::var_os("CLOISTER_SLOW").is_some() { 20 } else { 2 };
    let seed = u64::from(std::process::id());
    for seed in seed..seed + rounds {
        eprintln!("seed {seed}");
        let (yard, models) = (Yard::new(), tempfile::tempdir().expect("models"));
        let Some(sandbox) = yard.open() else { return };
        let base = tree(&yard.repo());
        let mut copies = 0;
        let mut copied = |from: &Path| {
            copies += 1;
            let to = models.path().join(copies.to_string());
            copy(from, &to);
            to
        };
        let mut random = Random(seed);
        let mut pairs = vec![Pair { sandbox, model: copied(&yard.repo()) }];
        let (mut snapshots, mut story) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let which = random.below(pairs.len());
            match random.below(12) {
                0 => {
                    let taken = pairs[which].sandbox.snapshot();
                    story.push(format!("snapshot of {which}: {}", taken.is_ok()));
                    snapshots.extend(taken.ok().map(|taken| (taken, copied(&pairs[which].model))));
                }
                1 if pairs.len() < 4 => {
                    let forked = pairs[which].sandbox.fork();
                    story.push(format!("fork of {which}: {}", forked.is_ok()));
                    let model = copied(&pairs[which].model);
                    pairs.extend(forked.ok().map(|sandbox| Pair { sandbox, model }));
                }
                2 if !snapshots.is_empty() => {
                    let to = random.below(snapshots.len());
                    story.push(format!("{which} goes back to {to}"));
                    pairs[which].sandbox.rollback(&snapshots[to].0).expect("back");
                    pairs[which].model = copied(&snapshots[to].1);
                }
                3 if pairs.len() > 1 => {
                    story.push(format!("end of {which}"));
                    drop(pairs.swap_remove(which));
                    continue;
                }
                4 => {
                    let (path, number) = (random.path(), random.below(1000).to_string());
                    story.push(format!("{which}: the harness writes {path}"));
                    pairs[which].write(&path, number.as_bytes());
                }
                _ => {
                    let script = random.edit();
                    story.push(format!("{which}: {script}"));
                    pairs[which].edit(&script);
                }
            }
            let which = random.below(pairs.len());
            pairs[which].check(&base, &story);
        }
        for pair in &pairs {
            pair.check(&base, &story);
        }
        drop((pairs, snapshots));
        assert_eq!(fs::read_dir(yard.state()).expect("state").count(), 0);
    }
}
