//! The scripted engine, and a client that speaks HTTP by hand so that nothing is smoothed over.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::super::{Backend, Limits, Slot, bind, serve_on};
use crate::grammar::{Grammar, GrammarError, Grammars, Shape, Vocabulary};
use crate::{Event, Finish, FinishReason, GenerateRequest, Message, Special, SubmitError, Usage};

/// One thing that the scripted engine does.
#[derive(Clone)]
pub enum Step {
    Say(&'static str),
    /// Computes for ever, until cancelled.
    Hang,
    Pause(Duration),
    End(FinishReason),
    /// This stop string appeared.
    Stopped(&'static str),
    /// Dies without a last word.
    Vanish,
}

pub use Step::{End, Hang, Pause, Say, Stopped, Vanish};

/// An answer in two pieces.
pub const HELLO: [Step; 3] = [Say("Hel"), Say("lo"), End(FinishReason::Stop)];
/// Words, then a call in two pieces.
pub const CALL: [Step; 4] = [
    Say("I look.\n"),
    Say("<tool_call>\n{\"name\": \"search\", \"arguments\": {\"b\": 1, \"a\": \"é\"}"),
    Say("}\n</tool_call>"),
    End(FinishReason::Stop),
];

/// A vocabulary of the bytes and a token that ends a turn.
pub struct Bytes;

impl Bytes {
    pub const END: u32 = 256;
}

impl Vocabulary for Bytes {
    fn ids(&self) -> usize {
        257
    }

    fn word(&self, id: u32) -> &[u8] {
        if id == Bytes::END { b"<|end|>" } else { &BYTES[id as usize..][..1] }
    }

    fn controls(&self, id: u32) -> bool {
        id == Bytes::END
    }

    fn ends(&self, id: u32) -> bool {
        id == Bytes::END
    }

    fn ids_of(&self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }
}

const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

/// The control tokens of the scripted vocabulary; the first has the id 256. The ids below are bytes.
const CONTROL: [&str; 4] = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>"];

#[derive(Clone)]
pub struct Scripted(Arc<Stage>);

pub struct Stage {
    script: Vec<Step>,
    pub context_tokens: usize,
    pub encode_time: Duration,
    pub refusal: Option<SubmitError>,
    /// How many of the control tokens the vocabulary has.
    pub controls: usize,
    grammars: Grammars,
    pub health: Mutex<Result<(), String>>,
    pub messages: Mutex<Vec<Message>>,
    pub tools: Mutex<Vec<Value>>,
    pub submitted: Mutex<Vec<GenerateRequest>>,
    cancelled: Notify,
}

impl Scripted {
    pub fn new(script: &[Step]) -> Self {
        Self::with(script, |_| {})
    }

    pub fn with(script: &[Step], change: impl FnOnce(&mut Stage)) -> Self {
        let mut stage = Stage {
            script: script.to_vec(),
            context_tokens: 1000,
            encode_time: Duration::ZERO,
            refusal: None,
            controls: CONTROL.len(),
            grammars: Grammars::new(Bytes),
            health: Mutex::new(Ok(())),
            messages: Mutex::default(),
            tools: Mutex::default(),
            submitted: Mutex::default(),
            cancelled: Notify::new(),
        };
        change(&mut stage);
        Self(Arc::new(stage))
    }

    /// Returns once the engine has noticed that nobody listens any more.
    pub async fn is_cancelled(&self) {
        let noticed = tokio::time::timeout(Duration::from_secs(5), self.0.cancelled.notified()).await;
        noticed.expect("the engine should have been cancelled");
    }

    pub fn submission(&self) -> GenerateRequest {
        self.0.submitted.lock().unwrap().last().expect("a submitted request").clone()
    }
}

impl std::ops::Deref for Scripted {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.0
    }
}

impl Backend for Scripted {
    fn model_id(&self) -> &str {
        "tiny"
    }

    fn context_tokens(&self) -> usize {
        self.0.context_tokens
    }

    fn health(&self) -> Result<(), String> {
        self.0.health.lock().unwrap().clone()
    }

    fn encode_chat(&self, messages: &[Message], tools: &[Value]) -> Result<Vec<u32>, String> {
        std::thread::sleep(self.0.encode_time);
        *self.0.messages.lock().unwrap() = messages.to_vec();
        *self.0.tools.lock().unwrap() = tools.to_vec();
        let bytes: usize = messages.iter().map(text_bytes).sum();
        Ok(vec![7; bytes])
    }

    /// A token for each byte, and one for each control token that counts.
    fn encode_text(&self, text: &str, special: Special) -> Vec<u32> {
        std::thread::sleep(self.0.encode_time);
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let control = CONTROL[..self.0.controls].iter().zip(256..).find(|(token, _)| rest.starts_with(**token));
            match control.filter(|_| special == Special::Allow) {
                Some((token, id)) => {
                    ids.push(id);
                    rest = &rest[token.len()..];
                }
                None => {
                    let (first, others) = rest.split_at(character.len_utf8());
                    ids.extend(first.bytes().map(u32::from));
                    rest = others;
                }
            }
        }
        ids
    }

    fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        BYTES.get(id..id + 1).or_else(|| Some(CONTROL[..self.0.controls].get(id.checked_sub(256)?)?.as_bytes()))
    }

    fn control_id(&self, token: &str) -> Option<u32> {
        CONTROL[..self.0.controls].iter().zip(256..).find(|(known, _)| **known == token).map(|(_, id)| id)
    }

    fn grammar(&self, shape: Shape) -> Result<Grammar, GrammarError> {
        self.0.grammars.compile(shape)
    }

    fn submit(&self, request: GenerateRequest) -> Result<BoxStream<'static, Event>, SubmitError> {
        if let Some(refusal) = &self.0.refusal {
            return Err(refusal.clone());
        }
        let prompt_tokens = request.prompt.len();
        self.0.submitted.lock().unwrap().push(request);
        let (sender, receiver) = mpsc::unbounded_channel();
        let stage = Arc::clone(&self.0);
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => stage.cancelled.notify_one(),
                () = play(&stage.script, prompt_tokens, &sender) => {}
            }
        });
        Ok(UnboundedReceiverStream::new(receiver).boxed())
    }
}

fn text_bytes(message: &Message) -> usize {
    message.content.len()
}

async fn play(script: &[Step], prompt_tokens: usize, sender: &mpsc::UnboundedSender<Event>) {
    let cached_tokens = prompt_tokens / 2;
    let _ = sender.send(Event::Started { prompt_tokens, cached_tokens });
    let mut said = String::new();
    let mut usage = Usage {
        prompt_tokens,
        cached_tokens,
        computed_tokens: prompt_tokens - cached_tokens,
        prefill_seconds: 0.5,
        decode_seconds: 0.25,
        ..Usage::default()
    };
    for step in script {
        match step {
            Say(text) => {
                said.push_str(text);
                usage.generated_tokens += 1;
                let _ = sender.send(Event::Text { text: (*text).to_owned(), token: 1, score: None });
            }
            Hang => std::future::pending().await,
            Pause(time) => tokio::time::sleep(*time).await,
            End(reason) => {
                let finish = Finish { reason: reason.clone(), text: said.clone(), stopped_by: None, usage };
                let _ = sender.send(Event::Done(finish));
            }
            Stopped(by) => {
                let stopped_by = Some((*by).to_owned());
                let finish = Finish { reason: FinishReason::Stop, text: said.clone(), stopped_by, usage };
                let _ = sender.send(Event::Done(finish));
            }
            Vanish => return,
        }
    }
}

/// A served backend; the server goes when this is dropped with the test's runtime.
pub async fn served(backend: impl Into<Slot<Scripted>>) -> SocketAddr {
    served_with(backend, Limits::default()).await
}

pub async fn served_with(backend: impl Into<Slot<Scripted>>, limits: Limits) -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_on(listener, backend.into(), limits, std::future::pending()));
    address
}

/// A response as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The status and the error's code.
    pub fn error(&self) -> (u16, String) {
        let error = &self.json()["error"];
        assert!(error["message"].is_string() && error["type"].is_string() && error.get("param").is_some(), "{self:?}");
        (self.status, error["code"].as_str().expect("a code").to_owned())
    }

    /// The data of each server-sent event.
    pub fn events(&self) -> Vec<String> {
        assert!(self.head.contains("content-type: text/event-stream"), "{self:?}");
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }
}

pub fn chat(extra: Value) -> Value {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "hello"}]});
    for (name, value) in extra.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

pub fn post(body: &str) -> String {
    post_to("/v1/chat/completions", body)
}

pub fn post_to(path: &str, body: &str) -> String {
    let bytes = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n{body}"
    )
}

pub async fn ask(address: SocketAddr, body: &Value) -> Answer {
    exchange(address, &post(&body.to_string())).await
}

pub async fn ask_at(address: SocketAddr, path: &str, body: &Value) -> Answer {
    exchange(address, &post_to(path, &body.to_string())).await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await
}

/// Sends bytes on a connection of their own and reads until the server closes it.
pub async fn exchange(address: SocketAddr, request: &str) -> Answer {
    let mut socket = connect(address, request).await;
    let mut raw = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut raw)).await;
    read.expect("an answer in time").expect("a readable answer");
    answer(&String::from_utf8(raw).expect("an answer in UTF-8"))
}

pub async fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

fn answer(raw: &str) -> Answer {
    let (head, body) = raw.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {raw:?}"));
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = if head.contains("transfer-encoding: chunked") { unchunk(body) } else { body.to_owned() };
    Answer { status, head, body }
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let bytes = usize::from_str_radix(size, 16).expect("a chunk size");
        body.push_str(&after[..bytes]);
        rest = after[bytes..].strip_prefix("\r\n").expect("a chunk's end");
    }
    body
}
