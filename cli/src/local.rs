//! Who speaks? The engine in this process behind the agent's [`Model`] trait.

use crate::exit::Fatal;
use crate::state::State;
use agent::Model;
use agent::model::{Flow, ModelError, Reply, Request, Usage};
use inference::kv::DiskCache;
use inference::{Engine, EngineSettings, Event, FinishReason, GenerateRequest, Sampling, Special, SubmitError};
use models::{Digest, Weights};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Loads a chat model; what it computes outlives the process in at most `disk_mib` MiB.
pub fn load(state: &State, weights: &Weights, disk_mib: u64) -> Result<Engine, Fatal> {
    let Some(gguf) = weights.gguf() else {
        let error = anyhow::anyhow!("`{}` has no .gguf file", weights.name);
        return Err(Fatal::missing(error, "name a chat model; `cloister models list` shows them"));
    };
    let hint = format!("`cloister models verify {}` says whether the file is whole", weights.name);
    let disk = disk(state, gguf, disk_mib)?;
    Engine::load_over(&gguf.path, EngineSettings::default(), disk).map_err(|error| Fatal::missing(error, hint))
}

fn disk(state: &State, gguf: &models::WeightFile, disk_mib: u64) -> Result<Option<DiskCache>, Fatal> {
    if disk_mib == 0 {
        return Ok(None);
    }
    let path = state.kv();
    // Of a file outside of the store nobody has said what it hashes to.
    let digest = gguf.sha256.map_or_else(|| Digest::of_file(&gguf.path), Ok);
    let digest = digest.map_err(|error| Fatal::missing(error, format!("{} must be readable", gguf.path.display())))?;
    let log = Box::new(|line: &str| eprintln!("note: {line}"));
    let opened = DiskCache::open(&path, disk_mib.saturating_mul(1 << 20), &digest.to_string(), log);
    let hint = || format!("{} must be writable; --kv-disk 0 keeps nothing there", path.display());
    opened.map(Some).map_err(|error| Fatal::missing(error, hint()))
}

/// The engine in this process.
pub struct LocalModel {
    /// The engine.
    pub engine: Engine,
    /// The model's name in the catalogue.
    pub name: String,
}

impl Model for LocalModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_tokens_max(&self) -> usize {
        self.engine.info().context_tokens
    }

    fn complete(
        &mut self,
        request: &Request,
        on_text: &mut dyn FnMut(&str) -> Flow,
        cancel: &AtomicBool,
    ) -> Result<Reply, ModelError> {
        let start = Instant::now();
        let failed = |error: &dyn std::fmt::Display| ModelError::Failed(error.to_string());
        let messages: Vec<inference::Message> = request.messages.iter().map(message).collect();
        let chat = self.engine.chat();
        let mut prompt = chat.encode(&messages, None, true).map_err(|error| failed(&error))?;
        prompt.extend(chat.tokenizer().encode(&request.prefix, Special::Forbid));
        let sampling = Sampling {
            temperature: request.sampling.temperature,
            top_p: request.sampling.top_p,
            top_k: 0,
            seed: request.sampling.seed,
        };
        let wanted = GenerateRequest { sampling, ..GenerateRequest::greedy(prompt, request.tokens_max) };
        let mut generation = self.engine.submit(wanted).map_err(|error| match error {
            SubmitError::PromptTooLong { prompt_tokens, context_tokens_max } => {
                ModelError::ContextFull { prompt_tokens, context_tokens_max }
            }
            error => failed(&error),
        })?;
        let mut text = request.prefix.clone();
        let mut enough = false;
        while let Some(event) = generation.recv() {
            if cancel.load(Ordering::Relaxed) {
                generation.cancel();
            }
            match event {
                Event::Started { .. } => {}
                Event::Text { text: piece, .. } if !enough => {
                    text.push_str(&piece);
                    if on_text(&text) == Flow::Enough {
                        enough = true;
                        generation.cancel();
                    }
                }
                Event::Text { .. } => {}
                Event::Done(finish) => {
                    if let FinishReason::Failed(why) = &finish.reason {
                        return Err(ModelError::Failed(why.clone()));
                    }
                    if finish.reason == FinishReason::Cancelled && !enough {
                        return Err(ModelError::Cancelled);
                    }
                    let complete = finish.reason != FinishReason::Length;
                    let usage = Usage {
                        prompt_tokens: finish.usage.prompt_tokens,
                        cached_tokens: finish.usage.cached_tokens,
                        generated_tokens: finish.usage.generated_tokens,
                        millis: start.elapsed().as_millis() as u64,
                    };
                    return Ok(Reply { text, usage, complete });
                }
            }
        }
        Err(ModelError::Failed("the engine went away without an answer".into()))
    }
}

fn message(message: &agent::model::Message) -> inference::Message {
    let role = match message.role {
        agent::model::Role::System => inference::Role::System,
        agent::model::Role::User => inference::Role::User,
        agent::model::Role::Assistant => inference::Role::Assistant,
    };
    inference::Message::new(role, message.content.clone())
}
