//! Does every text, given as a command, get a verdict that stands? No panic, no hang, the same answer twice, and nobody
//! who may not be asked gets a question.
#![no_main]

use std::sync::LazyLock;

use agent::gate::{Action, Context, Mode, Policy, Verdict, judge};
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(|| Policy::shipped().expect("the shipped policy"));

fuzz_target!(|data: &[u8]| {
    let action = Action::RunCommand { command: String::from_utf8_lossy(data).into_owned() };
    for mode in [Mode::Plan, Mode::Ask, Mode::Auto, Mode::Strict] {
        let judgement = judge(&POLICY, &action, &Context { mode, ..Context::default() });
        assert!(judgement.verdict != Verdict::Ask, "nobody is there to be asked");
        assert!(judgement.verdict == Verdict::Allow || !judgement.reason.is_empty(), "a refusal says why");
    }
    let context = Context { mode: Mode::Ask, person_present: true, ..Context::default() };
    assert_eq!(judge(&POLICY, &action, &context), judge(&POLICY, &action, &context), "the same question twice");
});
