//! Which command rules are about a program?

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;

use rustc_hash::FxHashMap;

use super::rules::{CommandRule, Slot};

/// The command rules of a policy, found by the name with which a command begins.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandRules {
    rules: Vec<CommandRule>,
    /// For a name the places of the rules that are about it.
    by_name: FxHashMap<String, Vec<usize>>,
    /// Places of rules that begin with no name.
    without_name: Vec<usize>,
}

impl Deref for CommandRules {
    type Target = [CommandRule];

    fn deref(&self) -> &[CommandRule] {
        &self.rules
    }
}

impl CommandRules {
    pub(super) fn extend(&mut self, more: Vec<CommandRule>) {
        for rule in more {
            let at = self.rules.len();
            match rule.argv.first() {
                Some(Slot::OneOf(names)) => {
                    for name in names {
                        self.by_name.entry(name.clone()).or_default().push(at);
                    }
                }
                _ => self.without_name.push(at),
            }
            self.rules.push(rule);
        }
    }

    /// The rules whose first place accepts this name, in their order.
    pub(super) fn about(&self, name: &str) -> impl Iterator<Item = &CommandRule> {
        let named = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        let places = if self.without_name.is_empty() {
            Cow::Borrowed(named)
        } else {
            let unnamed = self.without_name.iter().filter(|at| self.rules[**at].program_is(name));
            Cow::Owned(BTreeSet::from_iter(named.iter().chain(unnamed).copied()).into_iter().collect())
        };
        (0..places.len()).map(move |at| &self.rules[places[at]])
    }
}
