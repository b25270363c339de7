//! Does every text, given as a policy, load or say why not? And does no project's policy loosen the administrator's?
#![no_main]

use std::sync::LazyLock;

use agent::gate::{Action, Context, Mode, Policy, judge};
use libfuzzer_sys::fuzz_target;

static SHIPPED: LazyLock<Policy> = LazyLock::new(|| Policy::shipped().expect("the shipped policy"));

fn actions() -> Vec<Action> {
    let command = |command: &str| Action::RunCommand { command: command.into() };
    let path = |path: &str| path.to_owned();
    vec![
        Action::ReadFile { path: path("src/a.py") },
        Action::ReadFile { path: path(".env") },
        Action::ListDir { path: path("..") },
        Action::EditFile { path: path("src/a.py") },
        Action::WriteFile { path: path(".git/config") },
        Action::Grep { pattern: path("x"), path: path(".") },
        Action::Search { query: path("x") },
        command("ls -l src"),
        command("rm -rf /"),
        command("git status && cat a.py | sort > b"),
        Action::RunTests,
        Action::named("task", "x").expect("a tool"),
        Action::Finish,
    ]
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // What does not load as an administrator's policy does not load as a project's: that may say less.
    let Ok(policy) = Policy::parse("fuzz.toml", text) else { return };
    for action in actions() {
        let _ = judge(&policy, &action, &Context::default());
    }
    let Ok(tightened) = Policy::shipped().expect("the shipped policy").tightened("project.toml", text) else { return };
    for action in actions() {
        for mode in [Mode::Plan, Mode::Ask, Mode::Auto, Mode::Strict] {
            let context = Context { mode, person_present: true, ..Context::default() };
            let (before, after) = (judge(&SHIPPED, &action, &context), judge(&tightened, &action, &context));
            assert!(after.verdict >= before.verdict, "a project loosened {action:?}: {before:?} became {after:?}");
        }
    }
});
