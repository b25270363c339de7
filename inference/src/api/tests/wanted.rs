//! Forms, forced calls and several answers over the wire, in every dialect that has them.

use serde_json::{Value, json};

use super::bench::{CALL, HELLO, Scripted, ask, ask_at, chat, served};
use crate::grammar::{CallShape, Shape, ToolShape};

fn schema() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
}

fn tool(name: &str, strict: bool) -> Value {
    json!({"type": "function", "function": {"name": name, "strict": strict, "parameters": schema()}})
}

fn shape(at: usize, name: &str, held: bool) -> ToolShape {
    let path = format!("tools[{at}].function.parameters");
    ToolShape { name: name.into(), path, arguments: held.then(schema) }
}

/// What the engine is asked to hold the answer to.
async fn asked(path: &str, body: Value) -> Option<Shape> {
    let engine = Scripted::new(&HELLO);
    let answer = ask_at(served(engine.clone()).await, path, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    engine.submission().steer.grammar.map(|grammar| grammar.shape().clone())
}

async fn asked_in_chat(extra: Value) -> Option<Shape> {
    asked("/v1/chat/completions", chat(extra)).await
}

#[tokio::test]
async fn a_format_holds_the_answer_to_its_schema() {
    let held = |path: &str, schema| Some(Shape { answer: Some((path.to_owned(), schema)), calls: None });
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema()}});
    let expected = held("response_format.json_schema.schema", schema());
    assert_eq!(asked_in_chat(json!({"response_format": format})).await, expected);
    let any = json!({"type": "object"});
    let object = json!({"response_format": {"type": "json_object"}});
    assert_eq!(asked_in_chat(object).await, held("response_format", any.clone()));
    assert_eq!(asked_in_chat(json!({"response_format": {"type": "text"}})).await, None);
    let flat = json!({"type": "json_schema", "name": "x", "schema": schema()});
    let response = |format: &Value| json!({"model": "tiny", "input": "hello", "text": {"format": format}});
    assert_eq!(asked("/v1/responses", response(&flat)).await, held("text.format.schema", schema()));
    assert_eq!(asked("/v1/responses", response(&json!({"type": "json_object"}))).await, held("text.format", any));
    let messages = json!([{"role": "user", "content": "hello"}]);
    let message = json!({"model": "tiny", "max_tokens": 9, "messages": messages, "output_config": {"format": flat}});
    assert_eq!(asked("/v1/messages", message).await, held("output_config.format.schema", schema()));
}

#[tokio::test]
async fn calls_are_held_where_they_are_forced_or_strict() {
    let held =
        |tools, required, several| Some(Shape { answer: None, calls: Some(CallShape { tools, required, several }) });
    let tools = json!([tool("f", false), tool("g", true)]);
    let both = |f_held| vec![shape(0, "f", f_held), shape(1, "g", true)];
    let required = json!({"tools": tools, "tool_choice": "required"});
    assert_eq!(asked_in_chat(required).await, held(both(true), true, true));
    let one = json!({"tools": tools, "tool_choice": "required", "parallel_tool_calls": false});
    assert_eq!(asked_in_chat(one).await, held(both(true), true, false));
    let named = json!({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "f"}}});
    assert_eq!(asked_in_chat(named).await, held(vec![shape(0, "f", true)], true, false));
    assert_eq!(asked_in_chat(json!({"tools": tools})).await, held(both(false), false, true));
    assert_eq!(asked_in_chat(json!({"tools": [tool("f", false)]})).await, None);
    assert_eq!(asked_in_chat(json!({"tools": tools, "tool_choice": "none"})).await, None);
    let tools = json!([{"name": "f", "input_schema": schema()}]);
    let message = json!({"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}],
        "tools": tools, "tool_choice": {"type": "tool", "name": "f"}});
    let f = ToolShape { path: "tools[0].input_schema".into(), ..shape(0, "f", true) };
    assert_eq!(asked("/v1/messages", message).await, held(vec![f], true, false));
    let tools = json!([{"type": "function", "name": "f", "parameters": schema()}]);
    let response = json!({"model": "tiny", "input": "hello", "tools": tools,
        "tool_choice": {"type": "function", "name": "f"}});
    let f = ToolShape { path: "tools[0].parameters".into(), ..shape(0, "f", true) };
    assert_eq!(asked("/v1/responses", response).await, held(vec![f], true, false));
}

#[tokio::test]
async fn a_schema_that_cannot_be_enforced_is_refused_by_its_place() {
    let address = served(Scripted::new(&HELLO)).await;
    let bad = json!({"type": "object", "properties": {"a": {"type": "strange"}}});
    let format = json!({"type": "json_schema", "json_schema": {"schema": bad}});
    let mut strict = tool("f", true);
    strict["function"]["parameters"] = bad;
    for (extra, param) in [
        (json!({"response_format": format}), "response_format.json_schema.schema"),
        (json!({"tools": [tool("g", true), strict]}), "tools[1].function.parameters"),
    ] {
        let answer = ask(address, &chat(extra)).await;
        assert_eq!(answer.error(), (400, "invalid_schema".into()));
        assert_eq!(answer.json()["error"]["param"], param);
    }
    let unknown = json!({"tools": [tool("f", true)], "tool_choice": {"type": "function", "function": {"name": "g"}}});
    assert_eq!(ask(address, &chat(unknown)).await.error(), (400, "invalid_value".into()));
}

#[tokio::test]
async fn bias_and_logprobs_reach_the_engine() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    let extra = json!({"logit_bias": {"7": -100, "9": 2.5}, "logprobs": true, "top_logprobs": 3});
    assert_eq!(ask(address, &chat(extra)).await.status, 200);
    let steer = engine.submission().steer;
    assert_eq!((steer.bias, steer.logprobs), (vec![(7, -100.0), (9, 2.5)], Some(3)));
    ask(address, &chat(json!({"logprobs": true}))).await;
    assert_eq!(engine.submission().steer.logprobs, Some(0));
    ask_at(address, "/v1/completions", &json!({"model": "tiny", "prompt": "x", "logprobs": 2})).await;
    assert_eq!(engine.submission().steer.logprobs, Some(2));
}

#[tokio::test]
async fn several_answers_come_with_their_numbers_and_one_usage() {
    let engine = Scripted::new(&CALL);
    let address = served(engine.clone()).await;
    let search = json!([{"type": "function", "function": {"name": "search"}}]);
    let mut body = chat(json!({"n": 3, "seed": 40, "tools": search, "stream_options": {"include_usage": true}}));
    let whole = ask(address, &body).await.json();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(choices.iter().all(|choice| choice["message"]["tool_calls"][0]["function"]["name"] == "search"));
    let one = CALL.len() as u64 - 1;
    assert_eq!((&whole["usage"]["prompt_tokens"], &whole["usage"]["completion_tokens"]), (&json!(5), &json!(3 * one)));
    let seeds: Vec<u64> = engine.submitted.lock().unwrap().iter().map(|request| request.sampling.seed).collect();
    assert_eq!(seeds, [40, 41, 42]);

    body["stream"] = json!(true);
    let mut events = ask(address, &body).await.events();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let chunks: Vec<Value> = events.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let of =
        |index: u64| chunks.iter().map(|chunk| &chunk["choices"][0]).filter(move |choice| choice["index"] == index);
    for index in 0..3 {
        let text: String = of(index).filter_map(|choice| choice["delta"]["content"].as_str()).collect();
        let ends: Vec<&str> = of(index).filter_map(|choice| choice["finish_reason"].as_str()).collect();
        assert_eq!((text.as_str(), ends), ("I look.", vec!["tool_calls"]));
        assert_eq!(of(index).filter(|choice| choice["delta"]["role"].is_string()).count(), 1);
    }
    let usages: Vec<&Value> = chunks.iter().map(|chunk| &chunk["usage"]).filter(|usage| !usage.is_null()).collect();
    assert_eq!(usages.len(), 1);
    assert_eq!(usages[0]["completion_tokens"], whole["usage"]["completion_tokens"]);
}

#[tokio::test]
async fn of_several_answers_one_that_fails_fails_the_request() {
    let engine = Scripted::new(&[super::bench::Say("x"), super::bench::Vanish]);
    let answer = ask(served(engine).await, &chat(json!({"n": 2}))).await;
    assert_eq!(answer.error(), (500, "internal_error".into()));
}
