//! How does OpenAI's `/v1/completions` ask and answer?
//!
//! A prompt without a conversation: one text, in which control tokens count because the client lays it out itself, or its
//! ids. With `suffix` the gap between the two is filled, by the model family's own tokens, and nothing in either text
//! counts as control.

use serde_json::{Value, json};

use super::chat::include_usage;
use super::{Answer, Dialect, End, Frame, Part, id, now};
use crate::api::ask::{self, Ask, Prompt};
use crate::api::error::ApiError;
use crate::api::fields::Fields;
use crate::api::tokens::read_ids;
use crate::api::{scored, wanted};

/// The length of an answer where the request leaves it open, as OpenAI has it.
const TOKENS_MAX_DEFAULT: usize = 16;

/// What is the same in every object of one answer.
pub(in crate::api) struct Completions {
    id: String,
    created: u64,
    model: String,
    /// Chunks then carry `usage: null`, and the last one the numbers.
    include_usage: bool,
    /// Where the next token of each answer begins, in characters.
    offsets: Vec<usize>,
}

impl Dialect for Completions {
    const PROMPT: &'static str = "prompt";

    fn read(fields: &Fields, seed: u64) -> Result<(Ask, Self), ApiError> {
        refuse_unsupported(fields)?;
        let prompt = match (prompt(fields)?, fields.string("suffix")?) {
            (prompt, None) => prompt,
            (Prompt::Text(prefix), Some(suffix)) => Prompt::Fill { prefix, suffix: suffix.to_owned() },
            _ => return Err(fields.refuse("suffix", "unsupported_value", "a suffix needs a prompt that is text")),
        };
        let ask = Ask {
            tokens_max: ask::tokens(fields, "max_tokens")?.or(Some(TOKENS_MAX_DEFAULT)),
            stop: ask::stop(fields, "stop")?,
            bias: wanted::bias(fields)?,
            logprobs: wanted::completion_logprobs(fields)?,
            choices: wanted::choices(fields)?,
            ..Ask::read(fields, prompt, seed)?
        };
        let include_usage = include_usage(fields)?;
        let (model, offsets) = (ask.model.clone(), vec![0; ask.choices]);
        let own = Self { id: id("cmpl-"), created: now(), model, include_usage, offsets };
        Ok((ask, own))
    }

    fn text(&mut self, part: &Part) -> Vec<Frame> {
        let (logprobs, offset) = scored::completion(part.scored, self.offsets[part.choice]);
        self.offsets[part.choice] = offset;
        let choice = choice(part.choice, part.text, logprobs, None);
        vec![Frame::data(self.object(json!([choice]), self.include_usage.then_some(Value::Null)))]
    }

    fn end(&mut self, index: usize, end: &End, last: bool) -> Vec<Frame> {
        let choice = choice(index, "", Value::Null, Some(end.finish_word()));
        let usage = self.include_usage.then_some(Value::Null);
        let mut frames = vec![Frame::data(self.object(json!([choice]), usage))];
        if last {
            if self.include_usage {
                frames.push(Frame::data(self.object(json!([]), Some(end.usage_json()))));
            }
            frames.push(Frame::data("[DONE]"));
        }
        frames
    }

    fn failed(&mut self, error: &ApiError) -> Vec<Frame> {
        vec![Frame::data(error.to_json())]
    }

    fn whole(&mut self, answers: &[Answer]) -> Value {
        let one = |answer: &Answer| {
            let (logprobs, _) = scored::completion(&answer.scored, 0);
            choice(answer.choice, &answer.said, logprobs, Some(answer.end.finish_word()))
        };
        self.object(answers.iter().map(one).collect(), Some(answers[0].end.usage_json()))
    }
}

impl Completions {
    fn object(&self, choices: Value, usage: Option<Value>) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            object["usage"] = usage;
        }
        object
    }
}

fn choice(index: usize, text: &str, logprobs: Value, finish: Option<&'static str>) -> Value {
    json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish})
}

/// One text or the ids of one; a list that holds one of them is the same.
fn prompt(fields: &Fields) -> Result<Prompt, ApiError> {
    let prompt = fields.get("prompt").ok_or_else(|| fields.missing("prompt"))?;
    let one = match prompt {
        Value::Array(items) if matches!(items[..], [Value::String(_) | Value::Array(_)]) => &items[0],
        other => other,
    };
    match one {
        Value::String(text) => Ok(Prompt::Text(text.clone())),
        Value::Array(items) if items.iter().any(|item| item.is_string() || item.is_array()) => {
            Err(fields.refuse("prompt", "unsupported_value", "only one prompt in a request is supported"))
        }
        Value::Array(items) => Ok(Prompt::Ids(read_ids("prompt", items)?)),
        other => Err(fields.wrong_type("prompt", "a string or a list of token ids", other)),
    }
}

/// Refuses what would be a different answer from the one asked for.
fn refuse_unsupported(fields: &Fields) -> Result<(), ApiError> {
    if fields.integer("best_of", i64::MIN, i64::MAX)?.is_some_and(|best_of| best_of != 1) {
        return Err(fields.refuse(
            "best_of",
            "unsupported_value",
            "only 1 is supported: all answers are given, see 'n'",
        ));
    }
    if fields.boolean("echo")?.unwrap_or(false) {
        return Err(fields.refuse("echo", "unsupported_value", "only false is supported: the prompt is not repeated"));
    }
    Ok(())
}
