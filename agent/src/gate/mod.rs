//! Is this action allowed, by which rule, and what is allowed instead?
//!
//! The gate is a pure function over a policy, an action and a context. Every layer that has something to say gives
//! a [`Verdict`]; the strictest wins; a layer that must speak and is silent means Deny. No layer loosens another,
//! so adding a deny rule never turns Deny or Ask into Allow.
//!
//! Two things depend on the [`Mode`]: what it means that no rule speaks for a command that was understood
//! completely, and whether a question is asked. Doubt and deny rules are Deny in every mode.
//!
//! What the gate is not: a wall. It reads what an action says it will do. A test that runs in the box can do what
//! it likes there, so the wall is the box, and whoever fills the box leaves out what [`Policy::path_verdict`]
//! denies, and refuses to apply a change to a path that it denies for writing.

mod action;
mod by_program;
mod command;
mod effects;
mod explain;
mod grants;
mod hosts;
mod load;
mod mode;
mod near;
mod path;
mod policy;
mod report;
mod rules;
mod shell;
mod vars;

use serde::{Deserialize, Serialize};

use crate::budget::Exhausted;

pub use action::Action;
pub use grants::Grants;
pub use load::{PolicyError, SHIPPED_POLICY};
pub use mode::{Mode, UnknownMode};
pub use path::{PathError, normalise};
pub use policy::{Access, Policy};
pub use report::{Changed, Logged, Summary, check, explain, replay};

/// What a layer says. The order is the order of strictness: verdicts are joined by `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person must say yes first.
    Ask,
    /// It may not run.
    Deny,
}

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// What is left of the session's budget.
    Budget,
    /// The administrator's rules about kinds of action.
    Tools,
    /// The administrator's rules about paths.
    Paths,
    /// The administrator's rules about commands.
    Commands,
    /// The administrator's rules about hosts.
    Hosts,
    /// What the mode leaves: plan changes nothing.
    Mode,
    /// What a person has allowed in this session.
    Grants,
    /// The repository's own policy, which can only tighten.
    Project,
    /// What kind of sub-agent acts: each has its tools and no others.
    Subagent,
    /// What a hook answered.
    Hooks,
    /// What the session's sequence of actions looks like.
    Monitor,
}

/// What a layer outside the policy says about an action: a hook, the monitor. It can only tighten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Who says it.
    pub layer: Layer,
    /// What it says.
    pub verdict: Verdict,
    /// By which rule, for the log.
    pub rule: String,
    /// Why, in a sentence.
    pub reason: String,
    /// What is allowed instead; may be empty.
    pub instead: String,
}

/// What the gate needs to know besides the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context<'a> {
    /// How much is asked of a person.
    pub mode: Mode,
    /// Whether somebody can be asked. When nobody can, Ask becomes Deny.
    pub person_present: bool,
    /// The limit of the budget that is reached, if one is; then only `finish` is allowed.
    pub exhausted: Option<Exhausted>,
    /// What a person has allowed in this session: it turns Ask into Allow, never Deny.
    pub grants: &'a Grants,
    /// What hooks and the monitor say about this action.
    pub said: &'a [Said],
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self { mode: Mode::default(), person_present: false, exhausted: None, grants: &grants::NONE, said: &[] }
    }
}

/// One thing that one layer said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Who said it.
    pub layer: Layer,
    /// What it said.
    pub verdict: Verdict,
    /// By which rule; `None` when it is the layer's silence or a limit of the gate itself.
    pub rule: Option<String>,
}

/// The gate's answer, with its reasons in words that a small model can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The strictest of all verdicts.
    pub verdict: Verdict,
    /// The first layer that gave it.
    pub layer: Layer,
    /// The rule of that layer.
    pub rule: Option<String>,
    /// Why, in a sentence.
    pub reason: String,
    /// What is allowed instead, in a sentence; empty when it is allowed.
    pub instead: String,
    /// Everything that was said, in order.
    pub trace: Vec<Step>,
}

impl Judgement {
    /// The message for the model: the reason, and what to do instead.
    #[must_use]
    pub fn message(&self) -> String {
        if self.instead.is_empty() {
            self.reason.clone()
        } else {
            format!("{}\nInstead: {}", self.reason, self.instead)
        }
    }
}

/// A call that the gate has allowed. There is no other way to make one, so whoever takes a `Cleared` knows that
/// the action was judged. Paths in it are in their normal form: what was judged is what runs.
#[derive(Debug)]
pub struct Cleared<A> {
    action: A,
    judgement: Judgement,
}

impl<A> Cleared<A> {
    /// What may run.
    #[must_use]
    pub fn action(&self) -> &A {
        &self.action
    }

    /// The judgement that allowed it, for the log: it is written there before the action runs.
    #[must_use]
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }
}

/// An action that may not run (Deny), or not before a person has said yes (Ask).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The action as it was proposed.
    pub action: Action,
    /// Why not.
    pub judgement: Judgement,
}

/// Judges one action. Total: any action and any context give a judgement.
#[must_use]
pub fn judge(policy: &Policy, action: &Action, context: &Context<'_>) -> Judgement {
    explain::settle(findings(policy, action, context), context, context.grants.covers(action))
}

/// The words of a command that is a program and its arguments and nothing else. It runs without a shell: what was judged
/// is what runs. `None` where a shell has something to do: an expansion, a pattern, a redirection, a joint, a builtin.
#[must_use]
pub fn program_alone(command: &str) -> Option<Vec<String>> {
    shell::Script::program_alone(command)
}

/// Everything that is said about an action, in the order in which reasons are preferred.
fn findings(policy: &Policy, action: &Action, context: &Context<'_>) -> Vec<explain::Finding> {
    let mut findings = Vec::new();
    findings.extend(explain::budget(action, context));
    findings.extend(explain::plan(action, context));
    findings.extend(policy.tool_findings(action));
    for (access, path) in action.paths() {
        findings.extend(policy.path_findings(access, path));
    }
    if let Action::RunCommand { command } = action {
        findings.extend(policy.command_findings(command, context.mode));
    }
    findings.extend(context.said.iter().map(explain::Finding::said));
    findings
}

/// Judges one action and, when it is allowed, makes it something that can be run.
pub fn clear(policy: &Policy, action: Action, context: &Context<'_>) -> Result<Cleared<Action>, Box<Refused>> {
    let judgement = judge(policy, &action, context);
    match (judgement.verdict, action.normalised()) {
        (Verdict::Allow, Ok(action)) => Ok(Cleared { action, judgement }),
        _ => Err(Box::new(Refused { action, judgement })),
    }
}

#[cfg(test)]
mod tests;
