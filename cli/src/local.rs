//! Who speaks? The engine in this process behind the agent's [`Model`] trait.

use crate::exit::Fatal;
use agent::Model;
use agent::model::{Flow, ModelError, Reply, Request, Usage};
use inference::{Engine, EngineSettings, Event, FinishReason, GenerateRequest, Sampling, Special, SubmitError};
use models::Weights;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Loads a chat model.
pub fn load(weights: &Weights) -> Result<Engine, Fatal> {
    let Some(gguf) = weights.gguf() else {
        let error = anyhow::anyhow!("`{}` has no .gguf file", weights.name);
        return Err(Fatal::missing(error, "name a chat model; `cloister models list` shows them"));
    };
    let hint = format!("`cloister models verify {}` says whether the file is whole", weights.name);
    Engine::load(&gguf.path, EngineSettings::default()).map_err(|error| Fatal::missing(error, hint))
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
        let wanted =
            GenerateRequest { prompt, sampling, tokens_max: request.tokens_max, stop: Vec::new(), cache: true };
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
