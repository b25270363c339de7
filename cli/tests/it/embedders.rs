//! Whose vectors does an index hold, and to whom does it speak for them?

use crate::home::Home;
use crate::real_model;
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
fn an_embedder_that_there_is_not_is_refused_with_what_there_is_and_is_not_kept() {
    let home = Home::new();
    let file = |name: &str, bytes: &[u8]| {
        let path = home.beside(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    for (name, code, words) in [
        ("two words".to_owned(), 2, ["static, minilm", ""]),
        ("word2vec".to_owned(), 3, ["neither a model", "static, minilm"]),
        ("all-minilm-l6-v2".to_owned(), 3, ["all-minilm-l6-v2", "models pull"]),
        ("/nonexistent/model.gguf".to_owned(), 3, ["no model file at /nonexistent/model.gguf", "static, minilm"]),
        (file("zip.gguf", b"PK\x03\x04 a zip file"), 3, ["is not a GGUF file", "static, minilm"]),
        (file("nomic.gguf", &header("nomic-bert")), 3, ["\"nomic-bert\" is not known", "give that server's URL"]),
        (file("vocabulary.gguf", &header("qwen2")), 3, ["holds a vocabulary and no weights", "the file that holds"]),
        (file("encoder.gguf", &header("bert")), 3, ["holds a vocabulary and no weights", "the file that holds"]),
    ] {
        let told = home.cloister(&["index", home.repo().to_str().expect("UTF-8"), "--embedder", &name]);
        assert!(told.code == code && words.iter().all(|word| told.err.contains(word)), "{name}: {told:?}");
    }
    let indexes = std::fs::read_dir(home.path().join("index")).into_iter().flatten().count();
    assert_eq!(indexes, 0, "a choice that does not work was kept");
}

/// A GGUF file of this architecture with no other key and no tensor.
fn header(architecture: &str) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let (version, tensors, keys, text_type) = (3u32, 0u64, 1u64, 8u32);
    [
        &b"GGUF"[..],
        &version.to_le_bytes(),
        &tensors.to_le_bytes(),
        &keys.to_le_bytes(),
        &text("general.architecture"),
        &text_type.to_le_bytes(),
        &text(architecture),
    ]
    .concat()
}

#[test]
fn the_vectors_of_a_gguf_file_are_those_of_its_bytes_wherever_it_lies() {
    let Some(store) = real_model::store() else { return };
    let home = Home::new();
    std::fs::create_dir_all(home.path()).expect("home");
    std::os::unix::fs::symlink(&store, home.path().join("store")).expect("link");
    home.put("add.py", "def add(a, b):\n    return a + b\n");
    home.put("wait.py", "def pause():\n    sleep(3)\n");
    let repo = home.repo();
    let repo = repo.to_str().expect("UTF-8");
    let model = "qwen2.5-coder-1.5b-instruct";
    let told = home.cloister(&["index", repo, "--embedder", model]);
    assert!(told.code == 0 && told.out.contains("2 vectors computed"), "{told:?}");
    // None of these words is in a file: what is found is found by its vector.
    let told = home.cloister(&["search", "--repo", repo, "take some rest"]);
    assert!(told.code == 0 && told.out.contains("wait.py:1-2") && !told.err.contains("note"), "{told:?}");

    let elsewhere = home.beside("other.gguf");
    let file = store.join("models").join(model).join(format!("{model}-q4_k_m.gguf"));
    std::os::unix::fs::symlink(file, &elsewhere).expect("link");
    let told = home.cloister(&["index", repo, "--embedder", elsewhere.to_str().expect("UTF-8")]);
    assert!(told.code == 0 && told.out.contains("0 vectors computed"), "{told:?}");
    // Gone, it costs the vectors alone.
    std::fs::remove_file(&elsewhere).expect("removed");
    let told = home.cloister(&["search", "--repo", repo, "pause"]);
    assert!(told.code == 0 && told.out.starts_with("wait.py:1-2") && told.err.contains("other.gguf"), "{told:?}");
}

#[test]
fn an_embedder_that_does_not_answer_is_not_kept_and_one_that_has_gone_costs_the_vectors_alone() {
    let home = Home::new();
    home.put("wait.py", "def pause():\n    sleep(3)\n");
    let repo = home.repo();
    let repo = repo.to_str().expect("UTF-8");
    let told = home.cloister(&["index", repo, "--embedder", "http://127.0.0.1:9/v1"]);
    assert_eq!(told.code, 3, "{told:?}");
    let told = home.cloister(&["search", "--repo", repo, "pause"]);
    assert!(told.code == 0 && told.out.starts_with("wait.py:1-2") && !told.err.contains(":9/v1"), "{told:?}");

    let kept = std::fs::read_dir(home.path().join("index")).expect("an index").next().expect("one").expect("read");
    for gone in ["http://127.0.0.1:9/v1", "/nonexistent/model.gguf", "removed-model"] {
        std::fs::write(kept.path().join("embedder"), format!("{gone}\n")).expect("written");
        let told = home.cloister(&["search", "--repo", repo, "pause"]);
        assert!(told.code == 0 && told.out.starts_with("wait.py:1-2") && told.err.contains(gone), "{told:?}");
    }
}
