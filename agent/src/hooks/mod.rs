//! What do other people's programs say about a session?
//!
//! A hook is a program that is told on its standard input what is about to happen or has happened, and may block it,
//! ask for a person, rewrite the input of an action or add context. Names, fields and exit codes are those of Claude
//! Code's hooks, so that existing scripts work; what differs is stricter:
//!
//! - A hook never loosens: `allow` and `approve` say nothing, and what the policy denies no hook is asked about.
//! - A hook that fails, in whatever way, has blocked, unless its entry says `on_error = "open"`.
//! - Hooks run in the box, and those that a repository brings are inert until an administrator has pinned them.
//!
//! This module reads, decides and folds; it starts nothing. [`crate::drive`] runs the commands.

mod answer;
mod config;
mod occasion;
mod pins;
mod tool;

use crate::gate::{Layer, Said, Verdict};
use crate::text::sanitize;
use crate::workspace::{Command, Ran, WorkspaceError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

pub use answer::{Answer, Decision, Failure};
pub use config::{HooksError, Matcher};
pub use occasion::{Event, Facts, Occasion};
pub use pins::{Inert, REPOSITORY_HOOKS};

/// A reason or a text that a hook adds for the model is cut to this length.
pub const TEXT_BYTES_MAX: usize = 4_000;

/// What becomes of the occasion when a hook fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It is blocked.
    #[default]
    Closed,
    /// It goes on as if the hook were not there: a choice that an administrator made for this hook.
    Open,
}

/// One hook that runs.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Its name in reasons and in the log.
    pub id: String,
    /// When it runs.
    pub event: Event,
    /// For which tools, or for which kind of the event.
    pub matcher: Matcher,
    /// The program and its arguments; [`SCRIPT`] stands for the script's path.
    pub argv: Vec<String>,
    /// The text of its script, as it was when the session began: nobody can change it afterwards.
    pub script: Option<String>,
    /// Its deadline.
    pub seconds_max: u64,
    /// What its failure means.
    pub on_error: OnError,
}

/// The word of a hook's command that stands for its script.
pub const SCRIPT: &str = "{script}";

/// Puts the script where the agent cannot reach it, in a directory that only this job has, and becomes the command.
/// 125 says that this failed; like every code but 0 and 2 it means that the hook has failed.
const LAUNCH: &str = r#"f=$(mktemp -d)/hook || exit 125
printf '%s' "$1" >"$f" && chmod 500 "$f" || exit 125
shift
for word do shift; [ "$word" = '{script}' ] && word=$f; set -- "$@" "$word"; done
exec "$@""#;

impl Hook {
    /// The command for the box.
    pub fn command(&self, occasion: &Occasion<'_>, facts: &Facts) -> Command {
        let argv = match &self.script {
            None => self.argv.clone(),
            Some(script) => ["/bin/sh", "-c", LAUNCH, "hook", script]
                .into_iter()
                .map(str::to_owned)
                .chain(self.argv.iter().cloned())
                .collect(),
        };
        Command {
            argv,
            seconds_max: Duration::from_secs(self.seconds_max),
            stdin: occasion.input(facts).to_string().into_bytes(),
            env: vec![("CLAUDE_PROJECT_DIR".into(), occasion::WORKSPACE.into())],
            split: true,
            read_only: false,
        }
    }

    /// What is about to run, for the log: the script by its hash.
    pub fn job(&self) -> Value {
        let script = self.script.as_ref().map(|text| config::sha256(text.as_bytes()));
        json!({ "argv": self.argv, "fresh_box": false, "hook": self.id, "script_sha256": script })
    }

    /// What it says, whatever became of its command.
    pub fn heard(&self, occasion: &Occasion<'_>, ran: Result<Ran, WorkspaceError>) -> Heard {
        let read = match &ran {
            Ok(ran) => answer::read(occasion, ran),
            Err(error) => Err(Failure::Box(error.to_string())),
        };
        match (read, self.on_error) {
            (Ok(answer), _) => Heard { answer, failure: None },
            (Err(failure), OnError::Open) => Heard { answer: Answer::default(), failure: Some(failure) },
            (Err(failure), OnError::Closed) => {
                Heard { answer: Answer::block(format!("it failed: {failure}")), failure: Some(failure) }
            }
        }
    }
}

/// What a hook said, and whether it failed at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// What counts.
    pub answer: Answer,
    /// Its failure, which has been turned into an answer already.
    pub failure: Option<Failure>,
}

/// All hooks of a session.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    /// Those that run, in the order in which they were written.
    pub active: Vec<Hook>,
    /// Those of the repository that do not run, and why.
    pub inert: Vec<Inert>,
    /// What every hook is told.
    pub facts: Facts,
    pins: Vec<pins::Pin>,
}

impl Hooks {
    /// The hooks that run on this occasion.
    pub fn on<'a>(&'a self, occasion: &Occasion<'_>) -> impl Iterator<Item = &'a Hook> {
        let subjects = occasion.subjects();
        self.active.iter().filter(move |hook| hook.event == occasion.event() && hook.matcher.matches(&subjects))
    }
}

/// A text from a hook, for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The hook.
    pub by: String,
    /// What it says.
    pub text: String,
}

/// What all hooks of one occasion say together.
#[derive(Debug, Clone, Default)]
pub struct Fold {
    /// For the gate.
    pub said: Vec<Said>,
    /// For the model.
    pub told: Vec<Told>,
    /// The input as a hook wants it, and which one. It is judged from the start.
    pub rewritten: Option<(String, crate::Call)>,
    /// A hook ends the session: which one, and why.
    pub stopped: Option<Told>,
    /// A hook blocked because it failed: saying its reason to the model would lead nowhere.
    pub failed: bool,
}

impl Fold {
    /// Adds what one hook said; true when the others need not be heard. Each hook rewrites an action at most once, so
    /// that judging it from the start comes to an end: `may_rewrite` says whether this one still may.
    pub fn add(&mut self, hook: &Hook, heard: Heard, may_rewrite: bool) -> bool {
        let clean = |text: &str| match text.trim() {
            "" => "it gave no reason".to_owned(),
            text => sanitize(text.as_bytes(), TEXT_BYTES_MAX).text,
        };
        let Answer { decision, reason, context, rewritten, stop } = heard.answer;
        let verdict = match decision {
            Decision::Nothing => None,
            Decision::Ask => Some(Verdict::Ask),
            Decision::Block => Some(Verdict::Deny),
        };
        self.said.extend(verdict.map(|verdict| Said {
            layer: Layer::Hooks,
            verdict,
            rule: hook.id.clone(),
            reason: clean(&reason),
            instead: String::new(),
        }));
        self.told.extend(context.map(|text| Told { by: hook.id.clone(), text: clean(&text) }));
        self.stopped = stop.map(|why| Told { by: hook.id.clone(), text: clean(&why) });
        self.failed |= heard.failure.is_some() && decision == Decision::Block;
        let rewritten = rewritten.filter(|_| may_rewrite && decision != Decision::Block);
        self.rewritten = rewritten.map(|call| (hook.id.clone(), call));
        decision == Decision::Block || self.stopped.is_some() || self.rewritten.is_some()
    }

    /// The first thing that blocks.
    #[must_use]
    pub fn blocked(&self) -> Option<&Said> {
        self.said.iter().find(|said| said.verdict == Verdict::Deny)
    }
}

#[cfg(test)]
mod tests;
