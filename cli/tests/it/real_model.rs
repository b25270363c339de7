//! Does the real model do the main job, cheaply, and just the same without a network?
//!
//! Runs with CLOISTER_SLOW=1 and the default chat model in the store of $CLOISTER_HOME; says so where it does not.

use crate::home::{Home, Told, boxes_work};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of the tokens that were in the context already, so many parts in a hundred are not computed again.
const REUSED_PERCENT_MIN: u64 = 95;

#[test]
fn the_demo_is_solved_with_reuse_and_the_same_without_a_network() {
    let Some(store) = store().filter(|_| boxes_work()) else { return };
    let (with, without) = (demo(&store, false), demo(&store, true));
    // What it costs and whether the network matters is told even when the task is not solved.
    check_reuse(&with);
    match without.err.starts_with("unshare:") {
        true => eprintln!("SKIPPED: no network namespace can be made here: {}", without.err),
        false => assert_eq!(transcript(&with), transcript(&without), "the network makes a difference"),
    }
    assert_eq!(with.expect(0).event("ended")["ending"]["name"], "verified");
}

/// The store of $CLOISTER_HOME, when the slow tests are asked for and the model is in it.
pub fn store() -> Option<PathBuf> {
    if std::env::var_os("CLOISTER_SLOW").is_none_or(|slow| slow != "1") {
        eprintln!("SKIPPED: CLOISTER_SLOW=1 runs the tests with the real model");
        return None;
    }
    let home = std::env::var_os("CLOISTER_HOME").map(PathBuf::from);
    let store =
        home.map(|home| home.join("store")).filter(|store| store.join("models/qwen2.5-coder-1.5b-instruct").is_dir());
    if store.is_none() {
        eprintln!(
            "SKIPPED: the store of $CLOISTER_HOME has no qwen2.5-coder-1.5b-instruct; `cloister models pull` fetches it"
        );
    }
    store
}

/// The demo of `make run` in a home of its own, over the models that are here already.
fn demo(store: &Path, offline: bool) -> Told {
    let home = Home::new();
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/demo");
    copy(&deploy.join("repo"), &home.repo());
    std::fs::create_dir_all(home.path()).expect("home");
    std::os::unix::fs::symlink(store, home.path().join("store")).expect("link");
    let task = std::fs::read_to_string(deploy.join("task.md")).expect("the task");
    let repo = home.repo();
    let run = home.command(&["run", &task, "--repo", repo.to_str().expect("UTF-8"), "--json", "--apply"]);
    let mut command = if offline { Command::new("unshare") } else { Command::new("env") };
    if offline {
        command.args(if rustix::process::geteuid().is_root() { &["-n"][..] } else { &["-rn"] });
    }
    command.arg(run.get_program()).args(run.get_args()).env("CLOISTER_HOME", home.path()).stdin(Stdio::null());
    let told = Told::from(command.output().expect("it starts"));
    let tests =
        Command::new("python3").args(["-m", "unittest", "discover"]).current_dir(&repo).output().expect("python3");
    assert!(told.code != 0 || tests.status.success(), "the applied change does not pass the tests outside of the box");
    home.assert_no_box();
    told
}

/// The second and later calls compute only what is new. Measured where the reply before led to an action and stayed in
/// the context; how much of it is shared with the next prompt is not known from outside where it was taken back.
#[track_caller]
fn check_reuse(told: &Told) {
    let (mut before, mut measured, mut stayed): (Option<Value>, usize, bool) = (None, 0, false);
    for event in told.events() {
        match event["event"].as_str() {
            Some("observed") => stayed = true,
            Some("refused" | "restored") => stayed = false,
            Some("replied") => {
                let usage = event["usage"].clone();
                let number = |usage: &Value, key: &str| usage[key].as_u64().expect("a number");
                if let Some(before) = before.filter(|_| stayed) {
                    let (prompt, earlier) = (number(&usage, "prompt_tokens"), number(&before, "prompt_tokens"));
                    let context = earlier + number(&before, "generated_tokens");
                    // A prompt that did not grow by the reply was cut back.
                    if prompt >= context {
                        let reused = number(&usage, "cached_tokens");
                        let enough = reused * 100 >= context * REUSED_PERCENT_MIN;
                        assert!(enough, "{reused} of {context} reused: {before} then {usage}");
                        measured += 1;
                    }
                }
                (before, stayed) = (Some(usage), false);
            }
            _ => {}
        }
    }
    assert!(measured > 0, "no call could be measured");
}

/// Everything that was said, with the length of its prompt.
fn transcript(told: &Told) -> Vec<Value> {
    let timeless = |mut event: Value| {
        // A reply that is ended early may have drawn one token more, which nobody sees.
        for counted in ["millis", "generated_tokens", "cached_tokens"] {
            event["usage"][counted] = Value::Null;
        }
        event["at_ms"] = Value::Null;
        event
    };
    let replies = told.events().into_iter().filter(|event| event["event"] == "replied").map(timeless);
    replies.chain([told.event("ended")["diff"].clone()]).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("directory");
    for entry in std::fs::read_dir(from).expect("read").map(|entry| entry.expect("entry")) {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copy");
        }
    }
}
