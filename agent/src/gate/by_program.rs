//! Which command rules are about a program?

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;

use rustc_hash::FxHashMap;

use super::rules::{CommandRule, Said, Slot};
use super::{Mode, Verdict};

/// The command rules of a policy, found by the name with which a command begins.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandRules {
    rules: Vec<CommandRule>,
    by_name: FxHashMap<String, Named>,
    /// Places of rules that begin with no name.
    without_name: Vec<usize>,
}

/// The places of the rules that are about one name.
#[derive(Debug, Clone, Default)]
struct Named {
    all: Vec<usize>,
    /// Those that do not simply allow.
    tightening: Vec<usize>,
    /// Of these, for a first byte of the words behind the name, the rules that can find something in them: a command
    /// behind thirty wrappers is looked at from each of its words.
    by_byte: FxHashMap<u8, Vec<usize>>,
    /// And those that can find something in any.
    any_byte: Vec<usize>,
}

impl Named {
    fn tighten(&mut self, at: usize, second: Option<&Slot>) {
        self.tightening.push(at);
        match second.and_then(Slot::first_bytes) {
            Some(bytes) => bytes.into_iter().for_each(|byte| self.by_byte.entry(byte).or_default().push(at)),
            None => self.any_byte.push(at),
        }
    }

    /// The deny and ask rules that can find something in a command, some of them twice.
    fn about(&self, said: &Said) -> impl Iterator<Item = &usize> {
        let of = |byte: u8| self.by_byte.get(&byte).map(Vec::as_slice).unwrap_or_default();
        let (first, second, rest) = match said.first_bytes() {
            [Some(a), Some(b)] if a == b => (of(a), &[][..], &self.any_byte[..]),
            [Some(a), Some(b)] => (of(a), of(b), &self.any_byte[..]),
            // A word that is empty, or none at all.
            _ => (&self.tightening[..], &[][..], &[][..]),
        };
        first.iter().chain(second).chain(rest)
    }
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
                        let named = self.by_name.entry(name.clone()).or_default();
                        named.all.push(at);
                        if rule.rule.verdict != Verdict::Allow {
                            named.tighten(at, rule.argv.get(1));
                        }
                    }
                }
                _ => self.without_name.push(at),
            }
            self.rules.push(rule);
        }
    }

    /// The rules whose first place accepts this name, in their order.
    pub(super) fn about(&self, name: &str) -> impl Iterator<Item = &CommandRule> {
        let named = self.by_name.get(name).map(|named| &named.all[..]).unwrap_or_default();
        let places = if self.without_name.is_empty() {
            Cow::Borrowed(named)
        } else {
            let unnamed = self.without_name.iter().filter(|at| self.rules[**at].program_is(name));
            Cow::Owned(BTreeSet::from_iter(named.iter().chain(unnamed).copied()).into_iter().collect())
        };
        (0..places.len()).map(move |at| &self.rules[places[at]])
    }

    /// The deny and ask rules that hold in a mode and find their danger in a command.
    pub(super) fn dangers(&self, said: &Said, mode: Mode) -> impl Iterator<Item = &CommandRule> {
        let name = said.program();
        let named = self.by_name.get(name).into_iter().flat_map(|named| named.about(said));
        let unnamed = self.without_name.iter().filter(|at| self.rules[**at].program_is(name));
        let finds = |at: &&usize| self.rules[**at].holds(mode) && self.rules[**at].finds(said);
        let mut places: Vec<usize> = named.chain(unnamed).filter(finds).copied().collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|at| &self.rules[at])
    }
}
