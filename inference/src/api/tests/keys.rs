//! Who is answered where keys are asked for?

use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::{Keys, Limits, bind};
use super::bench::{Answer, End, Say, Scripted, chat, exchange, post, served_with};
use crate::FinishReason::Stop;

fn keys() -> Keys {
    let line =
        |key: &str| format!("{key} {}\n", Sha256::digest(key).iter().map(|b| format!("{b:02x}")).collect::<String>());
    Keys::parse(&[line("one"), line("two")].concat()).unwrap()
}

async fn served(engine: &Scripted) -> std::net::SocketAddr {
    served_with(engine.clone(), Limits { keys: Some(keys()), ..Limits::default() }).await
}

async fn asked_with(engine: &Scripted, header: &str) -> Answer {
    let request =
        post(&chat(json!({})).to_string()).replace("host: localhost\r\n", &format!("host: box.lan\r\n{header}"));
    exchange(served(engine).await, &request).await
}

#[tokio::test]
async fn a_known_key_is_answered_in_either_header_and_under_any_host() {
    let engine = Scripted::new(&[Say("hi"), End(Stop)]);
    for header in ["authorization: Bearer one\r\n", "Authorization: bearer  one\r\n", "x-api-key: one\r\n"] {
        let answer = asked_with(&engine, header).await;
        assert_eq!(answer.status, 200, "{header} {answer:?}");
    }
}

#[tokio::test]
async fn no_key_a_wrong_one_or_its_hash_is_answered_by_401_and_reaches_no_engine() {
    let engine = Scripted::new(&[Say("hi"), End(Stop)]);
    let hash = format!("x-api-key: {:x}\r\n", Sha256::digest("one"));
    for header in [
        "",
        "authorization: Bearer three\r\n",
        "authorization: Bearer \r\n",
        "authorization: one\r\n",
        "authorization: Basic one\r\n",
        "authorization: Bearer three\r\nx-api-key: one\r\n",
        "x-api-key: \u{fffd}\r\n",
        &hash,
    ] {
        let answer = asked_with(&engine, header).await;
        assert_eq!(answer.error(), (401, "invalid_api_key".into()), "{header}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{answer:?}");
    }
    assert!(engine.submitted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn each_key_has_a_prefix_cache_of_its_own() {
    let engine = Scripted::new(&[Say("hi"), End(Stop)]);
    let mut namespaces = Vec::new();
    for key in ["one", "two", "one"] {
        asked_with(&engine, &format!("x-api-key: {key}\r\n")).await;
        namespaces.push(engine.submission().namespace);
    }
    assert_eq!(namespaces[0], namespaces[2]);
    assert_ne!(namespaces[0], namespaces[1]);
    assert!(!namespaces.contains(&0), "0 is whoever comes without a key");
}

#[tokio::test]
async fn without_a_key_only_the_health_is_told() {
    let address = served(&Scripted::new(&[])).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: box.lan\r\nconnection: close\r\n\r\n");
    assert_eq!(exchange(address, &get("/health")).await.status, 200);
    for path in ["/metrics", "/v1/models", "/", "/health/", "//health", "/health/../metrics"] {
        assert_eq!(exchange(address, &get(path)).await.error(), (401, "invalid_api_key".into()), "{path}");
    }
}

#[tokio::test]
async fn with_keys_any_address_is_listened_on() {
    let listener = bind("0.0.0.0:0".parse().unwrap(), Some(&keys())).await.unwrap();
    assert!(listener.local_addr().unwrap().ip().is_unspecified());
}
