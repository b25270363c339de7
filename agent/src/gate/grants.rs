//! What has a person allowed in this session, and who inherits it?
//!
//! Nobody, except a child of the session, which has at most what its parent has. A session that is resumed or forked
//! starts from [`Grants::default`], which is empty; what was not restored is told from the log of the earlier one.

use super::Action;

/// What a person has allowed in this session, and only in it. A grant turns Ask into Allow for exactly one action;
/// it never touches Deny.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Actions that were consented to, in their normal form.
    pub actions: Vec<Action>,
}

/// For those who have none.
pub(super) static NONE: Grants = Grants { actions: Vec::new() };

/// A person does not consent to more than this many things in one session; the oldest consent ends first.
const GRANTS_MAX: usize = 1_024;

impl Grants {
    /// Notes a person's consent to one action. An action that has no normal form is not noted: it is always denied.
    pub fn grant(&mut self, action: &Action) {
        let Ok(action) = action.normalised() else { return };
        if self.actions.contains(&action) {
            return;
        }
        if self.actions.len() == GRANTS_MAX {
            self.actions.remove(0);
        }
        self.actions.push(action);
    }

    /// Whether a person has consented to exactly this action. Commands are compared as they are written: a space
    /// more is another command.
    #[must_use]
    pub fn covers(&self, action: &Action) -> bool {
        !self.actions.is_empty() && action.normalised().is_ok_and(|action| self.actions.contains(&action))
    }

    /// What a sub-agent may have: of what its parent has, only the actions of the kinds that it is given. It is
    /// never wider than the parent, and a grant that it earns later is not the parent's.
    #[must_use]
    pub fn for_child(&self, tools: &[&str]) -> Grants {
        let kept = self.actions.iter().filter(|action| tools.contains(&action.name()));
        Grants { actions: kept.cloned().collect() }
    }
}
