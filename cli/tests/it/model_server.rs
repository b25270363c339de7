//! Who answers in the place of a model? A server with the OpenAI chat API, streamed, that says what a test wrote down.
//!
//! It stands at the edge, behind `--url`, so that everything on this side of the socket is the real thing.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PIECE_CHARS: usize = 24;
const BODY_BYTES_MAX: u64 = 16 << 20;

/// What the server says to one call.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A whole reply, in pieces.
    Say(String),
    /// A whole reply after so many milliseconds.
    Late(u64, String),
    /// The headers of an answer, and then nothing for as long as the test lasts.
    Hang,
    /// Not even headers.
    Mute,
    /// A status that is no success, with a body.
    Refuse(u16, String),
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Say(text.into())
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::Say(text)
    }
}

/// A running server.
pub struct ModelServer {
    /// What `--url` takes.
    pub url: String,
    calls: Arc<Mutex<Vec<Value>>>,
}

impl ModelServer {
    /// Says these replies in order; the last one again and again.
    pub fn start<R: Into<Reply>>(script: impl IntoIterator<Item = R>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("address"));
        let script = Arc::new(Mutex::new(script.into_iter().map(Into::into).collect::<VecDeque<Reply>>()));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let server = Self { url, calls: calls.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, calls) = (script.clone(), calls.clone());
                std::thread::spawn(move || answer(&stream, &script, &calls));
            }
        });
        server
    }

    /// The bodies of the calls so far.
    pub fn calls(&self) -> Vec<Value> {
        self.calls.lock().expect("calls").clone()
    }

    /// What the model was told last before call number `at`, counted from 0.
    #[track_caller]
    pub fn told(&self, at: usize) -> String {
        let calls = self.calls();
        let call = calls.get(at).unwrap_or_else(|| panic!("there were only {} calls", calls.len()));
        let last = call["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
        last["content"].as_str().expect("text").to_owned()
    }
}

/// One connection, one request: the answer says that the connection closes. A client that hangs up early is no error.
fn answer(stream: &TcpStream, script: &Mutex<VecDeque<Reply>>, calls: &Mutex<Vec<Value>>) -> Option<()> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        match line.trim().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    lines.take(BODY_BYTES_MAX.min(length)).read_to_end(&mut body).ok()?;
    if first.starts_with("GET /v1/models ") {
        return send(stream, 200, "application/json", &json!({ "data": [{ "id": "scripted" }] }).to_string());
    }
    if !first.starts_with("POST /v1/chat/completions ") {
        return send(stream, 404, "text/plain", "no such page");
    }
    // The reply is taken before the call is told, so that a test that sees the call knows that the reply is under way.
    let reply = {
        let mut script = script.lock().ok()?;
        if script.len() > 1 { script.pop_front()? } else { script.front()?.clone() }
    };
    calls.lock().ok()?.push(serde_json::from_slice(&body).unwrap_or(Value::Null));
    match reply {
        Reply::Say(text) => speak(stream, &text),
        Reply::Late(millis, text) => {
            std::thread::sleep(Duration::from_millis(millis));
            speak(stream, &text)
        }
        Reply::Hang => {
            head(stream, 200, "text/event-stream", None)?;
            until_hung_up(stream)
        }
        Reply::Mute => until_hung_up(stream),
        Reply::Refuse(status, text) => send(stream, status, "application/json", &text),
    }
}

fn until_hung_up(mut stream: &TcpStream) -> Option<()> {
    // Nothing more is sent: the end, or an error.
    stream.read(&mut [0; 1]).ok().map(drop)
}

fn speak(mut stream: &TcpStream, text: &str) -> Option<()> {
    head(stream, 200, "text/event-stream", None)?;
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(PIECE_CHARS) {
        let piece: String = piece.iter().collect();
        let event = json!({ "choices": [{ "delta": { "content": piece }, "finish_reason": null }] });
        write!(stream, "data: {event}\n\n").ok()?;
    }
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": chars.len() / 4, "prompt_tokens_details": { "cached_tokens": 90 } });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }], "usage": usage });
    write!(stream, "data: {end}\n\ndata: [DONE]\n\n").ok()
}

fn send(mut stream: &TcpStream, status: u16, kind: &str, body: &str) -> Option<()> {
    head(stream, status, kind, Some(body.len()))?;
    stream.write_all(body.as_bytes()).ok()
}

fn head(mut stream: &TcpStream, status: u16, kind: &str, length: Option<usize>) -> Option<()> {
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    write!(stream, "HTTP/1.1 {status} Scripted\r\nContent-Type: {kind}\r\n{length}Connection: close\r\n\r\n").ok()
}
