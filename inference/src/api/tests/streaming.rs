//! A completion, whole and as a stream.

use serde_json::{Value, json};

use super::bench::{Answer, End, HELLO, Say, Scripted, Vanish, ask, chat, served};
use crate::FinishReason::{Cancelled, Failed, Length, Stop};

fn chunks(answer: &Answer) -> Vec<Value> {
    let mut events = answer.events();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    events.iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn usage() -> Value {
    json!({
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 2},
        "cloister": {"computed_tokens": 3, "disk_tokens": 0, "prefill_seconds": 0.5, "decode_seconds": 0.25, "diverged_at": null, "steadied": []},
    })
}

#[tokio::test]
async fn a_completion_has_the_text_and_what_it_cost() {
    let answer = ask(served(Scripted::new(&HELLO)).await, &chat(json!({}))).await;
    let mut json = answer.json();
    assert_eq!(answer.status, 200);
    assert!(json["id"].as_str().unwrap().starts_with("chatcmpl-") && json["created"].as_u64().unwrap() > 0);
    json.as_object_mut().unwrap().retain(|name, _| name != "id" && name != "created");
    let message = json!({"role": "assistant", "content": "Hello", "refusal": null});
    let expected = json!({
        "object": "chat.completion",
        "model": "tiny",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}],
        "usage": usage(),
    });
    assert_eq!(json, expected);
}

#[tokio::test]
async fn a_stream_gives_role_text_ending_and_usage_in_this_order() {
    let body = chat(json!({"stream": true, "stream_options": {"include_usage": true}}));
    let chunks = chunks(&ask(served(Scripted::new(&HELLO)).await, &body).await);
    let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    let expected = [
        &json!({"role": "assistant", "content": ""}),
        &json!({"content": "Hel"}),
        &json!({"content": "lo"}),
        &json!({}),
        &Value::Null,
    ];
    assert_eq!(deltas, expected);
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &usage()));
    assert_eq!(before.last().unwrap()["choices"][0]["finish_reason"], "stop");
    for chunk in before {
        assert_eq!(chunk.get("usage"), Some(&Value::Null));
    }
    for chunk in &chunks {
        assert_eq!((&chunk["object"], &chunk["id"]), (&json!("chat.completion.chunk"), &chunks[0]["id"]));
    }
}

#[tokio::test]
async fn a_stream_says_nothing_of_usage_unless_asked() {
    for extra in [json!({"stream": true}), json!({"stream": true, "stream_options": {"include_usage": false}})] {
        let chunks = chunks(&ask(served(Scripted::new(&HELLO)).await, &chat(extra)).await);
        assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    }
}

#[tokio::test]
async fn an_answer_cut_by_its_limit_says_length() {
    let address = served(Scripted::new(&[Say("Hel"), End(Length)])).await;
    let whole = ask(address, &chat(json!({}))).await.json();
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let chunks = chunks(&ask(address, &chat(json!({"stream": true}))).await);
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let address = served(Scripted::new(&[End(Stop)])).await;
    let whole = ask(address, &chat(json!({}))).await.json();
    assert_eq!(whole["choices"][0]["message"]["content"], "");
    assert_eq!(chunks(&ask(address, &chat(json!({"stream": true}))).await).len(), 2);
}

#[tokio::test]
async fn an_engine_that_dies_ends_the_answer_with_an_error_and_never_with_done() {
    for (script, code, status) in [
        (vec![Say("Hel"), Vanish], "internal_error", 500),
        (vec![Vanish], "internal_error", 500),
        (vec![Say("Hel"), End(Cancelled)], "shutting_down", 503),
        (vec![Say("Hel"), End(Failed("no memory".into()))], "internal_error", 500),
    ] {
        let address = served(Scripted::new(&script)).await;
        let whole = ask(address, &chat(json!({}))).await;
        assert_eq!(whole.error(), (status, code.into()));
        assert!(whole.head.contains("x-should-retry: false"), "{whole:?}");
        let events = ask(address, &chat(json!({"stream": true}))).await.events();
        assert!(!events.contains(&"[DONE]".to_owned()), "{events:?}");
        let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], code);
    }
}
