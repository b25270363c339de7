//! Does the second model see what it may see, and does its word count? It stands behind a real socket, as the first does.

use crate::home::{Home, boxes_work};
use crate::model_server::{ModelServer, Reply};
use crate::session::{FIX, READ};

const APPROVE: &str = "{\"reasons\": [\"it adds\"], \"verdict\": \"approve\"}";
const REJECT: &str = "{\"reasons\": [\"it subtracts\"], \"verdict\": \"reject\"}";
const AGAIN: &str = "edit_file calc.py\n```python\ndef add(a, b):\n    return b + a\n```\n";
const TASK: &str =
    "{\"name\": \"task\", \"arguments\": {\"prompt\": \"where is add\", \"subagent_type\": \"Explore\"}}\n";
const ANSWER: &str = "{\"name\": \"finish\", \"arguments\": {\"summary\": \"in calc.py\"}}\n";

#[test]
fn a_second_model_sees_task_diff_and_results_and_its_approval_is_the_last_rung() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let (worker, reviewer) = (ModelServer::start([READ, FIX]), ModelServer::start([APPROVE]));
    let by = format!("{}#elder", reviewer.url);
    let told = home.run(&worker.url, &["--review-by", &by]).expect(0);
    told.says("verify ok   second review: elder approves: it adds").says("ending: verified");
    let asked = reviewer.told(0);
    assert!(asked.starts_with("Task:\n```\nmake the failing test pass\n```\n\nDiff:\n"), "{asked}");
    assert!(asked.contains("+    return a + b") && asked.contains("tests (Passed)"), "{asked}");
    assert!(!asked.contains("The sign is wrong"), "nothing of what the worker said");
    assert_eq!(reviewer.calls()[0]["model"], "elder");
}

#[test]
fn reasons_are_told_once_and_a_second_rejection_ends_the_session_unapplied() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let before = home.snapshot();
    let (worker, reviewer) = (ModelServer::start([READ, FIX, AGAIN]), ModelServer::start([REJECT]));
    let told = home.run(&worker.url, &["--apply", "--review-by", &reviewer.url]).expect(1);
    told.says("ending: rejected: scripted rejects the change: it subtracts").says("the repository is untouched");
    assert!(worker.told(2).contains("rejects: it subtracts"));
    assert_eq!((reviewer.calls().len(), home.snapshot()), (2, before));
}

#[test]
fn where_the_second_model_fails_the_change_is_not_proven_and_not_applied() {
    if !boxes_work() {
        return;
    }
    for reply in [Reply::Refuse(500, "no".into()), Reply::Say("looks good to me".into())] {
        let home = Home::with_bug();
        let before = home.snapshot();
        let (worker, reviewer) = (ModelServer::start([READ, FIX]), ModelServer::start([reply]));
        let told = home.run(&worker.url, &["--apply", "--review-by", &reviewer.url]).expect(5);
        told.says("verify ?    second review: scripted").says("has not answered").says("ending: unverified");
        assert_eq!(home.snapshot(), before);
    }
}

#[test]
fn a_reviewer_that_is_not_there_starts_no_session() {
    let home = Home::with_bug();
    let told = home.run("http://127.0.0.1:9/v1", &["--review-by", "no-such-model"]).expect(3);
    assert!(told.err.contains("no-such-model"), "{}", told.err);
    assert_eq!(home.names("sessions"), Vec::<String>::new());
}

#[test]
fn a_sub_agent_looks_for_the_session_and_the_log_tells_whose_each_line_is() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([TASK, READ, ANSWER, READ, FIX]);
    let told = home.run(&server.url, &["--subagents"]).expect(0);
    told.says("sub-agent a1 begins: where is add").says("sub-agent a1 read_file calc.py [allowed]");
    told.says("sub-agent a1 (Explore) ended with an answer").says("ending: verified");
    assert!(server.told(3).contains("The sub-agent a1 (Explore) is done. Its answer:\n```\nin calc.py\n```"));
    home.cloister(&["audit", "verify"]).expect(0);
    home.cloister(&["audit", "show"])
        .expect(0)
        .says("[a1] Turn 1.")
        .says("The sub-agent a1 (Explore) came back: done.");
}
