//! Paths, methods, hosts and health: everything around a completion.

use serde_json::json;

use super::super::{ServeError, Slot, bind};
use super::bench::{End, Say, Scripted, ask, chat, exchange, get, post, served};
use crate::FinishReason::Stop;

const HELLO: [super::bench::Step; 2] = [Say("hi"), End(Stop)];

#[tokio::test]
async fn the_one_model_is_listed() {
    let answer = get(served(Scripted::new(&HELLO)).await, "/v1/models").await;
    let model = json!({
        "id": "tiny", "object": "model", "created": 0, "owned_by": "cloister", "cloister": {"context_tokens": 1000}
    });
    assert_eq!((answer.status, answer.json()), (200, json!({"object": "list", "data": [model]})));
}

#[tokio::test]
async fn health_follows_the_engine_from_loading_to_ready_to_failed() {
    let slot = Slot::loading();
    let address = served(slot.clone()).await;
    let answer = get(address, "/health").await;
    assert_eq!(answer.error(), (503, "model_loading".into()));
    assert!(answer.head.contains("retry-after"), "{answer:?}");
    assert_eq!(ask(address, &chat(json!({}))).await.error(), (503, "model_loading".into()));

    let engine = Scripted::new(&HELLO);
    slot.fill(Ok(engine.clone()));
    let answer = get(address, "/health").await;
    assert_eq!((answer.status, answer.json()), (200, json!({"status": "ready", "model": "tiny"})));
    assert_eq!(ask(address, &chat(json!({}))).await.status, 200);

    *engine.health.lock().unwrap() = Err("the engine's thread has ended".into());
    let answer = get(address, "/health").await;
    assert_eq!(answer.error(), (503, "model_failed".into()));
    assert!(answer.body.contains("thread has ended"), "{answer:?}");
    assert_eq!(ask(address, &chat(json!({}))).await.error(), (503, "model_failed".into()));
}

#[tokio::test]
async fn a_model_that_did_not_load_says_why() {
    let slot = Slot::<Scripted>::loading();
    slot.fill(Err("the file is cut short".into()));
    let answer = get(served(slot).await, "/health").await;
    assert_eq!(answer.error(), (503, "model_failed".into()));
    assert!(answer.body.contains("cut short"), "{answer:?}");
}

#[tokio::test]
async fn nothing_else_is_served() {
    let address = served(Scripted::new(&HELLO)).await;
    for path in ["/", "/v1", "/v1/embeddings", "/v1/models/tiny", "/v1/chat/completions/", "/metrics/", "/%00"] {
        assert_eq!(get(address, path).await.error(), (404, "unknown_url".into()), "{path}");
    }
    assert_eq!(get(address, "/v1/chat/completions").await.error(), (405, "method_not_allowed".into()));
    let options = post("").replace("POST", "OPTIONS");
    assert_eq!(exchange(address, &options).await.error(), (405, "method_not_allowed".into()));
}

#[tokio::test]
async fn a_host_that_is_not_this_machine_is_refused_everywhere() {
    let address = served(Scripted::new(&HELLO)).await;
    let good = post(&chat(json!({})).to_string());
    for head in [
        "host: rebound.example.org",
        "host: 10.0.0.1:80",
        "x-no: host",
        "host: localhost\r\nhost: rebound.example.org",
        "host:",
        "host: localhost.rebound.example.org",
    ] {
        let answer = exchange(address, &good.replace("host: localhost", head)).await;
        assert_eq!(answer.error(), (403, "host_not_allowed".into()), "{head}");
    }
    let absolute = good.replace("POST /v1", "POST http://rebound.example.org/v1");
    assert_eq!(exchange(address, &absolute).await.error(), (403, "host_not_allowed".into()));
    let health = "GET /health HTTP/1.1\r\nhost: rebound.example.org\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(address, health).await.error(), (403, "host_not_allowed".into()));
}

#[tokio::test]
async fn no_answer_invites_a_web_page() {
    let address = served(Scripted::new(&HELLO)).await;
    let from_page =
        post(&chat(json!({})).to_string()).replace("\r\n\r\n", "\r\norigin: http://page.example.org\r\n\r\n");
    let answer = exchange(address, &from_page).await;
    assert!(!answer.head.contains("access-control"), "{answer:?}");
}

#[tokio::test]
async fn only_loopback_addresses_are_listened_on() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = bind(address.parse().unwrap(), None).await.unwrap_err();
        assert!(matches!(refused, ServeError::NotLoopback(_)), "{refused}");
        assert!(refused.to_string().contains("keys"), "{refused}");
    }
    let listener = bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let taken = bind(listener.local_addr().unwrap(), None).await.unwrap_err();
    assert!(matches!(taken, ServeError::Bind { .. }), "{taken}");
}

#[tokio::test]
async fn what_is_no_http_gets_an_end_and_harms_nobody() {
    let address = served(Scripted::new(&HELLO)).await;
    for garbage in
        ["\r\n\r\n\r\n", "hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"]
    {
        let mut socket = super::bench::connect(address, garbage).await;
        tokio::io::AsyncWriteExt::shutdown(&mut socket).await.unwrap();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut Vec::new()).await;
    }
    assert_eq!(get(address, "/health").await.status, 200);
}
