//! Texts into tokens and back, over the wire.

use serde_json::{Value, json};

use super::bench::{Scripted, ask_at, served};

async fn cut(extra: Value) -> Value {
    ask_at(served(Scripted::new(&[])).await, "/tokenize", &extra).await.json()
}

#[tokio::test]
async fn a_text_is_cut_as_llama_cpp_cuts_it() {
    assert_eq!(cut(json!({"content": "ab"})).await, json!({"tokens": [97, 98]}));
    assert_eq!(cut(json!({"content": "", "add_special": true, "model": "any"})).await, json!({"tokens": []}));
    let pieces = cut(json!({"content": "aé<|fim_pad|>", "with_pieces": true})).await;
    let expected = json!([
        {"id": 97, "piece": "a"},
        {"id": 0xc3, "piece": [0xc3]},
        {"id": 0xa9, "piece": [0xa9]},
        {"id": 259, "piece": "<|fim_pad|>"},
    ]);
    assert_eq!(pieces, json!({"tokens": expected}));
    let plain = cut(json!({"content": "<|fim_pad|>", "parse_special": false})).await;
    assert_eq!(plain["tokens"].as_array().unwrap().len(), "<|fim_pad|>".len());
}

#[tokio::test]
async fn tokens_become_the_text_they_were_cut_from() {
    let address = served(Scripted::new(&[])).await;
    for text in ["", "naïve 日本🦀\u{0}\n", "a<|fim_prefix|>b"] {
        let tokens = ask_at(address, "/tokenize", &json!({"content": text})).await.json();
        assert_eq!(ask_at(address, "/detokenize", &tokens).await.json(), json!({"content": text}));
    }
    let torn = ask_at(address, "/detokenize", &json!({"tokens": [97, 0xc3]})).await.json();
    assert_eq!(torn, json!({"content": "a\u{fffd}"}));
}

#[tokio::test]
async fn what_is_no_text_and_no_token_is_refused_by_its_name() {
    let address = served(Scripted::new(&[])).await;
    for (path, body, param) in [
        ("/tokenize", json!({}), "content"),
        ("/tokenize", json!({"content": ["a"]}), "content"),
        ("/tokenize", json!({"content": "x".repeat((1 << 20) + 1)}), "content"),
        ("/tokenize", json!({"content": "a", "with_pieces": 1}), "with_pieces"),
        ("/detokenize", json!({}), "tokens"),
        ("/detokenize", json!({"tokens": "a"}), "tokens"),
        ("/detokenize", json!({"tokens": vec![1; (1 << 18) + 1]}), "tokens"),
        ("/detokenize", json!({"tokens": [1, -1]}), "tokens[1]"),
        ("/detokenize", json!({"tokens": [1.5]}), "tokens[0]"),
        ("/detokenize", json!({"tokens": [4_294_967_296_u64]}), "tokens[0]"),
        ("/detokenize", json!({"tokens": [1, 2, 260]}), "tokens[2]"),
    ] {
        let answer = ask_at(address, path, &body).await;
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!(param)), "{path}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(param), "{answer:?}");
    }
    assert_eq!(ask_at(address, "/tokenize", &json!([])).await.error(), (400, "invalid_json".into()));
}
