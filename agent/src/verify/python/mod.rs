//! How do tests in Python report so that the code under test cannot answer for them?
//!
//! A supervisor, which imports nothing from the repository, starts the tests in a child and reads its report from a pipe.
//! The supervisor signs what it says with a word that it was given in a file and that is gone before the child starts;
//! the child signs with another word. What is closed by that: exit codes, output that looks like a report, `sys.exit`,
//! `os._exit`, atexit and signal handlers, files that are written as results, a replaced `unittest` (a planted test that
//! must fail, and a comparison of the framework before and after each test), objects that are equal to anything.
//! What is not closed: the code under test runs in the child's process, as everywhere; code that searches the
//! interpreter's memory for the child's word can lie. The lints of [`super::review`] stop the ways to do so.

use crate::workspace::{Command, Ran, Workspace, WorkspaceError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SUPERVISOR: &str = include_str!("supervisor.py");
const CHILD: &str = include_str!("child.py");
/// What the box is given beyond the tests' own deadline, so that the supervisor can still speak, in seconds.
const GRACE_SECONDS: u64 = 10;

/// A test command that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// The interpreter with its options, and what is set before it.
    python: Vec<String>,
    /// `unittest` or `pytest`.
    name: &'static str,
    args: Vec<String>,
}

/// What the supervisor is told; it is in a file that it removes.
#[derive(Serialize)]
struct Order<'a> {
    nonce: &'a str,
    python: &'a [String],
    child: &'a str,
    runner: &'a str,
    args: &'a [String],
    seconds: u64,
}

/// What the tests of one box reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// How often each test is to run.
    pub expected: BTreeMap<String, usize>,
    /// How each run of each test ended: `pass`, `fail`, `error`, `skip`, `xfail`, `xpass`, `nothing`.
    pub outcomes: BTreeMap<String, Vec<String>>,
    /// Modules that could not be imported, and class fixtures that failed.
    pub broken: BTreeSet<String>,
    /// Classes and modules that a fixture skipped as a whole.
    pub left: BTreeSet<String>,
    /// Parts of the framework that were replaced while the tests ran.
    pub replaced: BTreeSet<String>,
    /// Planted tests that did not fail.
    pub silent: BTreeSet<String>,
    /// Lines on the reporting pipe that were not the child's.
    pub forged: usize,
    /// Did the runner come to its end?
    pub ended: bool,
    /// It ran into its deadline.
    pub late: bool,
    /// The runner is not installed in this interpreter.
    pub unavailable: bool,
}

#[derive(Deserialize)]
struct Answer {
    /// `None`: it ran into its deadline.
    status: Option<i32>,
    forged: usize,
    said: Vec<serde_json::Value>,
}

impl Runner {
    /// Understands `[env A=B] python [options] -m unittest|pytest …` and `pytest …`.
    pub fn of(argv: &[String]) -> Option<Self> {
        let mut at = 0;
        if argv.first().is_some_and(|word| word == "env") {
            at = 1 + argv[1..].iter().take_while(|word| word.contains('=') && !word.starts_with('-')).count();
        }
        let program = argv.get(at)?;
        let name = program.rsplit('/').next()?;
        if name == "pytest" || name == "py.test" {
            let python = argv[..at].iter().cloned().chain(["python3".to_owned()]).collect();
            return Some(Self { python, name: "pytest", args: argv[at + 1..].to_vec() });
        }
        let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"))?;
        if !version.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return None;
        }
        at += 1;
        while argv.get(at)? != "-m" {
            let option = argv.get(at).filter(|word| word.starts_with('-') && *word != "-c" && *word != "-")?;
            at += if option == "-W" || option == "-X" { 2 } else { 1 };
        }
        let name = match argv.get(at + 1)?.as_str() {
            "unittest" => "unittest",
            "pytest" => "pytest",
            _ => return None,
        };
        Some(Self { python: argv[..at].to_vec(), name, args: argv[at + 2..].to_vec() })
    }

    /// The same for these files alone, where the command names its modules; else the command as it is.
    pub fn only(&self, files: &[&str]) -> Self {
        let names_files =
            |word: &&String| !word.starts_with('-') && (word.contains(".py") || files.contains(&word.as_str()));
        let discovers =
            self.args.iter().all(|word| word.starts_with('-')) || self.args.iter().any(|word| word == "discover");
        let options = || self.args.iter().filter(|word| word.starts_with('-') && *word != "-k").cloned();
        let args: Vec<String> = match self.name {
            "unittest" if discovers => return self.clone(),
            "unittest" => {
                options().chain(files.iter().map(|file| file.trim_end_matches(".py").replace('/', "."))).collect()
            }
            _ if self.args.iter().any(|word| names_files(&word)) => {
                options().chain(files.iter().map(|file| (*file).to_owned())).collect()
            }
            _ => return self.clone(),
        };
        Self { args, ..self.clone() }
    }

    /// Runs the tests in this view, which is for nothing else: what they did, and what they reported.
    pub fn run(
        &self,
        view: &mut dyn Workspace,
        seconds: u64,
        cancel: &std::sync::atomic::AtomicBool,
    ) -> Result<(Ran, Told), WorkspaceError> {
        let word = random()?;
        let nonce = format!("cloister-{word}");
        let order =
            Order { nonce: &nonce, python: &self.python, child: CHILD, runner: self.name, args: &self.args, seconds };
        let order = serde_json::to_vec(&order).map_err(|error| WorkspaceError::Failed(error.to_string()))?;
        let path = format!(".cloister-order-{}", &word[..16]);
        view.write(&path, &order)?;
        let head = self.python.iter().take_while(|word| !word.starts_with('-')).cloned();
        let argv = head.chain(["-I", "-S", "-c", SUPERVISOR, &path].map(str::to_owned)).collect();
        let ran = view.run(&Command::new(argv, Duration::from_secs(seconds + GRACE_SECONDS)), cancel);
        // The supervisor has removed it, unless it never started.
        let _ = view.remove(&path);
        let mut ran = ran?;
        let told = take_answer(&mut ran.output, &nonce).map(|answer| read(&answer)).unwrap_or_default();
        Ok((ran, told))
    }
}

fn random() -> Result<String, WorkspaceError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| WorkspaceError::Failed(format!("no randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Cuts the signed line out of the output.
fn take_answer(output: &mut Vec<u8>, nonce: &str) -> Option<Answer> {
    let text = String::from_utf8_lossy(output).into_owned();
    let at = text.rfind(nonce)?;
    let line = text[at + nonce.len()..].lines().next()?;
    let answer = serde_json::from_str(line.trim()).ok();
    *output = text[..at].trim_end().as_bytes().to_vec();
    output.push(b'\n');
    answer
}

fn read(answer: &Answer) -> Told {
    let mut told = Told { forged: answer.forged, late: answer.status.is_none(), ..Told::default() };
    for said in &answer.said {
        let what = said[1].as_str().unwrap_or_default().to_owned();
        let many = || said[1].as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned));
        match said[0].as_str().unwrap_or_default() {
            "expected" => many().for_each(|id| *told.expected.entry(id).or_default() += 1),
            "ran" => told.outcomes.entry(what).or_default().push(said[2].as_str().unwrap_or_default().to_owned()),
            "unloadable" | "broken" => drop(told.broken.insert(what)),
            // `setUpClass (module.Class)`
            "left" => told.left.extend(what.split(['(', ')']).nth(1).map(|name| format!("{name}."))),
            "replaced" => drop(told.replaced.insert(what)),
            "silent" => told.silent.extend(many()),
            "unavailable" => told.unavailable = true,
            "ended" => told.ended = true,
            _ => {}
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<(&str, &str, &str)>) {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let runner = Runner::of(&argv);
        let found = runner.as_ref().map(|runner| (runner.python.join(" "), runner.name, runner.args.join(" ")));
        assert_eq!(found.as_ref().map(|found| (&*found.0, found.1, &*found.2)), expected, "{command}");
    }

    #[test]
    fn a_test_command_of_python_is_understood() {
        check("python3 -m unittest -v test_a", Some(("python3", "unittest", "-v test_a")));
        check(
            "env PYTHONPATH=src python3.11 -B -W error -m pytest -q",
            Some(("env PYTHONPATH=src python3.11 -B -W error", "pytest", "-q")),
        );
        check(".venv/bin/python -m unittest", Some((".venv/bin/python", "unittest", "")));
        check("pytest tests", Some(("python3", "pytest", "tests")));
        for other in ["python3 run_tests.py", "python3 -c x", "make test", "python3 -m nose", "cargo test", "python3"] {
            check(other, None);
        }
    }

    #[test]
    fn the_agents_own_tests_are_named_where_the_command_names_tests() {
        let only = |command: &str| {
            let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
            Runner::of(&argv).unwrap().only(&["a/test_new.py"]).args.join(" ")
        };
        assert_eq!(only("python3 -m unittest -v test_a"), "-v a.test_new");
        assert_eq!(only("python3 -m unittest discover -v"), "discover -v");
        assert_eq!(only("python3 -m pytest -q tests/test_a.py"), "-q a/test_new.py");
        assert_eq!(only("python3 -m pytest -q"), "-q");
    }
}
