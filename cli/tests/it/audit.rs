//! Can a person believe a log, read it, and hand it on?

use crate::home::{Home, Told, boxes_work};
use crate::model_server::ModelServer;
use crate::session::{FIX, READ};
use serde_json::Value;

#[test]
fn a_log_is_verified_told_as_a_story_and_exported() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let server = ModelServer::start([READ, FIX]);
    home.run(&server.url, &["--apply"]).expect(0);
    let id = home.session();
    let verified = home.cloister(&["audit", "verify", &id]).expect(0);
    verified.says("sealed").says("the chain is whole").says("head ");
    let path = home.log(&id);
    home.cloister(&["audit", "verify", path.to_str().unwrap()]).expect(0).says("the chain is whole");
    home.cloister(&["audit", "verify"]).expect(0).says(&format!("{id}  ")).says("sealed, whole");

    let story = home.cloister(&["audit", "show"]).expect(0);
    story.says(&format!("Session {id} begins: \"make the failing test pass\"")).says("Turn 1.");
    story.says("It asks to change calc.py: allowed by ").says("Really written: calc.py (changed, sha256 ");
    story.says("Applied to the working tree: calc.py (changed, sha256 ").says("@@ -1,5 +1,5 @@");
    story.says("integrity: the chain is whole, sealed");

    let exported = home.cloister(&["audit", "export", &id]).expect(0);
    let events: Vec<Value> = exported.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["metadata"]["version"] == "1.3.0" && event["class_uid"].is_u64()));
    let applied = events.iter().find(|event| event["metadata"]["event_code"] == "applied").unwrap();
    assert_eq!((&applied["class_uid"], &applied["file"]["path"]), (&1001.into(), &"calc.py".into()));
    let header = home.records("header").remove(0);
    assert_eq!(header["policy_sha256"].as_str().unwrap().len(), 64, "{header}");
    assert!(header["index_generation"].is_u64(), "{header}");
    let trials = header["self_attack"]["trials"].as_array().expect("the self-attack of the box");
    assert!(trials.len() >= 9 && trials.iter().all(|trial| trial["held"] == true), "{header}");
}

#[test]
fn a_home_that_a_box_would_show_starts_no_session() {
    let home = Home::with_bug();
    let inside = home.repo().join("state");
    let mut command = home.run_command("http://127.0.0.1:9/v1", &[]);
    let told: Told = command.env("CLOISTER_HOME", &inside).output().unwrap().into();
    let told = told.expect(4);
    assert!(told.err.contains("would lie inside the repository"), "{}", told.err);
    assert!(!inside.join("audit.key").exists());
}
