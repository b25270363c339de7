//! How much does a server compute again that it had computed before?
//!
//! Each arm replays the conversation of [`Trace`] under something that happens to agents. Ideal is what nobody can avoid: the
//! tokens that no earlier request had or brought forth. The last token of an answer is among them, because a server
//! that has just chosen it has not computed it yet. What children of one parent hear begins alike, which is not taken off:
//! a server that finds it is a little better than ideal.

use super::client::{Answer, Server};
use super::median;
use super::trace::Trace;
use crate::table::Table;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// After this turn the parent has children.
const FORK_AT: usize = 10;
const CHILDREN: usize = 4;
/// Before this turn the server is started again.
const RESTART_AT: usize = 15;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// Nothing cached may be used.
    Off,
    /// One agent.
    One,
    /// Two agents in turns.
    Two,
    /// One agent up to turn 10, then four that go on from there.
    Fork,
    /// One agent, and the server starts again before turn 15.
    Restart,
    /// One agent whose client changes the first line each turn.
    Head,
}

/// All of them.
pub const ARMS: [Arm; 6] = [Arm::Off, Arm::One, Arm::Two, Arm::Fork, Arm::Restart, Arm::Head];

impl Arm {
    fn name(self) -> &'static str {
        match self {
            Arm::Off => "off",
            Arm::One => "one",
            Arm::Two => "two",
            Arm::Fork => "fork",
            Arm::Restart => "restart",
            Arm::Head => "head",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Arm, String> {
        let names = ARMS.map(Arm::name).join(", ");
        ARMS.into_iter().find(|arm| arm.name() == text).ok_or(format!("the arms are {names}"))
    }
}

/// One request of an arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Who answered.
    pub server: String,
    /// What happened.
    pub arm: Arm,
    /// Which agent asked; children are numbered from 1.
    pub agent: usize,
    /// Which turn, from 1.
    pub turn: usize,
    /// Tokens that nobody could avoid to compute.
    pub ideal: usize,
    /// What came back.
    pub answer: Answer,
}

impl Step {
    /// For machines.
    pub fn json(&self) -> Value {
        json!({
            "server": self.server, "arm": self.arm.name(), "agent": self.agent, "turn": self.turn,
            "prompt_tokens": self.answer.prompt_tokens, "computed_tokens": self.answer.computed_tokens(),
            "ideal_tokens": self.ideal, "generated_tokens": self.answer.generated_tokens,
            "first_seconds": self.answer.first_seconds, "seconds": self.answer.seconds,
        })
    }
}

/// How long the conversation is.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// Turns of an agent.
    pub turns: usize,
    /// See [`Trace::new`].
    pub scale: f64,
}

/// What an arm needs besides its server.
pub struct Around<'a> {
    /// How long it is.
    pub length: Length,
    /// Tells this run from others in a cache.
    pub salt: &'a str,
    /// Starts the server again and returns when it answers.
    pub restart: Option<&'a dyn Fn() -> Result<()>>,
    /// Hears of each step as it ends.
    pub heard: &'a dyn Fn(&Step),
    /// Ends the run between two steps.
    pub cancel: &'a AtomicBool,
}

/// An agent under way.
#[derive(Clone)]
struct Talk {
    trace: Trace,
    agent: usize,
    /// Without the system prompt.
    messages: Vec<Value>,
    turn: usize,
    /// Tokens that were computed for it so far, as far as the next prompt can begin with them.
    held: usize,
}

impl Talk {
    fn new(agent: usize, length: Length) -> Talk {
        let trace = Trace::new(agent as u64, length.turns, length.scale);
        Talk { trace, agent, messages: Vec::new(), turn: 0, held: 0 }
    }

    fn step(&mut self, server: &Server, arm: Arm, around: &Around<'_>) -> Result<Step> {
        if around.cancel.load(Ordering::Relaxed) {
            bail!("cancelled");
        }
        let turn = &self.trace.turns[self.turn];
        self.messages.push(json!({ "role": "user", "content": turn.said }));
        let head = match arm {
            Arm::Head => format!("x-billing-header: cch={:05x};\n", (self.turn + 1) * 0x1_2345 % 0xF_FFFF),
            _ => String::new(),
        };
        let system = self.trace.system(&format!("{head}Session {}-{arm}.\n", around.salt));
        let messages: Vec<Value> = std::iter::once(system).chain(self.messages.iter().cloned()).collect();
        let answer = server
            .chat(&messages, turn.tokens_max, arm != Arm::Off)
            .with_context(|| format!("{}, arm {arm}, turn {}", server.name, self.turn + 1))?;
        self.messages.push(json!({ "role": "assistant", "content": answer.text }));
        self.turn += 1;
        let held = if arm == Arm::Off { 0 } else { self.held };
        let ideal = answer.prompt_tokens.saturating_sub(held).max(1);
        self.held = (answer.prompt_tokens + answer.generated_tokens).saturating_sub(1);
        let step = Step { server: server.name.clone(), arm, agent: self.agent, turn: self.turn, ideal, answer };
        (around.heard)(&step);
        Ok(step)
    }

    fn is_over(&self) -> bool {
        self.turn >= self.trace.turns.len()
    }
}

/// Replays one arm.
pub fn replay(server: &Server, arm: Arm, around: &Around<'_>) -> Result<Vec<Step>> {
    let length = around.length;
    let mut steps = Vec::new();
    let mut talks = vec![Talk::new(0, length)];
    if arm == Arm::Two {
        talks.push(Talk::new(1, length));
    }
    while !talks.iter().all(Talk::is_over) {
        let turn = talks[0].turn;
        if arm == Arm::Restart && turn + 1 == RESTART_AT.min(length.turns) {
            around.restart.context("the arm restart needs --restart with the command that starts the server again")?()?;
        }
        if arm == Arm::Fork && talks.len() == 1 && turn == FORK_AT.min(length.turns / 2) {
            talks = children(&talks[0], length);
        }
        for at in 0..talks.len() {
            let step = talks[at].step(server, arm, around)?;
            if arm == Arm::Two && turn == 0 && at == 0 {
                // The other agent begins with the same system prompt.
                talks[1].held = shared(&talks[0], &step.answer);
            }
            steps.push(step);
        }
    }
    Ok(steps)
}

fn children(parent: &Talk, length: Length) -> Vec<Talk> {
    let child = |agent: usize| {
        let mut trace = parent.trace.clone();
        // From here on each hears something else.
        trace
            .turns
            .splice(parent.turn.., Trace::new(agent as u64, length.turns, length.scale).turns.drain(parent.turn..));
        Talk { trace, agent, ..parent.clone() }
    };
    (1..=CHILDREN).map(child).collect()
}

/// Tokens of the system prompt, by its share of the characters of a first prompt.
fn shared(talk: &Talk, answer: &Answer) -> usize {
    let (system, said) = (talk.trace.system.len(), talk.trace.turns[0].said.len());
    answer.prompt_tokens * system / (system + said)
}

/// One row for each arm and server.
pub fn table(steps: &[Step]) -> Table {
    let head = [
        "arm",
        "server",
        "turns",
        "prompt",
        "computed",
        "ideal",
        "computed / ideal",
        "first token s",
        "p95 s",
        "all s",
    ];
    let mut table = Table::new("an agent's conversation: tokens, and seconds to the first token", &head);
    let mut groups: Vec<(Arm, &str)> = Vec::new();
    for step in steps {
        if !groups.contains(&(step.arm, &step.server)) {
            groups.push((step.arm, &step.server));
        }
    }
    for (arm, server) in groups {
        let of: Vec<&Step> = steps.iter().filter(|step| step.arm == arm && step.server == server).collect();
        let sum = |tokens: &dyn Fn(&Step) -> usize| of.iter().map(|step| tokens(step)).sum::<usize>();
        let computed: Option<usize> = of.iter().map(|step| step.answer.computed_tokens()).sum();
        let ideal = sum(&|step| step.ideal);
        let mut first: Vec<f64> = of.iter().map(|step| step.answer.first_seconds).collect();
        first.sort_by(f64::total_cmp);
        let all: f64 = of.iter().map(|step| step.answer.seconds).sum();
        table.rows.push(vec![
            json!(arm.name()),
            json!(server),
            json!(of.len()),
            json!(sum(&|step| step.answer.prompt_tokens)),
            json!(computed),
            json!(ideal),
            json!(computed.map(|computed| computed as f64 / ideal as f64)),
            json!(median(&first)),
            json!(first[(first.len() - 1) * 95 / 100]),
            json!(all),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(arm: Arm, prompt: usize, cached: Option<usize>, ideal: usize) -> Step {
        let answer = Answer { prompt_tokens: prompt, cached_tokens: cached, first_seconds: 0.5, ..Answer::default() };
        Step { server: "a".into(), arm, agent: 0, turn: 1, ideal, answer }
    }

    #[test]
    fn arms_have_names_and_no_others() {
        assert!(ARMS.iter().all(|arm| arm.to_string().parse() == Ok(*arm)));
        assert!("three".parse::<Arm>().unwrap_err().contains("off, one, two"));
    }

    #[test]
    fn what_was_computed_is_held_against_the_ideal_for_each_arm() {
        let steps =
            [step(Arm::One, 100, Some(0), 100), step(Arm::One, 150, Some(100), 40), step(Arm::Head, 100, None, 100)];
        let rows = table(&steps).rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0][4..7], [json!(150), json!(140), json!(150.0 / 140.0)]);
        assert_eq!(rows[1][4..7], [json!(null), json!(100), json!(null)]);
    }

    #[test]
    fn children_go_on_from_their_parent_and_hear_different_things() {
        let length = Length { turns: 4, scale: 0.1 };
        let mut parent = Talk::new(0, length);
        parent.turn = 2;
        parent.held = 77;
        let children = children(&parent, length);
        assert_eq!(children.len(), CHILDREN);
        assert!(children.iter().all(|child| child.trace.turns[..2] == parent.trace.turns[..2] && child.held == 77));
        assert_ne!(children[0].trace.turns[2], children[1].trace.turns[2]);
        assert_eq!(children[0].trace.turns.len(), 4);
    }
}
