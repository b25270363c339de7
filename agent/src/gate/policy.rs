//! What does a loaded policy say about tools and paths?

use serde::{Deserialize, Serialize};

use super::by_program::CommandRules;
use super::explain::{Finding, silence};
use super::hosts::HostRule;
use super::near::PathRules;
use super::path::normalise;
use super::rules::{CommandRule, PathRule, Rule, ToolRule};
use super::{Action, Layer, Verdict};

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Its content or its entries are looked at.
    Read,
    /// It is made, changed or removed.
    Write,
}

/// Rules that were loaded and whose examples hold. Made by [`Policy::shipped`], [`Policy::parse`] and
/// [`Policy::load`]; tightened by [`Policy::tightened`].
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub(super) tools: Vec<ToolRule>,
    pub(super) paths: PathRules,
    pub(super) commands: CommandRules,
    pub(super) hosts: Vec<HostRule>,
}

impl Policy {
    /// What the path rules say about one path, for those who fill the box, search it and read its changes back.
    #[must_use]
    pub fn path_verdict(&self, access: Access, path: &str) -> Verdict {
        self.path_findings(access, path).iter().map(|f| f.verdict).max().unwrap_or(Verdict::Deny)
    }

    /// How the commands that are allowed begin, for the prompt and for refusals.
    #[must_use]
    pub fn allowed_commands(&self) -> Vec<String> {
        self.commands.iter().filter(|r| r.rule.verdict == Verdict::Allow).map(CommandRule::usage).collect()
    }

    /// What all rules have in common.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        let tools = self.tools.iter().map(|r| &r.rule);
        let paths = self.paths.iter().map(|r| &r.rule);
        let commands = self.commands.iter().map(|r| &r.rule);
        tools.chain(paths).chain(commands).chain(self.hosts.iter().map(|r| &r.rule))
    }

    pub(super) fn tool_findings(&self, action: &Action) -> Vec<Finding> {
        let name = action.name();
        let said = self
            .tools
            .iter()
            .filter(|r| r.matches(name))
            .map(|r| r.rule.finding(Layer::Tools, &format!("the tool {name}")));
        let mut findings: Vec<_> = said.collect();
        if !findings.iter().any(|f| f.layer == Layer::Tools) {
            findings.push(silence(Layer::Tools, &format!("the tool {name}"), "use another tool, or finish".into()));
        }
        findings
    }

    /// Findings of all path rules that match. Silence is Deny.
    pub(super) fn path_findings(&self, access: Access, path: &str) -> Vec<Finding> {
        let what = Finding::quoted(verb(access), path);
        let normal = match normalise(path) {
            Ok(normal) => normal,
            Err(why) => {
                return vec![Finding::own(Layer::Paths, format!("{what} is refused: {why}"), IN_WORKSPACE.into())];
            }
        };
        let mut findings = self.matching_paths(access, &normal, false, &what);
        if !findings.iter().any(|f| f.layer == Layer::Paths) {
            findings.push(silence(Layer::Paths, &what, IN_WORKSPACE.into()));
        }
        findings
    }

    pub(super) fn matching_paths(&self, access: Access, normal: &str, pattern: bool, what: &str) -> Vec<Finding> {
        self.matching(access, normal, pattern).into_iter().map(|r| r.rule.finding(Layer::Paths, what)).collect()
    }

    /// The path rules that speak about a path in normal form.
    pub(super) fn matching(&self, access: Access, normal: &str, pattern: bool) -> Vec<&PathRule> {
        self.paths.iter().filter(|r| r.matches(access, normal, pattern)).collect()
    }
}

pub(super) const IN_WORKSPACE: &str = "use a path inside the repository, relative to its top, such as src/main.py";

pub(super) fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reading",
        Access::Write => "writing",
    }
}

impl Rule {
    /// What this rule says about `what`.
    pub(super) fn finding(&self, layer: Layer, what: &str) -> Finding {
        let layer = if self.from_project { Layer::Project } else { layer };
        Finding {
            layer,
            verdict: self.verdict,
            rule: Some(self.id.clone()),
            reason: self.sentence(what),
            instead: self.instead.clone(),
            silent: false,
        }
    }

    fn sentence(&self, what: &str) -> String {
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        match self.verdict {
            Verdict::Allow => format!("{what} is allowed{why}"),
            Verdict::Ask => format!("{what} needs a person's consent{why}"),
            Verdict::Deny => format!("{what} is not allowed{why}"),
        }
    }
}
