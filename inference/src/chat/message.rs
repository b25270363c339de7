//! Who said what?
//!
//! The OpenAI chat format, read leniently: content may be null or a list of text parts, arguments may be an object or the
//! same object as a string, a call may come without its `function` wrapping, and `developer` is an older `system`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    #[serde(alias = "developer")]
    System,
    /// The person, or the program on their behalf.
    User,
    /// The model.
    Assistant,
    /// The result of a call.
    Tool,
}

impl Role {
    /// The name in templates and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Whose.
    pub role: Role,
    /// What was said; empty where JSON has null.
    #[serde(default, deserialize_with = "content")]
    pub content: String,
    /// Calls that the assistant made in this turn.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// One call that the assistant asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Given by whoever parsed the call; ties the result to it.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments: an object, unless the model wrote something else.
    pub arguments: Value,
}

impl Message {
    /// A turn without calls.
    pub fn new(role: Role, content: impl Into<String>) -> Message {
        Message { role, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }

    /// What the template sees.
    pub(super) fn to_context(&self) -> Value {
        let mut context = json!({"role": self.role.name(), "content": self.content});
        if !self.tool_calls.is_empty() {
            let call = |call: &ToolCall| json!({"type": "function", "function": {"name": call.name, "arguments": call.arguments}});
            context["tool_calls"] = self.tool_calls.iter().map(call).collect();
        }
        context
    }

    /// Calls `visit` with each string that came from outside.
    pub(super) fn each_text(&mut self, visit: &mut impl FnMut(&mut String), with_content: bool) {
        if with_content {
            visit(&mut self.content);
        }
        for call in &mut self.tool_calls {
            visit(&mut call.name);
            each_json_text(&mut call.arguments, visit);
        }
    }
}

/// Calls `visit` with each string in `value`, keys included.
pub(super) fn each_json_text(value: &mut Value, visit: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter_mut().for_each(|value| each_json_text(value, visit)),
        Value::Object(fields) => {
            for (mut key, mut value) in std::mem::take(fields) {
                visit(&mut key);
                each_json_text(&mut value, visit);
                fields.insert(key, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Parts(Vec<Part>),
        Nothing(()),
    }
    #[derive(Deserialize)]
    struct Part {
        text: String,
    }
    let content = Content::deserialize(deserializer)
        .map_err(|_| serde::de::Error::custom("content is neither a string, nor null, nor a list of text parts"))?;
    Ok(match content {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        Content::Nothing(()) => String::new(),
    })
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Serialize, Deserialize)]
struct WireFunction {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let arguments = Value::String(self.arguments.to_string());
        let function = WireFunction { name: self.name.clone(), arguments };
        let mut wire = json!({"type": "function", "function": function});
        if let Some(id) = &self.id {
            wire["id"] = json!(id);
        }
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            id: Option<String>,
            function: Option<WireFunction>,
            #[serde(flatten)]
            bare: serde_json::Map<String, Value>,
        }
        let wire = Wire::deserialize(deserializer)?;
        let function = match wire.function {
            Some(function) => function,
            None => serde_json::from_value(Value::Object(wire.bare)).map_err(serde::de::Error::custom)?,
        };
        let arguments = match function.arguments {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Value::Null => json!({}),
            other => other,
        };
        Ok(ToolCall { id: wire.id, name: function.name, arguments })
    }
}
