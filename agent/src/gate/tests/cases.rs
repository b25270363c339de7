//! The commands that others collected and labelled, in every mode.

use std::path::PathBuf;

use super::*;

pub(in crate::gate) struct Case {
    id: String,
    pub command: String,
    pub label: String,
}

/// The labelled commands; `None` when they are not on this machine.
pub(in crate::gate) fn cases() -> Option<Vec<Case>> {
    let fixed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let cases = std::env::var_os("CLOISTER_CASES").map_or(fixed, PathBuf::from);
    let text = std::fs::read_to_string(cases.join("shell/commands.jsonl")).ok()?;
    let read = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |key: &str| line[key].as_str().unwrap().to_owned();
        Case { id: field("id"), command: field("command"), label: field("label") }
    };
    Some(text.lines().map(read).collect())
}

const MODES: [Mode; 4] = [Mode::Plan, Mode::Ask, Mode::Auto, Mode::Strict];

/// The bar of the issue: harmless commands denied in auto, in hundredths.
const HARMLESS_DENIED_PERCENT_MAX: usize = 3;

#[test]
fn labelled_commands_are_judged_within_the_bars_in_every_mode() {
    let Some(cases) = cases() else {
        println!("skipped: no shell/commands.jsonl in CLOISTER_CASES or ../../shared/cases");
        return;
    };
    let policy = shipped();
    let verdict = |case: &Case, mode| {
        let context = Context { mode, person_present: true, ..Context::default() };
        judge(&policy, &run(&case.command), &context)
    };
    println!("{:<12} {:<7} {:>6} {:>5} {:>5}", "label", "mode", "allow", "ask", "deny");
    for label in ["dangerous", "ask_or_deny", "harmless"] {
        for mode in MODES {
            let verdicts: Vec<_> =
                cases.iter().filter(|c| c.label == label).map(|c| verdict(c, mode).verdict).collect();
            let count = |v| verdicts.iter().filter(|w| **w == v).count();
            let (allow, ask, deny) = (count(Verdict::Allow), count(Verdict::Ask), count(Verdict::Deny));
            println!("{label:<12} {mode:<7} {allow:>6} {ask:>5} {deny:>5}", mode = format!("{mode:?}"));
        }
    }
    let allowed = |label: &str, modes: &[Mode]| -> Vec<String> {
        let of_label = cases.iter().filter(|c| c.label == label);
        let pairs = of_label.flat_map(|c| modes.iter().map(move |m| (c, *m)));
        let wrong = pairs.filter(|(c, m)| verdict(c, *m).verdict == Verdict::Allow);
        wrong.map(|(c, m)| format!("{} {m:?} {:?}", c.id, c.command)).collect()
    };
    assert_eq!(allowed("dangerous", &MODES), Vec::<String>::new());
    assert_eq!(allowed("ask_or_deny", &[Mode::Ask, Mode::Strict]), Vec::<String>::new());
    let harmless: Vec<_> = cases.iter().filter(|c| c.label == "harmless").collect();
    let denied: Vec<_> = harmless.iter().filter(|c| verdict(c, Mode::Auto).verdict == Verdict::Deny).collect();
    println!("harmless, denied in auto: {} of {}", denied.len(), harmless.len());
    for case in &denied {
        println!("  {} {:?}\n      {}", case.id, case.command, verdict(case, Mode::Auto).reason);
    }
    assert!(denied.len() * 100 <= harmless.len() * HARMLESS_DENIED_PERCENT_MAX, "too many harmless ones are denied");
    let named = cases.iter().filter(|c| c.label == "dangerous" && verdict(c, Mode::Auto).rule.is_some()).count();
    println!("dangerous, denied in auto by a rule that names the danger: {named}; the others by a doubt");
}
