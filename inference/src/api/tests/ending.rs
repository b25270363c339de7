//! Every way in which a request ends before its answer is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::super::{Limits, bind, serve_blocking, serve_on};
use super::bench::{End, Hang, Pause, Say, Scripted, Step, ask, chat, connect, get, post, served, served_with};
use crate::FinishReason::Stop;

fn request(stream: bool) -> String {
    post(&chat(json!({"stream": stream})).to_string())
}

async fn until(done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(5), "it did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_generation_at_any_stage() {
    let scripts: [&[Step]; 3] = [&[Hang], &[Say("Hel"), Hang], &[Say("Hel"), Pause(Duration::from_secs(60))]];
    for script in scripts {
        for stream in [false, true] {
            let engine = Scripted::new(script);
            let socket = connect(served(engine.clone()).await, &request(stream)).await;
            until(|| !engine.submitted.lock().unwrap().is_empty()).await;
            drop(socket);
            engine.is_cancelled().await;
        }
    }
}

#[tokio::test]
async fn a_client_that_reads_a_while_and_then_leaves_cancels_too() {
    let engine = Scripted::new(&[Say("Hel"), Hang]);
    let mut socket = connect(served(engine.clone()).await, &request(true)).await;
    let mut seen = String::new();
    while !seen.contains("Hel") {
        let mut part = [0; 1024];
        let bytes = socket.read(&mut part).await.unwrap();
        seen.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
    }
    drop(socket);
    engine.is_cancelled().await;
}

#[tokio::test]
async fn a_client_that_leaves_while_its_prompt_is_encoded_is_never_submitted() {
    let engine = Scripted::with(&[Hang], |stage| stage.encode_time = Duration::from_millis(200));
    let socket = connect(served(engine.clone()).await, &request(false)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(socket);
    until(|| !engine.messages.lock().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(engine.submitted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_its_body_is_forgotten() {
    let engine = Scripted::new(&[Hang]);
    let address = served(engine.clone()).await;
    let request = request(false);
    let socket = connect(address, &request[..request.len() - 5]).await;
    drop(socket);
    assert_eq!(get(address, "/health").await.status, 200);
    assert!(engine.submitted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_deadline_ends_an_answer_with_an_error_and_cancels_it() {
    let limits = Limits { request_time_max: Duration::from_millis(100), ..Limits::default() };
    let engine = Scripted::new(&[Say("Hel"), Hang]);
    let address = served_with(engine.clone(), limits).await;
    assert_eq!(ask(address, &chat(json!({}))).await.error(), (504, "deadline_exceeded".into()));
    engine.is_cancelled().await;

    let events = ask(address, &chat(json!({"stream": true}))).await.events();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "deadline_exceeded");
    engine.is_cancelled().await;
}

#[tokio::test]
async fn the_deadline_covers_a_body_that_never_comes() {
    let limits = Limits { request_time_max: Duration::from_millis(100), ..Limits::default() };
    let address = served_with(Scripted::new(&[Hang]), limits).await;
    let request = request(false);
    let mut socket = connect(address, &request[..request.len() - 5]).await;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
}

#[tokio::test]
async fn one_connection_carries_several_requests() {
    let address = served(Scripted::new(&[Say("hi"), End(Stop)])).await;
    let lasting = request(false).replace("connection: close\r\n", "");
    let mut socket = connect(address, &lasting).await;
    socket.write_all(request(true).as_bytes()).await.unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
}

/// A server that stops when the sender fires; the receiver tells how it ended.
async fn stoppable(
    engine: Scripted,
    drain: Duration,
) -> (std::net::SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let listener = bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let limits = Limits { drain_time_max: drain, ..Limits::default() };
    let server = tokio::spawn(async move {
        let stopped = async { stopped.await.unwrap_or_default() };
        serve_on(listener, engine, limits, stopped).await.unwrap();
    });
    (address, stop, server)
}

#[tokio::test]
async fn a_stop_lets_answers_under_way_end() {
    let engine = Scripted::new(&[Say("Hel"), Pause(Duration::from_millis(200)), Say("lo"), End(Stop)]);
    let (address, stop, server) = stoppable(engine.clone(), Duration::from_secs(20)).await;
    let asked = tokio::spawn(async move { ask(address, &chat(json!({}))).await });
    until(|| !engine.submitted.lock().unwrap().is_empty()).await;
    stop.send(()).unwrap();
    assert_eq!(asked.await.unwrap().json()["choices"][0]["message"]["content"], "Hello");
    tokio::time::timeout(Duration::from_secs(5), server).await.expect("the server ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_stop_ends_what_lasts_too_long_with_an_error() {
    for stream in [false, true] {
        let engine = Scripted::new(&[Say("Hel"), Hang]);
        let (address, stop, server) = stoppable(engine.clone(), Duration::from_millis(50)).await;
        let asked = tokio::spawn(async move { ask(address, &chat(json!({"stream": stream}))).await });
        until(|| !engine.submitted.lock().unwrap().is_empty()).await;
        stop.send(()).unwrap();
        let answer = asked.await.unwrap();
        let body = if stream { answer.events().pop().unwrap() } else { answer.body };
        assert!(body.contains("\"code\":\"shutting_down\""), "{body}");
        engine.is_cancelled().await;
        tokio::time::timeout(Duration::from_secs(5), server).await.expect("the server ends").unwrap();
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_idle_or_silent_connections() {
    let (address, stop, server) = stoppable(Scripted::new(&[Hang]), Duration::from_secs(60)).await;
    let silent = TcpStream::connect(address).await.unwrap();
    let mut idle = connect(address, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    idle.read_exact(&mut [0; 12]).await.unwrap();
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), server).await.expect("the server ends").unwrap();
    drop((silent, idle));
}

#[test]
fn the_blocking_server_tells_its_address_and_ends_when_told() {
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, address) = std::sync::mpsc::channel();
    let server = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            serve_blocking("127.0.0.1:0".parse().unwrap(), Scripted::new(&[Hang]), Limits::default(), stop, |at| {
                ready.send(at).unwrap()
            })
        }
    });
    let address = address.recv_timeout(Duration::from_secs(5)).unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut socket, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let answer = std::io::read_to_string(&mut socket).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap().unwrap();
}
