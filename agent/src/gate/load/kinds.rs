//! What may be written in a rule of each kind?

use globset::GlobBuilder;
use serde::Deserialize;
use toml::Spanned;

use crate::gate::hosts::{Endpoint, HostRule};
use crate::gate::rules::{CommandRule, PathRule, Rest, Rule, Slot, ToolRule};
use crate::gate::{Access, Action, Mode, Verdict, path};

const GLOB_BYTES_MAX: usize = 256;

/// A key and what is wrong with it.
type Problem = (&'static str, String);

/// A kind of rule, as it is written.
pub(super) trait Kind {
    /// As it is used.
    type Rule;

    /// What rules of all kinds have.
    fn take_head(&mut self) -> Head;

    /// The rule, when what is special about its kind is right.
    fn build(self, rule: Rule) -> Result<Self::Rule, Problem>;

    /// Whether the rule has something to say about an example.
    fn matches(rule: &Self::Rule, example: &str) -> bool;
}

/// What rules of all kinds have.
pub(super) struct Head {
    pub id: Spanned<String>,
    pub verdict: Verdict,
    pub why: String,
    pub instead: String,
    pub matches: Vec<String>,
    pub not_match: Vec<String>,
}

/// The written form of a kind: the common keys around its own. (serde cannot flatten a struct and refuse unknown
/// keys at once.)
macro_rules! raw_rule {
    ($name:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            id: Spanned<String>,
            verdict: Verdict,
            $($(#[$meta])* $field: $type,)*
            #[serde(default)]
            why: String,
            #[serde(default)]
            instead: String,
            #[serde(default, rename = "match")]
            matches: Vec<String>,
            #[serde(default)]
            not_match: Vec<String>,
        }

        impl $name {
            fn head(&mut self) -> Head {
                Head {
                    id: self.id.clone(),
                    verdict: self.verdict,
                    why: std::mem::take(&mut self.why),
                    instead: std::mem::take(&mut self.instead),
                    matches: std::mem::take(&mut self.matches),
                    not_match: std::mem::take(&mut self.not_match),
                }
            }
        }
    };
}

raw_rule!(RawTool {
    tools: Vec<String>,
});

raw_rule!(RawPath {
    access: Vec<Access>,
    glob: Vec<String>,
});

raw_rule!(RawHost {
    host: Vec<String>,
    #[serde(default)]
    port: Vec<u16>,
});

raw_rule!(RawCommand {
    argv: Vec<String>,
    #[serde(default)]
    rest: RawRest,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    with: Vec<String>,
    #[serde(default)]
    with_leading: Vec<String>,
    #[serde(default)]
    operands_max: Option<usize>,
    #[serde(default)]
    pattern_first: bool,
    #[serde(default)]
    reads_only: bool,
    #[serde(default)]
    expansions: bool,
    #[serde(default)]
    modes: Vec<Mode>,
});

#[derive(Default, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawRest {
    #[default]
    Any,
    Nothing,
    Operands,
}

impl Kind for RawTool {
    type Rule = ToolRule;

    fn take_head(&mut self) -> Head {
        self.head()
    }

    fn build(self, rule: Rule) -> Result<ToolRule, Problem> {
        some("tools", &self.tools)?;
        if let Some(unknown) = self.tools.iter().find(|t| !Action::NAMES.contains(&t.as_str())) {
            return Err(("tools", format!("there is no tool {unknown}, only {}", Action::NAMES.join(", "))));
        }
        Ok(ToolRule { rule, tools: self.tools })
    }

    fn matches(rule: &ToolRule, example: &str) -> bool {
        rule.matches(example)
    }
}

impl Kind for RawPath {
    type Rule = PathRule;

    fn take_head(&mut self) -> Head {
        self.head()
    }

    fn build(self, rule: Rule) -> Result<PathRule, Problem> {
        some("glob", &self.glob)?;
        if self.access.is_empty() {
            return Err(("access", "it is empty, so the rule matches nothing".into()));
        }
        // A rule that tightens what is in a directory is about the directory too.
        let directories =
            self.glob.iter().filter_map(|g| g.strip_suffix("/**")).filter(|g| !g.is_empty() && *g != "**");
        let directories: Vec<_> = directories.map(str::to_owned).collect();
        let directories = if rule.verdict == Verdict::Allow { vec![] } else { directories };
        let mut globs = Vec::new();
        for text in self.glob.into_iter().chain(directories) {
            if text.len() > GLOB_BYTES_MAX || text.contains(['\\', '\0']) || text.starts_with("/workspace") {
                let problem = format!(
                    "{text:?} must be relative to the workspace, or absolute in the box, without backslashes, of at most {GLOB_BYTES_MAX} bytes"
                );
                return Err(("glob", problem));
            }
            // Without regard to case: on some file systems .GIT is .git.
            let glob = GlobBuilder::new(&text).literal_separator(true).case_insensitive(true).build();
            globs.push((text, glob.map_err(|e| ("glob", e.to_string()))?.compile_matcher()));
        }
        Ok(PathRule { rule, access: self.access, globs })
    }

    fn matches(rule: &PathRule, example: &str) -> bool {
        let pattern = example.contains(['*', '?']);
        path::located(".", example).is_ok_and(|normal| rule.matches(rule.access[0], &normal, pattern))
    }
}

impl Kind for RawHost {
    type Rule = HostRule;

    fn take_head(&mut self) -> Head {
        self.head()
    }

    fn build(self, rule: Rule) -> Result<HostRule, Problem> {
        some("host", &self.host)?;
        let mut hosts = Vec::new();
        for text in &self.host {
            if text.len() > GLOB_BYTES_MAX || text.contains(['/', '@', '\\']) || text.chars().any(char::is_whitespace) {
                return Err((
                    "host",
                    format!("{text:?} is not a host name, an address or a pattern such as *.example.invalid"),
                ));
            }
            let glob = GlobBuilder::new(text).case_insensitive(true).build().map_err(|e| ("host", e.to_string()))?;
            hosts.push(glob.compile_matcher());
        }
        Ok(HostRule { rule, hosts, ports: self.port })
    }

    fn matches(rule: &HostRule, example: &str) -> bool {
        Endpoint::parse(example, None).is_some_and(|end| rule.matches(&end))
    }
}

impl Kind for RawCommand {
    type Rule = CommandRule;

    fn take_head(&mut self) -> Head {
        self.head()
    }

    fn build(self, rule: Rule) -> Result<CommandRule, Problem> {
        some("argv", &self.argv)?;
        self.check_narrowing(rule.verdict)?;
        let options = self.without.iter().chain(&self.with).chain(&self.with_leading);
        if let Some(odd) = options.into_iter().find(|o| !o.starts_with('-') || o.len() < 2 || *o == "--") {
            return Err(("without", format!("{odd:?} is not an option such as -o or --output")));
        }
        let argv: Vec<Slot> = self.argv.iter().map(|text| slot(text)).collect::<Result<_, _>>()?;
        Ok(CommandRule {
            rule,
            argv,
            rest: match self.rest {
                RawRest::Any => Rest::Any,
                RawRest::Nothing => Rest::Nothing,
                RawRest::Operands => Rest::Operands,
            },
            without: self.without,
            with: self.with,
            with_leading: self.with_leading,
            operands_max: self.operands_max,
            pattern_first: self.pattern_first,
            reads_only: self.reads_only,
            expansions: self.expansions,
            modes: self.modes,
        })
    }

    fn matches(rule: &CommandRule, example: &str) -> bool {
        rule.matches_example(example)
    }
}

impl RawCommand {
    /// Each verdict is narrowed by its own keys, so that none of them can be misread.
    fn check_narrowing(&self, verdict: Verdict) -> Result<(), Problem> {
        let allows = verdict == Verdict::Allow;
        if allows && !(self.with.is_empty() && self.with_leading.is_empty()) {
            let problem = "an allow rule has no `with`; name what it must not have with `without`";
            return Err(("with", problem.into()));
        }
        let narrows =
            !self.without.is_empty() || self.operands_max.is_some() || self.rest != RawRest::Any || self.pattern_first;
        if verdict == Verdict::Deny && narrows {
            return Err(("without", "a deny rule is narrowed only with `with` and `with_leading`".into()));
        }
        if allows && !self.modes.is_empty() {
            return Err(("modes", "an allow rule holds in every mode; `modes` is for deny and ask".into()));
        }
        if !allows && (self.reads_only || self.expansions) {
            return Err(("reads_only", "only an allow rule says that a command only reads or takes only words".into()));
        }
        Ok(())
    }
}

fn slot(text: &str) -> Result<Slot, Problem> {
    match text {
        "{lines}" => Ok(Slot::Lines),
        "{script}" => Ok(Slot::Script),
        _ if text.contains(['{', '}', ' ', '*']) => {
            Err(("argv", format!("{text:?} must be a word, words joined by |, {{lines}} or {{script}}")))
        }
        _ if text.split('|').any(str::is_empty) => Err(("argv", format!("{text:?} has an empty alternative"))),
        _ => Ok(Slot::OneOf(text.split('|').map(str::to_owned).collect())),
    }
}

fn some(key: &'static str, list: &[String]) -> Result<(), Problem> {
    if list.is_empty() || list.iter().any(String::is_empty) {
        return Err((key, "it is empty or has an empty entry".into()));
    }
    Ok(())
}
