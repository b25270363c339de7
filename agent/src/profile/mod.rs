//! How is this family of models spoken to? The words are files; the numbers are data.

use crate::model::Sampling;
use serde::Deserialize;

/// Everything that differs between model families.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, for the log.
    pub name: String,
    /// The longest reply, in tokens.
    pub reply_tokens_max: usize,
    /// Failed attempts before the session gives up.
    pub attempts_max: usize,
    /// Actions without an edit before the model is asked to write one.
    pub explore_actions_max: usize,
    /// Actions without an edit after an attempt that failed.
    pub retry_looks_max: usize,
    /// Replies without a usable action in a row before the session gives up.
    pub unusable_replies_max: usize,
    /// Temperature of every attempt after the first, which is greedy; the last one repeats.
    pub temperatures: Vec<f32>,
    /// Temperature of a second proposal for one line: a short text needs more of it to become another one.
    pub line_temperature: f32,
    /// Nucleus mass of every attempt after the first.
    pub top_p: f32,
    /// How many failed attempts a retry is shown; the others are forgotten so that they do not anchor it.
    pub attempts_shown_max: usize,
    /// The frozen instructions.
    #[serde(skip)]
    pub system: String,
}

impl Profile {
    /// The profile for a model by its name; the small Qwen2.5-Coder one speaks to any instruct model.
    pub fn for_model(_name: &str) -> Self {
        let mut profile: Self = toml::from_str(include_str!("qwen2.5-coder.toml")).expect("checked by a test");
        profile.system = include_str!("qwen2.5-coder.system.txt").into();
        profile
    }

    /// The same with sub-agents on offer. They are told of at the end, so that what stands before is computed once for
    /// a session and for its children, and only where a person wants them: every further action costs a small model
    /// accuracy.
    #[must_use]
    pub fn with_subagents(mut self) -> Self {
        self.system += include_str!("qwen2.5-coder.subagents.txt");
        self
    }

    /// Greedy first, then warmer, each attempt with a seed of its own.
    pub fn sampling(&self, attempt: usize) -> Sampling {
        match attempt.checked_sub(1) {
            None => Sampling::GREEDY,
            Some(at) => Sampling {
                temperature: self.temperatures.get(at).or(self.temperatures.last()).copied().unwrap_or(0.0),
                top_p: self.top_p,
                seed: attempt as u64,
            },
        }
    }

    /// For a second proposal for one line.
    pub fn line_sampling(&self, seed: usize) -> Sampling {
        Sampling { temperature: self.line_temperature, top_p: self.top_p, seed: seed as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_agents_are_offered_behind_the_words_that_everybody_reads() {
        let (plain, more) = (Profile::for_model("m"), Profile::for_model("m").with_subagents());
        assert_eq!(plain.system, include_str!("qwen2.5-coder.system.txt"));
        assert!(!plain.system.contains("sub-agent") && !plain.system.contains("\"task\""));
        assert!(more.system.strip_prefix(plain.system.as_str()).unwrap().contains("\"name\": \"task\""));
    }

    #[test]
    fn the_first_attempt_is_greedy_and_later_ones_differ() {
        let profile = Profile::for_model("qwen2.5-coder-1.5b-instruct");
        assert_eq!(profile.sampling(0), Sampling::GREEDY);
        assert!(profile.sampling(1).temperature > 0.0);
        assert_ne!(profile.sampling(2).seed, profile.sampling(3).seed);
        assert!(profile.sampling(99).temperature > 0.0);
    }
}
