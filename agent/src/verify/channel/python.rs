//! How do tests in Python report? By a child that runs unittest or pytest and tells what each test did.
//!
//! What is closed beyond what [`super`] closes: `sys.exit`, `os._exit`, atexit and signal handlers, a replaced `unittest` (a
//! planted test that must fail, and a comparison of the framework before and after each test), objects that are equal to
//! anything. What is not closed: the code under test runs in the child's process, as everywhere; code that searches the
//! interpreter's memory for the child's word can lie. The lints of [`super::super::review`] stop the ways to do so.

use super::Start;
use std::collections::BTreeMap;

const CHILD: &str = include_str!("child.py");

/// A test command of Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tests {
    /// The interpreter with its options, and what is set before it.
    python: Vec<String>,
    /// `unittest` or `pytest`.
    name: &'static str,
    args: Vec<String>,
}

impl Tests {
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

    /// The child that runs them.
    pub(super) fn start(&self) -> Start<'_> {
        Start {
            python: self.python.iter().take_while(|word| !word.starts_with('-')).cloned().collect(),
            argv: self.python.iter().cloned().chain(["-c", CHILD].map(str::to_owned)).collect(),
            files: BTreeMap::new(),
            runner: self.name,
            args: &self.args,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<(&str, &str, &str)>) {
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let runner = Tests::of(&argv);
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
            Tests::of(&argv).unwrap().only(&["a/test_new.py"]).args.join(" ")
        };
        assert_eq!(only("python3 -m unittest -v test_a"), "-v a.test_new");
        assert_eq!(only("python3 -m unittest discover -v"), "discover -v");
        assert_eq!(only("python3 -m pytest -q tests/test_a.py"), "-q a/test_new.py");
        assert_eq!(only("python3 -m pytest -q"), "-q");
    }
}
