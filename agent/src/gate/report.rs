//! What would this policy say? For people who write one, and for looking back at old sessions.
//!
//! Pure functions: the command line reads the files and prints what these return.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use serde_json::Value;

use super::explain::name;
use super::{Action, Context, Judgement, Policy, PolicyError, SHIPPED_POLICY, Said, Verdict, judge};
use crate::action::Call;
use crate::audit;
use crate::session::Record;
use crate::subagent::AgentType;
use crate::tools;

/// What a policy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Rules about kinds of action.
    pub tools: usize,
    /// Rules about paths.
    pub paths: usize,
    /// Rules about commands.
    pub commands: usize,
    /// Rules about hosts.
    pub hosts: usize,
    /// Rules of all kinds by verdict: allow, ask, deny.
    pub verdicts: [usize; 3],
    /// Rules that a project brought.
    pub from_project: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [allow, ask, deny] = self.verdicts;
        write!(
            f,
            "{} rules: {} about tools, {} about paths, {} about commands, {} about hosts; {allow} allow, {ask} ask, {deny} deny; {} by the project",
            self.tools + self.paths + self.commands + self.hosts,
            self.tools,
            self.paths,
            self.commands,
            self.hosts,
            self.from_project,
        )
    }
}

/// Loads an administrator's policy (the shipped one for `None`) and the project's own, each with the name that
/// errors call it, and counts. Every rule was tried on its own examples when this returns.
pub fn check(administrator: Option<(&str, &str)>, project: Option<(&str, &str)>) -> Result<Summary, PolicyError> {
    let (file, text) = administrator.unwrap_or(("policy.toml", SHIPPED_POLICY));
    let mut policy = Policy::parse(file, text)?;
    if let Some((file, text)) = project {
        policy = policy.tightened(file, text)?;
    }
    Ok(policy.summary())
}

impl Policy {
    /// What it holds.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let rules: Vec<_> = self.rules().collect();
        let with = |verdict| rules.iter().filter(|r| r.verdict == verdict).count();
        Summary {
            tools: self.tools.len(),
            paths: self.paths.len(),
            commands: self.commands.len(),
            hosts: self.hosts.len(),
            verdicts: [with(Verdict::Allow), with(Verdict::Ask), with(Verdict::Deny)],
            from_project: rules.iter().filter(|r| r.from_project).count(),
        }
    }
}

/// Why something is allowed that no rule allows.
const ALLOWED_BY_MODE: &str = "; but this mode allows what no rule denies and is understood whole: the box is the wall";

/// Everything that is said about one action, a line each, and what it comes to.
#[must_use]
pub fn explain(policy: &Policy, action: &Action, context: &Context<'_>) -> String {
    let mut text = format!("{}\n", action.describe());
    let consented = context.grants.covers(action);
    for finding in super::findings(policy, action, context) {
        let rule = finding.rule.as_deref().unwrap_or("-");
        let layer = name(finding.layer);
        let comes_to = finding.comes_to(context.mode, consented);
        // The words are those of a silence; what it comes to is the mode's.
        let by_mode = finding.silent && !consented && comes_to == Verdict::Allow;
        let but = if by_mode { ALLOWED_BY_MODE } else { "" };
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {:<5}  {layer:<16} {rule:<28} {}{but}", word(comes_to), finding.reason);
    }
    if consented {
        text.push_str("  a person has consented to exactly this in this session\n");
    }
    let judgement = judge(policy, action, context);
    let _ = write!(text, "{}: {}", word(judgement.verdict), judgement.message());
    text
}

/// The verdict in one word.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

/// An action of an old session and what was said then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// What was proposed.
    pub action: Action,
    /// What was said.
    pub verdict: Verdict,
    /// The kind of the sub-agent that proposed it, if one did: its kind had a say.
    pub agent: Option<AgentType>,
}

impl Logged {
    /// The verdicts of a log, in order. Which kind a sub-agent was stands in the record of its return, or, where the log
    /// breaks off before, in the call that started it.
    #[must_use]
    pub fn of_log(records: &[audit::Record]) -> Vec<Logged> {
        let returned = |record: &audit::Record| match serde_json::from_value(record.body.clone()).ok()? {
            Record::Returned { agent_id, agent_type, .. } => Some((agent_id, agent_type)),
            _ => None,
        };
        let kinds: BTreeMap<String, AgentType> =
            records.iter().filter(|record| record.body["record"] == "returned").filter_map(returned).collect();
        let mut started = None;
        let mut logged = Vec::new();
        for record in records.iter().filter(|record| record.kind == "verdict") {
            let Some(mut one) = Logged::of_record(&record.body) else { continue };
            match (record.body["agent_id"].as_str(), &one.action) {
                (Some(id), _) => one.agent = kinds.get(id).copied().or(started),
                (None, Action::Task { subagent_type, .. }) => started = Some(*subagent_type),
                (None, _) => {}
            }
            logged.push(one);
        }
        logged
    }

    /// From the body of a record of the kind `verdict`; `None` when it does not hold a call and a judgement.
    #[must_use]
    pub fn of_record(body: &Value) -> Option<Logged> {
        let call: Call = serde_json::from_value(body.get("call")?.clone()).ok()?;
        let verdict = serde_json::from_value(body.get("judgement")?.get("verdict")?.clone()).ok()?;
        Some(Logged { action: tools::action(&call), verdict, agent: None })
    }
}

/// An action that would be judged differently now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its place among the logged actions, from 0.
    pub at: usize,
    /// The action and what was said then.
    pub then: Logged,
    /// What is said now.
    pub now: Judgement,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (then, now) = (word(self.then.verdict), word(self.now.verdict));
        write!(f, "{:>4}  {then} -> {now}  {}\n      {}", self.at + 1, self.then.action.describe(), self.now.reason)
    }
}

/// What would be judged differently now, a sub-agent's actions as such. Hooks, the monitor and budgets belong to their time and say nothing here
/// unless the context brings them.
#[must_use]
pub fn replay(policy: &Policy, logged: &[Logged], context: &Context<'_>) -> Vec<Changed> {
    let judged = logged.iter().enumerate().map(|(at, then)| {
        let kind = then.agent.and_then(|kind| kind.said(&then.action));
        let said: Vec<Said> = context.said.iter().cloned().chain(kind).collect();
        (at, then, judge(policy, &then.action, &Context { said: &said, ..*context }))
    });
    judged
        .filter(|(_, then, now)| then.verdict != now.verdict)
        .map(|(at, then, now)| Changed { at, then: then.clone(), now })
        .collect()
}
