//! How does the real engine stand behind the server?

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;

use super::Backend;
use crate::grammar::{Grammar, GrammarError, Shape};
use crate::{Engine, Event, GenerateRequest, Message, Special, SubmitError};

/// The engine, under the name by which clients ask for its model.
#[derive(Clone)]
pub struct Served {
    /// The name. Not the one inside the file, which its makers chose and which need not be unique.
    pub name: String,
    /// The engine.
    pub engine: Engine,
}

impl Backend for Served {
    fn model_id(&self) -> &str {
        &self.name
    }

    fn context_tokens(&self) -> usize {
        self.engine.info().context_tokens
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    fn encode_chat(&self, messages: &[Message], tools: &[Value]) -> Result<Vec<u32>, String> {
        let tools = (!tools.is_empty()).then_some(tools);
        self.engine.chat().encode(messages, tools, true).map_err(|error| error.to_string())
    }

    fn encode_text(&self, text: &str, special: Special) -> Vec<u32> {
        self.engine.chat().tokenizer().encode(text, special)
    }

    fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let tokenizer = self.engine.chat().tokenizer();
        ((id as usize) < tokenizer.len()).then(|| tokenizer.bytes(id))
    }

    fn control_id(&self, token: &str) -> Option<u32> {
        self.engine.chat().tokenizer().control_id(token)
    }

    fn grammar(&self, shape: Shape) -> Result<Grammar, GrammarError> {
        self.engine.grammar(shape)
    }

    fn submit(&self, request: GenerateRequest) -> Result<BoxStream<'static, Event>, SubmitError> {
        let generation = self.engine.submit(request)?;
        // The stream owns the generation, so that dropping the one cancels the other.
        Ok(stream::unfold(generation, async |mut generation| Some((generation.next().await?, generation))).boxed())
    }
}
