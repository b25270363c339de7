//! How much is asked of a person, and what does silence mean?

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How much is asked of a person. No mode bypasses the gate: a deny rule and a doubt are Deny in each of them.
///
/// Explicit ask rules are asked in `ask` alone; elsewhere nobody is asked, so they deny. What a mode makes of an
/// action that no rule speaks for stands at `explain::Finding::comes_to`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Nothing is changed: the reading tools, and commands of which a rule says that they only read.
    Plan,
    /// A command that is understood and that no rule names needs a person's consent.
    Ask,
    /// No questions: the box is the wall. A command that is understood completely runs unless a rule names it or
    /// one of its paths and hosts.
    Auto,
    /// Only what a rule allows by name; Ask is Deny.
    #[default]
    Strict,
}

impl Mode {
    /// All of them, from the one that allows least.
    pub const ALL: [Mode; 4] = [Mode::Plan, Mode::Strict, Mode::Ask, Mode::Auto];

    /// The name that people type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Plan => "plan",
            Mode::Ask => "ask",
            Mode::Auto => "auto",
            Mode::Strict => "strict",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no mode of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode `{0}`, only plan, ask, auto and strict")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Mode, UnknownMode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| UnknownMode(name.to_owned()))
    }
}
