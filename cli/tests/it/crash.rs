//! What is left behind by Ctrl-C, and by a kill that nobody can catch?

use crate::home::{Home, boxes_work, end_of, processes_with, wait_for};
use crate::model_server::{ModelServer, Reply};
use crate::session::{FINISH, READ};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::Child;

const ENDS_WITHIN_SECONDS: u64 = 10;

#[test]
fn ctrl_c_while_the_model_is_silent_ends_the_session_as_cancelled() {
    for reply in [Reply::Hang, Reply::Mute] {
        if !boxes_work() {
            return;
        }
        let home = Home::with_bug();
        let before = home.snapshot();
        let server = ModelServer::start([reply]);
        let child = home.run_command(&server.url, &["--json"]).spawn().unwrap();
        wait_for("the call", || server.calls().len() == 1);
        kill_process(pid(&child), Signal::INT).unwrap();
        let told = end_of(child, ENDS_WITHIN_SECONDS).expect(130);
        assert_eq!(told.event("ended")["ending"]["name"], "cancelled");
        assert_eq!(told.events().last().unwrap()["event"], "closed");
        assert_eq!(home.snapshot(), before);
        home.assert_no_box();
        home.cloister(&["sessions", "verify", &home.session()]).expect(0).says("sealed");
    }
}

#[test]
fn ctrl_c_while_a_command_runs_kills_it_and_leaves_no_box() {
    if !boxes_work() {
        return;
    }
    let home = sleeper();
    let (tag, call) = tagged("cancel");
    let server = ModelServer::start([call]);
    // A terminal sends the signal to the whole foreground group, the runtime included.
    let child = home.run_command(&server.url, &["--json"]).process_group(0).spawn().unwrap();
    wait_for("the command in the box", || in_the_box(&tag));
    kill_process_group(pid(&child), Signal::INT).unwrap();
    let told = end_of(child, ENDS_WITHIN_SECONDS).expect(130);
    assert_eq!(told.event("ended")["ending"]["name"], "cancelled");
    wait_for("the end of the command", || processes_with(&tag).is_empty());
    home.assert_no_box();
}

#[test]
fn kill_9_leaves_the_working_tree_untouched_and_the_next_start_buries_the_box() {
    if !boxes_work() {
        return;
    }
    let home = sleeper();
    let before = home.snapshot();
    let (tag, call) = tagged("kill");
    let server = ModelServer::start([READ.to_owned(), call]);
    let mut child = home.run_command(&server.url, &["--apply"]).spawn().unwrap();
    wait_for("the command in the box", || in_the_box(&tag));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(home.snapshot(), before);
    let killed = home.session();
    let listed = home.cloister(&["sessions", "list"]).expect(0);
    listed.says(&format!("{killed}  not ended"));
    home.cloister(&["sessions", "verify", &killed]).expect(0).says("not sealed").says("the chain is whole");
    home.cloister(&["sessions", "show", &killed]).expect(0).says("ending: not ended");

    // As if the machine had stopped in the middle of a write.
    let log = home.log(&killed);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, format!("{text}{}", &text[..40])).unwrap();
    home.cloister(&["sessions", "verify", &killed]).expect(0).says("torn tail of 40 bytes");

    let server = ModelServer::start([FINISH]);
    let told = home.run(&server.url, &["--actions", "1"]);
    assert!(told.err.contains("note: buried box "), "{}", told.err);
    wait_for("the end of the command", || processes_with(&tag).is_empty());
    home.assert_no_box();
    assert_eq!(home.snapshot(), before);
}

#[test]
fn a_session_that_was_killed_can_be_resumed() {
    if !boxes_work() {
        return;
    }
    let home = sleeper();
    let (tag, call) = tagged("resume");
    let server = ModelServer::start([READ, &call, crate::session::FIX]);
    let mut child = home.run_command(&server.url, &[]).spawn().unwrap();
    wait_for("the command in the box", || in_the_box(&tag));
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = home.session();
    // What it was doing is judged again and done again, in a fresh box; this time it does not take long.
    home.put("sleeper.py", "print('awake')\n");
    let resumed = home.cloister(&["sessions", "resume", &killed, "--apply"]).expect(0);
    resumed.says("ending: verified").says("applied to ");
    assert_eq!(home.records("verdict").len(), 2, "the command and the edit were judged in the new log");
    wait_for("the end of the command", || processes_with(&tag).is_empty());
    home.assert_no_box();
}

fn sleeper() -> Home {
    let home = Home::with_bug();
    home.put("sleeper.py", "import time\ntime.sleep(300)\n");
    home
}

/// A word that no other process has, and a command that sleeps with it.
fn tagged(what: &str) -> (String, String) {
    let tag = format!("cloister-test-{what}-{}", std::process::id());
    let call =
        serde_json::json!({ "name": "run_command", "arguments": { "command": format!("python3 sleeper.py {tag}") } });
    (tag, format!("{call}\n"))
}

/// Not only the shell that starts it, but the program itself.
fn in_the_box(tag: &str) -> bool {
    processes_with(tag).iter().any(|line| line.starts_with("python3 sleeper.py"))
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a process id")).expect("not zero")
}
