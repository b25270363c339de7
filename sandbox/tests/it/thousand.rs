//! What is left of a thousand boxes that were started, used and killed at random, when their owner is killed five times too?

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sandbox::{BoxSpec, Job, Limits, Sandbox, reap};

use crate::harness::Yard;

const OWNER_OF: &str = "SANDBOX_TEST_THOUSAND_OWNER_OF";
const KILLS: usize = 5;
/// A box takes a tenth of a second, under load a second.
const WAIT_MAX: Duration = Duration::from_secs(1200);

/// How many boxes: a thousand take minutes.
fn boxes() -> usize {
    if std::env::var_os("CLOISTER_SLOW").is_some() { 1_000 } else { 30 }
}

/// Knuth's generator; the seed is printed by whoever uses it.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Not a test of its own: the next one starts it in a child process, again and again, and kills it.
#[test]
fn thousand_owner_process() {
    let Ok(told) = std::env::var(OWNER_OF) else { return };
    let (dir, seed) = told.split_once('#').expect("a directory and a seed");
    let (dir, mut random) = (Path::new(dir), Random(seed.parse().expect("a seed")));
    for number in 0.. {
        // Every other box is a fork, of one that lives on or ends first, over layers of which some are thrown away.
        let opened = Sandbox::open(BoxSpec::new(dir.join("repo"), dir.join("boxes"))).expect("box");
        let (sandbox, older) = if random.below(2) == 0 { (opened, None) } else { forked(opened, &mut random) };
        let script = [
            "true",
            "echo x > made; mkdir -p a/b; echo y > a/b/c; chmod 000 a/b",
            "(setsid sleep 3600 &) ; sleep 3600",
            "for i in 1 2 3 4 5; do (sh -c 'sleep 3600 & sleep 3600' &); done; kill -9 $$",
        ][random.below(4) as usize];
        let limits = Limits { seconds_max: 0.1, ..Limits::DEFAULT };
        let job = Job { limits: Some(limits), read_only: random.below(4) == 0, ..Job::new(["sh", "-c", script]) };
        let (cancel, patience) = (AtomicBool::new(false), Duration::from_millis(random.below(150)));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(patience);
                cancel.store(true, Ordering::Relaxed);
            });
            sandbox.run(&job, &cancel).expect("an ending");
        });
        if random.below(2) == 0 {
            sandbox.close().expect("close");
        } else {
            drop(sandbox);
        }
        drop(older);
        fs::write(dir.join(format!("done-{}-{number}", std::process::id())), "").expect("note");
    }
}

/// A fork, and the box that it came from where that lives on.
fn forked(mut parent: Sandbox, random: &mut Random) -> (Sandbox, Option<Sandbox>) {
    parent.view().write("below", b"x").expect("write");
    let snapshot = parent.snapshot().expect("snapshot");
    parent.view().write("above", b"y").expect("write");
    let fork = parent.fork().expect("fork");
    if random.below(2) == 0 {
        parent.rollback(&snapshot).expect("back");
    }
    (fork, (random.below(2) == 0).then_some(parent))
}

#[test]
fn of_a_thousand_boxes_killed_at_random_with_their_owner_among_them_nothing_is_left() {
    let yard = Yard::new();
    let Some(first) = yard.open() else { return };
    let cgroups = first.footing().cgroups;
    drop(first);
    let root = yard.repo().parent().expect("parent").to_owned();
    let own = std::env::current_exe().expect("own path");
    let before = Host::look(&root);
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}, control groups: {cgroups}");
    let mut random = Random(seed);
    let (started, mut buried) = (Instant::now(), 0);
    for kill in 1..=KILLS {
        let mut owner = Command::new(&own);
        owner.args(["--exact", "thousand::thousand_owner_process"]);
        let mut owner =
            owner.env(OWNER_OF, format!("{}#{}", root.display(), random.below(1 << 30))).spawn().expect("child");
        while done(&root) < boxes() * kill / KILLS {
            assert!(started.elapsed() < WAIT_MAX, "{} boxes after {WAIT_MAX:?}", done(&root));
            assert!(owner.try_wait().expect("wait").is_none(), "the owner ended by itself");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(random.below(200)));
        owner.kill().expect("kill");
        owner.wait().expect("wait");
        let found = reap(&yard.state()).expect("reap");
        assert!(found.iter().all(|left| left.failure.is_none()), "{found:?}");
        buried += found.len();
    }
    eprintln!("{} boxes in {:.0?}, {buried} of them buried after their owner", done(&root), started.elapsed());
    // What is being made or removed when its owner is killed has no name; it holds no process and goes after a minute.
    let left: Vec<_> = fs::read_dir(yard.state()).expect("state").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
    let patience = Instant::now();
    while Host::look(&root) != before {
        let after = Host::look(&root);
        assert!(patience.elapsed() < Duration::from_secs(5), "before: {before:?}\nafter: {after:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn done(root: &Path) -> usize {
    fs::read_dir(root).expect("root").flatten().filter(|e| e.file_name().to_string_lossy().starts_with("done-")).count()
}

/// What boxes are made of on a host. Other tests make boxes at the same time; theirs are over other directories.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    /// Processes that name the directory, or whose root lies below it.
    processes: BTreeSet<u32>,
    mounts: BTreeSet<String>,
    interfaces: usize,
}

impl Host {
    fn look(root: &Path) -> Host {
        let path = root.to_str().expect("UTF-8");
        let ids = fs::read_dir("/proc").expect("proc").flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let names = |id: &u32| {
            let read = |name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
            let told = [read("cmdline"), read("mountinfo"), read("environ")].concat();
            *id != std::process::id() && String::from_utf8_lossy(&told).contains(path)
        };
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let mounts = mounts.lines().filter(|line| line.contains(path)).map(str::to_owned).collect();
        let interfaces = fs::read_to_string("/proc/net/dev").expect("interfaces").lines().count();
        Host { processes: ids.filter(names).collect(), mounts, interfaces }
    }
}
