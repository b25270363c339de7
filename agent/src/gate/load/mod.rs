//! Does this policy file say what its author thinks it says?
//!
//! Unknown keys are refused, and every rule is tried on its own examples. A policy that does not load starts no
//! session.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::rules::Rule;
use super::{Policy, Verdict};

use kinds::{Kind, RawCommand, RawHost, RawPath, RawTool};

mod kinds;

/// The policy that holds when the administrator gives none.
pub const SHIPPED_POLICY: &str = include_str!("../policy.toml");

/// The repository's own policy, relative to its top.
const PROJECT_POLICY: &str = ".cloister/policy.toml";

const POLICY_BYTES_MAX: u64 = 256 << 10;

/// Why a policy does not load.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It is not there, not a regular file, or too long.
    #[error("{file}: cannot read the policy: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Not TOML, an unknown key, a wrong type.
    #[error("{file}:{line}: {problem} (key {key}{})", rule.as_ref().map(|r| format!(", rule {r}")).unwrap_or_default())]
    Syntax {
        /// The file.
        file: String,
        /// Counted from 1; 0 when unknown.
        line: usize,
        /// The key on that line.
        key: String,
        /// The `id` of the rule that the line is in, if it has one.
        rule: Option<String>,
        /// What is wrong.
        problem: String,
    },
    /// A rule that contradicts itself, its examples or its place.
    #[error("{file}:{line}: rule {rule}, key {key}: {problem}")]
    Rule {
        /// The file.
        file: String,
        /// The line of the rule's `id`.
        line: usize,
        /// The rule's `id`.
        rule: String,
        /// The key that is wrong.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    version: Spanned<u32>,
    #[serde(default)]
    tool: Vec<RawTool>,
    #[serde(default)]
    path: Vec<RawPath>,
    #[serde(default)]
    command: Vec<RawCommand>,
    #[serde(default)]
    host: Vec<RawHost>,
}

impl Policy {
    /// The policy in [`SHIPPED_POLICY`].
    pub fn shipped() -> Result<Policy, PolicyError> {
        Policy::parse("policy.toml", SHIPPED_POLICY)
    }

    /// An administrator's policy from its text; `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
        Loading { file, text, from_project: false }.into_policy(Policy::default())
    }

    /// This policy and the rules of a project's own, which must all be deny or ask.
    pub fn tightened(self, file: &str, text: &str) -> Result<Policy, PolicyError> {
        Loading { file, text, from_project: true }.into_policy(self)
    }

    /// The administrator's policy (the shipped one when there is no file), tightened by `.cloister/policy.toml` in
    /// the workspace when there is one.
    pub fn load(administrator: Option<&Path>, workspace: &Path) -> Result<Policy, PolicyError> {
        let policy = match administrator {
            Some(file) => Policy::parse(&file.display().to_string(), &read(file)?)?,
            None => Policy::shipped()?,
        };
        let project = workspace.join(PROJECT_POLICY);
        match fs::symlink_metadata(&project) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(policy),
            _ => policy.tightened(PROJECT_POLICY, &read(&project)?),
        }
    }
}

/// A link is refused: a repository must not make the host read another file.
fn read(path: &Path) -> Result<String, PolicyError> {
    let inner = || {
        let meta = fs::symlink_metadata(path)?;
        if !meta.is_file() || meta.len() > POLICY_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("not a regular file of at most {POLICY_BYTES_MAX} bytes"),
            ));
        }
        let mut text = String::new();
        fs::File::open(path)?.take(POLICY_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    inner().map_err(|source| PolicyError::Read { file: path.display().to_string(), source })
}

struct Loading<'a> {
    file: &'a str,
    text: &'a str,
    from_project: bool,
}

impl Loading<'_> {
    fn into_policy(self, mut policy: Policy) -> Result<Policy, PolicyError> {
        let raw: RawPolicy = toml::from_str(self.text).map_err(|e| self.syntax(&e))?;
        if *raw.version.get_ref() != 1 {
            let problem = format!("version {} is unknown, this program reads version 1", raw.version.get_ref());
            return Err(self.at_line(self.line(raw.version.span().start), problem));
        }
        let mut seen: HashSet<String> = policy.rules().map(|rule| rule.id.clone()).collect();
        policy.tools.extend(self.rules(raw.tool, &mut seen)?);
        policy.paths.extend(self.rules(raw.path, &mut seen)?);
        policy.commands.extend(self.rules(raw.command, &mut seen)?);
        policy.hosts.extend(self.rules(raw.host, &mut seen)?);
        Ok(policy)
    }

    /// All rules of one kind: what they have in common is checked here, the rest by the kind, and last each rule is
    /// tried on its examples.
    fn rules<K: Kind>(&self, raw: Vec<K>, seen: &mut HashSet<String>) -> Result<Vec<K::Rule>, PolicyError> {
        let mut one = |mut raw: K| {
            let head = raw.take_head();
            self.check_common(&head.id, head.verdict)?;
            // Two rules with one name would make a refusal ambiguous.
            if !seen.insert(head.id.get_ref().clone()) {
                return Err(self.bad(&head.id, "id", "another rule has this id".into()));
            }
            let id = head.id.get_ref().clone();
            let rule = Rule {
                id,
                verdict: head.verdict,
                why: head.why,
                instead: head.instead,
                from_project: self.from_project,
            };
            let rule = raw.build(rule).map_err(|(key, problem)| self.bad(&head.id, key, problem))?;
            self.check_examples(&head.id, &head.matches, &head.not_match, |example| K::matches(&rule, example))?;
            Ok(rule)
        };
        raw.into_iter().map(&mut one).collect()
    }

    fn check_common(&self, id: &Spanned<String>, verdict: Verdict) -> Result<(), PolicyError> {
        let name = id.get_ref();
        if name.is_empty()
            || name.len() > 64
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
        {
            return Err(self.bad(id, "id", "an id is 1 to 64 letters, digits, dots, hyphens and underscores".into()));
        }
        if self.from_project && verdict == Verdict::Allow {
            return Err(self.bad(
                id,
                "verdict",
                "a project's policy can only tighten: use deny or ask, or ask the administrator to allow it".into(),
            ));
        }
        Ok(())
    }

    fn check_examples(
        &self,
        id: &Spanned<String>,
        yes: &[String],
        no: &[String],
        matches: impl Fn(&str) -> bool,
    ) -> Result<(), PolicyError> {
        if let Some(missed) = yes.iter().find(|e| !matches(e)) {
            return Err(self.bad(id, "match", format!("the rule does not match its own example {missed:?}")));
        }
        if let Some(caught) = no.iter().find(|e| matches(e)) {
            return Err(self.bad(id, "not_match", format!("the rule matches {caught:?}, which it must not")));
        }
        Ok(())
    }

    fn bad(&self, id: &Spanned<String>, key: &'static str, problem: String) -> PolicyError {
        PolicyError::Rule {
            file: self.file.to_owned(),
            line: self.line(id.span().start),
            rule: id.get_ref().clone(),
            key,
            problem,
        }
    }

    fn syntax(&self, error: &toml::de::Error) -> PolicyError {
        let line = error.span().map_or(0, |span| self.line(span.start));
        self.at_line(line, error.message().to_owned())
    }

    fn at_line(&self, line: usize, problem: String) -> PolicyError {
        let lines: Vec<_> = self.text.lines().collect();
        let at = line.saturating_sub(1);
        let key = lines.get(at).and_then(|l| l.split('=').next()).unwrap_or_default().trim().to_owned();
        PolicyError::Syntax { file: self.file.to_owned(), line, key, rule: rule_around(&lines, at), problem }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|b| *b == b'\n').count()
    }
}

/// The `id` in the table that the line stands in.
fn rule_around(lines: &[&str], at: usize) -> Option<String> {
    let start = (0..=at.min(lines.len().checked_sub(1)?)).rev().find(|i| lines[*i].starts_with("[["))?;
    let table = lines[start + 1..].iter().take_while(|l| !l.starts_with("[["));
    let id = table.into_iter().find_map(|l| l.strip_prefix("id")?.trim_start().strip_prefix('='))?;
    Some(id.trim().trim_matches('"').to_owned())
}
