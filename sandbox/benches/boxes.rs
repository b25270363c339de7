//! What does a job in a box cost, beside the runtime alone, bubblewrap, and no box at all?
//!
//! `cargo bench --profile dev -p sandbox --bench boxes`; a number of rounds may follow after `--`. Rows take turns in each round, so that what
//! else the machine does falls on all of them alike. With an engine's socket in CLOISTER_TEST_DOCKER, the engine's tier and `docker run`
//! take turns too.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sandbox::{BoxSpec, Job, Sandbox, Tier};
use serde_json::json;

const ROUNDS: usize = 100;
const REST: Duration = Duration::from_millis(20);

fn main() {
    let rounds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ROUNDS);
    let dir = tempfile::tempdir().expect("directory");
    let repo = dir.path().join("repo");
    fs::create_dir(&repo).expect("repository");
    fs::write(repo.join("file"), "text\n").expect("file");
    let spec = BoxSpec::new(&repo, dir.path().join("boxes"));
    let sandbox = Sandbox::open(spec.clone()).expect("a box");
    println!("box: {}, {:?}; load {}", sandbox.footing(), sandbox.warmth(), load());
    let bundle = dir.path().join("bundle");
    write_bundle(&bundle);

    let Tier::Oci(runtime) = sandbox.footing().tier.clone() else { panic!("no runtime") };
    let job = Job::new(["/usr/bin/true"]);
    // A path to hide, though it does not exist, needs a container of its own.
    let fresh = Job { hidden: vec!["nothing".into()], ..job.clone() };
    let run = |sandbox: &Sandbox, job: &Job| {
        assert!(sandbox.run(job, &AtomicBool::new(false)).expect("runs").ending.succeeded());
    };
    let bubblewrap = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok();
    let docker = std::env::var("CLOISTER_TEST_DOCKER").ok();
    let engine = docker.as_ref().map(|address| {
        let docker = Some(address.parse().expect("the address of an engine"));
        let spec = BoxSpec { docker, ..spec.clone() };
        (address, Sandbox::open(spec.clone()).expect("a box in the engine"), spec)
    });
    let mut rows = Rows::default();
    // The first job of a box starts its container.
    run(&sandbox, &job);
    for _ in 0..rounds {
        rows.time("fork and exec of true", || spawn(&mut Command::new("/usr/bin/true")));
        rows.time("a job in a warm box", || run(&sandbox, &job));
        rows.time("pause", || sandbox.pause().expect("pauses"));
        rows.time("resume", || sandbox.resume().expect("resumes"));
    }
    // In rounds of their own: the many directories that these make and remove keep the file system busy.
    for round in 0..rounds {
        if bubblewrap {
            let mut command = Command::new("bwrap");
            command.args(["--ro-bind", "/", "/", "--unshare-all", "true"]);
            rows.time("bwrap, nothing but namespaces", || spawn(&mut command));
        }
        let mut command = Command::new(&runtime.path);
        command.arg("--root").arg(dir.path().join("runtime")).args(["run", "--bundle"]).arg(&bundle);
        rows.time("the runtime's run alone, bare bundle", || spawn(command.arg(format!("bench-{round}"))));
        rows.time("a job in a fresh container, clean-up included", || run(&sandbox, &fresh));
        let new = Sandbox::open(spec.clone()).expect("a box");
        rows.time("cold start: a new container's first job", || run(&new, &job));
        new.close().expect("closes");
        if let Some((address, sandbox, spec)) = &engine {
            rows.time("docker run --rm of true, no network", || docker_run(address));
            rows.time("a job in the engine, clean-up included", || run(sandbox, &job));
            let new = rows.time("cold start in the engine: open and first job", || {
                let new = Sandbox::open(spec.clone()).expect("a box");
                run(&new, &job);
                new
            });
            new.close().expect("closes");
        }
    }
    forks(&mut rows, &spec, rounds);
    rows.print();
    println!("load {}", load());
    run(&sandbox, &job);
    memory(&sandbox);
}

/// Files of the box that is forked.
const FILES: usize = 50_000;

/// Boxes that get so many files, which takes seconds.
const PARENTS: usize = 5;

fn forks(rows: &mut Rows, spec: &BoxSpec, rounds: usize) {
    let files = FILES / 50;
    let make = format!("for d in $(seq 50); do mkdir $d; for f in $(seq {files}); do echo $f > $d/$f; done; done");
    for parent in 0..PARENTS {
        let mut sandbox = Sandbox::open(spec.clone()).expect("a box");
        let job = Job::new(["sh", "-c", &make]);
        assert!(sandbox.run(&job, &AtomicBool::new(false)).expect("runs").ending.succeeded());
        // This one freezes the files; what the next ones freeze is one file each, thrown away again so that no limit is reached.
        rows.time("first fork of a box with 50,000 changed files", || sandbox.fork().expect("a fork"));
        let snapshot = sandbox.snapshot().expect("a snapshot");
        for _ in 0..rounds.div_ceil(PARENTS) {
            sandbox.view().write("1/1", b"changed").expect("write");
            let mut fork = rows.time("a further fork of it", || sandbox.fork().expect("a fork"));
            assert_eq!(fork.view().read("1/1").expect("read"), b"changed");
            rows.time("rollback of one file of it", || fork.rollback(&snapshot).expect("goes back"));
            assert_eq!(fork.view().read("1/1").expect("read"), b"1\n");
            fork.close().expect("closes");
            sandbox.rollback(&snapshot).expect("goes back");
        }
        if parent + 1 == PARENTS {
            let told = rows.time("diff of 50,000 files", || sandbox.view().changes(|_| true).expect("changes").len());
            assert_eq!(told, FILES);
        }
    }
}

/// Times of one kind of thing, in the order in which the kinds came first.
#[derive(Default)]
struct Rows(Vec<(&'static str, Vec<f64>)>);

impl Rows {
    fn time<T>(&mut self, name: &'static str, what: impl FnOnce() -> T) -> T {
        // As jobs come in life: one at a time, not on the heels of the last one's clean-up.
        std::thread::sleep(REST);
        let started = Instant::now();
        let done = what();
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        match self.0.iter_mut().find(|row| row.0 == name) {
            Some((_, times)) => times.push(milliseconds),
            None => self.0.push((name, vec![milliseconds])),
        }
        done
    }

    fn print(self) {
        println!("{:<48} {:>8} {:>8} {:>8} {:>8}   ms", "", "least", "median", "p95", "p99");
        for (name, mut times) in self.0 {
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)];
            println!("{name:<48} {:>8.2} {:>8.2} {:>8.2} {:>8.2}", times[0], at(0.5), at(0.95), at(0.99));
        }
    }
}

fn spawn(command: &mut Command) {
    assert!(command.stdin(Stdio::null()).status().expect("starts").success(), "{command:?}");
}

/// The engine's own program over the image that the engine's tier has made, without any of our policy but that there is no network.
fn docker_run(address: &str) {
    let docker = || {
        let mut command = Command::new("docker");
        command.args(["-H", address]);
        command
    };
    static IMAGE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let listed = docker().args(["images", "-q", "cloister-box"]).output().expect("the docker program");
        String::from_utf8_lossy(&listed.stdout).lines().next().expect("the image of a box").to_owned()
    });
    let mut command = docker();
    command.args(["run", "--rm", "--network", "none", "-v", "/usr:/usr:ro", image, "/usr/bin/true"]);
    spawn(&mut command);
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// What `runc spec` writes, without a terminal, over the host's /usr.
fn write_bundle(bundle: &Path) {
    let root = bundle.join("rootfs");
    for dir in ["usr", "proc", "dev"] {
        fs::create_dir_all(root.join(dir)).expect("root");
    }
    for link in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link)).expect("link");
    }
    let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    let config = json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs", "readonly": true },
        "process": { "user": { "uid": 0, "gid": 0 }, "args": ["/usr/bin/true"], "cwd": "/", "env": ["PATH=/usr/bin"] },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs" },
            { "destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"] },
        ],
        "linux": { "namespaces": namespaces },
    });
    fs::write(bundle.join("config.json"), config.to_string()).expect("config");
}

/// The idle box: what its control group is charged, and the shares of memory of its init and of the keeper beside it.
fn memory(sandbox: &Sandbox) {
    let Some(init) = sandbox.warm_pid() else { return println!("no idle box") };
    let share = |pid: u32| field(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
    let keepers = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let ours = field(&format!("/proc/{pid}/status"), "PPid:") == Some(u64::from(std::process::id()));
        (ours && words.split(|byte| *byte == 0).nth(1) == Some(b"keeper")).then_some(pid)
    });
    let keeper = keepers.filter_map(share).sum::<u64>();
    let group = fs::read_to_string(format!("/proc/{init}/cgroup")).unwrap_or_default();
    let group = group.lines().find_map(|line| line.split_once(":memory:")).map(|(_, group)| group.to_owned());
    let charged = group.and_then(|group| {
        let file = format!("/sys/fs/cgroup/memory{group}/memory.usage_in_bytes");
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    });
    println!(
        "idle box: init {} KiB, keeper {keeper} KiB, charged to its control group {:?} KiB (page cache included)",
        share(init).unwrap_or(0),
        charged.map(|bytes| bytes / 1024)
    );
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok())
}
