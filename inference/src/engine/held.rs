//! Which tokens may come next where an answer is held to a grammar?
//!
//! A [`Held`] follows one answer. What may come next is worked out by a [`Masker`], a thread of its own, while the forward
//! pass runs: [`Held::ask`] before the pass, [`Held::next`] behind it. Whoever is not ready then is left out of this step
//! and computed again in the next, so that a grammar delays nobody but the answer that it holds.
//!
//! An answer that is held late is free until a call begins, and again behind its end.

pub(super) use crate::grammar::Mask;
use crate::grammar::{CancellationHandle, Grammar, Parser};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// One mask takes at most so long, or the answer fails. Its cost is bounded besides: see [`crate::grammar`].
const MASK_TIME_MAX: Duration = Duration::from_secs(5);

/// What may come next.
pub(super) enum Next {
    /// Anything.
    Free,
    /// One of these.
    Among(Mask),
    /// These and no others.
    Forced(Vec<u32>),
    /// It is not known yet.
    Late,
    /// It will never be known.
    Failed(String),
}

/// How one answer keeps to its grammar.
pub(super) struct Held {
    grammar: Arc<Grammar>,
    state: State,
    /// The end of the text in which the beginning of a call may stand, while the answer is free.
    tail: Vec<u8>,
    /// Whether tokens that are the only ones possible are taken without looking at their scores.
    forces: bool,
}

enum State {
    /// Nothing is held yet, or not any more.
    Free,
    Here(Box<Parser>),
    /// The masker has the parser.
    Away {
        answer: Receiver<Worked>,
        since: Instant,
        cancel: CancellationHandle,
    },
    Known(Box<Parser>, Mask),
}

/// A parser with what it found.
struct Worked {
    matcher: Box<Parser>,
    found: Result<Found, String>,
}

enum Found {
    Mask(Mask),
    Forced(Vec<u32>),
}

struct Work {
    matcher: Box<Parser>,
    forces: bool,
    answer: Sender<Worked>,
}

/// The thread that works masks out, for all answers of an engine. It starts with the first one.
#[derive(Default)]
pub(super) struct Masker {
    queue: Option<Sender<Work>>,
}

impl Masker {
    fn give(&mut self, work: Work) {
        let queue = self.queue.get_or_insert_with(|| {
            let (queue, works) = channel::<Work>();
            // Without the thread each answer that needs it fails, as its channel is closed.
            let _ =
                std::thread::Builder::new().name("masks".into()).spawn(move || works.into_iter().for_each(work_out));
            queue
        });
        let _ = queue.send(work);
    }
}

fn work_out(Work { mut matcher, forces, answer }: Work) {
    let forced = if forces { matcher.consume_ff_tokens() } else { Vec::new() };
    let found = match forced.is_empty() {
        true => matcher.compute_mask_or_eos().map(Found::Mask).map_err(|error| error.to_string()),
        false => Ok(Found::Forced(forced)),
    };
    // The answer may have ended meanwhile.
    let _ = answer.send(Worked { matcher, found });
}

impl Held {
    /// For a new answer. With `forces`, tokens without an alternative are not chosen by their scores.
    pub fn new(grammar: Arc<Grammar>, forces: bool) -> Held {
        let state = match grammar.opens_with() {
            Some(_) => State::Free,
            None => State::Here(Box::new(grammar.begin())),
        };
        Held { grammar, state, tail: Vec::new(), forces }
    }

    /// Has the masker begin, where there is something to work out.
    pub fn ask(&mut self, masker: &mut Masker) {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Here(matcher) => {
                let cancel = matcher.cancellation_handle().unwrap_or_default();
                let (answer, worked) = channel();
                masker.give(Work { matcher, forces: self.forces, answer });
                self.state = State::Away { answer: worked, since: Instant::now(), cancel };
            }
            other => self.state = other,
        }
    }

    /// What may come next, waiting for it at most so long. What is forced counts as taken; anything else is told to
    /// [`Held::take`].
    pub fn next(&mut self, wait: Duration) -> Next {
        match &self.state {
            State::Free => Next::Free,
            State::Known(_, mask) => Next::Among(mask.clone()),
            State::Here(_) => Next::Late,
            State::Away { answer, since, cancel } => match answer.recv_timeout(wait) {
                Ok(Worked { matcher, found: Ok(Found::Mask(mask)) }) if mask.num_set() > 0 => {
                    self.state = State::Known(matcher, mask.clone());
                    Next::Among(mask)
                }
                Ok(Worked { found: Ok(Found::Mask(_)), .. }) => Next::Failed("no token keeps to the schema".into()),
                Ok(Worked { matcher, found: Ok(Found::Forced(tokens)) }) => {
                    self.state = State::Here(matcher);
                    Next::Forced(tokens)
                }
                Ok(Worked { found: Err(reason), .. }) => Next::Failed(reason),
                Err(RecvTimeoutError::Timeout) if since.elapsed() < MASK_TIME_MAX => Next::Late,
                Err(RecvTimeoutError::Timeout) => {
                    cancel.cancel();
                    Next::Failed(format!("the schema is too complex: a token took {} seconds", MASK_TIME_MAX.as_secs()))
                }
                Err(RecvTimeoutError::Disconnected) => Next::Failed("the thread of the grammars ended".into()),
            },
        }
    }

    /// Notes that this token was chosen. True if nothing may follow it.
    pub fn take(&mut self, token: u32, bytes: &[u8]) -> bool {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Known(mut matcher, _) => {
                // It was in the mask; where the parser thinks otherwise, the next mask is an error and says why.
                let _ = matcher.consume_token(token);
                self.settle(matcher)
            }
            State::Free => self.look_for_call(bytes),
            // What was forced the parser has taken itself.
            State::Here(matcher) => self.settle(matcher),
            away @ State::Away { .. } => {
                self.state = away;
                false
            }
        }
    }

    /// Goes on with this parser, or without one behind the end of what it holds.
    fn settle(&mut self, matcher: Box<Parser>) -> bool {
        let over = matcher.is_stopped() && !matcher.is_error();
        if !over {
            self.state = State::Here(matcher);
            return false;
        }
        self.tail.clear();
        !self.grammar.goes_on()
    }

    /// A call begins where its opening mark is complete; what a token has behind it belongs to the call.
    fn look_for_call(&mut self, bytes: &[u8]) -> bool {
        let Some(open) = self.grammar.opens_with().map(str::as_bytes) else { return false };
        self.tail.extend_from_slice(bytes);
        let Some(at) = self.tail.windows(open.len()).position(|window| window == open) else {
            let keep = self.tail.len().min(open.len() - 1);
            self.tail.drain(..self.tail.len() - keep);
            return false;
        };
        let behind = self.tail.split_off(at + open.len());
        self.tail.clear();
        let mut matcher = Box::new(self.grammar.begin());
        let words = matcher.tok_env().map(|words| words.tok_trie().greedy_tokenize(&behind)).unwrap_or_default();
        // Text behind the mark that no call begins with: then it was none.
        if matcher.try_consume_tokens(&words).is_ok_and(|taken| taken == words.len()) {
            return self.settle(matcher);
        }
        false
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
