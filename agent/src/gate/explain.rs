//! How do many findings become one judgement, in words that a small model understands?

use super::{Action, Context, Judgement, Layer, Said, Step, Verdict};
use crate::text;

/// What one rule, limit or silence says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub layer: Layer,
    pub verdict: Verdict,
    pub rule: Option<String>,
    pub reason: String,
    pub instead: String,
}

/// Words of the model that a reason quotes are cut to this length.
const QUOTE_BYTES_MAX: usize = 120;

impl Finding {
    /// A refusal by the gate itself.
    pub(super) fn own(layer: Layer, reason: String, instead: String) -> Finding {
        Finding { layer, verdict: Verdict::Deny, rule: None, reason, instead }
    }

    /// What a hook or the monitor said.
    pub(super) fn said(said: &Said) -> Finding {
        Finding {
            layer: said.layer,
            verdict: said.verdict,
            rule: Some(said.rule.clone()),
            reason: said.reason.clone(),
            instead: said.instead.clone(),
        }
    }

    /// `verb` and the quoted text, made safe.
    pub(super) fn quoted(verb: &str, untrusted: &str) -> String {
        format!("{verb} `{}`", text::quote(untrusted, QUOTE_BYTES_MAX))
    }
}

/// A layer that must speak has no rule for this.
pub(super) fn silence(layer: Layer, what: &str, instead: String) -> Finding {
    Finding::own(layer, format!("no rule allows {what}, and what no rule allows is denied"), instead)
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
pub(super) fn settle(findings: Vec<Finding>, context: &Context<'_>) -> Judgement {
    let mut trace: Vec<Step> = Vec::new();
    for f in &findings {
        let step = Step { layer: f.layer, verdict: f.verdict, rule: f.rule.clone() };
        if !trace.contains(&step) {
            trace.push(step);
        }
    }
    let strictest = findings.iter().map(|f| f.verdict).max();
    let first = findings.into_iter().find(|f| Some(f.verdict) == strictest);
    let Some(mut found) = first else {
        // Unreachable while the tools layer always speaks; silence is Deny here too.
        return settle(vec![silence(Layer::Tools, "this", String::new())], context);
    };
    let by = match &found.rule {
        Some(rule) => format!("[{}, rule {rule}] ", name(found.layer)),
        None => format!("[{}] ", name(found.layer)),
    };
    if found.verdict == Verdict::Ask && !context.person_present {
        found.verdict = Verdict::Deny;
        found.reason.push_str(" (nobody is here to ask)");
    }
    if found.verdict == Verdict::Allow {
        found.instead.clear();
    } else if found.instead.is_empty() {
        found.instead = "do the task without this".into();
    }
    Judgement {
        verdict: found.verdict,
        layer: found.layer,
        rule: found.rule,
        reason: by + &found.reason,
        instead: found.instead,
        trace,
    }
}

fn name(layer: Layer) -> &'static str {
    match layer {
        Layer::Budget => "budget",
        Layer::Tools => "tool policy",
        Layer::Paths => "path policy",
        Layer::Commands => "command policy",
        Layer::Project => "project policy",
        Layer::Hooks => "hook",
        Layer::Monitor => "monitor",
    }
}
