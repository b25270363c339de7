//! What a request may say, and what it is told when it says something else.

use serde_json::{Value, json};

use super::bench::{End, Say, Scripted, ask, chat, exchange, get, post, served};
use crate::FinishReason::Stop;
use crate::{Sampling, SubmitError};

const HELLO: [super::bench::Step; 2] = [Say("hi"), End(Stop)];

#[tokio::test]
async fn a_field_of_the_wrong_type_or_size_is_refused_by_its_name() {
    let address = served(Scripted::new(&HELLO)).await;
    let cases = [
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"temperature": 2.5}), "temperature"),
        (json!({"temperature": -1}), "temperature"),
        (json!({"top_p": 1.01}), "top_p"),
        (json!({"top_k": -1}), "top_k"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": "9"}), "max_tokens"),
        (json!({"max_completion_tokens": -3}), "max_completion_tokens"),
        (json!({"n": 9}), "n"),
        (json!({"n": 0}), "n"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"stream_options": true}), "stream_options"),
        (json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage"),
        (json!({"cache_prompt": "no"}), "cache_prompt"),
        (json!({"stop": 3}), "stop"),
        (json!({"stop": ["a", 3]}), "stop[1]"),
        (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
        (json!({"stop": ""}), "stop"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.schema"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}),
            "response_format.json_schema.schema",
        ),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tool_choice": "perhaps"}), "tool_choice"),
        (json!({"tool_choice": {"type": "function", "function": {}}}), "tool_choice.function.name"),
        (json!({"tool_choice": {"type": "allowed_tools"}}), "tool_choice.type"),
        (json!({"logprobs": 3}), "logprobs"),
        (json!({"top_logprobs": 3}), "top_logprobs"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
        (json!({"logit_bias": [1]}), "logit_bias"),
        (json!({"logit_bias": {"a": 1}}), "logit_bias.a"),
        (json!({"logit_bias": {"7": 101}}), "logit_bias.7"),
        (json!({"logit_bias": {"999": 1}}), "logit_bias"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [3]}), "tools[0]"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (json!({"tools": [{"type": "retrieval"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}), "tools[0].function.name"),
        (json!({"model": 3}), "model"),
        (json!({"model": null}), "model"),
        (json!({"messages": null}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "hello"}), "messages"),
        (json!({"messages": ["hello"]}), "messages[0]"),
        (json!({"messages": [{"content": "hello"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "wizard", "content": "hello"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content"),
        (json!({"messages": [{"role": "user", "content": 3}]}), "messages[0].content"),
        (json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), "messages[0].content[0].type"),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}]}),
            "messages[0].tool_calls[0].function.arguments",
        ),
    ];
    for (extra, param) in cases {
        let answer = ask(address, &chat(extra.clone())).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{extra}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(param), "{extra}");
    }
}

#[tokio::test]
async fn unknown_fields_and_nulls_are_ignored() {
    let address = served(Scripted::new(&HELLO)).await;
    let extra = json!({
        "user": "someone", "metadata": {"a": [1]}, "frequency_penalty": 0, "store": false, "parallel_tool_calls": true,
        "response_format": {"type": "text"}, "n": null, "stop": null, "tools": null, "stream": null,
        "temperature": null, "max_tokens": null, "stream_options": null, "tool_choice": "auto",
    });
    assert_eq!(ask(address, &chat(extra)).await.status, 200);
}

#[tokio::test]
async fn what_was_asked_reaches_the_engine() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    let extra = json!({
        "temperature": 0.5, "top_p": 0.25, "top_k": 9, "seed": -1, "stop": ["x", "y"], "max_tokens": 5,
        "max_completion_tokens": 12,
    });
    assert_eq!(ask(address, &chat(extra)).await.status, 200);
    let seen = engine.submission();
    let sampling = Sampling { temperature: 0.5, top_p: 0.25, top_k: 9, seed: u64::MAX };
    assert_eq!((seen.sampling, seen.stop), (sampling, vec!["x".to_owned(), "y".to_owned()]));
    assert_eq!((seen.tokens_max, seen.prompt.len(), seen.cache), (12, 5, true));
    assert_eq!(ask(address, &chat(json!({"cache_prompt": false}))).await.status, 200);
    assert!(!engine.submission().cache);
}

#[tokio::test]
async fn a_request_that_leaves_sampling_open_gets_what_suits_the_model() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    ask(address, &chat(json!({"seed": 4}))).await;
    assert_eq!(engine.submission().sampling, Sampling { temperature: 0.7, top_p: 0.8, top_k: 20, seed: 4 });
    ask(address, &chat(json!({"seed": 4, "top_p": 0}))).await;
    assert_eq!(engine.submission().sampling, Sampling { temperature: 0.7, top_p: 1.0, top_k: 1, seed: 4 });
}

#[tokio::test]
async fn an_answer_may_fill_the_context_and_no_more() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    for extra in [json!({}), json!({"max_tokens": 100_000})] {
        assert_eq!(ask(address, &chat(extra)).await.status, 200);
        assert_eq!(engine.submission().tokens_max, 995);
    }
}

#[tokio::test]
async fn two_requests_without_a_seed_get_different_ones() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    ask(address, &chat(json!({}))).await;
    let first = engine.submission().sampling.seed;
    ask(address, &chat(json!({}))).await;
    assert_ne!(first, engine.submission().sampling.seed);
}

#[tokio::test]
async fn messages_of_every_role_and_form_reach_the_template() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
    let messages = json!([
        {"role": "developer", "content": "be short"},
        {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}], "name": "me"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]);
    assert_eq!(ask(address, &chat(json!({"messages": messages}))).await.status, 200);
    let seen = engine.messages.lock().unwrap().clone();
    let expected: Vec<crate::Message> = serde_json::from_value(json!([
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "one two"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]))
    .unwrap();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn an_unknown_model_is_404_and_says_which_one_is_served() {
    let address = served(Scripted::new(&HELLO)).await;
    let answer = ask(address, &chat(json!({"model": "gpt-4o"}))).await;
    assert_eq!(answer.error(), (404, "model_not_found".into()));
    assert!(answer.body.contains("'tiny'"), "{answer:?}");
}

#[tokio::test]
async fn a_prompt_that_leaves_no_room_exceeds_the_context() {
    let full = Scripted::with(&HELLO, |stage| stage.context_tokens = 5);
    let refused = SubmitError::PromptTooLong { prompt_tokens: 9, context_tokens_max: 8 };
    let refuses = Scripted::with(&HELLO, |stage| stage.refusal = Some(refused));
    for engine in [full, refuses] {
        let answer = ask(served(engine).await, &chat(json!({}))).await;
        assert_eq!(answer.error(), (400, "context_length_exceeded".into()));
    }
}

#[tokio::test]
async fn a_full_queue_is_429_and_says_when_to_try_again() {
    let engine = Scripted::with(&HELLO, |stage| stage.refusal = Some(SubmitError::QueueFull));
    let answer = ask(served(engine).await, &chat(json!({"stream": true}))).await;
    assert_eq!(answer.error(), (429, "queue_full".into()));
    assert!(answer.head.contains("\r\nretry-after: 5"), "{answer:?}");
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_refused() {
    let address = served(Scripted::new(&HELLO)).await;
    let deep = "[".repeat(100_000);
    for body in ["", "{", "[]", "3", "\u{0}", "{\"model\": \"tiny\",}", deep.as_str()] {
        assert_eq!(exchange(address, &post(body)).await.error(), (400, "invalid_json".into()), "{body:.20}");
    }
}

#[tokio::test]
async fn a_body_not_declared_as_json_is_refused() {
    let address = served(Scripted::new(&HELLO)).await;
    let good = post(&chat(json!({})).to_string());
    for declared in ["content-type: text/plain", "content-type: application/x-www-form-urlencoded", "x-nothing: 1"] {
        let answer = exchange(address, &good.replace("content-type: application/json", declared)).await;
        assert_eq!(answer.error(), (415, "unsupported_media_type".into()));
    }
    let charset = good.replace("application/json", "Application/JSON; charset=utf-8");
    assert_eq!(exchange(address, &charset).await.status, 200);
}

#[tokio::test]
async fn a_body_above_the_limit_is_413_and_one_below_is_read() {
    let engine = Scripted::with(&HELLO, |stage| stage.context_tokens = 100 << 20);
    let address = served(engine).await;
    let long = |bytes| json!([{"role": "user", "content": "x".repeat(bytes)}]);
    assert_eq!(ask(address, &chat(json!({"messages": long(7 << 20)}))).await.status, 200);

    // Declared only: the server answers before the body is sent.
    let declared = post("").replace("content-length: 0", &format!("content-length: {}", 9 << 20));
    assert_eq!(exchange(address, &declared).await.error(), (413, "request_too_large".into()));

    let bytes = (8 << 20) + 1;
    let undeclared = post("").replace("content-length: 0", "transfer-encoding: chunked");
    let undeclared = format!("{undeclared}{bytes:x}\r\n{}", "x".repeat(bytes));
    assert_eq!(exchange(address, &undeclared).await.error(), (413, "request_too_large".into()));
}

#[tokio::test]
async fn text_in_any_language_comes_back_whole() {
    let address = served(Scripted::new(&[Say("naïve "), Say("日本"), Say("🦀\u{0}\n\r\"\\"), End(Stop)])).await;
    let whole = ask(address, &chat(json!({}))).await.json();
    assert_eq!(whole["choices"][0]["message"]["content"], "naïve 日本🦀\u{0}\n\r\"\\");
    let stream = ask(address, &chat(json!({"stream": true}))).await;
    let text: String = stream
        .events()
        .iter()
        .filter_map(|data| serde_json::from_str::<Value>(data).ok())
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(text, "naïve 日本🦀\u{0}\n\r\"\\");
}

#[tokio::test]
async fn what_would_cost_the_cache_is_taken_out_and_told() {
    let engine = Scripted::new(&HELLO);
    let address = served(engine.clone()).await;
    let system = json!({"role": "system", "content": "x-billing-header: cch=1;\nBe short."});
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let extra = json!({"messages": [system, {"role": "user", "content": "hi"}], "tools": [tool("b"), tool("a")]});
    let answer = ask(address, &chat(extra)).await;
    assert_eq!(answer.json()["usage"]["cloister"]["steadied"], json!(["billing-header", "tool-order"]));
    assert_eq!(engine.messages.lock().unwrap()[0].content, "Be short.");
    assert_eq!(engine.tools.lock().unwrap()[0], tool("a"));
}

#[tokio::test]
async fn tokens_are_counted_over_requests() {
    let address = served(Scripted::new(&HELLO)).await;
    for _ in 0..2 {
        ask(address, &chat(json!({}))).await;
    }
    let answer = get(address, "/metrics").await;
    let has = |line: &str| answer.body.lines().any(|found| found.ends_with(line));
    assert!(answer.status == 200 && has("} 2") && has("finished_reason=\"stop\"} 2"), "{}", answer.body);
    assert!(answer.body.contains("vllm:num_requests_running{model_name=\"tiny\"} 0"), "{}", answer.body);
}
