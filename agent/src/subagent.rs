//! What is a sub-agent, and what may it do at most?
//!
//! A session may hand a question or a piece of work to a child with a conversation of its own. The child works in the
//! same view, under the same policy, mode, hooks and monitor, and its kind can only take away: so it never has more
//! than its parent. It spends of its parent's budget, and what it says comes back as data.

use crate::action::{Call, Unreadable};
use crate::gate::{Action, Layer, Said, Verdict};
use crate::hooks::Told;
use serde::{Deserialize, Serialize};

/// How deep sub-agents go: a session has children, and those have none.
pub const DEPTH_MAX: usize = 1;
/// Sub-agents that one session may start.
pub const CHILDREN_MAX: usize = 4;
/// The longest task of a sub-agent, in bytes.
pub const PROMPT_BYTES_MAX: usize = 8_000;
/// Of a sub-agent's answer, what its parent reads, in bytes.
pub const ANSWER_BYTES_MAX: usize = 3_000;

/// What kind of sub-agent, by the names that hooks know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AgentType {
    /// It looks and answers; it changes nothing and runs nothing.
    Explore,
    /// It may do whatever its parent may, except to hand on.
    #[default]
    #[serde(rename = "general-purpose")]
    General,
}

impl AgentType {
    /// All of them.
    pub const ALL: [AgentType; 2] = [AgentType::Explore, AgentType::General];

    /// Its name in prompts, hooks and the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Explore => "Explore",
            Self::General => "general-purpose",
        }
    }

    /// The kind of this name, however it is written.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// The actions that it is given.
    #[must_use]
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Explore => &["list_dir", "read_file", "search", "grep", "finish"],
            Self::General => &[
                "list_dir",
                "read_file",
                "search",
                "grep",
                "edit_file",
                "write_file",
                "run_command",
                "run_tests",
                "finish",
            ],
        }
    }

    /// What its kind says to an action: a Deny, or nothing. So a child is judged as its parent is, and then more
    /// strictly.
    #[must_use]
    pub fn said(self, action: &Action) -> Option<Said> {
        (!self.tools().contains(&action.name())).then(|| Said {
            layer: Layer::Subagent,
            verdict: Verdict::Deny,
            rule: self.name().into(),
            reason: format!("a sub-agent of this kind has no {}", action.name()),
            instead: "finish with what you know, and say what is missing".into(),
        })
    }
}

/// Whether a loop may start sub-agents, and whether it is one.
#[derive(Debug, Default)]
pub struct Agents {
    offered: bool,
    own: Option<(String, AgentType)>,
    /// What a hook said that ended the whole session, from within a child.
    pub(crate) stopped: Option<Told>,
}

impl Agents {
    /// For a session: sub-agents only where a person has asked for them.
    #[must_use]
    pub fn offered(offered: bool) -> Self {
        Self { offered, ..Self::default() }
    }

    /// For a child, which starts none: [`DEPTH_MAX`].
    pub(crate) fn child(id: String, kind: AgentType) -> Self {
        Self { own: Some((id, kind)), ..Self::default() }
    }

    /// The id of the child that this is.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.own.as_ref().map(|(id, _)| id.as_str())
    }

    /// Id and kind of the child that this is, as hooks are told them.
    pub(crate) fn facts(&self) -> Option<(String, String)> {
        self.own.as_ref().map(|(id, kind)| (id.clone(), kind.name().to_owned()))
    }

    /// What the kind of the child that this is says to an action.
    pub(crate) fn said(&self, action: &Action) -> Option<Said> {
        self.own.as_ref().and_then(|(_, kind)| kind.said(action))
    }

    /// Why a call cannot start a sub-agent here, after so many; nothing for every other call.
    pub(crate) fn refusal(&self, call: &Call, started: usize) -> Option<String> {
        if !matches!(call, Call::Task { .. }) {
            None
        } else if self.own.is_some() {
            Some(format!("sub-agents go {DEPTH_MAX} deep, so you cannot hand this on. Do it yourself"))
        } else if !self.offered {
            Some(Unreadable::UnknownName("task".into()).to_string())
        } else {
            let why =
                format!("{CHILDREN_MAX} sub-agents were started, which is all that a session has. Go on yourself");
            (started >= CHILDREN_MAX).then_some(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_takes_away_and_gives_nothing() {
        for kind in AgentType::ALL {
            for name in Action::NAMES {
                let action = Action::named(name, "x").unwrap();
                let denied = kind.said(&action).map(|said| said.verdict) == Some(Verdict::Deny);
                assert_eq!(denied, !kind.tools().contains(&name), "{name}");
            }
            assert!(kind.said(&Action::named("task", "x").unwrap()).is_some(), "none hands on");
            assert_eq!(AgentType::named(&kind.name().to_uppercase()), Some(kind));
        }
    }
}
