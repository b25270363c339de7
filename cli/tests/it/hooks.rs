//! Do hooks run in a real box, and does everything that goes wrong with one block?

use crate::home::{Home, boxes_work};
use crate::model_server::ModelServer;
use crate::session::{FIX, READ};

const RUN: &str = "{\"name\": \"run_command\", \"arguments\": {\"command\": \"ls\"}}\n";
const GUARD: &str = "#!/usr/bin/env python3
import json, os, sys
told = json.load(sys.stdin)
assert told['cwd'] == os.getcwd() == os.environ['CLAUDE_PROJECT_DIR'], os.getcwd()
if told['tool_name'] == 'Bash' and told['tool_input']['command'] == 'ls':
    print('no listing here', file=sys.stderr)
    sys.exit(2)
";

/// Writes `hooks.toml` and a script beside it into $CLOISTER_HOME.
fn with_hooks(entries: &str, script: &str) -> Home {
    let home = Home::with_bug();
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("hooks.toml"), format!("version = 1\n{entries}")).unwrap();
    std::fs::write(home.path().join("guard"), script).unwrap();
    home
}

#[test]
fn a_hook_blocks_in_the_box_and_the_rest_goes_on() {
    if !boxes_work() {
        return;
    }
    for argv in ["['{script}']", "['python3', '{script}']"] {
        let entry =
            format!("[[hook]]\nid = 'guard'\nevent = 'PreToolUse'\nmatcher = '*'\nargv = {argv}\nscript = 'guard'\n");
        let home = with_hooks(&entry, GUARD);
        let server = ModelServer::start([RUN, READ, FIX]);
        let told = home.run(&server.url, &[]).expect(0);
        told.says("no listing here").says("ending: verified");
        home.assert_no_box();
    }
}

#[test]
fn a_hook_that_fails_in_the_box_blocks() {
    if !boxes_work() {
        return;
    }
    let cases = [
        ("['sleep', '60']", "seconds_max = 1\n", "still running"),
        ("['sh', '-c', 'kill -SEGV $$']", "", "signal"),
        ("['sh', '-c', 'exit 1']", "", "exit 1"),
        ("['no-such-program']", "", "exit 127"),
        ("['/etc/hostname']", "", "failed"),
        ("['sh', '-c', 'head -c 200000 /dev/zero']", "", "bytes"),
        ("['sh', '-c', 'echo {']", "", "not understood"),
    ];
    for (argv, more, why) in cases {
        let entry = format!("[[hook]]\nid = 'h'\nevent = 'PreToolUse'\nmatcher = 'Edit'\nargv = {argv}\n{more}");
        let home = with_hooks(&entry, "");
        let server = ModelServer::start([READ, FIX]);
        let told = home.run(&server.url, &[]).expect(1);
        assert!(told.out.contains(why) && !told.out.contains("+    return a + b"), "{argv}\n{}", told.out);
        home.assert_no_box();
    }
}

#[test]
fn hooks_that_do_not_load_start_no_session() {
    let home = with_hooks("[[hook]]\nid = 'h'\nevent = 'PreToolUse'\nargv = ['a']\ntimeout = 3\n", "");
    let server = ModelServer::start([READ]);
    let told = home.run(&server.url, &[]).expect(4);
    assert!(told.err.contains("timeout"), "{}", told.err);
    assert!(home.names("sessions").is_empty());
}

#[test]
fn a_hook_of_the_repository_is_inert_and_said_to_be() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let entry =
        "version = 1\n[[hook]]\nid = 'theirs'\nevent = 'PreToolUse'\nargv = ['sh', '{script}']\nscript = 'x.sh'\n";
    home.put(".cloister/hooks.toml", entry);
    home.put("x.sh", "exit 2\n");
    let server = ModelServer::start([READ, FIX]);
    let told = home.run(&server.url, &[]).expect(0);
    assert!(told.err.contains("hook theirs of this repository does not run"), "{}", told.err);
    let pin = told.err.split("add to hooks.toml:\n").nth(1).unwrap();
    let pin: String = pin.lines().take(3).map(|line| format!("{line}\n")).collect();
    std::fs::write(home.path().join("hooks.toml"), format!("version = 1\n{pin}")).unwrap();
    let server = ModelServer::start([READ, FIX]);
    home.run(&server.url, &[]).expect(1).says("[hook, rule theirs] it gave no reason");
}

#[test]
fn a_question_parks_a_session_and_an_answer_goes_on_with_it() {
    if !boxes_work() {
        return;
    }
    let asks = "[[hook]]\nid = 'asks'\nevent = 'PreToolUse'\nmatcher = 'Edit'\nargv = ['cat', '/workspace/ask.json']\n";
    let home = with_hooks(asks, "");
    home.put(
        "ask.json",
        r#"{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "sure?"}}"#,
    );
    for (answer, code) in [("yes", 0), ("no", 7)] {
        let server = ModelServer::start([READ, FIX]);
        let told = home.run(&server.url, &["--mode", "ask", "--park"]).expect(7);
        told.says("ending: parked")
            .says("  | edit_file calc.py\n  | def add(a, b):\n  |     return a + b")
            .says("sure?");
        let id = home.session();
        home.cloister(&["sessions", "list"]).expect(0).says(&format!("{id}  parked"));
        home.cloister(&["sessions", "answer", &id, answer]).expect(0).says("| edit_file calc.py");
        home.cloister(&["sessions", "verify", &id]).expect(0).says("sealed");
        home.cloister(&["sessions", "answer", &id, "yes"]).expect(4);
        // What was refused is proposed again, and so is the question.
        home.cloister(&["sessions", "resume", &id, "--park"]).expect(code);
    }
    home.assert_no_box();
}

#[test]
fn where_nobody_looks_nobody_is_asked() {
    if !boxes_work() {
        return;
    }
    let asks = "[[hook]]\nid = 'asks'\nevent = 'PreToolUse'\nmatcher = 'Edit'\nargv = ['cat', '/workspace/ask.json']\n";
    let home = with_hooks(asks, "");
    home.put("ask.json", r#"{"hookSpecificOutput": {"permissionDecision": "ask"}}"#);
    let server = ModelServer::start([READ, FIX]);
    home.run(&server.url, &["--mode", "ask"]).expect(1).says("nobody is here to ask");
}
