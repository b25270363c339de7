//! Do existing scripts work, and does everything that can go wrong with a hook block?

use super::*;
use crate::action::Call;
use crate::workspace::Ended;
use std::io::Write;
use std::process::{Command as Process, Stdio};
use std::time::Instant;

mod loading;

fn call() -> Call {
    Call::RunCommand { command: "git push".into() }
}

fn ran(code: i32, output: impl Into<Vec<u8>>, errors: &str) -> Result<Ran, WorkspaceError> {
    Ok(Ran { ended: Ended::Exited(code), output: output.into(), errors: errors.into(), seconds: 0.0 })
}

fn hook(argv: &[&str], script: Option<&str>, on_error: OnError) -> Hook {
    Hook {
        id: "guard".into(),
        event: Event::PreToolUse,
        matcher: Matcher::parse("Bash").unwrap(),
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        script: script.map(str::to_owned),
        seconds_max: 1,
        on_error,
    }
}

fn says(occasion: &Occasion<'_>, ran: Result<Ran, WorkspaceError>) -> Heard {
    hook(&["guard"], None, OnError::Closed).heard(occasion, ran)
}

fn specific(fields: Value) -> String {
    json!({ "hookSpecificOutput": fields }).to_string()
}

#[track_caller]
fn check(output: &str, decision: Decision, reason: &str) {
    let call = call();
    let heard = says(&Occasion::PreToolUse { call: &call }, ran(0, output, ""));
    assert_eq!(heard.failure, None, "{output}");
    assert_eq!((heard.answer.decision, heard.answer.reason.as_str()), (decision, reason), "{output}");
}

#[test]
fn existing_scripts_are_understood() {
    check("", Decision::Nothing, "");
    check("{}", Decision::Nothing, "");
    check("checked 3 files\n", Decision::Nothing, "");
    check(&specific(json!({ "hookEventName": "PreToolUse", "permissionDecision": "allow" })), Decision::Nothing, "");
    let ask = json!({ "permissionDecision": "ask", "permissionDecisionReason": "sure?" });
    check(&specific(ask), Decision::Ask, "sure?");
    let deny = json!({ "permissionDecision": "deny", "permissionDecisionReason": "no" });
    check(&specific(deny), Decision::Block, "no");
    check(r#"{"decision": "approve", "suppressOutput": true, "systemMessage": "hi"}"#, Decision::Nothing, "");
    check(r#"{"decision": "block", "reason": "no"}"#, Decision::Block, "no");
    check(r#"{"continue": true, "decision": null}"#, Decision::Nothing, "");
    // The two ways to say it disagree: the stricter counts.
    let both = json!({ "decision": "block", "hookSpecificOutput": { "permissionDecision": "allow" } });
    check(&both.to_string(), Decision::Block, "");
}

#[test]
fn exit_2_blocks_with_standard_error_as_the_reason() {
    let call = call();
    let heard =
        says(&Occasion::PreToolUse { call: &call }, ran(2, "{\"decision\": \"approve\"}", "use pull requests\n"));
    assert_eq!(heard.failure, None);
    assert_eq!(heard.answer, Answer::block("use pull requests".into()));
}

#[test]
fn words_at_the_start_of_a_session_are_context() {
    let occasion = Occasion::UserPromptSubmit { prompt: "fix it" };
    assert_eq!(says(&occasion, ran(0, "It is Monday.\n", "")).answer.context.as_deref(), Some("It is Monday."));
    let call = call();
    assert_eq!(says(&Occasion::PreToolUse { call: &call }, ran(0, "It is Monday.", "")).answer.context, None);
}

/// Every way in which an answer can be none. The bar of issue 5 is that all of them block.
fn failures() -> Vec<(&'static str, Result<Ran, WorkspaceError>)> {
    let stopped = |why: &str| {
        Ok(Ran { ended: Ended::Stopped(why.into()), output: b"{}".to_vec(), errors: Vec::new(), seconds: 1.0 })
    };
    vec![
        ("timeout", stopped("killed: still running after 1 s")),
        ("signal", stopped("killed by signal 11")),
        ("output limit of the box", stopped("killed: more than 1000 bytes of output")),
        ("out of memory", stopped("killed: more than 1000 bytes of memory")),
        ("a crash", ran(1, "", "Traceback (most recent call last):")),
        ("another exit code", ran(3, r#"{"decision": "approve"}"#, "")),
        ("a code below nothing", ran(-1, "", "")),
        ("missing program", ran(127, "", "guard: not found")),
        ("not executable", ran(126, "", "guard: permission denied")),
        ("could not be put in place", ran(125, "", "")),
        ("half a JSON", ran(0, r#"{"decision": "block""#, "")),
        ("words before the JSON", ran(0, "Welcome!\n{\"decision\": \"block\"}", "")),
        ("words after the JSON", ran(0, "{\"decision\": \"block\"} bye", "")),
        ("two objects", ran(0, "{}{\"decision\": \"block\"}", "")),
        ("a list", ran(0, r#"[{"decision": "block"}]"#, "")),
        ("a string", ran(0, r#""deny""#, "")),
        ("a number for a word", ran(0, r#"{"decision": 1}"#, "")),
        ("a word for a bool", ran(0, r#"{"continue": "no"}"#, "")),
        ("a list for an object", ran(0, r#"{"hookSpecificOutput": []}"#, "")),
        ("a list by position", ran(0, r#"{"hookSpecificOutput": ["PreToolUse", "allow"]}"#, "")),
        ("an input that is no object", ran(0, specific(json!({ "updatedInput": "ls" })), "")),
        ("an unknown decision", ran(0, r#"{"decision": "deny"}"#, "")),
        ("an unknown permission", ran(0, specific(json!({ "permissionDecision": "Deny" })), "")),
        ("a misspelt key", ran(0, r#"{"decison": "block"}"#, "")),
        ("a key that stands twice", ran(0, r#"{"decision": "block", "decision": "approve"}"#, "")),
        ("an answer to another event", ran(0, specific(json!({ "hookEventName": "Stop" })), "")),
        ("an input without its command", ran(0, specific(json!({ "updatedInput": {} })), "")),
        ("an input of another tool", ran(0, specific(json!({ "updatedInput": { "file_path": "a" } })), "")),
        ("an input of another type", ran(0, specific(json!({ "updatedInput": { "command": ["ls"] } })), "")),
        ("bytes that are no text", ran(0, vec![b'{', 0xff, b'}'], "")),
        ("too long", ran(0, " ".repeat(answer::ANSWER_BYTES_MAX + 1), "")),
        ("too long a reason", ran(2, "", &"x".repeat(answer::ANSWER_BYTES_MAX + 1))),
        ("nested too deep", ran(0, format!("{{\"decision\":{}", "[".repeat(2_000)), "")),
        ("the box fails", Err(WorkspaceError::Failed("no runtime".into()))),
        ("the directory is gone", Err(WorkspaceError::NotFound { path: "/workspace".into() })),
    ]
}

#[test]
fn every_failure_of_a_hook_blocks() {
    let call = call();
    for (what, ran) in failures() {
        let heard = says(&Occasion::PreToolUse { call: &call }, ran);
        assert!(heard.failure.is_some(), "{what} is a failure");
        assert_eq!(heard.answer.decision, Decision::Block, "{what}");
        let mut fold = Fold::default();
        assert!(fold.add(&hook(&["guard"], None, OnError::Closed), heard, true), "{what}: nobody else is heard");
        let said = fold.blocked().expect(what);
        assert!(said.verdict == Verdict::Deny && said.reason.starts_with("it failed: "), "{what}: {}", said.reason);
    }
}

#[test]
fn a_failure_lets_pass_only_where_that_was_chosen() {
    let call = call();
    for (what, ran) in failures() {
        let heard = hook(&["guard"], None, OnError::Open).heard(&Occasion::PreToolUse { call: &call }, ran);
        assert!(heard.failure.is_some(), "{what} is told all the same");
        assert_eq!(heard.answer, Answer::default(), "{what}");
    }
    let blocks = hook(&["guard"], None, OnError::Open).heard(&Occasion::PreToolUse { call: &call }, ran(2, "", "no"));
    assert_eq!(blocks.answer.decision, Decision::Block, "a block is no failure");
}

#[test]
fn what_only_one_event_knows_is_a_failure_in_another() {
    let stop = Occasion::Stop { stop_hook_active: false, last_assistant_message: "" };
    for fields in [json!({ "permissionDecision": "allow" }), json!({ "updatedInput": { "command": "ls" } })] {
        assert!(says(&stop, ran(0, specific(fields), "")).failure.is_some());
    }
}

#[test]
fn a_rewritten_input_is_a_call_of_the_same_tool() {
    let rewrite = |call: &Call, input: Value| {
        says(&Occasion::PreToolUse { call }, ran(0, specific(json!({ "updatedInput": input })), "")).answer.rewritten
    };
    let read = Call::ReadFile { path: "./src/a.py".into(), start: Some(10), end: Some(19) };
    let shown = Occasion::PreToolUse { call: &read }.input(&Facts::default())["tool_input"].clone();
    assert_eq!(shown, json!({ "file_path": "/workspace/src/a.py", "offset": 10, "limit": 10 }));
    assert_eq!(rewrite(&read, shown), None, "the same again is not rewritten");
    let other = Call::ReadFile { path: "b.py".into(), start: Some(1), end: Some(5) };
    assert_eq!(rewrite(&read, json!({ "file_path": "/workspace/b.py", "offset": 1, "limit": 5 })), Some(other));
    let edit = Call::EditFile { path: Some("a.py".into()), text: "x".into() };
    let new = Call::EditFile { path: Some("/etc/a.py".into()), text: "y".into() };
    assert_eq!(rewrite(&edit, json!({ "file_path": "/etc/a.py", "new_string": "y" })), Some(new), "the gate sees it");
    assert_eq!(rewrite(&Call::RunTests, json!({})), None);
}

#[test]
fn every_tool_can_be_written_and_read_back() {
    let path = || "a/b.py".to_owned();
    let calls = [
        Call::ListDir { path: path() },
        Call::ReadFile { path: path(), start: None, end: Some(9) },
        Call::Search { query: "q".into() },
        Call::Grep { pattern: "p".into(), path: Some(path()) },
        Call::EditFile { path: Some(path()), text: "t".into() },
        Call::WriteFile { path: path(), text: "t".into() },
        Call::RunCommand { command: "c".into() },
        Call::RunTests,
        Call::Finish { summary: "s".into() },
    ];
    for call in calls {
        let Value::Object(input) = tool::input(&call) else { panic!("{call:?}") };
        let again = tool::rewritten(&call, input).unwrap();
        assert_eq!(tool::input(&again), tool::input(&call), "{call:?}");
    }
}

#[test]
fn every_event_tells_what_scripts_expect() {
    let call = call();
    let facts = Facts { session_id: "s".into(), agent: Some(("a1".into(), "scout".into())), ..Facts::default() };
    let occasions = [
        (Occasion::SessionStart { source: "startup", model: "m" }, json!({ "source": "startup", "model": "m" })),
        (Occasion::UserPromptSubmit { prompt: "p" }, json!({ "prompt": "p" })),
        (Occasion::PreToolUse { call: &call }, json!({ "tool_name": "Bash", "tool_input": { "command": "git push" } })),
        (Occasion::PostToolUse { call: &call, response: "r" }, json!({ "tool_name": "Bash", "tool_response": "r" })),
        (Occasion::PreCompact { trigger: "auto" }, json!({ "trigger": "auto" })),
        (Occasion::SubagentStart { agent_id: "a2", agent_type: "t" }, json!({ "agent_id": "a2", "agent_type": "t" })),
        (
            Occasion::SubagentStop {
                agent_id: "a2",
                agent_type: "t",
                stop_hook_active: true,
                last_assistant_message: "done",
            },
            json!({ "stop_hook_active": true }),
        ),
        (
            Occasion::Stop { stop_hook_active: false, last_assistant_message: "done" },
            json!({ "stop_hook_active": false }),
        ),
        (Occasion::SessionEnd { reason: "verified" }, json!({ "reason": "verified", "agent_id": "a1" })),
    ];
    for (occasion, own) in occasions {
        let input = occasion.input(&facts);
        assert_eq!(input["hook_event_name"], json!(occasion.event()));
        assert_eq!((&input["session_id"], &input["cwd"]), (&json!("s"), &json!("/workspace")));
        for (key, value) in own.as_object().unwrap() {
            assert_eq!(&input[key], value, "{:?}", occasion.event());
        }
    }
}

/// Runs the command of a hook for real, as the box would, but on this host.
fn really(hook: &Hook) -> Heard {
    let call = call();
    let occasion = Occasion::PreToolUse { call: &call };
    let command = hook.command(&occasion, &Facts::default());
    let run = || -> std::io::Result<Ran> {
        let mut child = Process::new(&command.argv[0])
            .args(&command.argv[1..])
            .envs(command.env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let _ = child.stdin.take().expect("piped").write_all(&command.stdin);
        let deadline = Instant::now() + command.seconds_max;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                child.kill()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output()?;
        let ended = output.status.code().map_or(Ended::Stopped("killed".into()), Ended::Exited);
        Ok(Ran { ended, output: output.stdout, errors: output.stderr, seconds: 0.0 })
    };
    hook.heard(&occasion, run().map_err(|error| WorkspaceError::Failed(error.to_string())))
}

#[test]
fn a_script_runs_from_a_place_of_its_own_and_reads_the_action() {
    let script = "#!/bin/sh\nread -r line\ncase $line in *'git push'*) echo \"not from $CLAUDE_PROJECT_DIR: $1\" >&2; exit 2;; esac\n";
    let heard = really(&hook(&[SCRIPT, "it's \"here\""], Some(script), OnError::Closed));
    assert_eq!(heard.failure, None);
    assert_eq!(heard.answer, Answer::block("not from /workspace: it's \"here\"".into()));
    let heard =
        really(&hook(&["/bin/sh", SCRIPT], Some("cat >/dev/null; echo '{\"decision\": \"block\"}'"), OnError::Closed));
    assert_eq!((heard.failure, heard.answer.decision), (None, Decision::Block));
}

#[test]
fn real_programs_that_fail_block() {
    let cases: [(&[&str], Option<&str>, &str); 8] = [
        (&["/bin/sh", "-c", "exec sleep 20"], None, "killed"),
        (&["/bin/sh", "-c", "kill -SEGV $$"], None, "killed"),
        (&["/bin/sh", "-c", "exit 1"], None, "exit 1"),
        (&["/no/such/program"], None, "No such file"),
        (&["/no/such/program", SCRIPT], Some("x"), "exit 127"),
        (&["/etc/passwd", SCRIPT], Some("x"), "exit 126"),
        (&["/bin/sh", "-c", "printf '{\"decision\": '"], None, "not understood"),
        (&["/bin/sh", "-c", "printf '\\377'"], None, "UTF-8"),
    ];
    for (argv, script, why) in cases {
        let heard = really(&hook(argv, script, OnError::Closed));
        assert_eq!(heard.answer.decision, Decision::Block, "{argv:?}");
        assert!(heard.answer.reason.contains(why), "{argv:?}: {}", heard.answer.reason);
    }
}
