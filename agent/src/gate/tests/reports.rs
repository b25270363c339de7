//! What people are told about a policy.

use super::*;

#[test]
fn a_policy_that_loads_is_summed_up_and_one_that_does_not_says_why() {
    let shipped = crate::gate::check(None, None).unwrap();
    assert!(shipped.commands > 30 && shipped.paths > 5 && shipped.from_project == 0);
    assert_eq!(
        shipped.verdicts.iter().sum::<usize>(),
        shipped.tools + shipped.paths + shipped.commands + shipped.hosts
    );
    let project = "version = 1\n[[command]]\nid = \"c\"\nverdict = \"deny\"\nargv = [\"pytest\"]\n";
    assert_eq!(crate::gate::check(None, Some(("p", project))).unwrap().from_project, 1);
    let summary = crate::gate::check(Some(("a", project)), None).unwrap().to_string();
    assert_eq!(
        summary,
        "1 rules: 0 about tools, 0 about paths, 1 about commands, 0 about hosts; 0 allow, 0 ask, 1 deny; 0 by the project"
    );
    assert!(crate::gate::check(Some(("a", "version = 1\nx = 1")), None).is_err());
}

#[test]
fn an_explanation_shows_every_finding_and_what_it_comes_to() {
    let context = Context { mode: Mode::Auto, ..Context::default() };
    let text = explain(&shipped(), &run("git status && git reset --hard"), &context);
    assert!(text.starts_with("run_command git status && git reset --hard\n"), "{text}");
    assert!(text.contains("allow  tool policy"), "{text}");
    assert!(text.contains("deny   command policy   danger.git-loses-work"), "{text}");
    assert!(text.contains("\ndeny: [command policy, rule danger.git-loses-work]"), "{text}");
    assert!(!explain(&shipped(), &run("echo \u{1b}[31mx"), &context).contains('\u{1b}'));
}

#[test]
fn a_replay_names_what_would_be_judged_differently_now() {
    let call = |command: &str, verdict| {
        let body = serde_json::json!({ "call": { "name": "run_command", "command": command }, "judgement": { "verdict": verdict } });
        Logged::of_record(&body).unwrap()
    };
    let logged = [call("pytest -q", "allow"), call("ls", "allow"), call("frobnicate", "deny")];
    assert_eq!(replay(&shipped(), &logged, &Context::default()), vec![]);
    let project = "version = 1\n[[command]]\nid = \"c\"\nverdict = \"deny\"\nargv = [\"pytest\"]\n";
    let tightened = shipped().tightened("p", project).unwrap();
    let changed = replay(&tightened, &logged, &Context::default());
    assert_eq!(changed.len(), 1);
    assert!(changed[0].to_string().starts_with("   1  allow -> deny  run_command pytest -q\n"), "{}", changed[0]);
    let auto = Context { mode: Mode::Auto, ..Context::default() };
    assert_eq!(replay(&shipped(), &logged, &auto)[0].at, 2);
    assert_eq!(Logged::of_record(&serde_json::json!({ "call": 1 })), None);
}

#[test]
fn a_replay_judges_a_sub_agent_as_its_session_did() {
    let record = |kind: &str, body: serde_json::Value| crate::audit::Record {
        n: 0,
        at_ms: 0,
        prev: String::new(),
        kind: kind.into(),
        parent: None,
        body,
        mac: String::new(),
    };
    let verdict = |call: serde_json::Value, agent: Option<&str>, verdict: &str| {
        let mut body = serde_json::json!({ "call": call, "judgement": { "verdict": verdict } });
        if let Some(id) = agent {
            body["agent_id"] = id.into();
        }
        record("verdict", body)
    };
    let task = |kind: &str| {
        verdict(
            serde_json::json!({ "name": "task", "description": "d", "prompt": "look", "subagent_type": kind }),
            None,
            "allow",
        )
    };
    let command = |agent, said| verdict(serde_json::json!({ "name": "run_command", "command": "ls" }), agent, said);
    let returned = record(
        "returned",
        serde_json::json!({
            "record": "returned", "agent_id": "a1", "agent_type": "Explore", "ending": { "name": "unverified" }, "costs": [],
            "spent": crate::budget::Spent::default(),
        }),
    );
    // The first came back; of the second the log knows only how it began.
    let log = [
        task("Explore"),
        command(Some("a1"), "deny"),
        returned,
        command(None, "allow"),
        task("Explore"),
        command(Some("a2"), "deny"),
    ];
    let logged = Logged::of_log(&log);
    let kinds: Vec<_> = logged.iter().map(|one| one.agent.map(|kind| kind.name())).collect();
    assert_eq!(kinds, [None, Some("Explore"), None, None, Some("Explore")]);
    assert_eq!(replay(&shipped(), &logged, &Context::default()), vec![]);
    let general = [task("general-purpose"), command(Some("a1"), "allow")];
    assert_eq!(replay(&shipped(), &Logged::of_log(&general), &Context::default()), vec![]);
    // Without the session's own record the kind is what the call asked for, and with it what really ran.
    let mut other = log[..3].to_vec();
    other[0] = task("general-purpose");
    assert_eq!(Logged::of_log(&other)[1].agent.map(|kind| kind.name()), Some("Explore"));
}

#[test]
fn modes_and_actions_go_by_the_names_that_people_type() {
    for mode in Mode::ALL {
        assert_eq!(mode.name().parse::<Mode>(), Ok(mode));
    }
    assert_eq!(
        "bypass".parse::<Mode>().unwrap_err().to_string(),
        "there is no mode `bypass`, only plan, ask, auto and strict"
    );
    for name in Action::NAMES {
        assert_eq!(Action::named(name, "x").unwrap().name(), name);
    }
    assert_eq!(Action::named("sudo", "x"), None);
}
