//! What does a loaded policy say about tools, paths and commands?

use serde::{Deserialize, Serialize};

use super::explain::{Finding, silence};
use super::path::{self, normalise};
use super::rules::{CommandRule, PathRule, Rule, ToolRule};
use super::shell::{Script, Word};
use super::{Action, Layer, Verdict};

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Its content or its entries are looked at.
    Read,
    /// It is made, changed or removed.
    Write,
}

/// Rules that were loaded and whose examples hold. Made by [`Policy::shipped`], [`Policy::parse`] and
/// [`Policy::load`]; tightened by [`Policy::tightened`].
#[derive(Debug, Clone)]
pub struct Policy {
    pub(super) tools: Vec<ToolRule>,
    pub(super) paths: Vec<PathRule>,
    pub(super) commands: Vec<CommandRule>,
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

    fn matching_paths(&self, access: Access, normal: &str, pattern: bool, what: &str) -> Vec<Finding> {
        let matching = self.paths.iter().filter(|r| r.matches(access, normal, pattern));
        matching.map(|r| r.rule.finding(Layer::Paths, what)).collect()
    }

    /// Everything that the command rules, and the path rules about its words, say. Danger comes first, so that
    /// the reason names it rather than a mere doubt.
    pub(super) fn command_findings(&self, command: &str) -> Vec<Finding> {
        let script = Script::read(command);
        let mut findings = Vec::new();
        for words in script.found.iter().chain(&script.wrapped) {
            let dangers = self.commands.iter().filter(|r| r.rule.verdict != Verdict::Allow && r.finds(words));
            findings.extend(
                dangers.map(|r| r.rule.finding(Layer::Commands, &Finding::quoted("the command", &words[0].text))),
            );
        }
        for (access, target) in &script.redirects {
            findings.extend(self.path_findings(*access, &target.text));
        }
        for words in &script.found {
            findings.extend(self.argument_findings(words));
        }
        match &script.proven {
            Err(doubt) => findings.push(Finding::own(
                Layer::Commands,
                format!("the command is refused: {doubt}"),
                doubt.instead(),
            )),
            Ok(parts) => findings.extend(parts.iter().map(|words| self.clearance(words))),
        }
        findings
    }

    /// The rule that allows one proven part, or the silence.
    fn clearance(&self, words: &[Word]) -> Finding {
        let what = Finding::quoted("the command", &words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" "));
        if let Some(rule) = self.commands.iter().find(|r| r.clears(words)) {
            return rule.rule.finding(Layer::Commands, &what);
        }
        // A rule about the same program explains better than the whole list.
        let near: Vec<_> =
            self.commands.iter().filter(|r| r.rule.verdict == Verdict::Allow && r.program_is(&words[0].text)).collect();
        let list: Vec<_> =
            if near.is_empty() { self.allowed_commands() } else { near.iter().map(|r| r.usage()).collect() };
        let limits = near.iter().filter_map(|r| r.limits()).next().unwrap_or_default();
        silence(Layer::Commands, &what, format!("these commands are allowed: {}{limits}", list.join(", ")))
    }

    /// What the path rules say about the arguments of one command. Only words that are refused matter: most
    /// arguments are no paths, so silence about them means nothing.
    fn argument_findings(&self, words: &[Word]) -> Vec<Finding> {
        let rule = self.commands.iter().find(|r| r.clears(words));
        let pattern_at = rule.and_then(|r| r.pattern_at(words));
        let mut findings = Vec::new();
        for (at, word) in words.iter().enumerate() {
            for candidate in candidates(&word.text) {
                let what = Finding::quoted("reading", candidate);
                match normalise(candidate) {
                    Ok(normal) => {
                        let said = self.matching_paths(Access::Read, &normal, word.glob, &what);
                        findings.extend(said.into_iter().filter(|f| f.verdict != Verdict::Allow));
                    }
                    // A pattern for grep may begin with a slash.
                    Err(path::PathError::Outside) if Some(at) != pattern_at => {
                        findings.push(Finding::own(
                            Layer::Paths,
                            format!("{what} is refused: it leads out of the workspace"),
                            IN_WORKSPACE.into(),
                        ));
                    }
                    Err(_) => {}
                }
            }
        }
        findings
    }
}

const IN_WORKSPACE: &str = "use a path inside the repository, relative to its top, such as src/main.py";

fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reading",
        Access::Write => "writing",
    }
}

/// What in a word can be a path: all of it, what follows `=` or `:`, and what is glued to a short option.
fn candidates(word: &str) -> Vec<&str> {
    let glued = word
        .strip_prefix('-')
        .filter(|rest| !rest.starts_with('-'))
        .and_then(|rest| rest.char_indices().nth(1).map(|(at, _)| &rest[at..]));
    let mut found = vec![];
    if !word.starts_with('-') {
        found.push(word);
    }
    found.extend(glued);
    found.extend(word.split_once('=').map(|(_, value)| value));
    found.extend(word.split_once(':').map(|(_, value)| value).filter(|value| !value.starts_with(':')));
    found.retain(|c| !c.is_empty());
    found
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
