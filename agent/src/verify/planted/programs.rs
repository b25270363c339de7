//! How is a program of tests started so that what it says of its own tests need not be believed?
//!
//! The program was built from the change and the tests of the base with plants in them. Before it starts, the plants are
//! gone from the files: what they answer stands in the program alone. Each program is started from outside, with an exit
//! status of its own.

use super::Originals;
use crate::plan::Plan;
use crate::text::sanitize;
use crate::verify::sealed::ended;
use crate::workspace::{Command, Ended, Ran, Workspace, WorkspaceError};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Programs of tests that are started; of a project with more nothing is believed.
pub const PROGRAMS_MAX: usize = 300;
/// Tests that run one after the other may take so many times what the plan gives them.
const ONE_BY_ONE_MAX: u32 = 4;
/// What is shown of a program that did not hold, in bytes.
const OUTPUT_BYTES_MAX: usize = 1_200;
/// Starts a program in a directory, in its own place.
const START: &str = "cd \"$1\" && shift && exec \"$@\"";

/// A program and where it starts.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program, absolute in the box.
    pub executable: String,
    /// The directory, absolute in the box.
    pub directory: String,
    /// What is set for it.
    pub env: Vec<(String, String)>,
}

/// The programs of one view, and the time that is left for all of them.
pub struct Runs<'a> {
    view: &'a mut dyn Workspace,
    originals: &'a Originals,
    pub plan: &'a Plan,
    cancel: &'a AtomicBool,
    until: Instant,
}

impl<'a> Runs<'a> {
    /// A view in which plants stand.
    pub fn new(view: &'a mut dyn Workspace, originals: &'a Originals, plan: &'a Plan, cancel: &'a AtomicBool) -> Self {
        Self { view, originals, plan, cancel, until: Instant::now() }
    }

    /// The files of the view.
    pub fn files(&self) -> Result<Vec<String>, WorkspaceError> {
        self.view.walk()
    }

    /// Builds, with the deadline of the plan.
    pub fn build(&mut self, argv: &[String]) -> Result<Ran, WorkspaceError> {
        self.view.run(&Command::new(argv.to_vec(), Duration::from_secs(self.plan.seconds_max)), self.cancel)
    }

    /// Takes the plants out of the files. From here on code of the change may run, and the time of all runs counts.
    pub fn begin(&mut self) -> Result<(), WorkspaceError> {
        for (path, original) in self.originals {
            match original {
                Some(bytes) => self.view.write(path, bytes)?,
                None => self.view.remove(path)?,
            }
        }
        self.until = Instant::now() + ONE_BY_ONE_MAX * Duration::from_secs(self.plan.seconds_max);
        Ok(())
    }

    /// One run of a program; the inner error: no time is left.
    pub fn start(
        &mut self,
        program: &Program,
        arguments: impl IntoIterator<Item = String>,
        more: &[(&str, &str)],
    ) -> Result<Result<Ran, String>, WorkspaceError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let own = ["sh", "-c", START, "sh", &program.directory, &program.executable].map(str::to_owned);
        let argv = own.into_iter().chain(arguments).collect();
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let env = program.env.iter().cloned().chain(more).collect();
        // A deadline of nothing is none for some boxes.
        let seconds_max = left.max(Duration::from_secs(1));
        let ran = self.view.run(&Command { env, ..Command::new(argv, seconds_max) }, self.cancel)?;
        if matches!(ran.ended, Ended::Stopped(_)) && Instant::now() >= self.until {
            let seconds = u64::from(ONE_BY_ONE_MAX) * self.plan.seconds_max;
            return Ok(Err(format!(
                "one after the other the tests took more than {seconds} s; give them more in `seconds` of .cloister/verify.toml"
            )));
        }
        Ok(Ok(ran))
    }
}

/// How it ended, and the end of what it printed.
pub fn shown(ran: &Ran) -> String {
    let tail = ran.output.len().saturating_sub(OUTPUT_BYTES_MAX);
    format!("{}\n{}", ended(&ran.ended), sanitize(&ran.output[tail..], OUTPUT_BYTES_MAX).text.trim())
}
