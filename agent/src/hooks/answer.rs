//! What did a hook answer?
//!
//! Exit 0 with nothing, with plain words or with one JSON object; exit 2, which blocks with standard error as the
//! reason. Everything else is a failure, and so is every JSON that is not understood completely: a decision with a
//! misspelt word must not become no decision.

use super::occasion::{Event, Occasion};
use super::tool;
use crate::action::Call;
use crate::workspace::{Ended, Ran};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The longest answer that is read, of each stream, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What a hook wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It has nothing against it.
    #[default]
    Nothing,
    /// A person must be asked.
    Ask,
    /// It must not happen.
    Block,
}

/// What one hook answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// What it wants.
    pub decision: Decision,
    /// Why; may be empty.
    pub reason: String,
    /// Something that the model should know.
    pub context: Option<String>,
    /// The action as it should be instead.
    pub rewritten: Option<Call>,
    /// The session must end, and why.
    pub stop: Option<String>,
}

impl Answer {
    /// A block.
    pub fn block(reason: String) -> Self {
        Self { decision: Decision::Block, reason, ..Self::default() }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A deadline, a signal, a limit: told as the box tells it.
    #[error("{0}")]
    Stopped(String),
    /// The program does not exist.
    #[error("there is no such program (exit 127)")]
    Missing,
    /// The program cannot be executed.
    #[error("its program is not executable (exit 126)")]
    NotExecutable,
    /// Its script could not be put in place.
    #[error("it could not be started (exit 125)")]
    NotStarted,
    /// Any other exit code but 0 and 2.
    #[error("it ended with exit {0}")]
    Exit(i32),
    /// More than is read.
    #[error("it wrote more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// Bytes that are no text.
    #[error("its answer is not UTF-8")]
    NotUtf8,
    /// Something with braces in it that is not one JSON object with fields of the right names and types.
    #[error("its answer is not understood: {0}")]
    NotUnderstood(String),
    /// A decision that there is not, or not for this event.
    #[error("it answered with the unknown decision {0:?}")]
    UnknownDecision(String),
    /// An answer to something else.
    #[error("it answered to {0:?}")]
    OtherEvent(String),
    /// An input that is none for the tool, or none at all for this event.
    #[error("its updatedInput cannot be used: {0}")]
    BadInput(String),
    /// The box could not run it.
    #[error("{0}")]
    Box(String),
}

/// What the JSON may hold. An unknown key is refused: it may be a misspelt decision. So is a key that stands twice.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    #[serde(rename = "suppressOutput")]
    _suppress_output: Option<bool>,
    #[serde(rename = "systemMessage")]
    _system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    additional_context: Option<String>,
    #[serde(deserialize_with = "object")]
    hook_specific_output: Option<Specific>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Value>>,
    additional_context: Option<String>,
}

/// A derived struct would also be read from a list, by position: `[]` would be an answer that says nothing.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Specific>, D::Error> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Option<Specific>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Specific::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    deserializer.deserialize_any(Object)
}

/// Reads the answer of a hook that ran on this occasion.
pub fn read(occasion: &Occasion<'_>, ran: &Ran) -> Result<Answer, Failure> {
    let code = match &ran.ended {
        Ended::Exited(code) => *code,
        Ended::Stopped(why) => return Err(Failure::Stopped(why.clone())),
    };
    if ran.output.len().max(ran.errors.len()) > ANSWER_BYTES_MAX {
        return Err(Failure::TooLong);
    }
    match code {
        0 => said(occasion, std::str::from_utf8(&ran.output).map_err(|_| Failure::NotUtf8)?.trim()),
        2 => Ok(Answer::block(String::from_utf8_lossy(&ran.errors).trim().to_owned())),
        125 => Err(Failure::NotStarted),
        126 => Err(Failure::NotExecutable),
        127 => Err(Failure::Missing),
        code => Err(Failure::Exit(code)),
    }
}

/// Plain words are context where the convention says so, and nothing elsewhere. What holds a brace or begins like
/// another JSON value was meant as JSON, even if something else was printed before it.
fn said(occasion: &Occasion<'_>, text: &str) -> Result<Answer, Failure> {
    if !text.contains('{') && !text.starts_with(['[', '"']) {
        let told = matches!(occasion.event(), Event::SessionStart | Event::UserPromptSubmit) && !text.is_empty();
        return Ok(Answer { context: told.then(|| text.to_owned()), ..Answer::default() });
    }
    if !text.starts_with('{') {
        return Err(Failure::NotUnderstood("it is not one JSON object and nothing else".into()));
    }
    let written: Written = serde_json::from_str(text).map_err(|error| Failure::NotUnderstood(error.to_string()))?;
    let specific = written.hook_specific_output.unwrap_or_default();
    let name = serde_json::to_value(occasion.event()).unwrap_or_default();
    if let Some(other) = specific.hook_event_name.filter(|other| name != **other) {
        return Err(Failure::OtherEvent(other));
    }
    let older = match written.decision.as_deref() {
        None | Some("approve") => Decision::Nothing,
        Some("block") => Decision::Block,
        Some(other) => return Err(Failure::UnknownDecision(other.to_owned())),
    };
    let newer = match (specific.permission_decision.as_deref(), occasion.event()) {
        (None, _) | (Some("allow"), Event::PreToolUse) => Decision::Nothing,
        (Some("ask"), Event::PreToolUse) => Decision::Ask,
        (Some("deny"), Event::PreToolUse) => Decision::Block,
        (Some(other), _) => return Err(Failure::UnknownDecision(other.to_owned())),
    };
    let rewritten = match (specific.updated_input, occasion) {
        (None, _) => None,
        (Some(input), Occasion::PreToolUse { call }) => {
            let new = tool::rewritten(call, input).map_err(|error| Failure::BadInput(error.to_string()))?;
            // What says the same as before is not rewritten.
            (tool::input(&new) != tool::input(call)).then_some(new)
        }
        (Some(_), _) => return Err(Failure::BadInput("nothing is about to run".into())),
    };
    Ok(Answer {
        decision: older.max(newer),
        reason: specific.permission_decision_reason.or(written.reason).unwrap_or_default(),
        context: specific.additional_context.or(written.additional_context),
        rewritten,
        stop: (written.r#continue == Some(false)).then(|| written.stop_reason.unwrap_or_default()),
    })
}
