//! `/v1/messages`: Anthropic's API over the same engine.

use serde_json::{Value, json};

use super::super::Limits;
use super::bench::{
    Answer, CALL, End, HELLO, Say, Scripted, Stopped, ask_at, exchange, get, post_to, served, served_with,
};
use crate::FinishReason::{Cancelled, Failed, Length, Stop};
use crate::{Message, SubmitError};

fn body(extra: Value) -> Value {
    let mut body = json!({"model": "tiny", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]});
    for (name, value) in extra.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

async fn ask(engine: &Scripted, extra: Value) -> Answer {
    ask_at(served(engine.clone()).await, "/v1/messages", &body(extra)).await
}

fn tools() -> Value {
    json!([{"name": "search", "description": "finds", "input_schema": {"type": "object"}}])
}

/// The names and the data of a stream's events; the two must agree.
fn events(answer: &Answer) -> Vec<Value> {
    let names = answer.body.lines().filter_map(|line| line.strip_prefix("event: "));
    let data: Vec<Value> = answer.events().iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(names.collect::<Vec<_>>(), data.iter().map(|data| data["type"].as_str().unwrap()).collect::<Vec<_>>());
    data
}

/// The status and the type of an error in that API's shape.
fn error(answer: &Answer) -> (u16, String) {
    let json = answer.json();
    assert_eq!(json["type"], "error", "{answer:?}");
    assert!(json["error"]["message"].is_string(), "{answer:?}");
    (answer.status, json["error"]["type"].as_str().expect("a type").to_owned())
}

#[tokio::test]
async fn a_message_has_the_text_and_true_numbers_of_the_cache() {
    let answer = ask(&Scripted::new(&HELLO), json!({})).await;
    let mut json = answer.json();
    assert!(json["id"].as_str().unwrap().starts_with("msg_"));
    json.as_object_mut().unwrap().remove("id");
    json["usage"].as_object_mut().unwrap().remove("cloister");
    let usage = json!({
        "input_tokens": 0, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 2,
    });
    let expected = json!({
        "type": "message", "role": "assistant", "model": "tiny", "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage,
    });
    assert_eq!(json, expected);
    let usage = ask(&Scripted::new(&HELLO), json!({"cache_prompt": false})).await.json()["usage"].clone();
    assert_eq!((&usage["input_tokens"], &usage["cache_creation_input_tokens"]), (&json!(3), &json!(0)));
}

#[tokio::test]
async fn a_stream_gives_its_events_in_the_documented_order() {
    let events = events(&ask(&Scripted::new(&HELLO), json!({"stream": true})).await);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds, expected);
    let message = &events[0]["message"];
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(
        (&message["usage"]["cache_read_input_tokens"], &message["usage"]["output_tokens"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(events[2]["content_block"], json!({"type": "text", "text": ""}));
    assert_eq!(events[3]["delta"], json!({"type": "text_delta", "text": "Hel"}));
    assert_eq!(events[6]["delta"], json!({"stop_reason": "end_turn", "stop_sequence": null}));
    assert_eq!(events[6]["usage"]["output_tokens"], 2);
}

#[tokio::test]
async fn a_call_is_a_block_of_its_own_whole_and_streamed() {
    let engine = Scripted::new(&CALL);
    let whole = ask(&engine, json!({"tools": tools()})).await.json();
    assert_eq!(whole["content"][0], json!({"type": "text", "text": "I look."}));
    let call = &whole["content"][1];
    assert!(call["id"].as_str().unwrap().starts_with("toolu_"));
    assert_eq!(
        (&call["type"], &call["name"], &call["input"]),
        (&json!("tool_use"), &json!("search"), &json!({"b": 1, "a": "é"}))
    );
    assert_eq!(whole["stop_reason"], "tool_use");
    let function = json!({"name": "search", "description": "finds", "parameters": {"type": "object"}});
    assert_eq!(json!(*engine.tools.lock().unwrap()), json!([{"type": "function", "function": function}]));

    let events = events(&ask(&engine, json!({"tools": tools(), "stream": true})).await);
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
    let starts = of("content_block_start");
    assert_eq!((&starts[0]["index"], &starts[1]["index"]), (&json!(0), &json!(1)));
    assert_eq!(
        (&starts[1]["content_block"]["name"], &starts[1]["content_block"]["input"]),
        (&json!("search"), &json!({}))
    );
    let deltas = of("content_block_delta");
    let last = deltas.last().unwrap();
    assert_eq!(last["delta"], json!({"type": "input_json_delta", "partial_json": "{\"b\":1,\"a\":\"é\"}"}));
    assert_eq!((last["index"].clone(), of("content_block_stop").len()), (json!(1), 2));
    assert_eq!(of("message_delta")[0]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn an_empty_answer_and_one_that_is_only_a_call_have_no_block_of_text() {
    assert_eq!(ask(&Scripted::new(&[End(Stop)]), json!({})).await.json()["content"], json!([]));
    let engine = Scripted::new(&[Say("{\"name\": \"search\", \"arguments\": {}}"), End(Stop)]);
    let whole = ask(&engine, json!({"tools": tools()})).await.json();
    assert_eq!((whole["content"].as_array().unwrap().len(), &whole["content"][0]["type"]), (1, &json!("tool_use")));
    let streamed = events(&ask(&engine, json!({"tools": tools(), "stream": true})).await);
    assert_eq!((&streamed[2]["index"], &streamed[2]["content_block"]["type"]), (&json!(0), &json!("tool_use")));
}

#[tokio::test]
async fn an_answer_says_why_it_ended() {
    for (end, reason, sequence) in [
        (End(Length), "max_tokens", Value::Null),
        (Stopped("</end>"), "stop_sequence", json!("</end>")),
        (End(Stop), "end_turn", Value::Null),
    ] {
        let engine = Scripted::new(&[Say("Hel"), end]);
        let whole = ask(&engine, json!({"stop_sequences": ["</end>"]})).await.json();
        assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!(reason), &sequence));
        let events = events(&ask(&engine, json!({"stop_sequences": ["</end>"], "stream": true})).await);
        let delta = &events[events.len() - 2]["delta"];
        assert_eq!((&delta["stop_reason"], &delta["stop_sequence"]), (&json!(reason), &sequence));
        assert_eq!((engine.submission().stop, engine.submission().tokens_max), (vec!["</end>".to_owned()], 50));
    }
}

#[tokio::test]
async fn a_conversation_reaches_the_template_in_its_own_order() {
    let engine = Scripted::new(&HELLO);
    let use_of = |id: &str| json!({"type": "tool_use", "id": id, "name": "search", "input": {"a": 1}});
    let result = |id: &str, content: Value, failed: bool| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed});
    let text = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let extra = json!({
        "system": [text("x-some-billing-header: cch=1;"), text("Be short.")],
        "messages": [
            {"role": "user", "content": [text("one"), text("two")]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "?"}, text("I look."), use_of("t1"), use_of("t2")]},
            {"role": "user", "content": [result("t1", json!("found"), false), result("t2", json!([text("gone")]), true), text("go on")]},
        ],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    });
    let answer = ask(&engine, extra).await;
    assert_eq!((answer.status, &answer.json()["usage"]["cloister"]["steadied"]), (200, &json!(["billing-header"])));
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "search", "arguments": "{\"a\":1}"}});
    let expected: Vec<Message> = serde_json::from_value(json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "one\ntwo"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("t1"), call("t2")]},
        {"role": "tool", "tool_call_id": "t1", "content": "found"},
        {"role": "tool", "tool_call_id": "t2", "content": "Error: gone"},
        {"role": "user", "content": "go on"},
    ]))
    .unwrap();
    assert_eq!(*engine.messages.lock().unwrap(), expected);
}

#[tokio::test]
async fn tokens_are_counted_without_a_limit_and_without_a_generation() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    let extra = json!({"max_tokens": null, "system": "Be short.", "tools": tools()});
    let answer = ask_at(address, "/v1/messages/count_tokens", &body(extra)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"input_tokens": "Be short.hello".len()})));
    assert!(engine.submitted.lock().unwrap().is_empty() && engine.tools.lock().unwrap().len() == 1);
    let wrong = ask_at(address, "/v1/messages/count_tokens", &body(json!({"messages": 3}))).await;
    assert_eq!(error(&wrong), (400, "invalid_request_error".into()));
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_its_name() {
    let engine = Scripted::new(&HELLO);
    let content = |blocks: Value| json!({"messages": [{"role": "user", "content": blocks}]});
    for (extra, name) in [
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"model": null}), "model"),
        (json!({"system": 3}), "system"),
        (json!({"system": [{"type": "image"}]}), "system[0].type"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "system", "content": "a"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (json!({"messages": [{"role": "assistant", "content": "{"}]}), "messages"),
        (content(json!([{"type": "image", "source": {}}])), "messages[0].content[0].type"),
        (content(json!([{"type": "document"}])), "messages[0].content[0].type"),
        (content(json!([{"type": "tool_use", "id": "a", "name": "b", "input": {}}])), "messages[0].content[0].type"),
        (content(json!([{"type": "tool_result"}])), "messages[0].content[0].tool_use_id"),
        (content(json!([{"type": "text"}])), "messages[0].content[0].text"),
        (content(json!(["a"])), "messages[0].content[0]"),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b"}]}]}),
            "input",
        ),
        (json!({"tools": [{"name": "a b", "input_schema": {}}]}), "tools[0].name"),
        (json!({"tools": [{"name": "a"}]}), "tools[0].input_schema"),
        (json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}), "tools[0].type"),
        (json!({"tools": vec![json!({"name": "a", "input_schema": {}}); 129]}), "tools"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice"),
        (json!({"tool_choice": {"type": "tool", "name": "a"}}), "tool_choice"),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"stop_sequences": ["a", "b", "c", "d", "e"]}), "stop_sequences"),
        (json!({"mcp_servers": [{}]}), "mcp_servers"),
        (json!({"container": "c"}), "container"),
        (json!({"output_format": {"type": "json_schema"}}), "output_format.schema"),
        (json!({"output_config": {"format": {"type": "json_schema"}}}), "output_config.format.schema"),
    ] {
        let answer = ask(&engine, extra.clone()).await;
        assert_eq!(error(&answer), (400, "invalid_request_error".into()), "{extra}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(name), "{name} in {answer:?}");
    }
    assert!(engine.submitted.lock().unwrap().is_empty());
    let call = ask(&Scripted::new(&CALL), json!({"tools": tools(), "tool_choice": {"type": "none"}})).await.json();
    assert_eq!((call["content"].as_array().unwrap().len(), &call["stop_reason"]), (1, &json!("end_turn")));
}

#[tokio::test]
async fn every_refusal_has_that_apis_shape_wherever_it_comes_from() {
    let address = served(Scripted::new(&HELLO)).await;
    let good = post_to("/v1/messages", &body(json!({})).to_string());
    let foreign = exchange(address, &good.replace("host: localhost", "host: rebound.example.org")).await;
    assert_eq!(error(&foreign), (403, "permission_error".into()));
    assert_eq!(error(&get(address, "/v1/messages").await), (405, "invalid_request_error".into()));
    assert_eq!(error(&get(address, "/v1/messages/batches").await), (404, "not_found_error".into()));
    assert_eq!(get(address, "/v1/messages2").await.error(), (404, "unknown_url".into()));
    let other = ask_at(address, "/v1/messages", &body(json!({"model": "claude"}))).await;
    assert_eq!(error(&other), (404, "not_found_error".into()));

    let full = Scripted::with(&HELLO, |stage| stage.refusal = Some(SubmitError::QueueFull));
    let answer = ask(&full, json!({"stream": true})).await;
    assert_eq!(error(&answer), (429, "rate_limit_error".into()));
    assert!(answer.head.contains("\r\nretry-after: 5"), "{answer:?}");
    let long = Scripted::with(&HELLO, |stage| stage.context_tokens = 5);
    let answer = ask(&long, json!({})).await;
    assert!(error(&answer).0 == 400 && answer.body.contains("prompt is too long"), "{answer:?}");
}

#[tokio::test]
async fn an_answer_that_fails_ends_with_an_error_and_never_with_message_stop() {
    for (script, kind, status) in [
        (vec![Say("Hel"), End(Cancelled)], "overloaded_error", 503),
        (vec![Say("Hel"), End(Failed("no memory".into()))], "api_error", 500),
        (vec![Say("Hel"), super::bench::Vanish], "api_error", 500),
    ] {
        let engine = Scripted::new(&script);
        let whole = ask(&engine, json!({})).await;
        assert_eq!(error(&whole), (status, kind.into()));
        assert!(whole.head.contains("x-should-retry: false"), "{whole:?}");
        let events = events(&ask(&engine, json!({"stream": true})).await);
        assert_eq!(events.last().unwrap()["error"]["type"], kind);
        assert!(events.iter().all(|event| event["type"] != "message_stop"));
    }
    let limits = Limits { request_time_max: std::time::Duration::from_millis(50), ..Limits::default() };
    let address = served_with(Scripted::new(&[super::bench::Hang]), limits).await;
    let answer = ask_at(address, "/v1/messages", &body(json!({}))).await;
    assert_eq!(error(&answer), (504, "timeout_error".into()));
}
