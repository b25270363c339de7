//! What is a person asked, and what does the answer permit?
//!
//! A question shows exactly what would run. An answer permits that and nothing else: once, or for as long as the
//! session that asked lives. Permissions are never read back from a log: a session that is resumed or forked begins
//! with none, and [`granted`] says what it has lost.

use crate::action::Call;
use crate::gate::{Action, Judgement, Layer};
use crate::session::Record;
use crate::text::visible;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A question that nobody has answered after this long is answered with no.
pub const QUESTION_SECONDS_MAX: u64 = 300;
/// The longest action that a person is asked about, in bytes: consent to what cannot be read is no consent.
pub const SHOWN_BYTES_MAX: usize = 16 * 1024;

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What would run, in its normal form: what a permission for the session is about.
    pub action: Action,
    /// The same for eyes, whole, with everything that hides made visible. Whoever shows it marks each line of it.
    pub shown: String,
    /// Who asks.
    pub layer: Layer,
    /// By which rule.
    pub rule: Option<String>,
    /// Why, in a sentence.
    pub reason: String,
}

/// Why nobody can be asked about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unaskable {
    /// Longer than a person reads.
    #[error("it is longer than {SHOWN_BYTES_MAX} bytes, which is more than a person can be asked about")]
    TooLong,
    /// Its path is outside of the workspace.
    #[error("its path means no file of the workspace")]
    Path,
}

impl Question {
    /// The question whether `call` may run, which the gate has judged to be [`Ask`](crate::gate::Verdict::Ask).
    pub fn new(call: &Call, action: &Action, judgement: &Judgement) -> Result<Self, Unaskable> {
        let action = action.normalised().map_err(|_| Unaskable::Path)?;
        let shown = visible(&in_words(call));
        if shown.len() > SHOWN_BYTES_MAX {
            return Err(Unaskable::TooLong);
        }
        let Judgement { layer, rule, reason, .. } = judgement;
        Ok(Self { action, shown, layer: *layer, rule: rule.clone(), reason: visible(reason) })
    }

    /// What a yes for the session would permit beyond this one time.
    #[must_use]
    pub fn covers(&self) -> String {
        let name = self.action.name();
        match &self.action {
            Action::RunCommand { .. } => "this very command, as often as it is proposed".into(),
            Action::EditFile { path } | Action::WriteFile { path } => {
                format!("{name} {}, whatever is written", visible(path))
            }
            Action::ListDir { path } | Action::ReadFile { path } => format!("{name} {}", visible(path)),
            Action::Grep { .. } | Action::Search { .. } | Action::Task { .. } => format!("this very {name}"),
            Action::RunTests | Action::Finish => name.into(),
        }
    }
}

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// This time.
    Yes,
    /// This time, and whenever this session proposes the same action again.
    YesForSession,
    /// Not.
    No,
    /// Nothing before the deadline, which is a no.
    Silence,
}

impl Answer {
    /// Whether it permits.
    #[must_use]
    pub fn is_yes(self) -> bool {
        matches!(self, Self::Yes | Self::YesForSession)
    }
}

/// Somebody who can be asked: at a terminal, or behind an API.
pub trait Person {
    /// Asks and waits, but not longer than until `deadline`; then the answer is [`Answer::Silence`].
    fn ask(&mut self, question: &Question, deadline: Instant) -> Answer;
}

/// Who answers questions in this run.
#[derive(Default)]
pub enum Asking<'a> {
    /// Nobody: what needs a person's consent is denied.
    #[default]
    Nobody,
    /// A person who is there.
    Person {
        /// Who.
        person: &'a mut dyn Person,
        /// How long a question waits.
        seconds_max: Duration,
    },
    /// Somebody later: the session is parked at its first question.
    Later,
}

impl Asking<'_> {
    /// Whether a question can get any answer.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        !matches!(self, Self::Nobody)
    }
}

/// What the session of these records was permitted for its whole life, in order, each once: what a session that
/// continues it does not get.
#[must_use]
pub fn granted(records: &[Record]) -> Vec<&Question> {
    let mut questions: Vec<&Question> = Vec::new();
    for record in records {
        if let Record::Answered { question, answer: Answer::YesForSession } = record
            && !questions.iter().any(|earlier| earlier.action == question.action)
        {
            questions.push(question);
        }
    }
    questions
}

/// The whole of a call, for eyes.
fn in_words(call: &Call) -> String {
    match call {
        Call::ListDir { path } => format!("list_dir {path}"),
        Call::ReadFile { path, .. } => format!("read_file {path}"),
        Call::Search { query } => format!("search {query}"),
        Call::Grep { pattern, path } => format!("grep {pattern} in {}", path.as_deref().unwrap_or(".")),
        Call::EditFile { path, text } => format!("edit_file {}\n{text}", path.as_deref().unwrap_or("?")),
        Call::EditLine { path, from, to } => format!("edit_file {}\n- {from}\n+ {to}", path.as_deref().unwrap_or("?")),
        Call::WriteFile { path, text } => format!("write_file {path}\n{text}"),
        Call::RunCommand { command } => format!("run_command {command}"),
        Call::RunTests => "run_tests".into(),
        Call::Task { prompt, subagent_type, .. } => format!("task for {}\n{prompt}", subagent_type.name()),
        Call::Finish { summary } => format!("finish {summary}"),
        Call::ReportImpossible { why } => format!("report_impossible {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Verdict;

    fn judgement() -> Judgement {
        Judgement {
            verdict: Verdict::Ask,
            layer: Layer::Commands,
            rule: Some("ask-network".into()),
            reason: "it speaks to the network".into(),
            instead: String::new(),
            trace: Vec::new(),
        }
    }

    fn question(command: &str) -> Result<Question, Unaskable> {
        let action = Action::RunCommand { command: command.into() };
        Question::new(&Call::RunCommand { command: command.into() }, &action, &judgement())
    }

    #[track_caller]
    fn check(command: &str, shown: &str) {
        assert_eq!(question(command).unwrap().shown, format!("run_command {shown}"));
    }

    #[test]
    fn a_question_shows_what_hides() {
        check("ls -l", "ls -l");
        check("ls \x1b[2K\rrm -rf x", "ls <U+001B>[2K<U+000D>rm -rf x");
        check("echo a\u{202E}b\u{200B}", "echo a<U+202E>b<U+200B>");
        check("rm\u{A0}-rf\tx", "rm<U+00A0>-rf<U+0009>x");
        check("a\u{E0041}\u{FE0F}\u{E000}", "a<U+E0041><U+FE0F><U+E000>");
        check("a\nb", "a\nb");
        check("grüße.sh", "grüße.sh");
    }

    #[test]
    fn nobody_is_asked_about_what_cannot_be_read() {
        assert_eq!(question(&"x".repeat(SHOWN_BYTES_MAX)), Err(Unaskable::TooLong));
        let call = Call::ReadFile { path: "../x".into(), start: None, end: None };
        let action = Action::ReadFile { path: "../x".into() };
        assert_eq!(Question::new(&call, &action, &judgement()), Err(Unaskable::Path));
    }

    #[test]
    fn what_was_granted_for_a_session_can_be_told_once_it_is_gone() {
        let answered = |command: &str, answer| Record::Answered { question: question(command).unwrap(), answer };
        let records = [
            answered("a", Answer::YesForSession),
            answered("b", Answer::Yes),
            answered("c", Answer::No),
            answered("a", Answer::YesForSession),
        ];
        let lost: Vec<&str> = granted(&records).iter().map(|question| question.shown.as_str()).collect();
        assert_eq!(lost, ["run_command a"]);
    }
}
