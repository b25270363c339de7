//! Is a box that has had a job as good as a fresh one, or else thrown away?

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sandbox::{Ending, Job, Limits, Outcome, RunError, Sandbox, Warmth, reap};

use crate::harness::{Yard, run, sh, text, wait_for_start};

/// A box in which warm boxes work; `None`, with a line that says so, where they do not.
fn warm(yard: &Yard) -> Option<Sandbox> {
    let sandbox = yard.open()?;
    match sandbox.warmth() {
        Warmth::Warm => Some(sandbox),
        Warmth::Cold(reason) => {
            eprintln!("SKIPPED: no warm boxes on this host: {reason}");
            None
        }
    }
}

/// The init of the box that a harmless job has left.
#[track_caller]
fn warm_pid(sandbox: &Sandbox) -> u32 {
    sandbox.warm_pid().unwrap_or_else(|| panic!("not kept: {:?}, {:?}", sandbox.unfit(), sandbox.warmth()))
}

/// Runs `script` in the warm box and says whether that box is kept for the next job.
#[track_caller]
fn is_kept(sandbox: &Sandbox, script: &str) -> (Outcome, bool) {
    assert!(sh(sandbox, "true").ending.succeeded());
    let before = warm_pid(sandbox);
    let outcome = sh(sandbox, script);
    let kept = sandbox.warm_pid() == Some(before);
    (outcome, kept)
}

#[test]
fn a_harmless_job_leaves_the_box_to_the_next_one() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    let (outcome, kept) = is_kept(&sandbox, "echo written > file; ls /usr | wc -l > /tmp/count; cat file");
    assert_eq!((outcome.ending, text(&outcome).as_str(), kept), (Ending::Exited(0), "written\n", true));
    assert!(is_kept(&sandbox, "exit 3").1);
    assert!(is_kept(&sandbox, "kill -SEGV $$").1);
}

#[test]
fn nothing_of_one_job_but_the_workspace_is_there_for_the_next() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    let litter = "for dir in /tmp /dev/shm ~; do echo x > $dir/left; chmod 0555 $dir 2>/dev/null; done; \
        export LD_PRELOAD=/workspace/evil.so MARK=1; umask 0777; ulimit -n 33; cd src; \
        (setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' &) ; sleep 1000 & :";
    sh(&sandbox, "echo kept > src/file");
    let (outcome, kept) = is_kept(&sandbox, litter);
    assert_eq!((outcome.ending, kept), (Ending::Exited(0), true), "{}", text(&outcome));
    let look = "ls -A /tmp /dev/shm ~; stat -c %a /tmp /dev/shm ~; env | grep -c -e LD_ -e MARK; umask; ulimit -n; pwd; \
        set -- /proc/[0-9]*; echo $#; cat src/file";
    let told = text(&sh(&sandbox, look));
    // Processes: the init and the shell. (Counted through a pipe, one half of that was now and then not there yet.)
    assert_eq!(
        told, "/dev/shm:\n\n/home/agent:\n\n/tmp:\n1777\n1777\n755\n0\n0022\n4096\n/workspace\n2\nkept\n",
        "{told}"
    );
}

#[test]
fn a_job_that_leaves_anything_in_the_kernel_or_on_the_init_costs_the_box_and_not_the_next_job() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    let libc = |call: &str| format!("import ctypes; c = ctypes.CDLL(None); assert c.{call} >= 0");
    for (left, script) in [
        ("shared memory", libc("shmget(7, 4096, 0o1600)")),
        ("semaphores", libc("semget(7, 1, 0o1600)")),
        ("messages", libc("msgget(7, 0o1600)")),
        ("a POSIX queue", libc("mq_open(b'/left', 0o102, 0o600, None)")),
        ("a lower limit of the init", "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (50, 50))".into()),
        ("a lower priority of the init", "import os; os.setpriority(os.PRIO_PROCESS, 1, 5)".into()),
        ("fewer processors of the init", "import os; os.sched_setaffinity(1, {0})".into()),
        (
            "a connection that lingers",
            "import socket; s = socket.create_server(('127.0.0.1', 8000)); c = socket.create_connection(('127.0.0.1', 8000)); a = s.accept()[0]; a.close(); c.close()".into(),
        ),
    ] {
        // Where the second wall stands, no job can make one.
        if left == "a POSIX queue" && sandbox::landlock_version().is_some() {
            assert!(!run(&sandbox, &Job::new(["python3", "-c", &script])).ending.succeeded(), "{left}");
            continue;
        }
        fs::write(yard.repo().join("leave.py"), script).expect("script");
        let (outcome, kept) = is_kept(&sandbox, "python3 /workspace/leave.py");
        assert!(outcome.ending.succeeded(), "{left}: {}", text(&outcome));
        assert!(!kept, "{left}");
        let look = "ulimit -n; nice; nproc; cat /proc/sysvipc/* | wc -l";
        let processors = std::thread::available_parallelism().expect("processors").get();
        assert_eq!(text(&sh(&sandbox, look)), format!("4096\n0\n{processors}\n3\n"), "{left}");
    }
}

#[test]
fn the_init_can_be_neither_killed_nor_read_nor_spoken_for_by_a_job() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    yard.put(
        "attack.py",
        "import os, signal
for number in ('KILL', 'TERM', 'STOP', 'SEGV', 'PIPE', 'CHLD', 'CONT', 'HUP'):
    try:
        os.kill(1, getattr(signal, 'SIG' + number))
    except PermissionError:
        pass  # The second wall is there.
for name in ('mem', 'environ', 'maps', 'fd/0', 'auxv', 'exe'):
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            print('opened', name, len(os.read(os.open('/proc/1/' + name, flags), 1)))
        except OSError:
            pass
for number in range(3, 4096):
    try:
        print('wrote to', number, os.write(number, bytes((2, 0, 0, 0, 0))))
    except OSError:
        pass
raise SystemExit(7)
",
    );
    assert!(sh(&sandbox, "true").ending.succeeded());
    let before = sandbox.warm_pid();
    let outcome = run(&sandbox, &Job::new(["python3", "attack.py"]));
    assert_eq!((outcome.ending, text(&outcome).as_str()), (Ending::Exited(7), ""));
    assert_eq!(sandbox.warm_pid(), before);
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_the_shell() {
    let yard = Yard::new();
    yard.put("plain", "echo plain \"$1\"; exit 5\n");
    let Some(sandbox) = warm(&yard) else { return };
    sh(&sandbox, "chmod +x plain");
    let outcome = run(&sandbox, &Job::new(["./plain", "a b"]));
    assert_eq!((outcome.ending, text(&outcome).as_str()), (Ending::Exited(5), "plain a b\n"));
}

#[test]
fn a_path_to_hide_gets_a_container_of_its_own_and_the_warm_box_stays() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    assert!(sh(&sandbox, "echo secret > key").ending.succeeded());
    let before = warm_pid(&sandbox);
    let hiding = Job { hidden: vec!["key".into()], ..Job::new(["sh", "-c", "cat key; echo on > file"]) };
    assert_eq!(text(&run(&sandbox, &hiding)), "");
    assert_eq!(text(&sh(&sandbox, "cat key file")), "secret\non\n");
    assert_eq!(warm_pid(&sandbox), before);
}

#[test]
fn a_job_that_may_only_read_writes_nothing_into_the_workspace_and_the_warm_box_stays() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    assert!(sh(&sandbox, "true").ending.succeeded());
    let before = warm_pid(&sandbox);
    let script = "cat README.md >/dev/null && : >/tmp/own && ! echo 1 2>/dev/null >new && ! rm -f README.md 2>/dev/null; echo $?";
    let reading = Job { read_only: true, ..Job::new(["sh", "-c", script]) };
    assert_eq!(text(&run(&sandbox, &reading)), "0\n");
    assert_eq!(sandbox.view().changes(|_| true).expect("changes").len(), 0);
    assert!(sh(&sandbox, ": >new").ending.succeeded());
    assert_eq!(warm_pid(&sandbox), before);
}

#[test]
fn a_job_can_open_its_own_streams_again() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    let job = Job { stdin: Some("in\n".into()), ..Job::new(["sh", "-c", "cat /dev/stdin; echo err > /dev/stderr"]) };
    assert_eq!(text(&run(&sandbox, &job)), "in\nerr\n");
}

#[test]
fn a_box_that_dies_under_a_job_is_told_as_that_and_the_next_job_gets_another() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    assert!(sh(&sandbox, "true").ending.succeeded());
    let init = i32::try_from(warm_pid(&sandbox)).expect("pid");
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        let pid = rustix::process::Pid::from_raw(init).expect("pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    });
    let answer = sandbox.run(&Job::new(["sleep", "30"]), &AtomicBool::new(false));
    killer.join().expect("killer");
    assert!(matches!(answer, Err(RunError::Init)), "{answer:?}");
    assert_eq!(text(&sh(&sandbox, "echo on")), "on\n");
    // Dead while it was idle: nobody notices.
    let init = i32::try_from(warm_pid(&sandbox)).expect("pid");
    let pid = rustix::process::Pid::from_raw(init).expect("pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("kill");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(text(&sh(&sandbox, "echo on")), "on\n");
}

#[test]
fn other_limits_get_another_box_and_hold() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    let limits = |open_files_max| Some(Limits { open_files_max, ..Limits::DEFAULT });
    for open_files_max in [100, 100, 200, 4096] {
        let job = Job { limits: limits(open_files_max), ..Job::new(["sh", "-c", "ulimit -n"]) };
        assert_eq!(text(&run(&sandbox, &job)), format!("{open_files_max}\n"));
    }
    let small = Job {
        limits: Some(Limits { tmp_bytes_max: 1 << 20, ..Limits::DEFAULT }),
        ..Job::new(["sh", "-c", "head -c 2000000 /dev/zero > /tmp/x"])
    };
    assert!(!run(&sandbox, &small).ending.succeeded());
    assert!(sh(&sandbox, "head -c 2000000 /dev/zero > /tmp/x").ending.succeeded());
}

#[test]
fn a_paused_box_runs_the_next_job_and_dies_with_its_owner_or_by_the_reaper() {
    let yard = Yard::new();
    let Some(sandbox) = warm(&yard) else { return };
    assert!(sh(&sandbox, "true").ending.succeeded());
    if sandbox.footing().cgroups {
        assert!(sandbox.pause().expect("pauses"));
        assert_eq!(text(&sh(&sandbox, "echo awake")), "awake\n");
    }
    let pid = warm_pid(&sandbox);
    sandbox.pause().expect("pauses");
    drop(sandbox);
    assert_gone(pid);
}

/// Dead, and buried by whoever is the parent of a box of a runtime that went away.
#[track_caller]
fn assert_gone(pid: u32) {
    let started = Instant::now();
    while fs::exists(format!("/proc/{pid}")).expect("proc") {
        assert!(started.elapsed() < Duration::from_secs(2), "process 1 of the box lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const OWNER_OF: &str = "SANDBOX_TEST_WARM_OWNER_OF";

/// Not a test of its own: the next one starts it in a child process, which is killed while its box is paused.
#[test]
fn warm_owner_process() {
    let Ok(dir) = std::env::var(OWNER_OF) else { return };
    let dir = std::path::Path::new(&dir);
    let sandbox = Sandbox::open(sandbox::BoxSpec::new(dir.join("repo"), dir.join("boxes"))).expect("box");
    assert!(sh(&sandbox, "echo on > begun").ending.succeeded());
    sandbox.pause().expect("pauses");
    let pid = warm_pid(&sandbox);
    sandbox.view().write("started", pid.to_string().as_bytes()).expect("write");
    std::thread::sleep(Duration::from_secs(3600));
}

#[test]
fn what_a_killed_owner_left_paused_is_reaped() {
    let yard = Yard::new();
    let Some(ours) = warm(&yard) else { return };
    let root = yard.repo().parent().expect("parent").to_owned();
    let own = std::env::current_exe().expect("own path");
    let mut child =
        Command::new(own).args(["--exact", "warm::warm_owner_process"]).env(OWNER_OF, &root).spawn().expect("child");
    let theirs = wait_for_start(&yard, ours.id());
    let pid = fs::read_to_string(yard.state().join(&theirs).join("layers/upper/started")).expect("pid");
    child.kill().expect("kill");
    assert_eq!(child.wait().expect("wait").signal(), Some(9));
    let found = reap(&yard.state()).expect("reap");
    assert!(found.len() == 1 && found[0].failure.is_none(), "{found:?}");
    assert_eq!((found[0].id.as_str(), found[0].containers.len()), (theirs.as_str(), 1));
    assert_gone(pid.parse().expect("number"));
}
