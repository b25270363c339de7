//! How does a sub-agent's session differ, and what does its parent keep of it?
//!
//! A child looks until it knows, or works until it is done, and its last words are its answer. It proves nothing: what
//! it wrote is its parent's change, whose tests and verifier come afterwards.

use super::approach::{Approach, Draw};
use super::{Ending, Files, Next, Session};
use crate::model::Usage;
use crate::profile::Profile;
use crate::subagent::AgentType;

impl Session {
    /// The session of a sub-agent that has not been opened yet; `files` are those that its parent has written.
    pub fn child(profile: Profile, kind: AgentType, files: &Files) -> Self {
        let mut session = Self::new(profile);
        session.child = Some(kind);
        (session.files, session.kept) = (files.clone(), files.clone());
        session
    }

    /// Sub-agents that it has started.
    pub fn children(&self) -> usize {
        self.children
    }

    /// What the model said when it was done, if it was.
    pub fn answer(&self) -> Option<&str> {
        self.summary.as_deref().filter(|_| matches!(self.next, Next::End(Ending::Unverified)))
    }

    /// What it has written that was not so before.
    pub fn written_since(&self, before: &Files) -> Files {
        let new = self.files.iter().filter(|(path, text)| before.get(*path) != Some(text));
        new.map(|(path, text)| (path.clone(), text.clone())).collect()
    }

    /// A sub-agent came back; what its calls cost is on the parent's sheet. Its answer is the result of the action.
    pub(super) fn returned(&mut self, costs: &[Usage]) {
        self.children += 1;
        self.costs.extend_from_slice(costs);
    }

    /// A sub-agent is not led: what it was asked need not be a bug.
    pub(super) fn unled(&self) -> Approach {
        Approach { prefix: String::new(), draw: Draw::Attempt(self.tries + self.unusable) }
    }
}
