//! Does the server say what the engine says, whole, streamed, to several clients, and to one that leaves?

use crate::tiny::Tiny;
use inference::api::{Limits, Served, serve_blocking};
use inference::{Engine, EngineSettings, FinishReason, GenerateRequest, Message, Role};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A served model; stops when dropped.
pub struct Server {
    engine: Engine,
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _tiny: Option<Tiny>,
}

impl Server {
    pub fn start() -> Server {
        let tiny = Tiny::new();
        let engine = Engine::load(&tiny.path(), EngineSettings::default()).unwrap();
        let mut server = Server::over(engine, "tiny");
        server._tiny = Some(tiny);
        server
    }

    /// Serves this engine under this name.
    pub fn over(engine: Engine, name: &str) -> Server {
        let served = Served { name: name.into(), engine: engine.clone() };
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, address) = mpsc::channel();
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let address = "127.0.0.1:0".parse().unwrap();
                serve_blocking(address, served, Limits::default(), stop, |address| ready.send(address).unwrap())
                    .unwrap();
            }
        });
        let address = address.recv_timeout(Duration::from_secs(10)).unwrap();
        Server { engine, address, stop, thread: Some(thread), _tiny: None }
    }

    pub fn ask(&self, body: &Value) -> String {
        self.ask_at("/v1/chat/completions", body)
    }

    pub fn ask_at(&self, path: &str, body: &Value) -> String {
        let url = format!("http://{}{path}", self.address);
        let answer = ureq::post(&url).content_type("application/json").send(body.to_string());
        answer.unwrap().body_mut().read_to_string().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn chat(question: &str, tokens_max: usize, stream: bool) -> Value {
    json!({
        "model": "tiny", "messages": [{"role": "user", "content": question}], "temperature": 0,
        "max_tokens": tokens_max, "stream": stream, "stream_options": {"include_usage": true},
    })
}

/// What the engine itself says, asked without a server.
fn said(engine: &Engine, question: &str, tokens_max: usize) -> (String, &'static str) {
    let prompt = engine.chat().encode(&[Message::new(Role::User, question)], None, true).unwrap();
    let request = GenerateRequest { cache: false, ..GenerateRequest::greedy(prompt, tokens_max) };
    let finish = engine.submit(request).unwrap().finish();
    (finish.text, if finish.reason == FinishReason::Length { "length" } else { "stop" })
}

/// The text, the finish reason and the usage of a stream.
fn read_stream(body: &str) -> (String, String, Value) {
    let mut data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"));
    let chunks: Vec<Value> = data.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let text = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    let finish = chunks.iter().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).unwrap().to_owned();
    (text, finish, chunks.last().unwrap()["usage"].clone())
}

#[test]
fn a_served_answer_is_the_engines_own_whole_and_streamed() {
    let server = Server::start();
    let question = "a question long enough to fill a block or two of the cache, and then some";
    let (text, finish) = said(&server.engine, question, 40);

    let whole: Value = serde_json::from_str(&server.ask(&chat(question, 40, false))).unwrap();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert_eq!(whole["choices"][0]["finish_reason"], finish);
    let usage = &whole["usage"];
    assert_eq!(usage["cloister"]["computed_tokens"], usage["prompt_tokens"]);

    let (streamed, streamed_finish, usage) = read_stream(&server.ask(&chat(question, 40, true)));
    assert_eq!((streamed.as_str(), streamed_finish.as_str()), (text.as_str(), finish));
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let computed = usage["cloister"]["computed_tokens"].as_u64().unwrap();
    assert!(cached > computed, "the second time most of the prompt is cached: {usage}");
    assert_eq!(Some(cached + computed), usage["prompt_tokens"].as_u64());
}

#[test]
fn the_same_answer_comes_in_every_dialect() {
    let server = Server::start();
    let question = "a question for everybody";
    let json = |path: &str, body: Value| -> Value { serde_json::from_str(&server.ask_at(path, &body)).unwrap() };
    let seed = (0..100).find(|seed| said(&server.engine, &format!("{question} {seed}"), 20).0.chars().count() > 5);
    let question = format!("{question} {}", seed.expect("an answer of some length"));
    let (text, _) = said(&server.engine, &question, 20);
    let messages = json!([{"role": "user", "content": question}]);
    let asked = |extra: Value| {
        let mut body = json!({"model": "tiny", "temperature": 0, "max_tokens": 20});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };

    let message = json("/v1/messages", asked(json!({"messages": messages})));
    assert_eq!(message["content"][0]["text"], text);
    let count = json("/v1/messages/count_tokens", asked(json!({"messages": messages})))["input_tokens"].as_u64();
    let usage = &message["usage"];
    let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    assert_eq!(Some(parts.iter().filter_map(|part| usage[part].as_u64()).sum::<u64>()), count);
    let response = json("/v1/responses", asked(json!({"input": question, "max_output_tokens": 20})));
    assert_eq!(response["output"][0]["content"][0]["text"], text);
    let prompt = server.engine.chat().encode(&[Message::new(Role::User, &*question)], None, true).unwrap();
    let completion = json("/v1/completions", asked(json!({"prompt": prompt})));
    assert_eq!(completion["choices"][0]["text"], text);
    assert_eq!(
        json("/detokenize", json!({"tokens": prompt}))["content"],
        server.engine.chat().tokenizer().decode(&prompt)
    );

    // A stop string that the engine finds is told by its name.
    let at = text.char_indices().nth(3).unwrap().0;
    let stop: String = text[at..].chars().take(2).collect();
    let stopped = json("/v1/messages", asked(json!({"messages": messages, "stop_sequences": ["never", stop]})));
    assert_eq!((&stopped["stop_reason"], &stopped["stop_sequence"]), (&json!("stop_sequence"), &json!(stop)));
    let before = text.find(&stop).unwrap();
    assert_eq!(stopped["content"][0]["text"].as_str().unwrap_or_default(), &text[..before]);
}

#[test]
fn clients_at_the_same_time_each_get_their_own_answer() {
    let server = Server::start();
    std::thread::scope(|scope| {
        for client in 0..6 {
            let server = &server;
            scope.spawn(move || {
                let question = format!("question number {client}");
                let (text, ..) = read_stream(&server.ask(&chat(&question, 20, true)));
                assert_eq!(text, said(&server.engine, &question, 20).0);
            });
        }
    });
}

#[test]
fn a_client_that_leaves_frees_the_engine_for_the_next() {
    let server = Server::start();
    let (body, whole_time) = (0..100).find_map(|seed| long_answer(&server, seed)).expect("a seed with a long answer");
    let begun = Instant::now();
    for _ in 0..5 {
        let mut socket = TcpStream::connect(server.address).unwrap();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
        std::io::Read::read_exact(&mut socket, &mut [0; 200]).unwrap();
    }
    server.ask(&chat("short", 1, false));
    eprintln!("one answer took {whole_time:?}, leaving five took {:?}", begun.elapsed());
    assert!(begun.elapsed() < whole_time * 2, "{:?}", begun.elapsed());
}

/// A request whose answer has 200 tokens, and how long it takes. The tiny model's answers end at random.
fn long_answer(server: &Server, seed: u64) -> Option<(String, Duration)> {
    let mut body = chat("go on and on", 200, true);
    (body["temperature"], body["top_p"], body["top_k"], body["seed"]) = (json!(1), json!(1), json!(0), json!(seed));
    let begun = Instant::now();
    let (_, finish, _) = read_stream(&server.ask(&body));
    (finish == "length").then(|| (body.to_string(), begun.elapsed()))
}

#[test]
fn an_engine_that_was_shut_down_is_told_as_such() {
    let server = Server::start();
    server.engine.clone().shutdown();
    let url = format!("http://{}/v1/chat/completions", server.address);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let answer = agent.post(&url).content_type("application/json").send(chat("hello", 1, false).to_string());
    let mut answer = answer.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.body_mut().read_to_string().unwrap().contains("model_failed"));
}
