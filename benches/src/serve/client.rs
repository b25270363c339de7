//! What does a server answer, and when did it say so?
//!
//! OpenAI's chat completions as a stream of server-sent events. Times are taken where a piece of text arrives. What was
//! computed and what was reused is as the server says: `usage.prompt_tokens_details.cached_tokens`, or the `timings`
//! of llama.cpp's server; what it does not say is unknown, not zero.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

const CONNECT_SECONDS_MAX: u64 = 10;
/// A prompt of 10,000 tokens may take a slow server five minutes.
const ANSWER_SECONDS_MAX: u64 = 3600;
const STREAM_BYTES_MAX: u64 = 64 << 20;
const LIST_BYTES_MAX: u64 = 1 << 20;

/// A server, and the model that it is asked for.
pub struct Server {
    /// As it is called in the tables.
    pub name: String,
    base: String,
    model: String,
    agent: ureq::Agent,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// All pieces of its text.
    pub text: String,
    /// From the request to the first piece of text, in seconds.
    pub first_seconds: f64,
    /// From the request to the last piece of text, in seconds.
    pub seconds: f64,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of it that were not computed again, if the server says so.
    pub cached_tokens: Option<usize>,
    /// Tokens of the answer.
    pub generated_tokens: usize,
}

impl Answer {
    /// Tokens of the prompt that were computed, if the server says so.
    pub fn computed_tokens(&self) -> Option<usize> {
        self.cached_tokens.map(|cached| self.prompt_tokens.saturating_sub(cached))
    }

    /// Tokens a second after the first one; `None` of fewer than two.
    pub fn decode_rate(&self) -> Option<f64> {
        let seconds = self.seconds - self.first_seconds;
        (self.generated_tokens > 1 && seconds > 0.0).then(|| (self.generated_tokens - 1) as f64 / seconds)
    }
}

impl Server {
    /// Understands `NAME=URL` and `NAME=URL#MODEL`; without a model the first that the server lists is taken.
    pub fn connect(given: &str) -> Result<Server> {
        let (name, url) = given.split_once('=').context("a server is given as NAME=URL")?;
        let (base, model) = url.split_once('#').unwrap_or((url, ""));
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS_MAX)))
            .timeout_global(Some(Duration::from_secs(ANSWER_SECONDS_MAX)))
            .proxy(None)
            .max_redirects(0)
            .build();
        let mut server = Server {
            name: name.to_owned(),
            base: base.trim_end_matches('/').to_owned(),
            model: model.to_owned(),
            agent: config.into(),
        };
        let listed = server.first_model()?;
        if server.model.is_empty() {
            server.model = listed;
        }
        Ok(server)
    }

    /// The first model that the server lists: it is there.
    pub fn first_model(&self) -> Result<String> {
        let url = format!("{}/models", self.base);
        let mut answer = self.agent.get(&url).call().with_context(|| url.clone())?;
        let text =
            answer.body_mut().with_config().limit(LIST_BYTES_MAX).read_to_string().with_context(|| url.clone())?;
        let listed: Value = serde_json::from_str(&text).with_context(|| format!("{url} gave no JSON"))?;
        listed["data"][0]["id"].as_str().map(str::to_owned).with_context(|| format!("{url} lists no model"))
    }

    /// Asks for the next message, greedily. `reuse` is false where nothing cached may be used (`cache_prompt`, a field of
    /// llama.cpp's server that ours knows too).
    pub fn chat(&self, messages: &[Value], tokens_max: usize, reuse: bool) -> Result<Answer> {
        let url = format!("{}/chat/completions", self.base);
        let mut body = json!({
            "model": self.model, "messages": messages, "max_tokens": tokens_max, "temperature": 0.0, "seed": 0,
            "stream": true, "stream_options": { "include_usage": true },
        });
        if !reuse {
            body["cache_prompt"] = false.into();
        }
        let begun = Instant::now();
        let sent = self.agent.post(&url).header("content-type", "application/json").send(body.to_string());
        let mut answer = sent.with_context(|| url.clone())?;
        if !answer.status().is_success() {
            bail!("{url} answered {}", answer.status());
        }
        let stream = BufReader::new(answer.body_mut().as_reader().take(STREAM_BYTES_MAX));
        read(stream, || begun.elapsed().as_secs_f64()).with_context(|| format!("the stream of {url}"))
    }
}

/// Reads a stream to its end; `now` tells the seconds since the request.
fn read(stream: impl BufRead, now: impl Fn() -> f64) -> Result<Answer> {
    let mut answer = Answer::default();
    let mut ended = false;
    for line in stream.lines() {
        let line = line?;
        let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" {
            ended = true;
            break;
        }
        let event: Value = serde_json::from_str(data).with_context(|| format!("not JSON: {data:.200}"))?;
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            bail!("the server gave up: {error}");
        }
        let delta = &event["choices"][0]["delta"];
        let piece = delta["content"].as_str().unwrap_or_default();
        // A call is text as well, in another field.
        let called = delta["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        if !piece.is_empty() || called {
            answer.seconds = now();
            if answer.first_seconds == 0.0 {
                answer.first_seconds = answer.seconds;
            }
            answer.text.push_str(piece);
        }
        told(&event, &mut answer);
    }
    if !ended {
        bail!("it ended early, after {} bytes of text", answer.text.len());
    }
    if answer.prompt_tokens == 0 {
        bail!("the server does not say how many tokens the prompt has");
    }
    // An answer without text was there when its numbers were.
    if answer.first_seconds == 0.0 {
        answer.seconds = now();
        answer.first_seconds = answer.seconds;
    }
    Ok(answer)
}

fn told(event: &Value, answer: &mut Answer) {
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let usage = &event["usage"];
    if let Some(tokens) = number(&usage["prompt_tokens"]) {
        answer.prompt_tokens = tokens;
        answer.generated_tokens = number(&usage["completion_tokens"]).unwrap_or(0);
    }
    if let Some(cached) = number(&usage["prompt_tokens_details"]["cached_tokens"]) {
        answer.cached_tokens = Some(cached);
    }
    if let (Some(computed), None) = (number(&event["timings"]["prompt_n"]), answer.cached_tokens) {
        answer.cached_tokens = Some(answer.prompt_tokens.saturating_sub(computed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn read_at(stream: &str) -> Result<Answer> {
        let clock = Cell::new(0.0);
        read(stream.as_bytes(), || {
            clock.set(clock.get() + 1.0);
            clock.get()
        })
    }

    #[test]
    fn pieces_are_timed_and_the_usage_is_read() {
        let answer = read_at(concat!(
            ": a comment\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\" two\"}}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\n",
            "data: [DONE]\n\n",
        ))
        .unwrap();
        assert_eq!((answer.text.as_str(), answer.first_seconds, answer.seconds), ("one two", 1.0, 2.0));
        assert_eq!((answer.prompt_tokens, answer.computed_tokens(), answer.generated_tokens), (9, Some(2), 3));
        assert_eq!(answer.decode_rate(), Some(2.0));
    }

    #[test]
    fn what_a_server_does_not_say_is_unknown() {
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n";
        let answer = read_at(&format!("{usage}data: [DONE]\n")).unwrap();
        assert_eq!((answer.cached_tokens, answer.computed_tokens(), answer.decode_rate()), (None, None, None));
        let timings = usage.replace("\"choices\"", "\"timings\":{\"prompt_n\":4},\"choices\"");
        assert_eq!(read_at(&format!("{timings}data: [DONE]\n")).unwrap().computed_tokens(), Some(4));
    }

    #[test]
    fn a_stream_that_breaks_off_or_fails_is_an_error() {
        for (stream, words) in [
            ("", "ended early"),
            ("data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n", "ended early, after 3 bytes"),
            ("data: {\"error\":{\"message\":\"no\"}}\n", "gave up"),
            ("data: nonsense\n", "not JSON"),
            ("data: [DONE]\n", "how many tokens"),
        ] {
            let error = read_at(stream).unwrap_err().to_string();
            assert!(error.contains(words), "{stream:?}: {error}");
        }
    }
}
