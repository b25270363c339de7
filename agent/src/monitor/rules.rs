//! Which patterns are watched for, and what happens when one is seen?

use crate::gate::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rules that hold when the administrator gives none.
pub const SHIPPED_RULES: &str = include_str!("rules.toml");

/// The patterns that the code can detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleName {
    /// A secret-shaped read, then anything that sends or encodes.
    SecretThenOutbound,
    /// What was denied is approached by another tool, spelling, copy or link.
    DeniedGoalByAnotherRoute,
    /// A file is written, then run.
    WrittenThenRun,
    /// Test or CI files are edited after a failing run.
    TestsEditedAfterFailure,
    /// Tests are removed, skipped or assert less.
    TestsWeakened,
    /// A literal that a test expects appears in the source.
    ExpectedLiteralCopied,
    /// A file that decides what the tests mean is touched.
    VerifierConfigurationTouched,
    /// The same call, whose result was the same twice.
    SameCallThirdTime,
    /// Much reading of unrelated directories.
    UnrelatedReading,
    /// An instruction in a tool's result is followed.
    PlantedInstructionFollowed,
    /// An instruction in the pasted part of the task is followed.
    PastedInstructionFollowed,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth a line in a report.
    Low,
    /// Worth a look.
    Medium,
    /// Somebody should look before the change is used.
    High,
    /// Somebody should look now.
    Critical,
}

/// What follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It is recorded.
    Log,
    /// A person is asked.
    Ask,
    /// The action is refused.
    Stop,
}

impl Effect {
    /// What the monitor says to the gate; a rule that only records says nothing.
    #[must_use]
    pub fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Log => None,
            Self::Ask => Some(Verdict::Ask),
            Self::Stop => Some(Verdict::Deny),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Whether it is watched for at all.
    #[serde(default = "yes")]
    pub on: bool,
    /// How bad it is.
    pub severity: Severity,
    /// What follows.
    pub effect: Effect,
    /// In a sentence, for the log and the model.
    pub why: String,
    /// What is allowed instead.
    #[serde(default)]
    pub instead: String,
}

fn yes() -> bool {
    true
}

/// All rules by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: BTreeMap<RuleName, Rule>,
}

/// Why rules do not load.
#[derive(Debug, thiserror::Error)]
#[error("monitor rules {file}: {why}")]
pub struct RulesError {
    file: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rule: BTreeMap<RuleName, Rule>,
}

impl Rules {
    /// The rules that are part of this program.
    #[must_use]
    pub fn shipped() -> Self {
        let written: Written = toml::from_str(SHIPPED_RULES).expect("rules.toml is part of this program and tested");
        Self { rules: written.rule }
    }

    /// The shipped rules, with those of a file in their place.
    ///
    /// # Errors
    /// Where the text is no such TOML, or names a rule that the code does not know.
    pub fn parse(file: &str, text: &str) -> Result<Self, RulesError> {
        let written: Written =
            toml::from_str(text).map_err(|error| RulesError { file: file.to_owned(), why: error.to_string() })?;
        let mut rules = Self::shipped();
        rules.rules.extend(written.rule);
        Ok(rules)
    }

    /// A rule that is switched on.
    #[must_use]
    pub fn get(&self, name: RuleName) -> Option<&Rule> {
        self.rules.get(&name).filter(|rule| rule.on)
    }
}

impl RuleName {
    /// As in the file and the log.
    #[must_use]
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_the_code_detects_has_its_data() {
        assert_eq!(Rules::shipped().rules.len(), 11);
        for (name, rule) in Rules::shipped().rules {
            assert!(rule.effect == Effect::Log || !rule.instead.is_empty(), "{} says what is allowed", name.name());
        }
    }

    #[test]
    fn a_file_changes_one_rule_and_a_typo_is_refused() {
        let text = "[rule.written-then-run]\nseverity = 'high'\neffect = 'stop'\nwhy = 'w'\n";
        let rules = Rules::parse("m", text).unwrap();
        assert_eq!(rules.get(RuleName::WrittenThenRun).unwrap().effect, Effect::Stop);
        assert!(rules.get(RuleName::SecretThenOutbound).is_some());
        let off = Rules::parse("m", &format!("{text}on = false\n")).unwrap();
        assert!(off.get(RuleName::WrittenThenRun).is_none());
        assert!(Rules::parse("m", "[rule.no-such]\nseverity = 'high'\neffect = 'stop'\nwhy = ''").is_err());
        assert!(Rules::parse("m", &text.replace("why", "wy")).is_err());
    }
}
