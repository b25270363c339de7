//! What did a person or a hook say, and what follows from it?
//!
//! An action that waits for an answer is proposed again when the session is resumed. A yes is good for that action
//! and no other, and only as the very next thing; nothing else that was permitted comes back.

use super::{Ending, Next, Record, Session, words};
use crate::action::Call;
use crate::ask::{Answer, Question};
use crate::model::Role;

/// An action that waits for an answer.
#[derive(Debug, Clone)]
pub(super) struct Parked {
    call: Call,
    question: Question,
    answer: Option<Answer>,
}

impl Session {
    /// The question to which a person has said yes while the session was parked: good for the next action, if it is
    /// the one that was asked about.
    pub fn consent(&self) -> Option<&Question> {
        self.consent.as_ref()
    }

    /// How often a hook did not let the session end.
    pub fn sent_on(&self) -> usize {
        self.sent_on
    }

    /// The model's last words.
    pub fn last_reply(&self) -> &str {
        let last = self.messages.iter().rev().find(|message| message.role == Role::Assistant);
        last.map_or("", |message| &message.content)
    }

    /// A consent is for the very next action, and nothing waits any more once something else has happened.
    pub(super) fn forget(&mut self, record: &Record) {
        self.consent = None;
        let waits_on =
            matches!(record, Record::Stopped { .. } | Record::Answered { .. } | Record::Told { .. } | Record::Resumed);
        if !waits_on {
            self.parked = None;
        }
    }

    pub(super) fn stopped(&mut self, ending: &Ending) {
        match (&self.next, ending) {
            (Next::Act(call), Ending::Parked { question }) => {
                self.parked = Some(Parked { call: call.clone(), question: (**question).clone(), answer: None });
            }
            // It was over already: a resume that did not come about.
            (Next::End(_), _) => {}
            _ => self.parked = None,
        }
        self.next = Next::End(ending.clone());
    }

    /// The first answer counts.
    pub(super) fn answered(&mut self, question: &Question, answer: Answer) {
        if let Some(parked) = self.parked.as_mut().filter(|parked| parked.question == *question) {
            parked.answer.get_or_insert(answer);
        }
    }

    pub(super) fn go_on(&mut self, by: &str, why: &str) {
        self.sent_on += 1;
        self.unusable = 0;
        self.say(words::sent_on(by, why));
        self.next = Next::Ask;
    }

    pub(super) fn resumed(&mut self) {
        self.unusable = 0;
        self.sent_on = 0;
        match self.parked.take() {
            // What waits for an answer is proposed again.
            Some(Parked { call, question, answer }) => {
                self.next = Next::Act(call);
                match answer {
                    Some(answer) if answer.is_yes() => self.consent = Some(question),
                    Some(_) => self.refused(words::SAID_NO),
                    None => {}
                }
            }
            None if matches!(self.next, Next::End(_)) => self.next = Next::Ask,
            None => {}
        }
    }

    /// Something beside the conversation: it goes with the last message, so that roles still alternate.
    pub(super) fn told(&mut self, text: &str) {
        match self.messages.last_mut().filter(|last| last.role == Role::User) {
            Some(last) => last.content += text,
            None => self.say(text.trim_start().to_owned()),
        }
    }
}
