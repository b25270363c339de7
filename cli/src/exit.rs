//! With which code does the process end, and what should a person do next?

use agent::Ending;
use std::process::ExitCode;

/// The documented exit codes; see `cloister --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The task is not solved.
    NotSolved = 1,
    /// Something on this host is missing.
    Missing = 3,
    /// A policy or configuration file does not load.
    Config = 4,
    /// There is a change and nothing to prove it with.
    Unverified = 5,
    /// The model, the server, the box or the log failed.
    Failed = 6,
    /// A question waits for an answer.
    Parked = 7,
    /// The model says that the task cannot be done.
    Impossible = 8,
    /// Ctrl-C.
    Cancelled = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

impl From<&Ending> for Exit {
    fn from(ending: &Ending) -> Self {
        match ending {
            Ending::Verified => Self::Done,
            Ending::Unverified => Self::Unverified,
            Ending::Impossible { .. } => Self::Impossible,
            Ending::GaveUp { .. }
            | Ending::Stuck { .. }
            | Ending::BudgetExhausted { .. }
            | Ending::Blocked { .. }
            | Ending::Rejected { .. } => Self::NotSolved,
            Ending::Parked { .. } => Self::Parked,
            Ending::Failed { .. } => Self::Failed,
            Ending::Cancelled => Self::Cancelled,
        }
    }
}

/// An error that ends the process, with its code and what to do next.
#[derive(Debug)]
pub struct Fatal {
    /// The code.
    pub exit: Exit,
    /// What went wrong.
    pub error: anyhow::Error,
    /// What to do about it; empty when the error says so itself.
    pub hint: String,
}

impl Fatal {
    /// Something on this host is missing.
    pub fn missing(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Missing, error: error.into(), hint: hint.into() }
    }

    /// A file that a person wrote does not load.
    pub fn config(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Config, error: error.into(), hint: hint.into() }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Fatal {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, error: error.into(), hint: String::new() }
    }
}
