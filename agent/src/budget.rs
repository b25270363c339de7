//! How much may a session still spend?
//!
//! Pure arithmetic: the driver counts, this file compares. A limit is reached when as much was spent as it
//! allows, so a check before each step never lets a session start a step that it cannot pay for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a session may spend in all. Every limit names its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Actions, of every kind.
    pub calls_max: u64,
    /// Wall-clock seconds since the session began.
    pub seconds_max: u64,
    /// Tokens that the model read or wrote; a token taken from the prefix cache counts once, when it was computed.
    pub model_tokens_max: u64,
    /// Commands and test runs started in a box.
    pub commands_max: u64,
    /// Bytes of tool output put into the context.
    pub output_bytes_max: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            calls_max: 120,
            seconds_max: 600,
            model_tokens_max: 200_000,
            commands_max: 120,
            output_bytes_max: 1 << 20,
        }
    }
}

/// What a session has spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Actions, of every kind.
    pub calls: u64,
    /// Wall-clock seconds since the session began.
    pub seconds: u64,
    /// Tokens that the model read or wrote.
    pub model_tokens: u64,
    /// Commands and test runs started in a box.
    pub commands: u64,
    /// Bytes of tool output put into the context.
    pub output_bytes: u64,
}

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// [`Budget::calls_max`]
    Calls,
    /// [`Budget::seconds_max`]
    Seconds,
    /// [`Budget::model_tokens_max`]
    ModelTokens,
    /// [`Budget::commands_max`]
    Commands,
    /// [`Budget::output_bytes_max`]
    OutputBytes,
}

/// A limit that was reached, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exhausted {
    /// Which one.
    pub which: Which,
    /// Its value, in its own unit.
    pub limit: u64,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.which {
            Which::Calls => "actions",
            Which::Seconds => "seconds",
            Which::ModelTokens => "model tokens",
            Which::Commands => "commands",
            Which::OutputBytes => "bytes of tool output",
        };
        write!(f, "the limit of {} {unit} is reached", self.limit)
    }
}

impl Budget {
    /// The first limit that is reached, in the order of the fields.
    #[must_use]
    pub fn check(&self, spent: &Spent) -> Option<Exhausted> {
        self.pairs(spent)
            .into_iter()
            .find(|(_, limit, used)| used >= limit)
            .map(|(which, limit, _)| Exhausted { which, limit })
    }

    /// The budget of a child that asked for `asked`: never wider, in any limit, than what the parent has left.
    #[must_use]
    pub fn child(&self, spent: &Spent, asked: &Budget) -> Budget {
        Budget {
            calls_max: asked.calls_max.min(self.calls_max.saturating_sub(spent.calls)),
            seconds_max: asked.seconds_max.min(self.seconds_max.saturating_sub(spent.seconds)),
            model_tokens_max: asked.model_tokens_max.min(self.model_tokens_max.saturating_sub(spent.model_tokens)),
            commands_max: asked.commands_max.min(self.commands_max.saturating_sub(spent.commands)),
            output_bytes_max: asked.output_bytes_max.min(self.output_bytes_max.saturating_sub(spent.output_bytes)),
        }
    }

    /// What a sub-agent gets: half of what is left, so that its parent can always make something of its answer.
    #[must_use]
    pub fn slice(&self, spent: &Spent) -> Budget {
        let left = self.child(spent, self);
        Budget {
            calls_max: left.calls_max / 2,
            seconds_max: left.seconds_max / 2,
            model_tokens_max: left.model_tokens_max / 2,
            commands_max: left.commands_max / 2,
            output_bytes_max: left.output_bytes_max / 2,
        }
    }

    fn pairs(&self, spent: &Spent) -> [(Which, u64, u64); 5] {
        [
            (Which::Calls, self.calls_max, spent.calls),
            (Which::Seconds, self.seconds_max, spent.seconds),
            (Which::ModelTokens, self.model_tokens_max, spent.model_tokens),
            (Which::Commands, self.commands_max, spent.commands),
            (Which::OutputBytes, self.output_bytes_max, spent.output_bytes),
        ]
    }
}

impl Spent {
    /// Adds what a child spent, so that it is paid by its parent. Seconds are not added: the clock runs for both.
    pub fn add_child(&mut self, child: &Spent) {
        self.calls = self.calls.saturating_add(child.calls);
        self.model_tokens = self.model_tokens.saturating_add(child.model_tokens);
        self.commands = self.commands.saturating_add(child.commands);
        self.output_bytes = self.output_bytes.saturating_add(child.output_bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small() -> Budget {
        Budget { calls_max: 3, seconds_max: 10, model_tokens_max: 100, commands_max: 2, output_bytes_max: 50 }
    }

    #[track_caller]
    fn check(spent: Spent, expected: Option<(Which, u64)>) {
        let found = small().check(&spent).map(|e| (e.which, e.limit));
        assert_eq!(found, expected, "{spent:?}");
    }

    #[test]
    fn a_limit_is_reached_when_all_of_it_is_spent() {
        check(Spent::default(), None);
        check(Spent { calls: 2, ..Spent::default() }, None);
        check(Spent { calls: 3, ..Spent::default() }, Some((Which::Calls, 3)));
        check(Spent { seconds: 11, ..Spent::default() }, Some((Which::Seconds, 10)));
        check(Spent { model_tokens: 100, ..Spent::default() }, Some((Which::ModelTokens, 100)));
        check(Spent { commands: 2, ..Spent::default() }, Some((Which::Commands, 2)));
        check(Spent { output_bytes: 50, ..Spent::default() }, Some((Which::OutputBytes, 50)));
    }

    #[test]
    fn an_exhausted_limit_says_its_value_and_its_unit() {
        let exhausted = Exhausted { which: Which::Seconds, limit: 10 };
        assert_eq!(exhausted.to_string(), "the limit of 10 seconds is reached");
    }

    fn numbers() -> impl Strategy<Value = [u64; 5]> {
        proptest::array::uniform5(prop_oneof![0..20u64, Just(u64::MAX)])
    }

    fn budget(n: [u64; 5]) -> Budget {
        Budget {
            calls_max: n[0],
            seconds_max: n[1],
            model_tokens_max: n[2],
            commands_max: n[3],
            output_bytes_max: n[4],
        }
    }

    fn spent(n: [u64; 5]) -> Spent {
        Spent { calls: n[0], seconds: n[1], model_tokens: n[2], commands: n[3], output_bytes: n[4] }
    }

    proptest! {
        #[test]
        fn a_child_is_never_wider_than_what_its_parent_has_left(p in numbers(), s in numbers(), a in numbers()) {
            let (parent, used) = (budget(p), spent(s));
            let child = parent.child(&used, &budget(a));
            for ((_, kid, _), (_, limit, gone)) in child.pairs(&used).into_iter().zip(parent.pairs(&used)) {
                prop_assert!(kid <= limit.saturating_sub(gone));
            }
            let slice = parent.slice(&used);
            for ((_, kid, _), (_, limit, gone)) in slice.pairs(&used).into_iter().zip(parent.pairs(&used)) {
                prop_assert!(kid <= limit.saturating_sub(gone) / 2, "half of what is left stays with the parent");
            }
            if parent.check(&used).is_some() {
                prop_assert!(child.check(&Spent::default()).is_some(), "a spent parent has nothing to give");
            }
        }
    }
}
