//! Do the official Python clients of OpenAI and Anthropic work unchanged?

use crate::api::Server;
use crate::found::{qwen, slow};
use inference::{Engine, EngineSettings};
use std::path::Path;
use std::process::Command;

#[test]
fn the_official_clients_and_their_streaming_helpers_work_unchanged() {
    let test = "the_official_clients_and_their_streaming_helpers_work_unchanged";
    if !slow(test) {
        return;
    }
    let Some(python) = std::env::var_os("CLOISTER_TEST_CLIENTS") else {
        println!(
            "{test}: skipped, CLOISTER_TEST_CLIENTS names no Python with their packages; deploy/test-deps.sh makes one"
        );
        return;
    };
    let Some(model) = qwen(test, "1.5b") else { return };
    let server = Server::over(Engine::load(&model, EngineSettings::default()).unwrap(), "coder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/clients.py");
    let ran = Command::new(python).arg(script).args([&format!("http://{}", server.address), "coder"]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&ran.stdout));
    assert!(ran.status.success(), "{}", text(&ran.stderr));
}
