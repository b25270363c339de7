//! Which tokens does this conversation have?
//!
//! The model's own template lays the conversation out as text; this folder turns that into ids under two rules:
//!
//! - **No message can speak as another.** A control token counts only where the template wrote it. Inside contents,
//!   arguments and tool descriptions the same characters are ordinary text.
//! - **What was generated is not retokenised.** The ids that the model produced for a turn are remembered with its text;
//!   when the turn comes back in a later prompt, the same ids are used and the KV computed for them fits.

mod json;
mod message;
mod remembered;
mod template;

pub use message::{Message, Role, ToolCall};
pub use template::{ChatError, Template};

use crate::tokenizer::{Piece, Special, Tokenizer};
use remembered::Remembered;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Turns conversations into ids, for one model.
pub struct Chat {
    template: Template,
    tokenizer: Arc<Tokenizer>,
    remembered: Mutex<Remembered>,
}

impl Chat {
    /// A chat over `template`, in the vocabulary of `tokenizer`.
    pub fn new(template: Template, tokenizer: Arc<Tokenizer>) -> Chat {
        Chat { template, tokenizer, remembered: Mutex::new(Remembered::default()) }
    }

    /// The vocabulary.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The text that the template makes of a conversation, as the reference implementation makes it. For reading and
    /// for tests; [`Chat::encode`] does not go through it, because this text no longer tells whose words are whose.
    pub fn render(
        &self,
        messages: &[Message],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        self.template.render(messages, tools, add_generation_prompt)
    }

    /// The ids of a conversation. `tools` are JSON schemas in the OpenAI form.
    pub fn encode(
        &self,
        messages: &[Message],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
    ) -> Result<Vec<u32>, ChatError> {
        let mark = unused_mark(messages, tools).ok_or(ChatError::NoMark)?;
        let mut marked = messages.to_vec();
        let mut turns: Vec<Arc<[u32]>> = Vec::new();
        for message in &mut marked {
            if message.role == Role::Assistant
                && let Some(ids) = self.lock().find(&message.content)
            {
                message.content = format!("{mark}{}{mark}", turns.len());
                turns.push(ids);
                message.each_text(&mut |text| self.mark_control(text, mark), false);
            } else {
                message.each_text(&mut |text| self.mark_control(text, mark), true);
            }
        }
        let tools: Option<Vec<Value>> = tools.map(|tools| {
            let mut tools = tools.to_vec();
            tools.iter_mut().for_each(|tool| message::each_json_text(tool, &mut |text| self.mark_control(text, mark)));
            tools
        });
        let text = self.template.render(&marked, tools.as_deref(), add_generation_prompt)?;
        Ok(self.encode_marked(&text, mark, &turns))
    }

    /// Remembers that the model produced exactly `ids` for the turn whose text is `text`.
    pub fn remember(&self, text: &str, ids: &[u32]) {
        if !text.is_empty() && self.tokenizer.decode(ids) == text {
            self.lock().insert(text, ids);
        }
    }

    /// Breaks up what looks like a control token, so that the cut in [`Chat::encode_marked`] does not see it.
    fn mark_control(&self, text: &mut String, mark: char) {
        for token in self.tokenizer.control_tokens() {
            if text.contains(token) {
                let first = token.chars().next().map_or(0, char::len_utf8);
                let broken = format!("{}{mark}{}", &token[..first], &token[first..]);
                *text = text.replace(token, &broken);
            }
        }
    }

    /// Ids of rendered text in which `mark` breaks up what must stay text and `mark N mark` stands for turn `N`.
    fn encode_marked(&self, text: &str, mark: char, turns: &[Arc<[u32]>]) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.each_piece(text, |piece| match piece {
            Piece::Control(id) => ids.push(id),
            Piece::Text(text) => {
                let mut plain = String::new();
                let mut parts = text.split(mark).peekable();
                plain.push_str(parts.next().unwrap_or_default());
                while let Some(part) = parts.next() {
                    // A broken control token goes on with the rest of the token; a turn is a number and closed by a mark.
                    match part.parse::<usize>().ok().and_then(|i| turns.get(i)) {
                        Some(turn) if parts.peek().is_some() => {
                            ids.extend(self.tokenizer.encode(&plain, Special::Forbid));
                            ids.extend_from_slice(turn);
                            plain = parts.next().unwrap_or_default().to_owned();
                        }
                        _ => plain.push_str(part),
                    }
                }
                ids.extend(self.tokenizer.encode(&plain, Special::Forbid));
            }
        });
        ids
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        // A panic while the lock was held leaves at worst one entry out of the order of use.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A character that no text of this conversation has. Unicode sets 32 apart for such inner use (noncharacters).
fn unused_mark(messages: &[Message], tools: Option<&[Value]>) -> Option<char> {
    let mut candidates: Vec<char> = ('\u{FDD0}'..='\u{FDEF}').collect();
    let mut look = |text: &mut String| candidates.retain(|&mark| !text.contains(mark));
    messages.to_vec().iter_mut().for_each(|message| message.each_text(&mut look, true));
    let mut tools = tools.unwrap_or_default().to_vec();
    tools.iter_mut().for_each(|tool| message::each_json_text(tool, &mut look));
    candidates.first().copied()
}
