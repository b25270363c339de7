//! Does this policy file say what its author thinks it says?
//!
//! Unknown keys are refused, and every rule is tried on its own examples. A policy that does not load starts no
//! session.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use globset::GlobBuilder;
use serde::Deserialize;
use toml::Spanned;

use super::rules::{CommandRule, PathRule, Rest, Rule, Slot, ToolRule};
use super::{Access, Action, Policy, Verdict, path};

/// The policy that holds when the administrator gives none.
pub const SHIPPED_POLICY: &str = include_str!("policy.toml");

/// The repository's own policy, relative to its top.
const PROJECT_POLICY: &str = ".cloister/policy.toml";

const POLICY_BYTES_MAX: u64 = 256 << 10;
const GLOB_BYTES_MAX: usize = 256;

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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTool {
    id: Spanned<String>,
    verdict: Verdict,
    tools: Vec<String>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    instead: String,
    #[serde(default, rename = "match")]
    matches: Vec<String>,
    #[serde(default)]
    not_match: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPath {
    id: Spanned<String>,
    verdict: Verdict,
    access: Vec<Access>,
    glob: Vec<String>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    instead: String,
    #[serde(default, rename = "match")]
    matches: Vec<String>,
    #[serde(default)]
    not_match: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCommand {
    id: Spanned<String>,
    verdict: Verdict,
    argv: Vec<String>,
    #[serde(default)]
    rest: RawRest,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    with: Vec<String>,
    #[serde(default)]
    with_leading: Vec<String>,
    operands_max: Option<usize>,
    #[serde(default)]
    pattern_first: bool,
    #[serde(default)]
    why: String,
    #[serde(default)]
    instead: String,
    #[serde(default, rename = "match")]
    matches: Vec<String>,
    #[serde(default)]
    not_match: Vec<String>,
}

#[derive(Default, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawRest {
    #[default]
    Any,
    Nothing,
    Operands,
}

impl Policy {
    /// The policy in [`SHIPPED_POLICY`].
    pub fn shipped() -> Result<Policy, PolicyError> {
        Policy::parse("policy.toml", SHIPPED_POLICY)
    }

    /// An administrator's policy from its text; `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
        let empty = Policy { tools: vec![], paths: vec![], commands: vec![] };
        Loading { file, text, from_project: false }.into_policy(empty)
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
        self.check_ids(&policy, &raw)?;
        for raw in raw.tool {
            let rule = self.tool(raw)?;
            policy.tools.push(rule);
        }
        for raw in raw.path {
            let rule = self.path(raw)?;
            policy.paths.push(rule);
        }
        for raw in raw.command {
            let rule = self.command(raw)?;
            policy.commands.push(rule);
        }
        Ok(policy)
    }

    fn tool(&self, raw: RawTool) -> Result<ToolRule, PolicyError> {
        self.check_common(&raw.id, raw.verdict)?;
        self.check_some(&raw.id, "tools", &raw.tools)?;
        if let Some(unknown) = raw.tools.iter().find(|t| !Action::NAMES.contains(&t.as_str())) {
            return Err(self.bad(
                &raw.id,
                "tools",
                format!("there is no tool {unknown}, only {}", Action::NAMES.join(", ")),
            ));
        }
        let rule = self.rule(&raw.id, raw.verdict, raw.why, raw.instead);
        let rule = ToolRule { rule, tools: raw.tools };
        self.check_examples(&raw.id, &raw.matches, &raw.not_match, |example| rule.matches(example))?;
        Ok(rule)
    }

    fn path(&self, raw: RawPath) -> Result<PathRule, PolicyError> {
        self.check_common(&raw.id, raw.verdict)?;
        self.check_some(&raw.id, "glob", &raw.glob)?;
        if raw.access.is_empty() {
            return Err(self.bad(&raw.id, "access", "it is empty, so the rule matches nothing".into()));
        }
        let mut globs = Vec::new();
        // A rule that tightens what is in a directory is about the directory too.
        let directories = raw.glob.iter().filter_map(|g| g.strip_suffix("/**")).filter(|g| !g.is_empty() && *g != "**");
        let directories: Vec<_> = directories.map(str::to_owned).collect();
        let directories = if raw.verdict == Verdict::Allow { vec![] } else { directories };
        for text in raw.glob.into_iter().chain(directories) {
            if text.len() > GLOB_BYTES_MAX || text.starts_with('/') || text.contains(['\\', '\0']) {
                return Err(self.bad(
                    &raw.id,
                    "glob",
                    format!("{text:?} must be relative, without backslashes, of at most {GLOB_BYTES_MAX} bytes"),
                ));
            }
            // Without regard to case: on some file systems .GIT is .git.
            let glob = GlobBuilder::new(&text).literal_separator(true).case_insensitive(true).build();
            let glob = glob.map_err(|e| self.bad(&raw.id, "glob", e.to_string()))?;
            globs.push((text, glob.compile_matcher()));
        }
        let rule = self.rule(&raw.id, raw.verdict, raw.why, raw.instead);
        let rule = PathRule { rule, access: raw.access, globs };
        let access = rule.access[0];
        self.check_examples(&raw.id, &raw.matches, &raw.not_match, |example| {
            path::normalise(example).is_ok_and(|normal| rule.matches(access, &normal, false))
        })?;
        Ok(rule)
    }

    fn command(&self, raw: RawCommand) -> Result<CommandRule, PolicyError> {
        self.check_common(&raw.id, raw.verdict)?;
        self.check_some(&raw.id, "argv", &raw.argv)?;
        let allows = raw.verdict == Verdict::Allow;
        if allows && !(raw.with.is_empty() && raw.with_leading.is_empty()) {
            return Err(self.bad(
                &raw.id,
                "with",
                "an allow rule has no `with`; name what it must not have with `without`".into(),
            ));
        }
        let narrows =
            !raw.without.is_empty() || raw.operands_max.is_some() || raw.rest != RawRest::Any || raw.pattern_first;
        if raw.verdict == Verdict::Deny && narrows {
            return Err(self.bad(
                &raw.id,
                "without",
                "a deny rule is narrowed only with `with` and `with_leading`".into(),
            ));
        }
        let options = raw.without.iter().chain(&raw.with).chain(&raw.with_leading);
        if let Some(odd) = options.into_iter().find(|o| !o.starts_with('-') || o.len() < 2 || *o == "--") {
            return Err(self.bad(&raw.id, "without", format!("{odd:?} is not an option such as -o or --output")));
        }
        let argv = raw.argv.iter().map(|text| self.slot(&raw.id, text)).collect::<Result<_, _>>()?;
        let rest = match raw.rest {
            RawRest::Any => Rest::Any,
            RawRest::Nothing => Rest::Nothing,
            RawRest::Operands => Rest::Operands,
        };
        let rule = CommandRule {
            rule: self.rule(&raw.id, raw.verdict, raw.why, raw.instead),
            argv,
            rest,
            without: raw.without,
            with: raw.with,
            with_leading: raw.with_leading,
            operands_max: raw.operands_max,
            pattern_first: raw.pattern_first,
        };
        self.check_examples(&raw.id, &raw.matches, &raw.not_match, |example| rule.matches_example(example))?;
        Ok(rule)
    }

    fn slot(&self, id: &Spanned<String>, text: &str) -> Result<Slot, PolicyError> {
        match text {
            "{lines}" => Ok(Slot::Lines),
            "{script}" => Ok(Slot::Script),
            _ if text.contains(['{', '}', ' ', '*']) => Err(self.bad(
                id,
                "argv",
                format!("{text:?} must be a word, words joined by |, {{lines}} or {{script}}"),
            )),
            _ if text.split('|').any(str::is_empty) => {
                Err(self.bad(id, "argv", format!("{text:?} has an empty alternative")))
            }
            _ => Ok(Slot::OneOf(text.split('|').map(str::to_owned).collect())),
        }
    }

    fn rule(&self, id: &Spanned<String>, verdict: Verdict, why: String, instead: String) -> Rule {
        Rule { id: id.get_ref().clone(), verdict, why, instead, from_project: self.from_project }
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

    fn check_some(&self, id: &Spanned<String>, key: &'static str, list: &[String]) -> Result<(), PolicyError> {
        if list.is_empty() || list.iter().any(String::is_empty) {
            return Err(self.bad(id, key, "it is empty or has an empty entry".into()));
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

    /// Two rules with one name would make a refusal ambiguous.
    fn check_ids(&self, policy: &Policy, raw: &RawPolicy) -> Result<(), PolicyError> {
        let tools = policy.tools.iter().map(|r| &r.rule);
        let rules = tools.chain(policy.paths.iter().map(|r| &r.rule)).chain(policy.commands.iter().map(|r| &r.rule));
        let mut seen: HashSet<&str> = rules.map(|r| r.id.as_str()).collect();
        let ids = raw
            .tool
            .iter()
            .map(|r| &r.id)
            .chain(raw.path.iter().map(|r| &r.id))
            .chain(raw.command.iter().map(|r| &r.id));
        for id in ids {
            if !seen.insert(id.get_ref()) {
                return Err(self.bad(id, "id", "another rule has this id".into()));
            }
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
