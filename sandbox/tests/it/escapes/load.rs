//! Does a job that takes without end harm the host, the log or the session?

use std::fs::File;
use std::time::{Duration, Instant};

use sandbox::{Ending, Job, Limits, Node, Outcome, Sandbox, ViewError};

use super::has;
use crate::harness::{Yard, everywhere, run, sh, text};

#[track_caller]
fn limited(sandbox: &Sandbox, limits: Limits, script: &str) -> Outcome {
    run(sandbox, &Job { limits: Some(limits), ..Job::new(["/bin/sh", "-c", script]) })
}

#[test]
fn a_million_small_files_are_ended_told_as_too_many_and_removed() {
    if !has("/usr/bin/python3") {
        return;
    }
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let limits = Limits { upper_bytes_max: 8 << 20, seconds_max: 60.0, ..Limits::DEFAULT };
    let script = "exec python3 -c \"
for n in range(10**6):
    if n % 1000 == 0: import os; os.mkdir(f'd{n}'); os.chdir(f'd{n}') if n % 50000 == 0 else None
    open(f'd{n // 1000 * 1000}/{n}' if n // 1000 * 1000 % 50000 else f'{n}', 'x').close()\"";
    let outcome = limited(&sandbox, limits, script);
    assert_eq!(outcome.ending, Ending::DiskLimit, "{}", text(&outcome));
    match sandbox.view().changes(|_| true) {
        Ok(changes) => assert!(changes.len() < 400_000, "{}", changes.len()),
        Err(error) => assert!(matches!(error, ViewError::TooMany { .. } | ViewError::TooLarge { .. }), "{error}"),
    }
    let started = Instant::now();
    sandbox::reap(&yard.state()).expect("reap");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_sparse_file_is_refused_or_told_by_its_size_and_never_read() {
    everywhere(|_, sandbox| {
        let outcome = limited(
            sandbox,
            Limits::DEFAULT,
            "truncate -s 10G huge || echo refused; truncate -s 900M large && echo made",
        );
        assert!(text(&outcome).ends_with("refused\nmade\n"), "{}", text(&outcome));
        let started = Instant::now();
        assert!(matches!(sandbox.view().read("large"), Err(ViewError::TooLarge { .. })));
        let changes = sandbox.view().changes(|_| true).expect("changes");
        let large = changes.iter().find(|change| change.path.as_os_str() == "large").expect("told");
        assert_eq!((large.node, &large.after), (Node::Large { bytes: 900 << 20 }, &None));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    });
}

#[test]
fn a_bomb_of_zeros_unpacked_to_a_file_to_memory_or_to_the_output_stops_at_its_limit() {
    everywhere(|_, sandbox| {
        let made = sh(sandbox, "head -c 50000000 /dev/zero | gzip -1 > bomb.gz && stat -c %s bomb.gz");
        assert!(made.ending.succeeded(), "{}", text(&made));
        let limits =
            Limits { file_bytes_max: 8 << 20, tmp_bytes_max: 8 << 20, output_bytes_max: 1 << 20, ..Limits::DEFAULT };
        assert!(!limited(sandbox, limits.clone(), "gzip -dc bomb.gz > out").ending.succeeded());
        assert!(sandbox.view().metadata("out").expect("out").bytes <= 8 << 20);
        assert!(!limited(sandbox, limits.clone(), "gzip -dc bomb.gz > /tmp/out").ending.succeeded());
        let flood = limited(sandbox, limits, "gzip -dc bomb.gz");
        assert_eq!((flood.ending, flood.stdout.len(), flood.stdout_truncated), (Ending::OutputLimit, 1 << 20, true));
    });
}

#[test]
fn one_line_without_end_and_output_after_the_end_are_bounded() {
    everywhere(|_, sandbox| {
        let limits = Limits { output_bytes_max: 100_000, seconds_max: 20.0, ..Limits::DEFAULT };
        let line = limited(sandbox, limits.clone(), "head -c 50000000 /dev/zero | tr '\\0' x");
        assert_eq!((line.ending, line.stdout.len()), (Ending::OutputLimit, 100_000));
        let lines = limited(sandbox, limits, "yes '' | head -n 1000000; exec yes >&2");
        assert_eq!((lines.ending, lines.stdout.len() + lines.stderr.len()), (Ending::OutputLimit, 100_000));
    });
}

#[test]
fn a_child_that_keeps_the_output_open_neither_outlives_its_job_nor_holds_it_up() {
    everywhere(|_, sandbox| {
        let started = Instant::now();
        let outcome =
            sh(sandbox, "trap '' TERM HUP; sleep 600 & (setsid sleep 600 &) ; nohup sleep 600 2>&1 & echo over");
        assert_eq!((outcome.ending, text(&outcome).as_str()), (Ending::Exited(0), "over\n"));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(text(&sh(sandbox, "pgrep -c sleep")), "0\n");
    });
}

#[test]
fn a_gigabyte_of_memory_and_a_thousand_processes_are_not_had() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|_, sandbox| {
        let limits = Limits { memory_bytes_max: 128 << 20, pids_max: 64, seconds_max: 30.0, ..Limits::DEFAULT };
        for hog in [
            "x = bytearray(1 << 30)",
            "x = b'.' * (1 << 30)",
            "import mmap; m = mmap.mmap(-1, 1 << 29); m.write(b'x' * (1 << 29))",
        ] {
            let outcome = limited(sandbox, limits.clone(), &format!("python3 -c \"{hog}\" 2>/dev/null && echo had it"));
            assert!(!text(&outcome).contains("had it"), "{hog}: {:?}", outcome.ending);
        }
        let forks = "exec python3 -c \"
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0: time.sleep(20); os._exit(0)
        n += 1
except OSError: pass
print(n, flush=True)
os._exit(0)\"";
        let count: u64 = text(&limited(sandbox, limits, forks)).trim().parse().expect("a number");
        assert!(count < 64, "{count}");
    });
}

#[test]
fn a_job_cannot_leave_a_sparse_or_locked_file_that_holds_up_the_removal_of_its_box() {
    everywhere(|yard, first| {
        let sandbox = Sandbox::open_on_footing(&yard.spec(), first.footing().clone()).expect("box");
        sh(
            &sandbox,
            "truncate -s 1000M s; mkfifo p; mkdir -p a/b; chmod 0 a/b a; chattr +i s 2>/dev/null; flock s sleep 600 & sleep 0.2; ln -s . l",
        );
        let dir = yard.state().join(sandbox.id());
        assert!(File::open(&dir).is_ok());
        sandbox.close().expect("close");
        assert!(!dir.exists());
    });
}
