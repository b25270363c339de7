//! Does an answer of the real engine keep to a schema, to a bias, and is what is told of its tokens true?

use crate::api::Server;
use crate::engine::{drain, engine, generate};
use crate::found;
use inference::grammar::Shape;
use inference::kv::BLOCK_TOKENS;
use inference::{Engine, EngineSettings, Event, FinishReason, GenerateRequest, Message, Role, Sampling, Steer};
use serde_json::{Value, json};
use std::sync::Arc;

fn schema() -> Value {
    json!({
        "type": "object", "required": ["kind", "size"], "additionalProperties": false,
        "properties": {"kind": {"enum": ["round", "square"]}, "size": {"type": "integer", "minimum": 10, "maximum": 99}},
    })
}

fn held(engine: &Engine, prompt: &[u32]) -> GenerateRequest {
    let shape = Shape { answer: Some(("schema".into(), schema())), calls: None };
    let steer = Steer { grammar: Some(Arc::new(engine.grammar(shape).unwrap())), ..Steer::default() };
    let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed: 3 };
    GenerateRequest { steer, sampling, ..GenerateRequest::greedy(prompt.to_vec(), 900) }
}

fn fits(text: &str) -> bool {
    let read: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
    ["round", "square"].contains(&read["kind"].as_str().unwrap()) && (10..=99).contains(&read["size"].as_i64().unwrap())
}

#[test]
fn a_held_answer_fits_its_schema_cold_and_warm_alone_and_among_others() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let prompt: Vec<u32> = (0..70).collect();
    let (tokens, text, finish) = generate(&engine, held(&engine, &prompt));
    assert!(fits(&text) && finish.reason == FinishReason::Stop, "{text} {finish:?}");
    assert_eq!(generate(&engine, held(&engine, &prompt)).0, tokens, "warm");
    let free = |i: u32| GenerateRequest::greedy((i..i + 60).collect(), 60);
    let alone: Vec<_> = (0..4).map(|i| generate(&engine, GenerateRequest { cache: false, ..free(i) }).0).collect();
    let others: Vec<_> = (0..4).map(|i| engine.submit(free(i)).unwrap()).collect();
    let among: Vec<_> = (0..3).map(|_| engine.submit(held(&engine, &prompt)).unwrap()).collect();
    for generation in among {
        assert_eq!(drain(generation).0, tokens, "among others");
    }
    let beside: Vec<_> = others.into_iter().map(|generation| drain(generation).0).collect();
    assert_eq!(beside, alone, "a held answer changed another");
}

#[test]
fn what_was_forced_comes_back_in_the_next_prompt_as_the_same_tokens() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let mut messages = vec![Message::new(Role::User, "a thing")];
    let first = engine.chat().encode(&messages, None, true).unwrap();
    let (tokens, text, finish) = generate(&engine, held(&engine, &first));
    assert_eq!(finish.usage.generated_tokens, tokens.len());
    messages.push(Message::new(Role::Assistant, text));
    let second = engine.chat().encode(&messages, None, false).unwrap();
    let said: Vec<u32> = tokens.into_iter().filter(|&id| !engine.chat().tokenizer().ends_turn(id)).collect();
    assert!(second.starts_with(&[first, said].concat()));
}

#[test]
fn a_bias_makes_sure_of_a_token_and_rules_others_out() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let biased = |bias| {
        let steer = Steer { bias, ..Steer::default() };
        generate(&engine, GenerateRequest { steer, ..GenerateRequest::greedy(vec![1, 2, 3], 5) }).0
    };
    assert_eq!(biased(vec![(65, 100.0)]), [65; 5]);
    let first = biased(Vec::new())[0];
    assert_ne!(biased(vec![(first, -100.0)])[0], first);
}

#[test]
fn the_probability_of_each_token_is_told_and_the_best_is_the_greedy_one() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let steer = Steer { logprobs: Some(4), ..Steer::default() };
    let mut generation = engine.submit(GenerateRequest { steer, ..GenerateRequest::greedy(vec![1, 2, 3], 9) }).unwrap();
    let mut told = 0;
    while let Some(event) = generation.recv() {
        if let Event::Text { token, score: Some(score), .. } = event {
            told += 1;
            assert_eq!(score.top[0], (token, score.logprob));
            let sum: f32 = score.top.iter().map(|(_, logprob)| logprob.exp()).sum();
            assert!(score.top.len() == 4 && score.top.is_sorted_by(|a, b| a.1 >= b.1) && sum < 1.0001, "{score:?}");
        }
    }
    assert!(told > 0);
}

fn chat(extra: Value) -> Value {
    let long = "a question that fills a few blocks of the cache, and then some more of it ".repeat(3);
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": long}], "max_tokens": 12, "temperature": 1,
        "top_p": 1, "top_k": 0, "seed": 5});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

#[test]
fn several_answers_share_the_prompt_and_each_is_what_its_seed_alone_gives() {
    let server = Server::start();
    let whole = |extra| -> Value { serde_json::from_str(&server.ask(&chat(extra))).unwrap() };
    let several = whole(json!({"n": 3}));
    let usage = &several["usage"];
    let (prompt, computed) = (usage["prompt_tokens"].as_u64().unwrap(), &usage["cloister"]["computed_tokens"]);
    let again = 2 * (BLOCK_TOKENS as u64 + 1);
    assert!(computed.as_u64().unwrap() <= prompt + again && prompt > 4 * BLOCK_TOKENS as u64, "{usage}");
    for (at, seed) in [5, 6, 7].into_iter().enumerate() {
        let alone = whole(json!({"seed": seed, "cache_prompt": false}));
        assert_eq!(several["choices"][at]["message"], alone["choices"][0]["message"]);
    }
}

#[test]
fn the_tokens_that_are_told_make_up_the_text_whole_and_streamed() {
    let server = Server::start();
    let body = chat(json!({"logprobs": true, "top_logprobs": 2}));
    let whole: Value = serde_json::from_str(&server.ask(&body)).unwrap();
    let told = whole["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let bytes = |token: &Value| -> Vec<u8> {
        token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
    };
    let text: Vec<u8> = told.iter().flat_map(bytes).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], json!(String::from_utf8_lossy(&text)));
    assert!(told.iter().all(|token| token["top_logprobs"].as_array().unwrap().len() == 2));

    let mut body = body;
    body["stream"] = json!(true);
    let stream = server.ask(&body);
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: {"));
    let chunks: Vec<Value> = data.map(|data| serde_json::from_str(&format!("{{{data}")).unwrap()).collect();
    let streamed: Vec<Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array())
        .flat_map(|tokens| tokens.iter().cloned())
        .collect();
    assert_eq!(&streamed, told);

    let completion = json!({"model": "tiny", "prompt": "once", "max_tokens": 6, "temperature": 0, "logprobs": 3});
    let completion: Value = serde_json::from_str(&server.ask_at("/v1/completions", &completion)).unwrap();
    let logprobs = &completion["choices"][0]["logprobs"];
    let count = logprobs["tokens"].as_array().unwrap().len();
    assert!(count > 0 && logprobs["text_offset"][0] == 0);
    for list in ["token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[list].as_array().unwrap().len(), count, "{list}");
    }
}

#[test]
fn the_real_model_keeps_to_a_schema_and_calls_what_it_must() {
    let test = "the_real_model_keeps_to_a_schema_and_calls_what_it_must";
    if !found::slow(test) {
        return;
    }
    let Some(path) = found::qwen(test, "1.5b") else { return };
    let server = Server::over(Engine::load(&path, EngineSettings::default()).unwrap(), "coder");
    let asked = |question: &str, extra: Value| -> Value {
        let mut body = json!({"model": "coder", "messages": [{"role": "user", "content": question}], "temperature": 0,
            "max_tokens": 200});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer: Value = serde_json::from_str(&server.ask(&body)).unwrap();
        println!("{}\n{}", answer["choices"][0], answer["usage"]);
        answer["choices"][0].clone()
    };
    let city = json!({
        "type": "object", "required": ["city", "country", "population"], "additionalProperties": false,
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}, "population": {"type": "integer"}},
    });
    let format = json!({"type": "json_schema", "json_schema": {"name": "city", "strict": true, "schema": city}});
    let answer = asked("Which city is the capital of France?", json!({"response_format": format}));
    let read: Value = serde_json::from_str(answer["message"]["content"].as_str().unwrap()).unwrap();
    assert_eq!((&read["city"], read.as_object().unwrap().len()), (&json!("Paris"), 3), "{read}");
    assert!(read["population"].is_i64() && answer["finish_reason"] == "stop");
    let object = asked("Give me a JSON object with your name.", json!({"response_format": {"type": "json_object"}}));
    assert!(serde_json::from_str::<Value>(object["message"]["content"].as_str().unwrap()).unwrap().is_object());

    let tool = |name: &str, key: &str| {
        json!({"type": "function", "function": {"name": name, "strict": true,
        "parameters": {"type": "object", "properties": {key: {"type": "string"}}, "required": [key], "additionalProperties": false}}})
    };
    let tools = json!([tool("read_file", "path"), tool("run_command", "command")]);
    let named = json!({"type": "function", "function": {"name": "run_command"}});
    let auto = "Call read_file for the file src/main.rs.";
    for (question, choice, name) in [
        ("Hello, how are you?", json!("required"), None),
        ("What is in the file src/main.rs?", named, Some("run_command")),
        (auto, json!("auto"), Some("read_file")),
    ] {
        let answer = asked(question, json!({"tools": tools, "tool_choice": choice}));
        let call = &answer["message"]["tool_calls"][0]["function"];
        assert_eq!(answer["finish_reason"], "tool_calls", "{answer}");
        assert!(name.is_none_or(|name| call["name"] == name), "{answer}");
        let key = if call["name"] == "read_file" { "path" } else { "command" };
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments[key].is_string() && arguments.as_object().unwrap().len() == 1, "{answer}");
    }
}
