//! How do many findings become one judgement, in words that a small model understands?

use super::{Action, Context, Judgement, Layer, Mode, Said, Step, Verdict};
use crate::text;

/// What one rule, limit or silence says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub layer: Layer,
    pub verdict: Verdict,
    pub rule: Option<String>,
    pub reason: String,
    pub instead: String,
    /// It was understood and nobody speaks for it or against it: what that means depends on the mode.
    pub silent: bool,
}

/// Words of the model that a reason quotes are cut to this length.
const QUOTE_BYTES_MAX: usize = 120;
/// So much of them is looked at for that.
pub(super) const QUOTE_READ_BYTES_MAX: usize = 256;

impl Finding {
    /// A refusal by the gate itself.
    pub(super) fn own(layer: Layer, reason: String, instead: String) -> Finding {
        Finding { layer, verdict: Verdict::Deny, rule: None, reason, instead, silent: false }
    }

    /// What a hook or the monitor said.
    pub(super) fn said(said: &Said) -> Finding {
        Finding {
            layer: said.layer,
            verdict: said.verdict,
            rule: Some(said.rule.clone()),
            reason: said.reason.clone(),
            instead: said.instead.clone(),
            silent: false,
        }
    }

    /// What it comes to in this mode, for an action that a person has consented to or not.
    ///
    /// | | plan | ask | auto | strict |
    /// |---|---|---|---|---|
    /// | a rule allows | Allow | Allow | Allow | Allow |
    /// | nobody speaks, all is understood | Deny | Ask | Allow | Deny |
    /// | a rule, a hook or the monitor asks | Deny | Ask | Deny | Deny |
    /// | a rule denies, or there is a doubt | Deny | Deny | Deny | Deny |
    ///
    /// Consent turns Ask into Allow, in auto also what would be asked if auto asked; in plan and strict it means
    /// nothing. That plan mode changes nothing is a finding of its own.
    pub(super) fn comes_to(&self, mode: Mode, consented: bool) -> Verdict {
        let said = if self.silent { Verdict::Ask } else { self.verdict };
        match (said, mode) {
            (Verdict::Allow, _) => Verdict::Allow,
            (Verdict::Ask, Mode::Ask | Mode::Auto) if consented => Verdict::Allow,
            (Verdict::Ask, Mode::Auto) if self.silent => Verdict::Allow,
            (Verdict::Ask, Mode::Ask) => Verdict::Ask,
            _ => Verdict::Deny,
        }
    }

    /// `verb` and the quoted text, made safe.
    pub(super) fn quoted(verb: &str, untrusted: &str) -> String {
        // Cleaning a megabyte to show a line of it would take longer than judging it.
        let cut = untrusted.len().min(QUOTE_READ_BYTES_MAX);
        let end = (0..=cut).rev().find(|at| untrusted.is_char_boundary(*at)).unwrap_or(0);
        format!("{verb} `{}`", text::quote(&untrusted[..end], QUOTE_BYTES_MAX))
    }
}

/// A layer that must speak has no rule for this.
pub(super) fn silence(layer: Layer, what: &str, instead: String) -> Finding {
    Finding::own(layer, format!("no rule allows {what}, and what no rule allows is denied"), instead)
}

/// The same, where the mode decides what it means.
pub(super) fn unlisted(layer: Layer, reason: String, instead: String) -> Finding {
    Finding { silent: true, ..Finding::own(layer, reason, instead) }
}

/// Plan mode changes nothing. What a command may change is told where commands are read.
pub(super) fn plan(action: &Action, context: &Context<'_>) -> Option<Finding> {
    let changes = matches!(action, Action::EditFile { .. } | Action::WriteFile { .. } | Action::RunTests);
    (context.mode == Mode::Plan && changes).then(|| {
        Finding::own(
            Layer::Mode,
            format!("the tool {} may change something, and plan mode changes nothing", action.name()),
            "look and search, and say in the end what you would change".into(),
        )
    })
}

/// An exhausted budget leaves only the way out.
pub(super) fn budget(action: &Action, context: &Context<'_>) -> Option<Finding> {
    let exhausted = context.exhausted.filter(|_| *action != Action::Finish)?;
    Some(Finding::own(
        Layer::Budget,
        format!("the session's budget is spent: {exhausted}"),
        "finish with what you have".into(),
    ))
}

/// The strictest finding, first said first.
pub(super) fn settle(findings: Vec<Finding>, context: &Context<'_>, consented: bool) -> Judgement {
    let comes_to = |f: &Finding| f.comes_to(context.mode, consented);
    let trace = trace(&findings, context, consented);
    let strictest = findings.iter().map(comes_to).max();
    let first = findings.into_iter().find(|f| Some(comes_to(f)) == strictest);
    let Some(mut found) = first else {
        // Unreachable while the tools layer always speaks; silence is Deny here too.
        return settle(vec![silence(Layer::Tools, "this", String::new())], context, consented);
    };
    let by = match &found.rule {
        Some(rule) => format!("[{}, rule {rule}] ", name(found.layer)),
        None => format!("[{}] ", name(found.layer)),
    };
    let mut verdict = comes_to(&found);
    let asks = if found.silent { context.mode == Mode::Ask } else { found.verdict == Verdict::Ask };
    if asks && verdict != Verdict::Allow {
        let why_not = match context.mode {
            Mode::Ask if context.person_present => None,
            Mode::Ask => Some(" (nobody is here to ask)"),
            Mode::Plan => Some(" (plan mode asks nothing)"),
            Mode::Auto => Some(" (auto mode asks nobody)"),
            Mode::Strict => Some(" (strict mode asks nobody)"),
        };
        if let Some(why) = why_not {
            verdict = Verdict::Deny;
            found.reason.push_str(why);
        }
    }
    if verdict == Verdict::Allow {
        found.instead.clear();
    } else if found.instead.is_empty() {
        found.instead = "do the task without this".into();
    }
    Judgement {
        verdict,
        layer: found.layer,
        rule: found.rule,
        reason: by + &found.reason,
        instead: found.instead,
        trace,
    }
}

/// Everything that was said, once. What a rule said stands as it said it; of a silence, what it comes to.
fn trace(findings: &[Finding], context: &Context<'_>, consented: bool) -> Vec<Step> {
    let mut trace: Vec<Step> = Vec::new();
    for f in findings {
        let verdict = if f.silent { f.comes_to(context.mode, consented) } else { f.verdict };
        let step = Step { layer: f.layer, verdict, rule: f.rule.clone() };
        if !trace.contains(&step) {
            trace.push(step);
        }
    }
    let used = |f: &Finding| f.comes_to(context.mode, consented) != f.comes_to(context.mode, false);
    if consented && findings.iter().any(used) {
        trace.push(Step { layer: Layer::Grants, verdict: Verdict::Allow, rule: None });
    }
    trace
}

pub(super) fn name(layer: Layer) -> &'static str {
    match layer {
        Layer::Budget => "budget",
        Layer::Tools => "tool policy",
        Layer::Paths => "path policy",
        Layer::Commands => "command policy",
        Layer::Hosts => "host policy",
        Layer::Mode => "mode",
        Layer::Grants => "grants of this session",
        Layer::Project => "project policy",
        Layer::Subagent => "sub-agent",
        Layer::Hooks => "hook",
        Layer::Monitor => "monitor",
    }
}
