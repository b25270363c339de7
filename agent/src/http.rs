//! How is a model behind a URL spoken to? The OpenAI chat API, streamed, so that a finished action ends the reply.

use crate::model::{Flow, Model, ModelError, Reply, Request, Usage};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

const CONNECT_SECONDS_MAX: u64 = 10;
const CALL_SECONDS_MAX: u64 = 1_800;
const LINE_BYTES_MAX: u64 = 1024 * 1024;
const LINES_WAITING_MAX: usize = 64;
/// How often a silent server lets us look whether somebody pressed Ctrl-C.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// A model behind `<base>/chat/completions`.
#[derive(Clone)]
pub struct HttpModel {
    base: String,
    name: String,
    context_tokens_max: usize,
    agent: ureq::Agent,
}

impl HttpModel {
    /// `base` ends in `/v1`; `name` is what the server calls the model.
    pub fn new(base: &str, name: &str, context_tokens_max: usize) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS_MAX)))
            .timeout_global(Some(Duration::from_secs(CALL_SECONDS_MAX)))
            .http_status_as_error(false)
            .build();
        Self { base: base.trim_end_matches('/').into(), name: name.into(), context_tokens_max, agent: config.into() }
    }

    /// The first model that the server lists, for a person who named none.
    pub fn first_model(base: &str) -> Result<String, ModelError> {
        let url = format!("{}/models", base.trim_end_matches('/'));
        let text = ureq::get(&url).call().map_err(|error| failed(&url, &error))?.body_mut().read_to_string();
        let text = text.map_err(|error| failed(&url, &error))?;
        let listed: Value = serde_json::from_str(&text).map_err(|error| failed(&url, &error))?;
        let name = listed["data"][0]["id"].as_str().or_else(|| listed["models"][0]["name"].as_str());
        name.map(str::to_owned).ok_or_else(|| ModelError::Failed(format!("{url} lists no model")))
    }

    /// The lines of the answer. Reading blocks for as long as the server is silent, so a thread of its own does it; it
    /// ends with the first line that nobody waits for.
    fn lines(&self, request: &Request) -> Receiver<Result<Vec<u8>, ModelError>> {
        let (send, lines) = sync_channel(LINES_WAITING_MAX);
        let (model, request) = (self.clone(), request.clone());
        std::thread::spawn(move || {
            let mut answer = match model.open(&request) {
                Ok(answer) => answer,
                Err(error) => return drop(send.send(Err(error))),
            };
            loop {
                let mut line = Vec::new();
                let read = answer.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
                let told = read.map(|_| line).map_err(|error| failed(&model.base, &error));
                let last = told.as_ref().map_or(true, |line| !line.ends_with(b"\n"));
                if send.send(told).is_err() || last {
                    return;
                }
            }
        });
        lines
    }

    fn open(&self, request: &Request) -> Result<impl BufRead + use<>, ModelError> {
        let url = format!("{}/chat/completions", self.base);
        let body = json!({
            "model": self.name,
            "messages": request.messages,
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            "seed": request.sampling.seed,
            "max_tokens": request.tokens_max,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        let sent = self.agent.post(&url).header("content-type", "application/json").send(body.to_string());
        let mut response = sent.map_err(|error| failed(&url, &error))?;
        if !response.status().is_success() {
            let status = response.status();
            let text = response.body_mut().read_to_string().unwrap_or_default();
            if text.contains("context_length_exceeded") || text.contains("exceed_context_size") {
                return Err(ModelError::ContextFull { prompt_tokens: 0, context_tokens_max: self.context_tokens_max });
            }
            let text: String = text.chars().take(400).collect();
            return Err(ModelError::Failed(format!("{url} answered {status}: {text}")));
        }
        Ok(BufReader::new(response.into_body().into_reader()))
    }
}

impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_tokens_max(&self) -> usize {
        self.context_tokens_max
    }

    fn complete(
        &mut self,
        request: &Request,
        on_text: &mut dyn FnMut(&str) -> Flow,
        cancel: &AtomicBool,
    ) -> Result<Reply, ModelError> {
        let start = Instant::now();
        let lines = self.lines(request);
        let mut reply = Reply { text: String::new(), usage: Usage::default(), complete: true };
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(ModelError::Cancelled);
            }
            let line = match lines.recv_timeout(CANCEL_POLL) {
                Ok(line) => line?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let Some(data) = std::str::from_utf8(&line).ok().and_then(|line| line.trim().strip_prefix("data:")) else {
                continue;
            };
            if data.trim() == "[DONE]" {
                break;
            }
            let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
            if let Some(error) = event.get("error") {
                return Err(ModelError::Failed(error.to_string()));
            }
            read_usage(&event, &mut reply.usage);
            let choice = &event["choices"][0];
            reply.complete &= choice["finish_reason"] != "length";
            if let Some(piece) = choice["delta"]["content"].as_str().filter(|piece| !piece.is_empty()) {
                reply.text += piece;
                reply.usage.generated_tokens = reply.usage.generated_tokens.max(1);
                if on_text(&reply.text) == Flow::Enough {
                    break;
                }
            }
        }
        reply.usage.millis = start.elapsed().as_millis() as u64;
        Ok(reply)
    }
}

fn read_usage(event: &Value, usage: &mut Usage) {
    let number = |value: &Value| value.as_u64().map(|n| n as usize);
    if let Some(prompt) = number(&event["usage"]["prompt_tokens"]) {
        usage.prompt_tokens = prompt;
        usage.generated_tokens = number(&event["usage"]["completion_tokens"]).unwrap_or(usage.generated_tokens);
        usage.cached_tokens = number(&event["usage"]["prompt_tokens_details"]["cached_tokens"]).unwrap_or(0);
    }
}

fn failed(url: &str, error: &dyn std::fmt::Display) -> ModelError {
    ModelError::Failed(format!("{url}: {error}"))
}
