//! What is left when the owner of a box is killed?

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use sandbox::{BoxSpec, Job, Sandbox, State, probe, reap};

use crate::harness::{Yard, wait_for_start};

const OWNER_OF: &str = "SANDBOX_TEST_OWNER_OF";

/// Not a test of its own: the next one starts it in a child process, which is killed in the middle of a job.
#[test]
fn owner_process() {
    let Ok(dir) = std::env::var(OWNER_OF) else { return };
    let dir = Path::new(&dir);
    let sandbox = Sandbox::open(BoxSpec::new(dir.join("repo"), dir.join("boxes"))).expect("box");
    let _ = sandbox.run(&Job::new(["sh", "-c", "echo on > started; sleep 3600"]), &AtomicBool::new(false));
}

#[test]
fn the_box_of_a_killed_owner_is_found_and_removed_with_its_processes_and_a_living_ones_is_not() {
    let yard = Yard::new();
    let Some(ours) = yard.open() else { return };
    let root = yard.repo().parent().expect("parent").to_owned();
    let own = std::env::current_exe().expect("own path");
    let mut child =
        Command::new(own).args(["--exact", "reap::owner_process"]).env(OWNER_OF, &root).spawn().expect("child");
    let theirs = wait_for_start(&yard, ours.id());
    child.kill().expect("kill");
    assert_eq!(child.wait().expect("wait").signal(), Some(9));
    assert!(cgroups_of(&theirs) > 0 || !ours.footing().cgroups);

    let found = reap(&yard.state()).expect("reap");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].id.as_str(), found[0].containers.len()), (theirs.as_str(), 1));
    assert!(found[0].failure.is_none(), "{found:?}");
    let left: Vec<_> = fs::read_dir(yard.state()).expect("state").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [ours.id()]);
    assert_eq!(cgroups_of(&theirs), 0);
    assert!(reap(&yard.state()).expect("reap again").is_empty());
    assert!(ours.run(&Job::new(["true"]), &AtomicBool::new(false)).expect("ours lives").ending.succeeded());
}

/// Control groups that belong to a box, over all hierarchies.
fn cgroups_of(id: &str) -> usize {
    let dirs = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = dirs.chain([Path::new("/sys/fs/cgroup").to_owned()]);
    let names = dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("cloister-{id}-"))).count()
}

#[test]
fn what_is_not_ours_in_the_state_directory_is_left_alone() {
    let yard = Yard::new();
    fs::create_dir_all(yard.state().join("somebody's")).expect("dir");
    fs::write(yard.state().join("somebody's/box.json"), "{}").expect("file");
    fs::write(yard.state().join("file"), "x").expect("file");
    assert!(reap(&yard.state()).expect("reap").is_empty());
    assert_eq!(fs::read_dir(yard.state()).expect("state").count(), 2);
    assert!(reap(Path::new("/no/such/state")).expect("nothing").is_empty());
}

#[test]
fn the_doctor_is_told_what_works_and_what_to_do() {
    let yard = Yard::new();
    let told = probe(&yard.state(), None);
    for finding in &told.findings {
        eprintln!("{finding:?}");
    }
    assert_eq!(told.footing.is_some(), told.findings.iter().all(|finding| finding.state != State::Broken));
    let nothing = probe(&yard.state(), Some(Path::new("/no/such/runtime")));
    let broken: Vec<_> = nothing.findings.iter().filter(|finding| finding.state == State::Broken).collect();
    assert!(
        broken.iter().any(|finding| finding.what == "OCI runtime" && finding.remedy.contains("apt-get install runc"))
    );
}
