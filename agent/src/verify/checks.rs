//! Does the project's own formatter or linter accept the change, and does it build?

use super::sealed::ended;
use super::{Mark, Rung};
use crate::plan::Plan;
use crate::text::sanitize;
use crate::workspace::{Command, Ended, Ran, Workspace, WorkspaceError};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const LINT_SECONDS_MAX: u64 = 60;
/// What a model is shown of a linter or a build, in bytes.
const OUTPUT_BYTES_MAX: usize = 1_200;
const FILES_MAX: usize = 200;

/// One formatter or linter, and how it is asked.
struct Linter {
    argv: Vec<String>,
    /// It says what is wrong on its output and exits 0.
    by_output: bool,
}

/// The rung of formatters and linters: those that the project configures and the box has.
pub fn lint(
    view: &mut dyn Workspace,
    base: impl FnOnce() -> Result<Box<dyn Workspace>, WorkspaceError>,
    (plan, changed): (Option<&Plan>, &[&str]),
    cancel: &AtomicBool,
) -> Result<Rung, WorkspaceError> {
    let linters = configured(view, plan, changed)?;
    if linters.is_empty() {
        return Ok(Rung::new(
            "lint",
            Mark::Skipped,
            "no formatter or linter is configured for the changed files".into(),
        ));
    }
    let (mut passed, mut missing) = (Vec::new(), Vec::new());
    for linter in &linters {
        let name = linter.argv.iter().take(3).cloned().collect::<Vec<_>>().join(" ");
        let ran = run(view, &linter.argv, LINT_SECONDS_MAX, cancel)?;
        if is_missing(&ran) {
            missing.push(name);
        } else if complains(linter, &ran) {
            // What the files of the base get to hear as well is not this change's fault.
            let mut base = base()?;
            let before = run(&mut *base, &linter.argv, LINT_SECONDS_MAX, cancel)?;
            let mark = if complains(linter, &before) { Mark::Skipped } else { Mark::Failed };
            let said = sanitize(&ran.output, OUTPUT_BYTES_MAX).text;
            let what = match mark {
                Mark::Skipped => format!("`{name}` complains, and did so before the change"),
                _ => format!("`{name}`: {}\n{}", ended(&ran.ended), said.trim()),
            };
            return Ok(Rung::new("lint", mark, what));
        } else {
            passed.push(name);
        }
    }
    if passed.is_empty() {
        return Ok(Rung::new("lint", Mark::Skipped, format!("not in the box: {}", missing.join(", "))));
    }
    let without = if missing.is_empty() { String::new() } else { format!("; not in the box: {}", missing.join(", ")) };
    Ok(Rung::new("lint", Mark::Passed, format!("`{}`{without}", passed.join("`, `"))))
}

/// The rung of the build; `None` where there is nothing to build.
pub fn build(view: &mut dyn Workspace, plan: &Plan, cancel: &AtomicBool) -> Result<Rung, WorkspaceError> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let argv = match plan.argv.first().map(String::as_str) {
        _ if !plan.build.is_empty() => plan.build.clone(),
        Some("cargo") if plan.argv.get(1).is_some_and(|word| word == "test") => {
            plan.argv.iter().take_while(|word| *word != "--").cloned().chain(["--no-run".to_owned()]).collect()
        }
        Some("go") => words("go build ./..."),
        _ => return Ok(Rung::new("build", Mark::Skipped, "nothing is built before the tests".into())),
    };
    let command = argv.join(" ");
    let ran = run(view, &argv, plan.seconds_max, cancel)?;
    let said = sanitize(&ran.output, OUTPUT_BYTES_MAX).text;
    Ok(match ran.ended {
        Ended::Exited(0) => Rung::new("build", Mark::Passed, format!("`{command}`")),
        _ => Rung::new("build", Mark::Failed, format!("`{command}`: {}\n{}", ended(&ran.ended), said.trim())),
    })
}

fn run(view: &mut dyn Workspace, argv: &[String], seconds: u64, cancel: &AtomicBool) -> Result<Ran, WorkspaceError> {
    view.run(&Command::new(argv.to_vec(), Duration::from_secs(seconds)), cancel)
}

fn is_missing(ran: &Ran) -> bool {
    let output = String::from_utf8_lossy(&ran.output);
    let said =
        ["No module named", "could not determine executable", "npx canceled", "is not installed", "no such command"];
    matches!(ran.ended, Ended::Exited(126 | 127))
        || (ran.ended != Ended::Exited(0) && output.len() < 2_000 && said.iter().any(|text| output.contains(text)))
}

fn complains(linter: &Linter, ran: &Ran) -> bool {
    ran.ended != Ended::Exited(0) || (linter.by_output && !ran.output.trim_ascii().is_empty())
}

fn configured(view: &dyn Workspace, plan: Option<&Plan>, changed: &[&str]) -> Result<Vec<Linter>, WorkspaceError> {
    if let Some(plan) = plan.filter(|plan| !plan.lint.is_empty()) {
        return Ok(vec![Linter { argv: plan.lint.clone(), by_output: false }]);
    }
    let names: Vec<String> = view.list(".")?.into_iter().map(|entry| entry.name).collect();
    let has = |name: &str| names.iter().any(|found| found == name);
    let begins = |start: &str| names.iter().any(|found| found.starts_with(start));
    let says = |file: &str, text: &str| {
        has(file) && view.read(file).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
    };
    let of = |suffixes: &[&str]| -> Vec<String> {
        let wanted = |path: &&&str| suffixes.iter().any(|suffix| path.ends_with(suffix));
        changed.iter().filter(wanted).take(FILES_MAX).map(|path| (*path).to_owned()).collect()
    };
    let (python, script) = (of(&[".py"]), of(&[".js", ".ts", ".jsx", ".tsx", ".mjs"]));
    let mut linters = Vec::new();
    let mut add = |when: bool, command: &str, files: &[String], by_output: bool| {
        if when && !files.is_empty() {
            let argv = command.split(' ').map(str::to_owned).chain(files.iter().cloned()).collect();
            linters.push(Linter { argv, by_output });
        }
    };
    add(
        has("ruff.toml") || has(".ruff.toml") || says("pyproject.toml", "[tool.ruff"),
        "ruff check --no-cache",
        &python,
        false,
    );
    add(says("pyproject.toml", "[tool.black"), "black --check -q", &python, false);
    add(has(".flake8") || says("setup.cfg", "[flake8]"), "flake8", &python, false);
    add(has("rustfmt.toml") || has(".rustfmt.toml"), "rustfmt --check --edition 2021", &of(&[".rs"]), false);
    add(has("go.mod"), "gofmt -l", &of(&[".go"]), true);
    add(begins("eslint.config.") || begins(".eslintrc"), "npx --no-install eslint", &script, false);
    add(begins(".prettierrc"), "npx --no-install prettier --check", &script, false);
    Ok(linters)
}
