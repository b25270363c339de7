//! Whose vectors does an index hold, and to whom does it speak for them?

use crate::home::Home;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A server with the OpenAI embeddings API. Its vectors say whether a text speaks of sleeping or of adding.
struct EmbeddingServer {
    url: String,
    /// The texts that were sent.
    texts: Arc<Mutex<Vec<String>>>,
    calls: Arc<AtomicUsize>,
}

impl EmbeddingServer {
    /// With an address, every call is answered by the advice to go there.
    fn start(elsewhere: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("address"));
        let server = Self { url, texts: Arc::default(), calls: Arc::default() };
        let (texts, calls, elsewhere) = (server.texts.clone(), server.calls.clone(), elsewhere.map(str::to_owned));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                calls.fetch_add(1, Ordering::SeqCst);
                // A client that hangs up early is no error.
                let _ = answer(&stream, &texts, elsewhere.as_deref());
            }
        });
        server
    }
}

fn answer(mut stream: &TcpStream, texts: &Mutex<Vec<String>>, elsewhere: Option<&str>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        match line.trim().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    lines.take(length).read_to_end(&mut body)?;
    if let Some(elsewhere) = elsewhere {
        return write!(
            stream,
            "HTTP/1.1 307 Go\r\nlocation: {elsewhere}/models\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    }
    let told = if first.starts_with("GET /v1/models ") {
        json!({ "data": [{ "id": "two-numbers" }] })
    } else {
        let asked: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(asked["model"], "two-numbers");
        let input: Vec<&str> = asked["input"].as_array().expect("a list").iter().flat_map(Value::as_str).collect();
        texts.lock().expect("texts").extend(input.iter().map(|text| (*text).to_owned()));
        let vector = |text: &str| if text.contains("sleep") || text.contains("rest") { [1.0, 0.1] } else { [0.1, 1.0] };
        let data: Vec<Value> = input
            .iter()
            .enumerate()
            .rev()
            .map(|(at, text)| json!({ "index": at, "embedding": vector(text) }))
            .collect();
        json!({ "data": data })
    }
    .to_string();
    let length = told.len();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{told}")
}

#[test]
fn the_vectors_of_a_server_are_made_once_and_searched_with_the_same_server() {
    let (home, server) = (Home::new(), EmbeddingServer::start(None));
    home.put("add.py", "def add(a, b):\n    return a + b\n");
    home.put("wait.py", "def pause():\n    sleep(3)\n");
    let repo = home.repo();
    let repo = repo.to_str().expect("UTF-8");
    let told = home.cloister(&["index", repo, "--embedder", &server.url]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.out.contains("2 vectors computed"), "{told:?}");
    // Which server it was is known to the index.
    let told = home.cloister(&["search", "--repo", repo, "--limit", "1", "take some rest"]);
    assert!(told.code == 0 && told.out.starts_with("wait.py:1-2"), "{told:?}");
    let texts = server.texts.lock().expect("texts").clone();
    assert_eq!(texts.iter().filter(|text| text.contains("sleep(3)")).count(), 1, "{texts:?}");
    assert_eq!(texts.iter().filter(|text| *text == "take some rest").count(), 1, "{texts:?}");
}

#[test]
fn a_server_that_points_elsewhere_is_not_followed() {
    let elsewhere = EmbeddingServer::start(None);
    let (home, server) = (Home::new(), EmbeddingServer::start(Some(&elsewhere.url)));
    home.put("add.py", "def add(a, b):\n    return a + b\n");
    let told = home.cloister(&["index", home.repo().to_str().expect("UTF-8"), "--embedder", &server.url]);
    assert_eq!(told.code, 3, "{told:?}");
    assert!(told.err.contains(&server.url), "{told:?}");
    assert_eq!((server.calls.load(Ordering::SeqCst), elsewhere.calls.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn an_embedder_that_there_is_not_is_refused_with_what_there_is() {
    let home = Home::new();
    for (name, word) in [("word2vec", "static, minilm"), ("nomic.gguf", "GGUF")] {
        let told = home.cloister(&["index", ".", "--embedder", name]);
        assert!(told.code == 2 && told.err.contains(word), "{told:?}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_not_kept_and_one_that_is_down_costs_the_vectors_alone() {
    let home = Home::new();
    home.put("wait.py", "def pause():\n    sleep(3)\n");
    let repo = home.repo();
    let repo = repo.to_str().expect("UTF-8");
    let told = home.cloister(&["index", repo, "--embedder", "http://127.0.0.1:9/v1"]);
    assert_eq!(told.code, 3, "{told:?}");
    let told = home.cloister(&["search", "--repo", repo, "pause"]);
    assert!(told.code == 0 && told.out.starts_with("wait.py:1-2") && !told.err.contains(":9/v1"), "{told:?}");

    let kept = std::fs::read_dir(home.path().join("index")).expect("an index").next().expect("one").expect("read");
    std::fs::write(kept.path().join("embedder"), "http://127.0.0.1:9/v1\n").expect("written");
    let told = home.cloister(&["search", "--repo", repo, "pause"]);
    assert!(told.code == 0 && told.out.starts_with("wait.py:1-2") && told.err.contains(":9/v1"), "{told:?}");
}
