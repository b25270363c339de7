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
