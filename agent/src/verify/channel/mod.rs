//! How do tests report so that the code under test cannot answer for them?
//!
//! A supervisor, which imports nothing from the repository, starts the tests in a child and reads its report from a pipe.
//! The supervisor signs what it says with a word that it was given in a file and that is gone before the child starts;
//! the child signs with another word, which it reads from its input before anything of the repository is loaded. What is
//! closed by that, whatever runs the tests: exit codes, output that looks like a report, files that are written as results,
//! a process that ends before its tests, lines on the pipe that are not signed. What the child itself closes and what it
//! does not stands in [`python`] and [`script`]; [`java`] has reports instead of a child.

mod java;
mod python;
mod script;
mod xml;

use crate::workspace::{Command, Ended, Ran, Workspace, WorkspaceError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SUPERVISOR: &str = include_str!("supervisor.py");
/// Stands for the directory of the child's files in its command.
const PLACE: &str = "{channel}";
/// What the box is given beyond the tests' own deadline, so that the supervisor can still speak, in seconds.
const GRACE_SECONDS: u64 = 10;

/// A test command that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runner {
    /// unittest and pytest.
    Python(python::Tests),
    /// jest, vitest, mocha and node's own.
    Script(script::Tests),
    /// Maven and Gradle.
    Java(java::Tests),
}

impl Runner {
    /// Understands this command, in a view whose configuration is that of the base.
    pub fn of(argv: &[String], view: &dyn Workspace) -> Option<Self> {
        let java = || java::Tests::of(argv).map(Self::Java);
        let script = || script::Tests::of(argv, view).map(Self::Script);
        python::Tests::of(argv).map(Self::Python).or_else(java).or_else(script)
    }

    /// Is this a build of Java that runs tests?
    pub fn is_java(argv: &[String]) -> bool {
        java::Tests::of(argv).is_some()
    }

    /// The same for these files alone, where the command names its modules; else the command as it is.
    pub fn only(&self, files: &[&str]) -> Self {
        match self {
            Self::Python(tests) => Self::Python(tests.only(files)),
            Self::Script(_) | Self::Java(_) => self.clone(),
        }
    }

    /// The same, to its end, whatever fails: for a run that says which tests there are. Its exit status may say nothing.
    pub fn going_on(&self) -> Self {
        match self {
            Self::Java(tests) => Self::Java(tests.going_on()),
            Self::Python(_) | Self::Script(_) => self.clone(),
        }
    }

    /// Why no test has to be planted into files, if none has to.
    pub fn plants_itself(&self) -> Option<&'static str> {
        matches!(self, Self::Python(_)).then_some("the runner plants its own")
    }

    /// Runs the tests in this view, which is for nothing else: what they did, and what they reported; `None` where the
    /// runner is not in the box.
    pub fn run(
        &self,
        view: &mut dyn Workspace,
        seconds: u64,
        cancel: &AtomicBool,
    ) -> Result<Option<(Ran, Told)>, WorkspaceError> {
        match self {
            Self::Python(tests) => supervise(view, &tests.start(), seconds, cancel),
            Self::Script(tests) => supervise(view, &tests.start(), seconds, cancel),
            Self::Java(tests) => tests.run(view, seconds, cancel),
        }
    }

    /// What the tests of the base would have said, had they come so far: those of files that could not be loaded.
    pub fn complete(&self, was: &mut Told, told: &Told, view: &dyn Workspace) {
        match self {
            Self::Script(_) => script::complete(was, told, view),
            Self::Java(_) => java::complete(was, told, view),
            Self::Python(_) => {}
        }
    }
}

/// What the supervisor starts.
struct Start<'a> {
    /// The supervisor's own interpreter, and what is set before it.
    python: Vec<String>,
    /// The child.
    argv: Vec<String>,
    /// What it is made of: lies in a directory of its own, outside of the repository.
    files: BTreeMap<&'static str, &'static str>,
    runner: &'a str,
    args: &'a [String],
}

/// What the supervisor is told; it is in a file that it removes.
#[derive(Serialize)]
struct Order<'a> {
    nonce: &'a str,
    argv: &'a [String],
    place: &'a str,
    files: &'a BTreeMap<&'static str, &'static str>,
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
    /// The runner is one that writes reports, and wrote none at all.
    pub unreported: bool,
}

pub use java::class as java_class;

impl Told {
    /// Of a runner that cannot list its tests: what ran on the base is expected of every later run.
    fn expect_what_ran(&mut self) {
        self.expected = self.outcomes.iter().map(|(id, ends)| (id.clone(), ends.len())).collect();
    }

    /// How often each of these passed, of those that did nothing else.
    pub fn passed(&self) -> BTreeMap<&str, usize> {
        let passed = self.outcomes.iter().filter(|(_, ends)| ends.iter().all(|end| end == "pass"));
        passed.map(|(id, ends)| (id.as_str(), ends.len())).collect()
    }
}

#[derive(Deserialize)]
struct Answer {
    /// `None`: it ran into its deadline.
    status: Option<i32>,
    forged: usize,
    said: Vec<serde_json::Value>,
}

fn supervise(
    view: &mut dyn Workspace,
    start: &Start<'_>,
    seconds: u64,
    cancel: &AtomicBool,
) -> Result<Option<(Ran, Told)>, WorkspaceError> {
    let word = random()?;
    let nonce = format!("cloister-{word}");
    let Start { argv, files, runner, args, .. } = start;
    let order = Order { nonce: &nonce, argv, place: PLACE, files, runner, args, seconds };
    let order = serde_json::to_vec(&order).map_err(|error| WorkspaceError::Failed(error.to_string()))?;
    let path = format!(".cloister-order-{}", &word[..16]);
    view.write(&path, &order)?;
    let argv = start.python.iter().cloned().chain(["-I", "-S", "-c", SUPERVISOR, &path].map(str::to_owned)).collect();
    let ran = view.run(&Command::new(argv, Duration::from_secs(seconds + GRACE_SECONDS)), cancel);
    // The supervisor has removed it, unless it never started.
    let _ = view.remove(&path);
    let mut ran = ran?;
    let answer = take_answer(&mut ran.output, &nonce);
    let missing = answer.is_none() && matches!(ran.ended, Ended::Exited(126 | 127));
    let unavailable = |answer: &Answer| answer.said.iter().any(|said| said[0] == "unavailable");
    if missing || answer.as_ref().is_some_and(unavailable) {
        return Ok(None);
    }
    let told = answer.map(|answer| read(&answer)).unwrap_or_default();
    Ok(Some((ran, told)))
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
    let mut collected = false;
    for said in &answer.said {
        let what = said[1].as_str().unwrap_or_default().to_owned();
        let many = || said[1].as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_owned));
        match said[0].as_str().unwrap_or_default() {
            "expected" => {
                collected = true;
                many().for_each(|id| *told.expected.entry(id).or_default() += 1);
            }
            "ran" => told.outcomes.entry(what).or_default().push(said[2].as_str().unwrap_or_default().to_owned()),
            "unloadable" | "broken" => drop(told.broken.insert(what)),
            // `setUpClass (module.Class)`
            "left" => told.left.extend(what.split(['(', ')']).nth(1).map(|name| format!("{name}."))),
            "replaced" => drop(told.replaced.insert(what)),
            "silent" => told.silent.extend(many()),
            "ended" => told.ended = true,
            _ => {}
        }
    }
    if !collected {
        told.expect_what_ran();
    }
    told
}
