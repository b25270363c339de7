//! How does a program answer? Questions are events of the `--json` stream, answers are lines of standard input:
//! `{"question": 1, "answer": "yes"}`, where the answer is `yes`, `session` or `no`. The number names the question, so an
//! answer may come before it is asked and never counts for another one.

use crate::events::Stream;
use crate::terminal::{LOOK, lines_of};
use agent::ask::{Answer, Person, Question};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

/// Answers that may wait for their question; more are ignored.
const WAITING_MAX: usize = 1_000;

/// The program at the other end of standard input.
pub struct Program<'a> {
    stream: Stream,
    lines: Receiver<String>,
    waiting: BTreeMap<u64, Answer>,
    asked: u64,
    cancel: &'a AtomicBool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    question: u64,
    answer: Word,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Yes,
    Session,
    No,
}

impl<'a> Program<'a> {
    /// Reads standard input from now on.
    pub fn open(stream: Stream, cancel: &'a AtomicBool) -> Self {
        let lines = lines_of(std::io::stdin());
        Self { stream, lines, waiting: BTreeMap::new(), asked: 0, cancel }
    }

    fn heard(&mut self, line: &str) {
        match serde_json::from_str::<Line>(line) {
            Ok(line) if line.question >= self.asked && self.waiting.len() < WAITING_MAX => {
                let answer = match line.answer {
                    Word::Yes => Answer::Yes,
                    Word::Session => Answer::YesForSession,
                    Word::No => Answer::No,
                };
                self.waiting.insert(line.question, answer);
            }
            Ok(_) => self.ignored("the question is over, or too many answers wait"),
            Err(error) => self.ignored(&error.to_string()),
        }
    }

    fn ignored(&self, why: &str) {
        self.stream.emit("answer_ignored", json!({ "why": why }));
    }
}

impl Person for Program<'_> {
    fn ask(&mut self, question: &Question, deadline: Instant) -> Answer {
        self.asked += 1;
        let left = deadline.saturating_duration_since(Instant::now());
        self.stream.emit(
            "question",
            json!({ "question": self.asked, "shown": question.shown, "session_covers": question.covers(),
                    "layer": question.layer, "rule": question.rule, "reason": question.reason, "seconds": left.as_secs() }),
        );
        while !self.cancel.load(Ordering::Relaxed) {
            if let Some(answer) = self.waiting.remove(&self.asked) {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(line) => self.heard(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Answer::Silence
    }
}
