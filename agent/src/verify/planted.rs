//! Does a run of the tests with the change still say so when a test fails?
//!
//! Tests that must fail, under names that nobody can know, are put into the test files of the base, and the tests run once
//! more in a view of its own. They stand in the process of the tests that they are put beside, after them. What is closed
//! by that: a process that ends before its tests, whatever it printed; exit codes that are replaced; runners that run
//! nothing. What is not closed: code that reads its own test files or its own program to learn the names, and prints what
//! the runner would print. The lints of [`super::review`] stop the plain ways to do so.
//!
//! Python has a channel of its own, see [`super::python`].

use super::cases::count;
use super::sealed::Run;
use super::tests_diff;
use crate::plan::Plan;
use crate::test_files::{decides, is_collected, is_script, is_test};
use crate::workspace::{Command, Ended, Workspace, WorkspaceError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Files in which a test is planted; more show nothing more.
const FILES_MAX: usize = 300;
/// A longer file is left as it is, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Programs that run tests in JavaScript.
const SCRIPT_RUNNERS: &[&str] = &["node", "npm", "npx", "pnpm", "yarn", "jest", "vitest", "mocha"];
/// Those among them that run every test file they find.
const FINDING_RUNNERS: &[&str] = &["jest", "vitest", "mocha"];
/// Options of cargo that take the next word.
const CARGO_VALUES: &[&str] = &[
    "-p",
    "--package",
    "--exclude",
    "-F",
    "--features",
    "--target",
    "--manifest-path",
    "--test",
    "--bin",
    "--example",
    "--profile",
    "-j",
    "--jobs",
];

/// A test that must fail.
#[derive(Debug)]
struct Test {
    /// The file that it is added to.
    path: String,
    name: String,
    text: String,
    /// It runs if most of these do; `None`: it runs for certain.
    beside: Option<BTreeSet<String>>,
    /// How the runner begins the line with which it closes what holds the test.
    closing: Option<String>,
}

/// What is planted, and how the tests are run then.
#[derive(Debug)]
pub struct Plants {
    tests: Vec<Test>,
    argv: Vec<String>,
    /// The runner runs every test file, whether it names its tests or not.
    all_run: bool,
}

/// Why nothing can be planted, in words.
pub type Nothing = &'static str;

/// Chooses where to plant. The view holds the change and is built; no code of the change has run in it.
pub fn choose(
    view: &mut dyn Workspace,
    plan: &Plan,
    asked: &[String],
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let program = plan.argv.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let tests = plan.argv.get(1).is_some_and(|word| word == "test");
    let chosen = match program {
        "cargo" if tests => cargo(view, plan, cancel)?,
        "go" if tests => go(view, plan, asked, cancel)?,
        program if SCRIPT_RUNNERS.contains(&program) => script(view, asked)?,
        _ => Err("the command is no test runner that is known"),
    };
    Ok(chosen.and_then(|plants| if plants.tests.is_empty() { Err("no place for it was found") } else { Ok(plants) }))
}

impl Plants {
    /// Plants in this view.
    pub fn plant(&self, view: &mut dyn Workspace) -> Result<(), WorkspaceError> {
        for test in &self.tests {
            let mut text = view.read(&test.path)?;
            text.extend_from_slice(test.text.as_bytes());
            view.write(&test.path, &text)?;
        }
        Ok(())
    }

    /// The command that runs them with the others.
    pub fn command(&self, plan: &Plan) -> Command {
        Command { argv: self.argv.clone(), ..plan.command() }
    }

    /// What is wrong with the run with plants, measured on the one without; how many failed as they must where nothing is.
    pub fn judge(&self, sealed: &Run, planted: &Run) -> Result<usize, String> {
        let run = &planted.tests;
        if run.passed {
            return Err("a planted test that must fail did not: exit status 0".into());
        }
        if !run.ended.starts_with("exit ") {
            return Err(format!("with planted tests that must fail it was {}", run.ended));
        }
        let [was, is] = [sealed, planted].map(|run| count(&run.tests.cases, true));
        let ran = |name: &String| was.keys().any(|case| case == name || case.ends_with(&format!(" > {name}")));
        // Another file, which does not run, may have a test of the same name: one alone says nothing.
        let most = |beside: &BTreeSet<String>| beside.iter().filter(|name| ran(name)).count() * 2 > beside.len();
        let certain = |test: &&Test| test.beside.as_ref().is_none_or(most);
        let seen = |test: &&Test| planted.said.contains(&test.name) && !is.keys().any(|case| case.contains(&test.name));
        let failed = self.tests.iter().filter(seen).count();
        let silent: BTreeSet<&str> =
            self.tests.iter().filter(certain).filter(|test| !seen(test)).map(|test| test.path.as_str()).collect();
        if let Some(path) = silent.first() {
            return Err(format!("a test planted in {path} that must fail was not reported as failed"));
        }
        if failed == 0 && self.all_run {
            return Err("no planted test that must fail was reported as failed".into());
        }
        let mut closings: BTreeMap<&str, usize> = BTreeMap::new();
        for closing in self.tests.iter().filter(certain).filter_map(|test| test.closing.as_deref()) {
            *closings.entry(closing).or_default() += 1;
        }
        let closed = |closing: &str| planted.said.lines().filter(|line| line.starts_with(closing)).count();
        if closings.iter().any(|(closing, wanted)| closed(closing) < *wanted) {
            return Err("a process ended before it had reported its planted test".into());
        }
        match was.iter().find(|(name, count)| is.get(*name).is_none_or(|now| now < *count)) {
            Some((name, _)) => Err(format!(
                "{} reported that it passed, and does not beside a planted test that must fail",
                crate::text::quote(name, 200)
            )),
            None => Ok(failed),
        }
    }
}

/// The end of a name.
fn random() -> Result<String, WorkspaceError> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|error| WorkspaceError::Failed(format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The file of the view that has this absolute path in the box.
fn inside<'a>(files: &'a [String], absolute: &str) -> Option<&'a String> {
    let names = |file: &&String| absolute.strip_suffix(file.as_str()).is_some_and(|root| root.ends_with('/'));
    files.iter().filter(names).max_by_key(|file| file.len())
}

fn text(view: &dyn Workspace, path: &str) -> Option<String> {
    let bytes = view.read(path).ok().filter(|bytes| bytes.len() <= FILE_BYTES_MAX)?;
    String::from_utf8(bytes).ok()
}

fn listing(
    view: &mut dyn Workspace,
    argv: Vec<String>,
    plan: &Plan,
    cancel: &AtomicBool,
) -> Result<Option<String>, WorkspaceError> {
    let ran = view.run(&Command::new(argv, Duration::from_secs(plan.seconds_max)), cancel)?;
    Ok((ran.ended == Ended::Exited(0)).then(|| String::from_utf8_lossy(&ran.output).into_owned()))
}

/// At the end of the root of every program of tests that cargo says it runs.
fn cargo(
    view: &mut dyn Workspace,
    plan: &Plan,
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    if filters(&plan.argv[2..]) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let own = plan.argv.iter().take_while(|word| *word != "--").cloned();
    let list = own.chain(["--no-run", "--message-format=json-render-diagnostics"].map(str::to_owned)).collect();
    let Some(said) = listing(view, list, plan, cancel)? else { return Ok(Err("cargo does not say what it runs")) };
    let files = view.walk()?;
    let mut tests = Vec::new();
    let artifacts = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for artifact in
        artifacts.filter(|artifact| artifact["profile"]["test"] == true && artifact["executable"].is_string())
    {
        let path = artifact["target"]["src_path"].as_str().and_then(|path| inside(&files, path));
        let manifest = artifact["manifest_path"].as_str().and_then(|path| inside(&files, path));
        let Some((path, root)) = path.and_then(|path| Some((path.clone(), text(view, path)?))) else { continue };
        let manifest = manifest.and_then(|path| text(view, path)).unwrap_or_default();
        if has_own_harness(&manifest, artifact["target"]["name"].as_str().unwrap_or_default())
            || tests.len() >= FILES_MAX
        {
            continue;
        }
        let name = format!("zz_planted_{}", random()?);
        let text =
            format!("\n#[cfg(test)]\nmod {name} {{\n    #[test]\n    fn fails() {{\n        panic!();\n    }}\n}}\n");
        // A file that is left out under this configuration runs nothing.
        let beside = root.contains("#![cfg(").then(BTreeSet::new);
        tests.push(Test { path, name, text, beside, closing: Some("test result: FAILED".into()) });
    }
    let mut argv = plan.argv.clone();
    if !argv.iter().any(|word| word == "--no-fail-fast") {
        argv.insert(2, "--no-fail-fast".into());
    }
    Ok(Ok(Plants { tests, argv, all_run: true }))
}

/// Do these arguments of `cargo test` name tests?
fn filters(args: &[String]) -> bool {
    let mut value = false;
    args.iter().any(|word| {
        let named = !value && (!word.starts_with('-') || word == "--skip" || word == "--exact" || word == "--ignored");
        value = CARGO_VALUES.contains(&word.as_str()) || word == "--test-threads";
        named
    })
}

/// Says the manifest that this target reports in its own way?
fn has_own_harness(manifest: &str, target: &str) -> bool {
    let Ok(manifest) = manifest.parse::<toml::Table>() else { return false };
    let tables = ["lib", "bin", "test", "bench", "example"].into_iter().filter_map(|kind| manifest.get(kind));
    let mut each = tables.flat_map(|value| value.as_array().map_or(vec![value], |list| list.iter().collect()));
    each.any(|table| {
        let named = table
            .get("name")
            .and_then(toml::Value::as_str)
            .is_none_or(|name| name.replace('-', "_") == target.replace('-', "_"));
        named && table.get("harness").and_then(toml::Value::as_bool) == Some(false)
    })
}

/// In the last test file of every package that go says it tests.
fn go(
    view: &mut dyn Workspace,
    plan: &Plan,
    asked: &[String],
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let named = |word: &String| ["-run", "-skip", "-list", "--run", "--skip"].iter().any(|flag| word.starts_with(flag));
    if plan.argv.iter().any(named) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let format = "{{.ImportPath}}|{{.Dir}}|{{range .TestGoFiles}}{{.}}|{{end}}{{range .XTestGoFiles}}{{.}}|{{end}}";
    let packages = plan.argv[2..].iter().filter(|word| word.starts_with('.') || word.contains('/'));
    let list = ["go", "list", "-f", format].map(str::to_owned).into_iter().chain(packages.cloned()).collect();
    let Some(said) = listing(view, list, plan, cancel)? else { return Ok(Err("go does not say what it tests")) };
    let files = view.walk()?;
    let mut tests = Vec::new();
    for line in said.lines().take(FILES_MAX) {
        let mut parts = line.split('|').filter(|part| !part.is_empty());
        let (Some(import), Some(dir)) = (parts.next(), parts.next()) else { continue };
        let fits = |name: &str| {
            let path = inside(&files, &format!("{dir}/{name}"))?;
            let text = text(view, path)?;
            (text.contains("\"testing\"") && text.contains(" *testing.T)")).then(|| path.clone())
        };
        let named: Vec<&str> = parts.collect();
        let Some(path) = named.iter().rev().find_map(|name| fits(name)) else { continue };
        let name = format!("TestPlanted{}", random()?);
        let text = format!("\nfunc {name}(t *testing.T) {{\n\tt.Fatal(\"planted\")\n}}\n");
        // In its form for machines go closes a package in another way.
        let closing = (!asked.iter().any(|word| word.contains("-json"))).then(|| format!("FAIL\t{import}\t"));
        tests.push(Test { path, name, text, beside: None, closing });
    }
    let argv = asked.iter().filter(|word| !word.contains("failfast")).cloned().collect();
    Ok(Ok(Plants { tests, argv, all_run: true }))
}

/// At the end of every test file, with the word by which the file itself declares its tests.
fn script(view: &dyn Workspace, asked: &[String]) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let package = text(view, "package.json").and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let script = package.as_ref().and_then(|package| package["scripts"]["test"].as_str()).unwrap_or_default();
    let command = format!("{} {script}", asked.join(" "));
    if command.contains("bail") || package.is_some_and(|package| package.to_string().contains("\"bail\"")) {
        return Ok(Err("the runner stops at the first failure"));
    }
    let mut tests = Vec::new();
    for path in view.walk()?.into_iter().filter(|path| is_script(path) && is_test(path) && !decides(path)) {
        let Some(file) = text(view, &path).filter(|_| tests.len() < FILES_MAX) else { continue };
        let declares = |word: &str| file.lines().any(|line| line.trim_start().starts_with(word));
        let word = if declares("test(") { "test" } else { "it" };
        let beside = tests_diff::names(&path, &file);
        if !declares("test(") && !declares("it(") || file.contains(".only(") || beside.is_empty() {
            continue;
        }
        let name = format!("planted_{}", random()?);
        let text = format!("\n;{word}('{name}', () => {{ throw new Error('planted'); }});\n");
        tests.push(Test { path, name, text, beside: Some(beside), closing: None });
    }
    let all_run = FINDING_RUNNERS.iter().any(|runner| command.contains(runner))
        && tests.iter().any(|test: &Test| is_collected(&test.path));
    Ok(Ok(Plants { tests, argv: asked.to_vec(), all_run }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_names_tests_is_known() {
        let filters = |text: &str| filters(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for text in ["--offline", "--offline -p agent --features a", "-q -- --nocapture", "-- --test-threads 1"] {
            assert!(!filters(text), "{text}");
        }
        for text in ["gate", "--offline gate", "-p agent verify", "-- --skip slow", "-- --ignored"] {
            assert!(filters(text), "{text}");
        }
    }

    #[test]
    fn a_file_of_the_box_is_found_in_the_view() {
        let files = ["src/lib.rs", "a/src/lib.rs", "lib.rs"].map(str::to_owned);
        assert_eq!(inside(&files, "/workspace/a/src/lib.rs"), Some(&files[1]));
        assert_eq!(inside(&files, "/workspace/src/lib.rs"), Some(&files[0]));
        assert_eq!(inside(&files, "/workspace/other.rs"), None);
    }

    #[test]
    fn a_target_with_a_harness_of_its_own_is_known() {
        let manifest = "[package]\nname = 'a'\n[[test]]\nname = 'own-one'\nharness = false\n[[test]]\nname = 'it'\n";
        assert!(has_own_harness(manifest, "own-one") && !has_own_harness(manifest, "it"));
    }
}
