//! How does this model want a conversation written down?
//!
//! The template that came in the model file, a Jinja program, rendered under the settings of the reference implementation
//! (the `transformers` library: `trim_blocks`, `lstrip_blocks`, `tojson` as in [`super::json`], `raise_exception`).
//! The template is hostile input like the rest of the file: it gets fuel, and no loader.

use super::json::dumps;
use super::message::Message;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use serde_json::{Value, json};

/// Steps that a rendering may take; a conversation of 1,000 turns takes about 50,000.
const FUEL: u64 = 2_000_000;
const TEMPLATE_BYTES_MAX: usize = 1 << 20;
const NAME: &str = "chat";

/// The instruction in the 1.5B Qwen2.5-Coder file has doubled braces, left over from a Python format string; the model
/// copies them into its calls. The same family's other files have it right.
const DOUBLED: &str = r#"{{\"name\": <function-name>, \"arguments\": <args-json-object>}}"#;
const SINGLE: &str = r#"{\"name\": <function-name>, \"arguments\": <args-json-object>}"#;

/// Why a conversation could not be written down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The model file has no template.
    #[error("the model has no chat template")]
    NoTemplate,
    /// The template is not valid, or too long.
    #[error("the chat template of the model is not valid: {reason}")]
    Invalid {
        /// What is wrong with it.
        reason: String,
    },
    /// The template refused this conversation, in its own words.
    #[error("the chat template refused the conversation: {reason}")]
    Refused {
        /// What the template said.
        reason: String,
    },
    /// The template failed on this conversation.
    #[error("the chat template failed: {reason}")]
    Failed {
        /// What the renderer said.
        reason: String,
    },
    /// The conversation contains every one of the 32 characters that this module needs one of for itself.
    #[error("the conversation uses all Unicode noncharacters")]
    NoMark,
}

/// A compiled template.
pub struct Template {
    environment: Environment<'static>,
}

impl Template {
    /// Compiles `source` as it is.
    pub fn new(source: &str) -> Result<Template, ChatError> {
        if source.len() > TEMPLATE_BYTES_MAX {
            return Err(ChatError::Invalid { reason: format!("longer than {TEMPLATE_BYTES_MAX} bytes") });
        }
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| ChatError::Invalid { reason: words(&error) })?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(FUEL));
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", raise_exception);
        let compiled = environment.add_template_owned(NAME, source.to_owned());
        compiled.map_err(|error| ChatError::Invalid { reason: words(&error) })?;
        Ok(Template { environment })
    }

    /// Compiles `source` with the doubled braces of its tool instruction made single, where it has them.
    pub fn normalised(source: &str) -> Result<Template, ChatError> {
        Template::new(&source.replace(DOUBLED, SINGLE))
    }

    /// Writes the conversation down.
    pub fn render(
        &self,
        messages: &[Message],
        tools: Option<&[Value]>,
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let messages: Vec<Value> = messages.iter().map(Message::to_context).collect();
        let context = json!({
            "messages": messages,
            "tools": tools.filter(|tools| !tools.is_empty()),
            "add_generation_prompt": add_generation_prompt,
        });
        let template = self.environment.get_template(NAME).map_err(failed)?;
        template.render(minijinja::value::Serde(context)).map_err(failed)
    }
}

/// What `raise_exception` was called with, carried through the renderer as the source of its error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn failed(error: Error) -> ChatError {
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        if let Some(Raised(reason)) = inner.downcast_ref() {
            return ChatError::Refused { reason: reason.clone() };
        }
        source = inner.source();
    }
    ChatError::Failed { reason: words(&error) }
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn to_json(value: minijinja::Value) -> Result<String, Error> {
    let value = serde_json::to_value(&value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, "cannot write as JSON").with_source(error))?;
    Ok(dumps(&value))
}

fn words(error: &Error) -> String {
    match error.line() {
        Some(line) => format!("{error} (line {line})"),
        None => error.to_string(),
    }
}
