//! Does every limit hold?

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sandbox::{Ending, Job, JobError, Limits, Outcome, RunError, Sandbox, ViewError};

use crate::harness::{Yard, run, sh, text};

#[track_caller]
fn limited(sandbox: &Sandbox, limits: Limits, script: &str) -> Outcome {
    run(sandbox, &Job { limits: Some(limits), ..Job::new(["/bin/sh", "-c", script]) })
}

/// Processes of the host whose command line holds `mark`.
fn alive(mark: &str) -> usize {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").expect("proc").flatten().filter(|entry| *entry.file_name() != *own);
    entries
        .filter(|entry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        })
        .count()
}

#[test]
fn the_deadline_kills_the_whole_tree_however_it_hides() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let mark =
        format!("86399.{}", sandbox.id().bytes().map(u32::from).sum::<u32>() * 1_000 + std::process::id() % 1_000);
    let script = format!(
        "trap '' TERM INT HUP; nohup sleep {mark} & setsid sleep {mark} & (setsid sh -c 'sleep {mark} &' &) ; sleep {mark}"
    );
    let started = Instant::now();
    let outcome = limited(&sandbox, Limits { seconds_max: 1.0, ..Limits::DEFAULT }, &script);
    let late = started.elapsed().saturating_sub(Duration::from_secs(1));
    assert_eq!(outcome.ending, Ending::DeadlineExceeded);
    assert_eq!(alive(&mark), 0);
    eprintln!("all dead and cleaned up {} ms after the deadline", late.as_millis());
    assert!(late < Duration::from_millis(1_500), "{late:?}");
    assert_eq!(text(&sh(&sandbox, "echo the box still works")), "the box still works\n");
}

#[test]
fn cancelling_ends_a_job_at_once() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let cancel = Arc::new(AtomicBool::new(false));
    let setter = Arc::clone(&cancel);
    let thread = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        setter.store(true, Ordering::Relaxed);
    });
    let started = Instant::now();
    let outcome = sandbox.run(&Job::new(["sleep", "60"]), &cancel).expect("runs");
    thread.join().expect("thread");
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    // Cancelled before it began.
    assert_eq!(sandbox.run(&Job::new(["sleep", "60"]), &cancel).expect("runs").ending, Ending::Cancelled);
}

#[test]
fn a_flood_of_output_is_cut_and_ended() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let outcome = limited(&sandbox, Limits { output_bytes_max: 10_000, ..Limits::DEFAULT }, "yes");
    assert_eq!((outcome.ending, outcome.stdout.len(), outcome.stdout_truncated), (Ending::OutputLimit, 10_000, true));
    let short = limited(&sandbox, Limits { output_bytes_max: 10, ..Limits::DEFAULT }, "echo more than ten bytes");
    assert_eq!((short.ending, short.stdout.as_slice()), (Ending::OutputLimit, &b"more than "[..]));
}

#[test]
fn a_memory_hog_is_killed_and_told_as_such() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let limits = Limits { memory_bytes_max: 64 << 20, seconds_max: 30.0, ..Limits::DEFAULT };
    let hog = "/usr/bin/python3 -c \"x = bytearray(512 << 20); print(len(x))\"";
    let outcome = limited(&sandbox, limits.clone(), hog);
    if sandbox.footing().cgroups && sandbox.footing().keeps {
        assert_eq!(outcome.ending, Ending::OutOfMemory, "{}", text(&outcome));
        assert!(outcome.usage.memory_bytes_peak.is_some_and(|bytes| bytes <= 64 << 20), "{:?}", outcome.usage);
        // Files in /tmp are memory too.
        assert!(!limited(&sandbox, limits, "head -c 200000000 /dev/zero > /tmp/x").ending.succeeded());
    }
    assert!(!outcome.ending.succeeded());
}

#[test]
fn a_fork_bomb_is_contained() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let limits = Limits { pids_max: 32, seconds_max: 2.0, ..Limits::DEFAULT };
    let started = Instant::now();
    let outcome = limited(&sandbox, limits, "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 60");
    assert_ne!(outcome.ending, Ending::Exited(0));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(sh(&sandbox, "true").ending.succeeded());
}

#[test]
fn files_disk_and_descriptors_have_walls() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let limits = Limits { file_bytes_max: 1 << 20, tmp_bytes_max: 1 << 20, open_files_max: 20, ..Limits::DEFAULT };
    assert!(!limited(&sandbox, limits.clone(), "head -c 2000000 /dev/zero > big").ending.succeeded());
    assert_eq!(sandbox.view().metadata("big").expect("big").bytes, 1 << 20);
    assert!(
        !limited(&sandbox, limits.clone(), "head -c 700000 /dev/zero > /tmp/a && head -c 700000 /dev/zero > /tmp/b")
            .ending
            .succeeded()
    );
    assert_eq!(text(&limited(&sandbox, limits, "ulimit -n")), "20\n");
    let disk = Limits { upper_bytes_max: 4 << 20, seconds_max: 20.0, ..Limits::DEFAULT };
    let filler = "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.05; done";
    assert_eq!(limited(&sandbox, disk, filler).ending, Ending::DiskLimit);
}

#[test]
fn limits_in_which_the_box_itself_does_not_fit_are_refused() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    for limits in [
        Limits { memory_bytes_max: 1 << 20, ..Limits::DEFAULT },
        Limits { pids_max: 3, ..Limits::DEFAULT },
        Limits { open_files_max: 3, ..Limits::DEFAULT },
    ] {
        let job = Job { limits: Some(limits), ..Job::new(["true"]) };
        assert!(matches!(sandbox.run(&job, &AtomicBool::new(false)), Err(RunError::Job(JobError::Tight(_)))));
    }
    let least = Limits {
        memory_bytes_max: Limits::MEMORY_BYTES_LEAST,
        pids_max: Limits::PIDS_LEAST,
        open_files_max: 16,
        ..Limits::DEFAULT
    };
    assert_eq!(limited(&sandbox, least, "true").ending, Ending::Exited(0));
}

#[test]
fn a_tree_nested_without_end_is_ended_refused_and_removed() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let script = "i=0; while [ $i -lt 2000 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done";
    assert_eq!(sh(&sandbox, script).ending, Ending::DiskLimit);
    assert!(matches!(sandbox.view().changes(|_| true), Err(ViewError::Path(_))));
    sandbox.close().expect("close");
    assert_eq!(fs::read_dir(yard.state()).expect("state").count(), 0);
}

#[test]
fn what_a_job_used_is_told() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let outcome = sh(&sandbox, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
    if sandbox.footing().cgroups && sandbox.footing().keeps {
        assert!(outcome.usage.cpu_seconds.is_some_and(|seconds| seconds > 0.01), "{:?}", outcome.usage);
        assert_eq!(outcome.usage.memory_kills, Some(0));
    }
    assert!(outcome.seconds > 0.0);
}
