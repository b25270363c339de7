//! Can anything that is JSON bring a reader down?

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::dialect::{Chat, Completions, Dialect, Messages, Responses, counted};
use super::super::fields::Fields;
use super::super::tokens::{Cut, ids};

/// Names that some reader looks for; others are never looked at.
const NAMES: [&str; 57] = [
    "response_format",
    "json_schema",
    "schema",
    "strict",
    "logit_bias",
    "top_logprobs",
    "output_format",
    "parallel_tool_calls",
    "model",
    "messages",
    "prompt",
    "suffix",
    "input",
    "system",
    "instructions",
    "content",
    "role",
    "type",
    "text",
    "tools",
    "tool_choice",
    "tool_calls",
    "tool_call_id",
    "function",
    "name",
    "arguments",
    "parameters",
    "input_schema",
    "description",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "stop_sequences",
    "stream",
    "stream_options",
    "include_usage",
    "n",
    "best_of",
    "echo",
    "logprobs",
    "id",
    "tool_use_id",
    "is_error",
    "call_id",
    "output",
    "store",
    "format",
    "metadata",
    "output_config",
    "tokens",
    "with_pieces",
    "thinking",
];
/// Words that some reader knows.
const WORDS: [&str; 28] = [
    "json_schema",
    "json_object",
    "required",
    "any",
    "tiny",
    "user",
    "assistant",
    "system",
    "developer",
    "tool",
    "text",
    "function",
    "custom",
    "tool_use",
    "tool_result",
    "image",
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "input_text",
    "output_text",
    "auto",
    "none",
    "",
    "{}",
    "é",
    "error",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_i64..3).prop_map(Value::from),
        word().prop_map(Value::from),
        word().prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 60, 5, |inner| {
        let name = prop::sample::select(&NAMES[..]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

/// Requests that are right, for a change in one place to go deep into.
fn right() -> [Value; 4] {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let function = json!({"name": "f", "parameters": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "é"}], "is_error": true});
    let used = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    [
        json!({
            "model": "tiny", "messages": [{"role": "assistant", "tool_calls": [call]}, {"role": "user", "content": "a"}],
            "tools": [{"type": "function", "function": function}], "stop": ["a"], "stream_options": {"include_usage": true},
        }),
        json!({"model": "tiny", "prompt": "a", "suffix": "b", "stop": "c", "max_tokens": 3}),
        json!({
            "model": "tiny", "max_tokens": 3, "system": [{"type": "text", "text": "a"}], "stop_sequences": ["a"],
            "messages": [{"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}],
            "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "auto"},
        }),
        json!({
            "model": "tiny", "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "a"},
            ],
            "tools": [{"type": "function", "name": "f"}], "text": {"format": {"type": "text"}},
        }),
    ]
}

/// Puts `new` in the place of the value number `at`, counted in the order written.
fn replace(json: &mut Value, at: &mut usize, new: &Value) {
    if *at == 0 {
        *json = new.clone();
    }
    *at = at.wrapping_sub(1);
    match json {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, at, new)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, at, new)),
        _ => {}
    }
}

fn read_by_all(json: &Value) {
    let _ = Cut::read(json);
    let _ = ids(json);
    let Ok(fields) = Fields::of(json, String::new()) else { return };
    let asked = [
        Chat::read(&fields, 0).map(|(ask, _)| ask),
        Completions::read(&fields, 0).map(|(ask, _)| ask),
        Messages::read(&fields, 0).map(|(ask, _)| ask),
        Responses::read(&fields, 0).map(|(ask, _)| ask),
        counted(&fields),
    ];
    for ask in asked.into_iter().flatten() {
        assert!(ask.stop.len() <= 4 && ask.tokens_max != Some(0) && ask.prompt.tool_names().len() <= 128);
        assert!((0.0..=2.0).contains(&ask.sampling.temperature) && (0.0..=1.0).contains(&ask.sampling.top_p));
    }
}

proptest! {
    #[test]
    fn no_reader_panics_over_any_json(json in tree()) {
        read_by_all(&json);
    }

    #[test]
    fn no_reader_panics_over_a_request_that_is_wrong_in_one_place(which in 0_usize..4, at in 0_usize..30, new in tree()) {
        let mut json = right()[which].clone();
        replace(&mut json, &mut at.clone(), &new);
        read_by_all(&json);
    }
}

#[test]
fn the_right_requests_are_right() {
    let [chat, completion, message, response] = right();
    let fields = |json| Fields::of(json, String::new()).unwrap();
    Chat::read(&fields(&chat), 0).map(drop).unwrap();
    Completions::read(&fields(&completion), 0).map(drop).unwrap();
    Messages::read(&fields(&message), 0).map(drop).unwrap();
    Responses::read(&fields(&response), 0).map(drop).unwrap();
}
