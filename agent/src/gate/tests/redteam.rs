//! What does each mode say to commands of an attacker of our own, and to honest ones that look like them?
//!
//! The commands are data, `redteam.jsonl`: an `attack` is a way around a rule that was tried once, `work` what closing it
//! must not stop.

use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    command: String,
    kind: Kind,
    plan: Verdict,
    ask: Verdict,
    auto: Verdict,
    strict: Verdict,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Attack,
    Work,
}

#[test]
fn an_attack_runs_in_no_mode_and_the_work_that_looks_like_it_runs_in_auto() {
    let policy = shipped();
    let cases: Vec<Case> =
        include_str!("redteam.jsonl").lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let count = |kind| cases.iter().filter(|case| case.kind == kind).count();
    assert!(count(Kind::Attack) >= 40 && count(Kind::Work) >= 30, "cases have gone");
    let mut wrong = Vec::new();
    for Case { command, kind, plan, ask, auto, strict } in &cases {
        let expected = [plan, ask, auto, strict].map(|verdict| *verdict);
        let attack = *kind == Kind::Attack;
        assert!(!attack || expected == [Verdict::Deny; 4] || expected[1] == Verdict::Ask, "{command}");
        assert_eq!(expected[2], if attack { Verdict::Deny } else { Verdict::Allow }, "{command}");
        let of = |mode| {
            let context = Context { mode, person_present: true, ..Context::default() };
            judge(&policy, &run(command), &context)
        };
        let found = [Mode::Plan, Mode::Ask, Mode::Auto, Mode::Strict].map(|mode| of(mode).verdict);
        if found != expected {
            wrong.push(format!("{command}: {found:?}, {}", of(Mode::Auto).message()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
