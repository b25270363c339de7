//! What does an agent send, turn after turn?
//!
//! A system prompt that explains tools, a task, and then results of tools of very different length: the same for every
//! server and every run. The answers in between are the server's own, as with a real agent, so that what was generated
//! can be reused.

use serde_json::{Value, json};

/// Tokens of a line of [`code`], roughly; only for the sizes below, nothing is counted by it.
const LINE_TOKENS: usize = 20;
/// The prompt that all turns share, in tokens, roughly.
pub const SYSTEM_TOKENS: usize = 10_000;
/// Results of tools, in tokens, roughly: the least and the most.
const RESULT_TOKENS: (usize, usize) = (30, 1_500);
/// Answers: the least and the most tokens that are asked for.
const ANSWER_TOKENS: (usize, usize) = (60, 450);

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the user or a tool says.
    pub said: String,
    /// Tokens of the answer, at most.
    pub tokens_max: usize,
}

/// A conversation without its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The system prompt.
    pub system: String,
    /// What follows.
    pub turns: Vec<Turn>,
}

impl Trace {
    /// The conversation of one agent: the same `agent` has the same, all agents have the same system prompt. `scale` makes
    /// every length that much shorter, for a quick look.
    pub fn new(agent: u64, turns: usize, scale: f64) -> Trace {
        let scaled = |tokens: usize| ((tokens as f64 * scale) as usize).max(2 * LINE_TOKENS);
        let mut random = Random(agent.wrapping_mul(0x9E37_79B9) ^ 0x00C1_0157);
        let mut between = |(least, most): (usize, usize)| scaled(least + random.next() % (most - least));
        let system = format!(
            "You are a coding agent. You repair programs with the tools read_file, search, edit and run_tests. Explain in \
             plain sentences what you see and what you do next.\n\n# The code that you know already\n\n{}",
            code(0, scaled(SYSTEM_TOKENS) / LINE_TOKENS)
        );
        let turns = (0..turns).map(|turn| Turn {
            said: match turn {
                0 => format!("Task {agent}: find out why step_{} gives a wrong number.", 7 + agent),
                _ => format!(
                    "Result of read_file, part {turn} of task {agent}:\n{}",
                    code(1_000 * (agent as usize + 1) + 50 * turn, between(RESULT_TOKENS) / LINE_TOKENS)
                ),
            },
            tokens_max: between(ANSWER_TOKENS),
        });
        Trace { turns: turns.collect(), system }
    }

    /// The system prompt as a message; `head` is a line that a client puts before it.
    pub fn system(&self, head: &str) -> Value {
        json!({ "role": "system", "content": format!("{head}{}", self.system) })
    }
}

/// `lines` lines of a program, from the line `first` on.
pub fn code(first: usize, lines: usize) -> String {
    (first..first + lines).map(|k| format!("fn step_{k}(x: u32) -> u32 {{ x * {} + {} }}\n", k % 97, k % 13)).collect()
}

/// Small steps of a linear congruence: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_always_says_the_same_and_two_agents_share_their_system_prompt_alone() {
        let (one, again, other) = (Trace::new(1, 30, 1.0), Trace::new(1, 30, 1.0), Trace::new(2, 30, 1.0));
        assert_eq!(one, again);
        assert_eq!(one.system, other.system);
        assert!(one.turns.iter().zip(&other.turns).all(|(a, b)| a.said != b.said));
    }

    #[test]
    fn lengths_are_those_of_an_agent() {
        let trace = Trace::new(1, 30, 1.0);
        let lines = |text: &str| text.lines().count();
        assert!((480..=510).contains(&lines(&trace.system)));
        let results: Vec<usize> = trace.turns[1..].iter().map(|turn| lines(&turn.said)).collect();
        assert!(results.iter().min() < Some(&15) && results.iter().max() > Some(&60), "{results:?}");
        assert!(trace.turns.iter().all(|turn| (60..450).contains(&turn.tokens_max)));
        assert!(Trace::new(1, 3, 0.1).system.len() < trace.system.len() / 8);
    }
}
