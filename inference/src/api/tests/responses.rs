//! `/v1/responses`: OpenAI's Responses API, of which nothing is stored.

use serde_json::{Value, json};

use super::bench::{Answer, CALL, End, HELLO, Say, Scripted, Step, ask_at, served};
use crate::FinishReason::{Failed, Length, Stop};
use crate::Message;

async fn ask(engine: &Scripted, extra: Value) -> Answer {
    let mut body = json!({"model": "tiny", "input": "hello"});
    for (name, value) in extra.as_object().expect("an object") {
        body[name] = value.clone();
    }
    ask_at(served(engine.clone()).await, "/v1/responses", &body).await
}

fn tools() -> Value {
    json!([{"type": "function", "name": "search", "description": "finds", "parameters": {"type": "object"}, "strict": false}])
}

/// The data of a stream's events: named as they are sent, and numbered.
fn events(answer: &Answer) -> Vec<Value> {
    let names = answer.body.lines().filter_map(|line| line.strip_prefix("event: "));
    let data: Vec<Value> = answer.events().iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    assert_eq!(names.collect::<Vec<_>>(), kinds(&data));
    assert!(data.iter().enumerate().all(|(at, data)| data["sequence_number"] == at), "{data:?}");
    data
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

/// Without the ids, which differ from answer to answer.
fn plain(response: &Value) -> Value {
    let mut plain = response.clone();
    let fields = plain.as_object_mut().unwrap();
    fields.retain(|name, _| name != "id" && name != "created_at" && name != "usage");
    for item in plain["output"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().retain(|name, _| name != "id" && name != "call_id");
    }
    plain
}

#[tokio::test]
async fn a_response_has_its_items_and_what_they_cost() {
    let extra = json!({"instructions": "Be short.", "metadata": {"a": "b"}, "temperature": 0.5});
    let answer = ask(&Scripted::new(&HELLO), extra).await.json();
    assert!(answer["id"].as_str().unwrap().starts_with("resp_") && answer["created_at"].as_u64().unwrap() > 0);
    let part = json!({"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []});
    let expected = json!({
        "object": "response", "status": "completed", "background": false, "error": null, "incomplete_details": null,
        "model": "tiny", "previous_response_id": null, "store": false, "truncation": "disabled",
        "output": [{"type": "message", "role": "assistant", "status": "completed", "content": [part]}],
        "instructions": "Be short.", "max_output_tokens": null, "metadata": {"a": "b"}, "parallel_tool_calls": true,
        "reasoning": null, "temperature": 0.5, "text": {"format": {"type": "text"}}, "tool_choice": "auto",
        "tools": [], "top_p": null, "user": null,
    });
    assert_eq!(plain(&answer), expected);
    let usage = &answer["usage"];
    assert_eq!((&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"]), (&json!(14), &json!(7)));
    assert_eq!((&usage["output_tokens"], &usage["total_tokens"]), (&json!(2), &json!(16)));
}

#[tokio::test]
async fn a_stream_gives_its_events_in_the_documented_order() {
    let events = events(&ask(&Scripted::new(&HELLO), json!({"stream": true})).await);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&events), expected);
    let id = &events[2]["item"]["id"];
    assert!(events[3..8].iter().all(|event| event["item_id"] == *id && event["output_index"] == 0));
    assert_eq!((&events[4]["delta"], &events[6]["text"]), (&json!("Hel"), &json!("Hello")));
    let whole = ask(&Scripted::new(&HELLO), json!({})).await.json();
    assert_eq!(plain(&events[9]["response"]), plain(&whole));
    assert_eq!(events[9]["response"]["output"][0], events[8]["item"]);
}

#[tokio::test]
async fn a_call_is_an_item_of_its_own_whole_and_streamed() {
    let engine = Scripted::new(&CALL);
    let whole = ask(&engine, json!({"tools": tools()})).await.json();
    assert_eq!(whole["output"][0]["content"][0]["text"], "I look.");
    let call = &whole["output"][1];
    assert!(call["call_id"].as_str().unwrap().starts_with("call_") && call["id"].as_str().unwrap().starts_with("fc_"));
    assert_eq!((&call["name"], &call["arguments"]), (&json!("search"), &json!("{\"b\":1,\"a\":\"é\"}")));
    let function = json!({"name": "search", "description": "finds", "parameters": {"type": "object"}});
    assert_eq!(json!(*engine.tools.lock().unwrap()), json!([{"type": "function", "function": function}]));

    let events = events(&ask(&engine, json!({"tools": tools(), "stream": true})).await);
    let expected = [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    let last = &events[events.len() - 5..];
    assert_eq!(kinds(last), expected);
    assert!(last[..4].iter().all(|event| event["output_index"] == 1));
    assert_eq!((&last[0]["item"]["arguments"], &last[1]["delta"]), (&json!(""), &call["arguments"]));
    assert_eq!(plain(&last[4]["response"]), plain(&whole));
}

#[tokio::test]
async fn an_answer_that_is_only_a_call_has_no_message_and_an_empty_one_has_an_empty_message() {
    for stream in [false, true] {
        let response = async |script: &[Step], extra: Value| {
            let mut extra = extra;
            extra["stream"] = stream.into();
            let answer = ask(&Scripted::new(script), extra).await;
            if stream { events(&answer).pop().unwrap()["response"].clone() } else { answer.json() }
        };
        let call = [Say("{\"name\": \"search\", \"arguments\": {}}"), End(Stop)];
        let called = response(&call, json!({"tools": tools()})).await;
        assert_eq!(
            (called["output"].as_array().unwrap().len(), &called["output"][0]["type"]),
            (1, &json!("function_call"))
        );
        let empty = response(&[End(Stop)], json!({})).await;
        assert_eq!(empty["output"][0]["content"][0]["text"], "");
        let cut = response(&[Say("Hel"), End(Length)], json!({})).await;
        assert_eq!(
            (&cut["status"], &cut["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!("max_output_tokens"))
        );
    }
    let cut = events(&ask(&Scripted::new(&[Say("Hel"), End(Length)]), json!({"stream": true})).await);
    assert_eq!(cut.last().unwrap()["type"], "response.incomplete");
}

#[tokio::test]
async fn a_conversation_reaches_the_template_in_its_own_order() {
    let engine = Scripted::new(&HELLO);
    let call = |id: &str| json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "search", "arguments": "{\"a\":1}"});
    let output = |id: &str, output: Value| json!({"type": "function_call_output", "call_id": id, "output": output});
    let extra = json!({
        "instructions": "Be short.",
        "store": false,
        "max_output_tokens": 9,
        "input": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "input_text", "text": "one "}, {"type": "input_text", "text": "two"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
            call("c1"), call("c2"),
            output("c1", json!("found")), output("c2", json!([{"type": "input_text", "text": "gone"}])),
            call("c3"), output("c3", json!("")),
        ],
    });
    assert_eq!(ask(&engine, extra).await.status, 200);
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "search", "arguments": "{\"a\":1}"}});
    let expected: Vec<Message> = serde_json::from_value(json!([
        {"role": "system", "content": "Be short."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "one two"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("c1"), call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "tool", "tool_call_id": "c2", "content": "gone"},
        {"role": "assistant", "content": "", "tool_calls": [call("c3")]},
        {"role": "tool", "tool_call_id": "c3", "content": ""},
    ]))
    .unwrap();
    assert_eq!(*engine.messages.lock().unwrap(), expected);
    assert_eq!(engine.submission().tokens_max, 9);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_its_name_and_told_what_to_do_instead() {
    let engine = Scripted::new(&HELLO);
    let input = |item: Value| json!({"input": [item]});
    for (extra, param, says) in [
        (json!({"previous_response_id": "resp_1"}), "previous_response_id", "whole conversation"),
        (json!({"conversation": "conv_1"}), "conversation", "whole conversation"),
        (json!({"prompt": {"id": "p"}}), "prompt", "whole conversation"),
        (json!({"store": true}), "store", "leave it out"),
        (json!({"background": true}), "background", "'stream'"),
        (json!({"text": {"format": {"type": "json_schema"}}}), "text.format.schema", "missing"),
        (json!({"input": null}), "input", "missing"),
        (json!({"input": []}), "input", "at least one"),
        (json!({"input": 3}), "input", "a list of items"),
        (json!({"max_output_tokens": 0}), "max_output_tokens", "the least is 1"),
        (json!({"instructions": [3]}), "instructions", "a string"),
        (input(json!("hello")), "input[0]", "an object"),
        (input(json!({"content": "a"})), "input[0].role", "missing"),
        (input(json!({"role": "tool", "content": "a"})), "input[0].role", "assistant"),
        (input(json!({"role": "user"})), "input[0].content", "missing"),
        (input(json!({"role": "user", "content": [{"type": "input_image"}]})), "input[0].content[0].type", "text only"),
        (input(json!({"type": "item_reference", "id": "a"})), "input[0].type", "the item itself"),
        (input(json!({"type": "computer_call"})), "input[0].type", "function_call"),
        (input(json!({"type": "function_call", "name": "a", "arguments": "{}"})), "input[0].call_id", "missing"),
        (
            input(json!({"type": "function_call", "call_id": "a", "name": "a", "arguments": {}})),
            "input[0].arguments",
            "a string",
        ),
        (input(json!({"type": "function_call_output", "call_id": "a"})), "input[0].output", "missing"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type", "function"),
        (json!({"tools": [{"type": "function", "name": ""}]}), "tools[0].name", "1 to 64"),
        (json!({"tool_choice": "required"}), "tool_choice", "no tool"),
        (json!({"tool_choice": {"type": "function", "name": "a"}}), "tool_choice", "no tool"),
    ] {
        let answer = ask(&engine, extra.clone()).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{extra}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(says), "{says} in {answer:?}");
    }
    assert!(engine.submitted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_engine_that_fails_ends_the_stream_with_a_failed_response() {
    let engine = Scripted::new(&[Say("Hel"), End(Failed("no memory".into()))]);
    let last = events(&ask(&engine, json!({"stream": true})).await).pop().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert!(last["response"]["error"]["message"].as_str().unwrap().contains("no memory"));
    assert_eq!(ask(&engine, json!({})).await.error(), (500, "internal_error".into()));
}
