//! Does an engine (Docker, Podman) run jobs as a runtime does, and is everything gone afterwards?

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use sandbox::{BoxSpec, Ending, Job, Limits, OpenError, Outcome, Sandbox, Socket, State, Warmth, probe_docker, reap};

use crate::harness::{Yard, engine, run, sh, text, wait_for_start};

fn open(yard: &Yard) -> Option<Sandbox> {
    let docker = Some(engine()?);
    Some(Sandbox::open(BoxSpec { docker, ..yard.spec() }).unwrap_or_else(|error| panic!("{error}")))
}

fn limited(sandbox: &Sandbox, limits: Limits, script: &str) -> Outcome {
    run(sandbox, &Job { limits: Some(limits), ..Job::new(["/bin/sh", "-c", script]) })
}

/// Lines of the host's mount table and command lines of its processes that hold `mark`.
fn traces(mark: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let mut found: Vec<String> = mounts.lines().filter(|line| line.contains(mark)).map(str::to_owned).collect();
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").expect("proc").flatten().filter(|entry| *entry.file_name() != *own) {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        found.extend(line.contains(mark).then_some(line));
    }
    found
}

#[test]
fn a_job_has_its_input_directory_variables_and_exit_code_and_what_it_wrote_is_the_diff() {
    let yard = Yard::new();
    let Some(sandbox) = open(&yard) else { return };
    eprintln!("on {}", sandbox.footing());
    assert!(matches!(sandbox.warmth(), Warmth::Cold(_)));
    let before = crate::harness::snapshot(&yard.repo());
    let job = Job {
        cwd: "src".into(),
        env: vec![("ONE".into(), "1".into())],
        stdin: Some(b"from outside\n".to_vec()),
        merged: false,
        ..Job::new(["sh", "-c", "cat; pwd; echo $ONE >&2; echo new > new; echo more >> util.py; rm main.py; exit 3"])
    };
    let outcome = run(&sandbox, &job);
    assert_eq!(outcome.ending, Ending::Exited(3), "{}", text(&outcome));
    assert_eq!(text(&outcome), "from outside\n/workspace/src\n");
    assert_eq!(outcome.stderr, b"1\n");
    let touched = sandbox.view().touched(|_| true).expect("touched");
    assert_eq!(touched, ["src/main.py", "src/new", "src/util.py"].map(PathBuf::from));
    assert_eq!(sandbox.view().read("src/util.py").expect("util"), b"x = 1\nmore\n");
    // What the harness writes, the next job finds.
    sandbox.view().write("src/from-harness", b"text\n").expect("write");
    let told = text(&sh(&sandbox, "cat src/from-harness; ls src; env | cut -d= -f1 | sort | tr '\\n' ' '"));
    let names = "CARGO_NET_OFFLINE GOPROXY GOTOOLCHAIN HOME LANG PATH PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INDEX PWD \
                 PYTHONDONTWRITEBYTECODE TERM TZ USER npm_config_offline npm_config_update_notifier ";
    assert_eq!(told, format!("text\nfrom-harness\nnew\nutil.py\n{names}"));
    assert_eq!(crate::harness::snapshot(&yard.repo()), before);
}

#[test]
fn what_is_hidden_or_read_only_is_that() {
    let yard = Yard::new();
    let Some(sandbox) = open(&yard) else { return };
    let script = ["sh", "-c", "cat README.md; ls src | wc -l; (echo x > new) 2> /dev/null || echo no"];
    let hidden = vec!["README.md".into(), "src".into(), "not/there".into()];
    let job = Job { hidden, read_only: true, ..Job::new(script) };
    assert_eq!(text(&run(&sandbox, &job)), "0\nno\n");
    assert_eq!(text(&run(&sandbox, &Job::new(script))), "read me\n2\n");
}

#[test]
fn the_deadline_kills_the_whole_tree_and_nothing_of_the_container_is_left() {
    let yard = Yard::new();
    let Some(sandbox) = open(&yard) else { return };
    let mark = format!("86398.{}{}", std::process::id(), u32::from_str_radix(&sandbox.id()[..6], 16).expect("id"));
    let script = format!("trap '' TERM; setsid sleep {mark} & (setsid sh -c 'sleep {mark} &' &) ; sleep {mark}");
    let started = Instant::now();
    let outcome = limited(&sandbox, Limits { seconds_max: 2.0, ..Limits::DEFAULT }, &script);
    let late = started.elapsed().saturating_sub(Duration::from_secs(2));
    assert_eq!(outcome.ending, Ending::DeadlineExceeded);
    eprintln!("all dead and cleaned up {} ms after the deadline", late.as_millis());
    assert!(late < Duration::from_secs(3), "{late:?}");
    assert_eq!(traces(&mark), [""; 0]);
    assert_eq!(traces(sandbox.id()), [""; 0]);
    let cancelled = sandbox.run(&Job::new(["sleep", "60"]), &AtomicBool::new(true)).expect("runs");
    assert_eq!(cancelled.ending, Ending::Cancelled);
    assert_eq!(text(&sh(&sandbox, "echo the box still works")), "the box still works\n");
}

#[test]
fn output_memory_files_disk_and_processes_have_walls() {
    let yard = Yard::new();
    let Some(sandbox) = open(&yard) else { return };
    let flood = limited(&sandbox, Limits { output_bytes_max: 10_000, ..Limits::DEFAULT }, "yes");
    assert_eq!((flood.ending, flood.stdout.len(), flood.stdout_truncated), (Ending::OutputLimit, 10_000, true));
    let hog = limited(
        &sandbox,
        Limits { memory_bytes_max: 64 << 20, ..Limits::DEFAULT },
        "head -c 200000000 /dev/zero | tail",
    );
    assert_eq!(hog.ending, Ending::OutOfMemory, "{}", text(&hog));
    let small = Limits { file_bytes_max: 1 << 20, tmp_bytes_max: 1 << 20, open_files_max: 20, ..Limits::DEFAULT };
    let script = "head -c 2000000 /dev/zero > big; ulimit -n; head -c 700000 /dev/zero > /tmp/a
        for at in /tmp /dev/shm ~; do head -c 700000 /dev/zero > $at/b && head -c 700000 /dev/zero > $at/c && echo $at; done 2>/dev/null";
    let told = limited(&sandbox, small, script);
    assert!(text(&told).ends_with("20\n"), "{}", text(&told));
    assert_eq!(sandbox.view().metadata("big").expect("big").bytes, 1 << 20);
    let disk = Limits { upper_bytes_max: 4 << 20, seconds_max: 20.0, ..Limits::DEFAULT };
    let filler = "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); sleep 0.05; done";
    assert_eq!(limited(&sandbox, disk, filler).ending, Ending::DiskLimit);
    let bomb = Limits { pids_max: 32, seconds_max: 3.0, ..Limits::DEFAULT };
    let outcome = limited(&sandbox, bomb, "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 60");
    assert_ne!(outcome.ending, Ending::Exited(0));
}

const OWNER_OF: &str = "SANDBOX_TEST_DOCKER_OWNER_OF";

/// Not a test of its own: the next one starts it in a child process, which is killed in the middle of a job.
#[test]
fn owner_process() {
    let Ok(dir) = std::env::var(OWNER_OF) else { return };
    let dir = Path::new(&dir);
    let spec = BoxSpec { docker: engine(), ..BoxSpec::new(dir.join("repo"), dir.join("boxes")) };
    let sandbox = Sandbox::open(spec).expect("box");
    let _ = sandbox.run(&Job::new(["sh", "-c", "echo on > started; sleep 3600"]), &AtomicBool::new(false));
}

#[test]
fn the_container_of_a_killed_owner_is_found_by_its_label_and_removed_and_a_living_ones_is_not() {
    let yard = Yard::new();
    let Some(ours) = open(&yard) else { return };
    let root = yard.repo().parent().expect("parent").to_owned();
    let own = std::env::current_exe().expect("own path");
    let mut child =
        Command::new(own).args(["--exact", "docker::owner_process"]).env(OWNER_OF, &root).spawn().expect("child");
    let theirs = wait_for_start(&yard, ours.id());
    child.kill().expect("kill");
    assert_eq!(child.wait().expect("wait").signal(), Some(9));
    assert!(!traces(&theirs).is_empty());

    let found = reap(&yard.state()).expect("reap");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].failure.is_none(), "{found:?}");
    assert_eq!((found[0].id.as_str(), found[0].containers.len()), (theirs.as_str(), 1));
    assert_eq!(traces(&theirs), [""; 0]);
    let left: Vec<_> = fs::read_dir(yard.state()).expect("state").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [ours.id()]);
    assert!(reap(&yard.state()).expect("reap again").is_empty());
    assert!(sh(&ours, "true").ending.succeeded());
}

#[test]
fn the_doctor_is_told_which_engine_there_is_and_a_silent_one_is_no_box() {
    let yard = Yard::new();
    let silent: Socket = "unix:///no/such/socket".parse().expect("address");
    let told = probe_docker(&yard.state(), &silent);
    assert!(
        told.findings
            .iter()
            .any(|finding| finding.state == State::Broken && finding.told.contains("no engine answers"))
    );
    let refused = Sandbox::open(BoxSpec { docker: Some(silent), ..yard.spec() }).err().expect("no box");
    assert!(matches!(refused, OpenError::Refused(_)), "{refused}");
    let Some(socket) = engine() else { return };
    let told = probe_docker(&yard.state(), &socket);
    told.findings.iter().for_each(|finding| eprintln!("{finding:?}"));
    let about = told.about.expect("an engine");
    assert!(!about.version.is_empty() && !about.storage_driver.is_empty(), "{about:?}");
    assert!(told.self_attack.expect("a box").held());
}
