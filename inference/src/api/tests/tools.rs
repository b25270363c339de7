//! Calls of tools over the wire.

use serde_json::{Value, json};

use super::bench::{End, Say, Scripted, Step, ask, chat, served};
use crate::FinishReason::{Length, Stop};

const CALL: [Step; 5] = [
    Say("I look.\n"),
    Say("<tool"),
    Say("_call>\n{\"name\": \"search\", \"arguments\": {\"b\": 1, \"a\": \"é\"}"),
    Say("}\n</tool_call>"),
    End(Stop),
];

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    json!([{"type": "function", "function": {"name": "search", "description": "finds", "parameters": parameters}}])
}

/// The text, the calls as (name, arguments), and the finish reason: whole and streamed, which must agree.
async fn outcome(script: &[Step], extra: Value) -> (Option<String>, Vec<(String, String)>, String) {
    let engine = Scripted::new(script);
    let address = served(engine).await;
    let mut body = chat(extra);
    let whole = ask(address, &body).await.json();
    let choice = &whole["choices"][0];
    let text = choice["message"]["content"].as_str().map(str::to_owned);
    let calls = calls(&choice["message"]);
    let finish = choice["finish_reason"].as_str().unwrap().to_owned();

    body["stream"] = json!(true);
    let events = ask(address, &body).await.events();
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let choices = || chunks.iter().map(|chunk| &chunk["choices"][0]);
    let streamed: String = choices().filter_map(|choice| choice["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, text.clone().unwrap_or_default());
    assert_eq!(choices().flat_map(|choice| self::calls(&choice["delta"])).collect::<Vec<_>>(), calls);
    assert_eq!(choices().next_back().unwrap()["finish_reason"], json!(finish));
    (text, calls, finish)
}

fn calls(message: &Value) -> Vec<(String, String)> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    calls
        .iter()
        .map(|call| {
            assert_eq!(call["type"], "function");
            assert!(text(&call["id"]).starts_with("call_"));
            (text(&call["function"]["name"]), text(&call["function"]["arguments"]))
        })
        .collect()
}

#[tokio::test]
async fn a_call_that_ends_the_turn_becomes_a_tool_call() {
    let (text, calls, finish) = outcome(&CALL, json!({"tools": tools()})).await;
    let call = ("search".to_owned(), "{\"b\":1,\"a\":\"é\"}".to_owned());
    assert_eq!((text.as_deref(), calls, finish.as_str()), (Some("I look."), vec![call], "tool_calls"));
}

#[tokio::test]
async fn a_turn_that_is_only_a_call_has_no_content() {
    let script = [Say("{\"name\": \"search\", \"arguments\": {}}"), End(Stop)];
    let (text, calls, finish) = outcome(&script, json!({"tools": tools()})).await;
    assert_eq!((text, calls.len(), finish.as_str()), (None, 1, "tool_calls"));
}

#[tokio::test]
async fn without_tools_or_with_tool_choice_none_a_call_is_text() {
    for extra in [json!({}), json!({"tools": []}), json!({"tools": tools(), "tool_choice": "none"})] {
        let (text, calls, finish) = outcome(&CALL, extra).await;
        assert!(text.unwrap().ends_with("</tool_call>"));
        assert_eq!((calls.len(), finish.as_str()), (0, "stop"));
    }
}

#[tokio::test]
async fn a_call_cut_by_the_limit_is_text() {
    let script = [CALL[0].clone(), CALL[1].clone(), CALL[2].clone(), CALL[3].clone(), End(Length)];
    let (text, calls, finish) = outcome(&script, json!({"tools": tools()})).await;
    assert!(text.unwrap().ends_with("</tool_call>"));
    assert_eq!((calls.len(), finish.as_str()), (0, "length"));
}

#[tokio::test]
async fn tools_reach_the_template_as_they_were_given() {
    let engine = Scripted::new(&CALL);
    let address = served(engine.clone()).await;
    ask(address, &chat(json!({"tools": tools()}))).await;
    assert_eq!(json!(*engine.tools.lock().unwrap()), tools());
    ask(address, &chat(json!({"tools": tools(), "tool_choice": "none"}))).await;
    assert!(engine.tools.lock().unwrap().is_empty());
}
