//! What is wanted of an answer, in words and as a grammar?

use crate::api::toolcall::{CLOSE_TAG, OPEN_TAG};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

/// Between two tokens of JSON there is at most so much white space: small models fill an answer with it otherwise.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,64}";

/// What an answer is held to. Without any of its fields it is held to nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// The answer is JSON that fits this schema, which stands in that field of the request.
    pub answer: Option<(String, Value)>,
    /// It calls tools, or may.
    pub calls: Option<CallShape>,
}

/// How tools are called.
#[derive(Clone, Debug, PartialEq)]
pub struct CallShape {
    /// Those that may be called.
    pub tools: Vec<ToolShape>,
    /// Whether nothing but a call will do. Otherwise a call that was begun is held to its shape.
    pub required: bool,
    /// Whether several calls may follow one another.
    pub several: bool,
}

/// How one tool is called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolShape {
    /// Its name, of letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// The field of the request that holds the schema.
    pub path: String,
    /// What the arguments fit; any object does where it is None.
    pub arguments: Option<Value>,
}

impl Shape {
    /// Whether there is nothing to hold.
    pub fn is_free(&self) -> bool {
        self.answer.is_none() && self.calls.is_none()
    }

    /// Whether the answer is free until a call begins.
    pub(super) fn is_late(&self) -> bool {
        self.answer.is_none() && self.calls.as_ref().is_some_and(|calls| !calls.required)
    }

    /// Each schema with its place.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&str, &Value)> {
        let tools = self.calls.iter().flat_map(|calls| &calls.tools);
        let arguments = tools.filter_map(|tool| Some((tool.path.as_str(), tool.arguments.as_ref()?)));
        self.answer.iter().map(|(path, schema)| (path.as_str(), schema)).chain(arguments)
    }

    /// For llguidance: one rule, and one named grammar for each schema, so that a `$ref` finds the root of its own. A
    /// call is laid out as the template of the Qwen family lays it out.
    pub(super) fn grammar(&self) -> TopLevelGrammar {
        let mut named = Vec::new();
        let mut name = |schema: &Value| {
            let name = format!("schema_{}", named.len());
            named.push(GrammarWithLexer {
                name: Some(name.clone()),
                ..GrammarWithLexer::from_json_schema(bounded(schema))
            });
            name
        };
        let answer = self.answer.as_ref().map(|(_, schema)| format!("@{}", name(schema)));
        let mut rules = String::new();
        let mut starts: Vec<String> = Vec::new();
        match &self.calls {
            Some(calls) => {
                let any = json!({"type": "object"});
                let one = |tool: &ToolShape| {
                    let head = literal(&format!("{{\"name\": \"{}\", \"arguments\": ", tool.name));
                    format!("{head} @{} \"}}\"", name(tool.arguments.as_ref().unwrap_or(&any)))
                };
                let each: Vec<String> = calls.tools.iter().map(one).collect();
                rules = format!("call: {}\n", each.join("\n    | "));
                let (open, close, line) = (literal(OPEN_TAG), literal(CLOSE_TAG), literal("\n"));
                let more =
                    if calls.several { format!("({line} {open} {line} call {line} {close})*") } else { String::new() };
                starts.push(match self.is_late() {
                    true => format!("{line} call {line} {close}"),
                    false => format!("{open} {line} call {line} {close} {more}"),
                });
                starts.extend(answer.filter(|_| !calls.required));
            }
            None => starts.extend(answer),
        }
        let rule = GrammarWithLexer::from_lark(format!("start: {}\n{rules}", starts.join(" | ")));
        named.insert(0, rule);
        TopLevelGrammar { grammars: named, max_tokens: None }
    }
}

/// The schema with our own way of writing JSON, whatever it says about that itself.
pub(super) fn bounded(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(_) => schema.clone(),
        other => json!({"allOf": [other]}),
    };
    schema["x-guidance"] = json!({"whitespace_pattern": WHITE_SPACE});
    schema
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}
