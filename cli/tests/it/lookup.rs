//! Do other programs get answers from the index, over HTTP and MCP, and does nobody else?

use crate::home::Home;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn sample() -> Home {
    let home = Home::new();
    home.put("store.py", "class Store:\n    def close(self):\n        flush()\n\n\ndef flush():\n    return 1\n");
    home.put("main.py", "from store import Store\n\n\ndef stop(store):\n    store.close()\n");
    home
}

/// `cloister index serve`, killed at the end.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(home: &Home) -> Server {
        let repo = home.repo();
        let args = ["index", "serve", repo.to_str().expect("UTF-8"), "--no-vectors", "--listen", "127.0.0.1:0"];
        let mut child = home.command(&args).spawn().expect("starts");
        let lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let told = lines.map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split(' ').next()?.to_owned())
        });
        Server { child, address: told.expect("an address") }
    }

    /// Status and body.
    fn ask(&self, head: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        write!(stream, "{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answers");
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(&format!("POST {path} HTTP/1.1\r\nhost: {}\r\n", self.address), &body.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_asks_over_http_and_sees_what_was_written_a_moment_ago() {
    let home = sample();
    let server = Server::start(&home);
    let (status, found) = server.post("/v1/search", &json!({"query": "close store"}));
    assert_eq!((status, &found["hits"][0]["path"]), (200, &json!("store.py")), "{found}");
    assert!(found["generation"].is_u64() && found["age_seconds"].is_u64(), "{found}");
    let (_, found) = server.post("/v1/definition", &json!({"name": "Store.close"}));
    assert_eq!((&found["answer"], &found["definitions"][0]["start_line"]), (&json!("exact"), &json!(2)), "{found}");
    let (_, found) = server.post("/v1/references", &json!({"name": "close", "calls": true}));
    assert_eq!(found["references"][0]["path"], "main.py", "{found}");
    let (_, found) = server.post("/v1/related", &json!({"paths": ["main.py"]}));
    assert_eq!(found["paths"], json!(["store.py"]), "{found}");

    home.put("late.py", "def just_now():\n    pass\n");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let (_, found) = server.post("/v1/grep", &json!({"pattern": "just_n.w"}));
        if found["matches"][0]["path"] == "late.py" {
            break;
        }
        assert!(Instant::now() < deadline, "{found}");
    }
}

#[test]
fn what_cannot_be_answered_is_refused_with_the_reason() {
    let home = sample();
    let server = Server::start(&home);
    let told = |(status, body): (u16, Value)| (status, body["error"]["message"].as_str().unwrap_or("").to_owned());
    let (status, why) = told(server.post("/v1/search", &json!({"words": "x"})));
    assert!(status == 400 && why.contains("unknown field `words`"), "{status} {why}");
    let (status, why) = told(server.post("/v1/search", &json!({"query": "x", "path": "../.."})));
    assert!(status == 400 && why.contains("not inside the tree"), "{status} {why}");
    let (status, why) = told(server.post("/v1/shell", &json!({})));
    assert!(status == 404 && why.contains("/v1/tools"), "{status} {why}");
    let (status, why) = told(server.post("/v1/pack", &json!({"query": "close", "tokens": 100})));
    assert!(status == 400 && why.contains("models pull"), "{status} {why}");
    let large = format!("{{\"query\": \"{}\"}}", "x".repeat(2 << 20));
    assert_eq!(server.ask(&format!("POST /v1/search HTTP/1.1\r\nhost: {}\r\n", server.address), &large).0, 413);
}

#[test]
fn no_page_and_no_other_host_is_answered() {
    let home = sample();
    let server = Server::start(&home);
    let body = json!({"query": "close"}).to_string();
    let address = &server.address;
    let page = format!("POST /v1/search HTTP/1.1\r\nhost: {address}\r\norigin: http://127.0.0.1:80\r\n");
    assert_eq!(server.ask(&page, &body).0, 403);
    assert_eq!(server.ask("POST /v1/search HTTP/1.1\r\nhost: rebound.invalid\r\n", &body).0, 403);
    let repo = home.repo();
    let told =
        home.cloister(&["index", "serve", repo.to_str().expect("UTF-8"), "--no-vectors", "--listen", "0.0.0.0:0"]);
    assert!(told.code == 3 && told.err.contains("127.0.0.1"), "{told:?}");
}

#[test]
fn an_mcp_client_is_greeted_told_the_tools_and_answered() {
    let home = sample();
    let repo = home.repo();
    let mut command = home.command(&["index", "mcp", repo.to_str().expect("UTF-8"), "--no-vectors"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("stdin");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut ask = |message: Value| -> Value {
        writeln!(input, "{message}").expect("sends");
        serde_json::from_str(&lines.next().expect("an answer").expect("UTF-8")).expect("JSON")
    };
    let greeted = ask(json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }));
    assert_eq!(greeted["result"]["serverInfo"]["name"], "cloister", "{greeted}");
    let tools = ask(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    assert!(tools["result"]["tools"].as_array().expect("a list").len() >= 5, "{tools}");
    let call = |name: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let found = ask(call("callees", json!({"name": "Store.close"})));
    assert!(found["result"]["content"][0]["text"].as_str().expect("text").contains("store.py:6"), "{found}");
    assert_eq!(found["result"]["structuredContent"]["calls"][0]["name"], "flush", "{found}");
    let wrong = ask(call("grep", json!({"pattern": ""})));
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    drop(input);
    assert!(child.wait().expect("ends").success());

    let server = Server::start(&home);
    let (status, found) = server.post("/mcp", &call("grep", json!({"pattern": "def flush"})));
    assert_eq!((status, &found["result"]["structuredContent"]["matches"][0]["line"]), (200, &json!(6)), "{found}");
    let (status, _) = server.post("/mcp", &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(status, 202);
}
