//! `/v1/completions`: a prompt without a conversation, and a gap that is filled.

use serde_json::{Value, json};

use super::bench::{Answer, End, HELLO, Say, Scripted, ask_at, get, served};
use crate::FinishReason::{Failed, Length};
use crate::SubmitError;

async fn complete(engine: &Scripted, extra: Value) -> Answer {
    let mut body = json!({"model": "tiny", "prompt": "one"});
    for (name, value) in extra.as_object().expect("an object") {
        body[name] = value.clone();
    }
    ask_at(served(engine.clone()).await, "/v1/completions", &body).await
}

#[tokio::test]
async fn a_completion_has_the_text_and_what_it_cost() {
    let answer = complete(&Scripted::new(&HELLO), json!({})).await.json();
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-") && answer["created"].as_u64().unwrap() > 0);
    assert_eq!((&answer["object"], &answer["model"]), (&json!("text_completion"), &json!("tiny")));
    let choice = json!({"index": 0, "text": "Hello", "logprobs": null, "finish_reason": "stop"});
    assert_eq!(answer["choices"], json!([choice]));
    let usage = &answer["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(3), &json!(2)));
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 1);
}

#[tokio::test]
async fn a_stream_gives_text_ending_and_usage_in_this_order() {
    for include_usage in [true, false] {
        let extra = json!({"stream": true, "stream_options": {"include_usage": include_usage}});
        let mut events = complete(&Scripted::new(&[Say("Hel"), Say("lo"), End(Length)]), extra).await.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"));
        let mut chunks: Vec<Value> = events.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
        if include_usage {
            let last = chunks.pop().unwrap();
            assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(5)));
        }
        assert!(chunks.iter().all(|chunk| chunk.get("usage") == include_usage.then_some(&Value::Null)));
        let said: Vec<(&str, Option<&str>)> = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0])
            .map(|choice| (choice["text"].as_str().unwrap(), choice["finish_reason"].as_str()))
            .collect();
        assert_eq!(said, [("Hel", None), ("lo", None), ("", Some("length"))]);
    }
}

#[tokio::test]
async fn a_prompt_is_text_with_control_tokens_or_ids() {
    let engine = Scripted::new(&HELLO);
    for (prompt, ids) in [
        (json!("a<|fim_pad|>"), vec![97, 259]),
        (json!(["ab"]), vec![97, 98]),
        (json!([7, 300]), vec![7, 300]),
        (json!([[7]]), vec![7]),
    ] {
        assert_eq!(complete(&engine, json!({"prompt": prompt})).await.status, 200, "{prompt}");
        assert_eq!(engine.submission().prompt, ids);
    }
}

#[tokio::test]
async fn what_was_asked_reaches_the_engine() {
    let engine = Scripted::new(&HELLO);
    complete(&engine, json!({"stop": ["x"], "seed": 4, "temperature": 0, "max_tokens": 9})).await;
    let seen = engine.submission();
    assert_eq!((seen.stop, seen.sampling.seed, seen.tokens_max), (vec!["x".to_owned()], 4, 9));
    complete(&engine, json!({})).await;
    assert_eq!(engine.submission().tokens_max, 16, "as OpenAI has it");
}

#[tokio::test]
async fn a_gap_is_filled_by_the_tokens_of_the_family_and_no_text_counts_as_one() {
    let engine = Scripted::new(&HELLO);
    complete(&engine, json!({"prompt": "a", "suffix": "<|fim_pad|>", "stop": "x"})).await;
    let mut ids = vec![256, 97, 257];
    ids.extend("<|fim_pad|>".bytes().map(u32::from));
    ids.push(258);
    let seen = engine.submission();
    assert_eq!(seen.prompt, ids);
    assert_eq!(seen.stop, ["x", "<|fim_pad|>"]);
    complete(&engine, json!({"prompt": "", "suffix": ""})).await;
    assert_eq!(engine.submission().prompt, [256, 257, 258]);
}

#[tokio::test]
async fn a_vocabulary_without_those_tokens_cannot_fill_and_says_which_is_missing() {
    let engine = Scripted::with(&HELLO, |stage| stage.controls = 2);
    let answer = complete(&engine, json!({"suffix": "b"})).await;
    assert_eq!(answer.error(), (400, "unsupported_value".into()));
    assert_eq!(answer.json()["error"]["param"], "suffix");
    assert!(answer.body.contains("<|fim_middle|>"), "{answer:?}");
    assert_eq!(complete(&engine, json!({})).await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_its_name() {
    let engine = Scripted::new(&HELLO);
    for (extra, param) in [
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": 3}), "prompt"),
        (json!({"prompt": {"a": 1}}), "prompt"),
        (json!({"prompt": ["a", "b"]}), "prompt"),
        (json!({"prompt": [[1], [2]]}), "prompt"),
        (json!({"prompt": [[[1]]]}), "prompt"),
        (json!({"prompt": [1, -2]}), "prompt[1]"),
        (json!({"prompt": [1], "suffix": "b"}), "suffix"),
        (json!({"suffix": 3}), "suffix"),
        (json!({"n": 9}), "n"),
        (json!({"best_of": 3}), "best_of"),
        (json!({"echo": true}), "echo"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"logprobs": 21}), "logprobs"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"stop": [""]}), "stop"),
        (json!({"model": null}), "model"),
    ] {
        let answer = complete(&engine, extra.clone()).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{extra}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(param), "{extra}");
    }
    let nothing = json!({"suffix": null, "echo": false, "n": 1, "logprobs": null, "best_of": 1, "user": "me"});
    assert_eq!(complete(&engine, nothing).await.status, 200);
    assert_eq!(get(served(engine).await, "/v1/completions").await.error(), (405, "method_not_allowed".into()));
}

#[tokio::test]
async fn what_the_engine_refuses_names_the_prompt() {
    for (refusal, code) in [
        (SubmitError::PromptEmpty, "invalid_value"),
        (SubmitError::UnknownToken { id: 9, vocabulary: 8 }, "invalid_value"),
        (SubmitError::PromptTooLong { prompt_tokens: 9, context_tokens_max: 8 }, "context_length_exceeded"),
    ] {
        let engine = Scripted::with(&HELLO, |stage| stage.refusal = Some(refusal));
        let answer = complete(&engine, json!({})).await;
        assert_eq!(answer.error(), (400, code.into()));
        assert_eq!(answer.json()["error"]["param"], "prompt");
    }
}

#[tokio::test]
async fn an_engine_that_fails_ends_the_stream_with_an_error_and_never_with_done() {
    let engine = Scripted::new(&[Say("Hel"), End(Failed("no memory".into()))]);
    let events = complete(&engine, json!({"stream": true})).await.events();
    assert!(events.last().unwrap().contains("internal_error") && !events.contains(&"[DONE]".to_owned()));
    assert_eq!(complete(&engine, json!({})).await.error(), (500, "internal_error".into()));
}
