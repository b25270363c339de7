//! How many tokens a second does a server compute, and how long does a cached prompt keep one waiting?
//!
//! Servers are asked in turns, each question `repeats` times with another first line, so that nothing of one repetition is
//! cached in the next. How many tokens a text has is the server's own count: lines of [`code`] are weighed first.

use super::client::Server;
use super::median;
use super::trace::code;
use crate::table::Table;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tokens of the end of a long prompt that is cached but for its end.
const NEW_TOKENS: usize = 30;
const DECODED_TOKENS: usize = 32;
/// Lines of the file that is written anew.
const FILE_LINES: usize = 150;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// A prompt of so many tokens, nothing of it cached: tokens a second.
    Prefill(usize),
    /// Generation behind a prompt of so many tokens: tokens a second.
    Decode(usize),
    /// A prompt of so many cached tokens and 30 new ones: seconds to the first token.
    Cached(usize),
    /// A file of 150 lines, written anew with one change: seconds.
    Rewrite,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Prefill(tokens) => write!(f, "prefill:{tokens}"),
            Measure::Decode(tokens) => write!(f, "decode:{tokens}"),
            Measure::Cached(tokens) => write!(f, "cached:{tokens}"),
            Measure::Rewrite => f.write_str("rewrite"),
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Measure, String> {
        let (name, size) = text.split_once(':').unwrap_or((text, ""));
        let tokens = size.parse().ok().filter(|tokens| (64..1 << 20).contains(tokens));
        match (name, tokens) {
            ("prefill", Some(tokens)) => Ok(Measure::Prefill(tokens)),
            ("decode", Some(tokens)) => Ok(Measure::Decode(tokens)),
            ("cached", Some(tokens)) => Ok(Measure::Cached(tokens)),
            ("rewrite", None) if size.is_empty() => Ok(Measure::Rewrite),
            _ => Err("give prefill:TOKENS, decode:TOKENS, cached:TOKENS (64 or more) or rewrite".into()),
        }
    }
}

impl Measure {
    fn unit(self) -> &'static str {
        match self {
            Measure::Prefill(_) | Measure::Decode(_) => "tokens/s",
            Measure::Cached(_) | Measure::Rewrite => "s",
        }
    }

    /// How much better `value` is than `other`, as a factor.
    fn times_better(self, value: f64, other: f64) -> f64 {
        if self.unit() == "s" { other / value } else { value / other }
    }
}

/// A server, and what its tokens weigh.
struct Weighed<'a> {
    server: &'a Server,
    /// Tokens of a line of [`code`].
    line: f64,
    /// Tokens around it.
    around: f64,
}

impl Weighed<'_> {
    fn weigh(server: &Server) -> Result<Weighed<'_>> {
        let tokens =
            |lines| Ok::<_, anyhow::Error>(server.chat(&[user(code(100, lines))], 1, true)?.prompt_tokens as f64);
        let (few, many) = (tokens(20)?, tokens(60)?);
        if many <= few {
            bail!("{} counts as many tokens for 20 lines as for 60", server.name);
        }
        let line = (many - few) / 40.0;
        Ok(Weighed { server, line, around: few - 20.0 * line })
    }

    /// A text that is about `tokens` long as the only message.
    fn text(&self, salt: &str, tokens: usize) -> String {
        let lines = ((tokens as f64 - self.around) / self.line).round().max(1.0) as usize;
        format!("{salt}\n{}", code(100, lines - 1))
    }

    fn measure(&self, measure: Measure, salt: &str) -> Result<f64> {
        let ask = |message: String, tokens_max| self.server.chat(&[user(message)], tokens_max, true);
        match measure {
            Measure::Prefill(tokens) => {
                let answer = ask(self.text(salt, tokens), 1)?;
                let computed = answer.computed_tokens().unwrap_or(answer.prompt_tokens);
                Ok(computed as f64 / answer.first_seconds)
            }
            Measure::Decode(tokens) => {
                let order = "Continue this list of functions up to step_4000 in the same way, as code.";
                // The prompt is the same each time: only what comes after it counts.
                let answer = ask(format!("{}\n{order}", self.text("decode", tokens)), DECODED_TOKENS)?;
                let name = &self.server.name;
                answer.decode_rate().with_context(|| format!("{name} ended after {} tokens", answer.generated_tokens))
            }
            Measure::Cached(tokens) => {
                let text = self.text("cached", tokens);
                ask(text.clone(), 1)?;
                let new = code(salt.len() * 7 + 3, (NEW_TOKENS as f64 / self.line).round().max(1.0) as usize);
                Ok(ask(format!("{text}{salt}\n{new}"), 1)?.first_seconds)
            }
            Measure::Rewrite => {
                let file = code(100, FILE_LINES);
                let order = "Write this whole file again with one change: step_140 is called first_step. Answer with the code alone.";
                let tokens_max = (FILE_LINES as f64 * self.line * 1.2) as usize;
                Ok(ask(format!("{order} ({salt})\n\n{file}"), tokens_max)?.seconds)
            }
        }
    }
}

fn user(content: String) -> Value {
    json!({ "role": "user", "content": content })
}

/// Measures everything at every server, in turns. `heard` is told each number as it comes.
pub fn run(
    servers: &[Server],
    measures: &[Measure],
    repeats: usize,
    heard: &dyn Fn(&str),
    cancel: &AtomicBool,
) -> Result<Table> {
    let weighed = servers.iter().map(Weighed::weigh).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for &measure in measures {
        let mut numbers = vec![Vec::new(); servers.len()];
        for repeat in 0..repeats {
            for (server, numbers) in weighed.iter().zip(&mut numbers) {
                if cancel.load(Ordering::Relaxed) {
                    bail!("cancelled");
                }
                let number = server.measure(measure, &format!("run {repeat} of {}", std::process::id()))?;
                heard(&format!("{measure} {}: {number:.3} {}", server.server.name, measure.unit()));
                numbers.push(number);
            }
        }
        let numbers: Vec<(&str, Vec<f64>)> = servers.iter().map(|server| server.name.as_str()).zip(numbers).collect();
        rows.extend(compared(measure, &numbers));
    }
    let head = ["what", "unit", "server", "median", "least", "most", "runs", "times the best other"];
    let mut table = Table::new("one request at a time", &head);
    table.rows = rows;
    Ok(table)
}

fn compared(measure: Measure, numbers: &[(&str, Vec<f64>)]) -> Vec<Vec<Value>> {
    let row = |(at, (name, own)): (usize, &(&str, Vec<f64>))| {
        let middle = median(own);
        let others = numbers.iter().enumerate().filter(|(other, _)| *other != at);
        let times = others.map(|(_, (_, other))| measure.times_better(middle, median(other))).reduce(f64::min);
        vec![
            json!(measure.to_string()),
            json!(measure.unit()),
            json!(name),
            json!(middle),
            json!(own.iter().copied().reduce(f64::min)),
            json!(own.iter().copied().reduce(f64::max)),
            json!(own.len()),
            json!(times),
        ]
    };
    numbers.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_written_as_it_is_read() {
        for text in ["prefill:512", "decode:8192", "cached:10000", "rewrite"] {
            assert_eq!(text.parse::<Measure>().map(|measure| measure.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "prefill", "prefill:x", "prefill:0", "rewrite:3", "decode:99999999999"] {
            assert!(text.parse::<Measure>().unwrap_err().contains("prefill:TOKENS"), "{text}");
        }
    }

    #[test]
    fn every_server_is_compared_with_the_best_of_the_others() {
        let numbers = [("ours", vec![9.0, 10.0, 11.0]), ("slow", vec![2.0]), ("fast", vec![5.0])];
        let times = |measure| compared(measure, &numbers).into_iter().map(|row| row[7].clone()).collect::<Vec<_>>();
        assert_eq!(times(Measure::Prefill(512)), [json!(2.0), json!(0.2), json!(0.5)]);
        // Seconds: fewer are better.
        assert_eq!(times(Measure::Rewrite), [json!(0.2), json!(2.5), json!(0.4)]);
        assert_eq!(compared(Measure::Rewrite, &numbers[..1])[0][7], json!(null));
    }
}
