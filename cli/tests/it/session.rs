//! Does a whole session keep its promises? The real box and the real index; only the model is scripted, behind `--url`.

use crate::home::{FIXED, Home, Told, boxes_work};
use crate::model_server::{ModelServer, Reply};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

pub const GREP: &str = "I look for the function.\n{\"name\": \"grep\", \"arguments\": {\"pattern\": \"def add\"}}\n";
pub const READ: &str = "{\"name\": \"read_file\", \"arguments\": {\"path\": \"calc.py\"}}\n";
pub const FIX: &str = "The sign is wrong.\nedit_file calc.py\n```python\ndef add(a, b):\n    return a + b\n```\n";
pub const FINISH: &str = "{\"name\": \"finish\", \"arguments\": {\"summary\": \"done\"}}\n";

#[test]
fn a_failing_test_is_fixed_and_the_working_tree_waits_for_apply() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let before = home.snapshot();
    let server = ModelServer::start([GREP, READ, FIX]);
    let told = home.run(&server.url, &[]).expect(0);
    told.says("ending: verified").says("not applied; the change is in ").says("+    return a + b");
    assert_eq!(home.snapshot(), before, "without --apply the working tree is untouched");
    let diff = std::fs::read_to_string(home.path().join("sessions").join(home.session()).join("change.diff")).unwrap();
    assert!(diff.contains("-    return a - b\n+    return a + b\n"), "{diff}");
    home.assert_no_box();

    let server = ModelServer::start([GREP, READ, FIX]);
    home.run(&server.url, &["--apply"]).expect(0).says("applied to ");
    assert_eq!(home.text("calc.py"), FIXED);
    let changed = |path: &str| before.iter().any(|entry| entry.0.ends_with(path) && !home.snapshot().contains(entry));
    assert!(changed("calc.py") && !changed("test_calc.py"));
    assert_eq!(before.len(), home.snapshot().len(), "nothing else was written");
    home.assert_no_box();
}

/// A change below a directory was once neither applied nor taken back.
#[test]
fn a_change_in_a_subdirectory_is_taken_back_and_applied() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let (wrong, test) = (home.text("calc.py"), home.text("test_calc.py"));
    std::fs::remove_file(home.repo().join("calc.py")).unwrap();
    home.put("lib/__init__.py", "");
    home.put("lib/calc.py", &wrong);
    home.put("test_calc.py", test.replace("calc import", "lib.calc import"));
    let read = "{\"name\": \"read_file\", \"arguments\": {\"path\": \"lib/calc.py\"}}\n";
    let worse = "edit_file lib/calc.py\n```python\ndef add(a, b):\n    return a * b * 7\n```\n";
    // The second edit changes nothing when the first was not taken back.
    let again = "edit_file lib/calc.py\n```python\ndef add(a, b):\n    return a - b\n```\n";
    let fix = FIX.replace("calc.py", "lib/calc.py").leak();
    let server = ModelServer::start([read, worse, again, fix]);
    home.run(&server.url, &["--apply"]).expect(0).says("changes nothing").says("applied to ");
    assert_eq!(home.text("lib/calc.py"), FIXED);
}

#[test]
fn a_session_is_listed_shown_and_verified_and_one_changed_byte_is_noticed() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([READ, FIX]);
    let told = home.run(&server.url, &[]).expect(0);
    let id = home.session();
    let listed = home.cloister(&["sessions", "list"]).expect(0);
    assert_eq!(listed.out, format!("{id}  verified         make the failing test pass\n"));
    let shown = home.cloister(&["sessions", "show", &id]).expect(0);
    shown.says(&format!("session {id}")).says("read_file calc.py").says("ending: verified").says("+    return a + b");
    home.cloister(&["sessions", "verify", &id]).expect(0).says("the chain is whole");
    let head = told.out.rsplit("head ").next().unwrap().trim();
    let count: usize = head.split(':').next().unwrap().parse().unwrap();
    let verified = home.cloister(&["sessions", "verify", &id, "--head", head]).expect(0);
    assert_eq!(verified.out, format!("{count} records, sealed\nthe chain is whole\n"));

    // The last line cut off is seen only with the head.
    let (log, whole) = (home.log(&id), std::fs::read_to_string(home.log(&id)).unwrap());
    let cut = whole.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&log, &whole[..cut]).unwrap();
    home.cloister(&["sessions", "verify", &id]).expect(0).says("not sealed");
    home.cloister(&["sessions", "verify", &id, "--head", head]).expect(6);

    std::fs::write(&log, &whole).unwrap();
    let at = whole.find("def add").unwrap() as u64;
    std::fs::OpenOptions::new().write(true).open(&log).unwrap().write_all_at(b"D", at).unwrap();
    let broken = home.cloister(&["sessions", "verify", &id]).expect(6);
    assert!(broken.err.starts_with("error: the chain is broken at record "), "{}", broken.err);
}

#[test]
fn the_event_stream_is_versioned_whole_and_ends_with_closed() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([READ, FIX]);
    let told = home.run(&server.url, &["--json"]).expect(0);
    let events = told.events();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let expected = [
        "session", "opened", "replied", "verdict", "observed", "replied", "verdict", "observed", "tested", "verified",
        "ended", "closed",
    ];
    assert_eq!(names, expected);
    let ended = told.event("ended");
    assert_eq!((&ended["ending"]["name"], &ended["exit"]), (&"verified".into(), &0.into()));
    assert_eq!(ended["costs"]["calls"].as_array().unwrap().len(), 2);
    assert!(ended["diff"].as_str().unwrap().contains("+    return a + b"));
    assert_eq!(told.event("closed")["applied"], false);
    let rungs = told.event("verified")["report"]["rungs"].clone();
    let rungs: Vec<&str> = rungs.as_array().unwrap().iter().map(|rung| rung["name"].as_str().unwrap()).collect();
    assert_eq!(rungs, ["change", "parses", "lint", "build", "mattered", "tests", "review"]);
}

#[test]
fn every_prompt_begins_with_the_one_before() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([GREP, READ, FIX]);
    home.run(&server.url, &[]).expect(0);
    let calls = server.calls();
    assert_eq!(calls.len(), 3);
    for pair in calls.windows(2) {
        let (before, after) = (pair[0]["messages"].as_array().unwrap(), pair[1]["messages"].as_array().unwrap());
        assert!(after.len() > before.len() && after.starts_with(before), "the history only grows");
    }
}

#[test]
fn a_session_that_ran_out_of_budget_is_resumed_and_applied() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([READ, FIX]);
    home.run(&server.url, &["--actions", "1"]).expect(1).says("ending: budget_exhausted");
    let first = home.session();
    let resumed = home.cloister(&["sessions", "resume", &first, "--apply"]).expect(0);
    resumed.says(&format!("resuming {first}")).says("ending: verified").says("applied to ");
    assert_eq!(home.text("calc.py"), FIXED);
    let ids: BTreeSet<String> = home.names("sessions").into_iter().collect();
    assert_eq!(ids.len(), 2, "the log of the first is not written again");
    for id in &ids {
        home.cloister(&["sessions", "verify", id]).expect(0).says("sealed");
    }
    home.assert_no_box();
}

#[test]
fn a_repository_without_tests_ends_unverified_and_is_not_applied() {
    if !boxes_work() {
        return;
    }
    let home = Home::new();
    home.put("calc.py", crate::home::BUG);
    let server = ModelServer::start([READ, FIX, FINISH]);
    let told = home.run(&server.url, &["--apply"]).expect(5);
    told.says("tests: none known")
        .says("ending: unverified")
        .says("the repository is untouched")
        .says("+    return a + b");
    assert_eq!(home.text("calc.py"), crate::home::BUG);
    home.assert_no_box();
}

#[test]
fn the_seconds_of_the_budget_end_a_session_with_a_slow_model() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([Reply::Late(1_500, READ.into())]);
    let told = home.run(&server.url, &["--seconds", "1", "--json"]).expect(1);
    assert_eq!(told.event("ended")["ending"]["name"], "budget_exhausted");
    home.assert_no_box();
}

#[test]
fn what_a_person_changes_meanwhile_is_not_overwritten() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    home.put("other.py", "def half(a):\n    return a\n");
    home.put("test_other.py", "import unittest\nfrom other import half\n\n\nclass Other(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(half(4), 2)\n");
    let look = "{\"name\": \"read_file\", \"arguments\": {\"path\": \"other.py\"}}\n";
    let half = "edit_file other.py\n```python\ndef half(a):\n    return a // 2\n```\n";
    let script = [Reply::from(READ), FIX.into(), Reply::Late(2_000, look.into()), half.into()];
    let server = ModelServer::start(script);
    let child = home.run_command(&server.url, &["--apply"]).spawn().unwrap();
    // The first edit is kept in the box; now a person works on the same file.
    crate::home::wait_for("the third call", || server.calls().len() == 3);
    let theirs = format!("# by a person\n{}", crate::home::BUG);
    home.put("calc.py", &theirs);
    let told: Told = crate::home::end_of(child, 60);
    assert_eq!(home.text("calc.py"), theirs, "a person's work was lost\n{}\n{}", told.out, told.err);
    let told = told.expect(6);
    assert!(told.err.contains("calc.py") && told.err.contains("change.diff"), "{}", told.err);
}

#[test]
fn a_server_that_fails_ends_the_session_and_says_what_it_said() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([Reply::Refuse(503, "{\"error\": \"out of memory\"}".into())]);
    let told = home.run(&server.url, &[]).expect(6);
    told.says("ending: failed").says("out of memory").says("the repository is untouched");
    home.assert_no_box();
}

#[test]
fn a_program_answers_questions_by_their_number_and_silence_is_no() {
    if !boxes_work() {
        return;
    }
    let touch = |name: &str| -> &'static str {
        format!("{{\"name\": \"run_command\", \"arguments\": {{\"command\": \"touch {name}\"}}}}\n").leak()
    };
    let home = Home::with_bug();
    let server = ModelServer::start([READ, touch("one"), touch("two"), touch("three"), FIX]);
    let mut command = home.run_command(&server.url, &["--json", "--answers", "--mode", "ask"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let answers = "{\"question\": 2, \"answer\": \"no\"}\nmaybe\n{\"question\": 1, \"answer\": \"yes\"}\n";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), answers.as_bytes()).unwrap();
    let told: Told = child.wait_with_output().unwrap().into();
    let told = told.expect(0);
    let events: Vec<serde_json::Value> = told.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    assert_eq!(of("question").iter().map(|event| event["question"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(of("question")[0]["shown"].as_str().unwrap().contains("touch one"));
    let answers: Vec<_> = of("answered").iter().map(|event| event["answer"].as_str().unwrap().to_owned()).collect();
    assert_eq!(answers, ["yes", "no", "silence"]);
    assert_eq!(of("answer_ignored").len(), 1);
}
