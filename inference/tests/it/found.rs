//! Where are the things that a test needs and the repository does not hold?

use std::path::{Path, PathBuf};

/// The directory of reference cases, or None with a line saying that the test is skipped.
pub fn cases(test: &str) -> Option<PathBuf> {
    found(test, "CLOISTER_CASES", "shared/cases")
}

/// A file of a real model, or None with a line saying that the test is skipped.
pub fn model_file(test: &str, model: &str, file: &str) -> Option<PathBuf> {
    let path = found(test, "CLOISTER_TEST_MODELS", "dev/models")?.join(model).join(file);
    if !path.exists() {
        println!("{test}: skipped, there is no {}", path.display());
        return None;
    }
    Some(path)
}

/// The Qwen2.5-Coder model of this size, such as `0.5b`.
pub fn qwen(test: &str, size: &str) -> Option<PathBuf> {
    let name = format!("qwen2.5-coder-{size}-instruct");
    model_file(test, &name, &format!("{name}-q4_k_m.gguf"))
}

/// Whether slow tests were asked for; says so when not.
pub fn slow(test: &str) -> bool {
    let asked = std::env::var("CLOISTER_SLOW").is_ok_and(|value| value == "1");
    if !asked {
        println!("{test}: skipped, it is slow; set CLOISTER_SLOW=1 to run it");
    }
    asked
}

/// The lines of a JSONL file.
pub fn json_lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn found(test: &str, variable: &str, beside: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let candidates = match std::env::var_os(variable) {
        Some(path) => vec![PathBuf::from(path)],
        None => vec![workspace.join("..").join(beside), workspace.join("../..").join(beside)],
    };
    let found = candidates.into_iter().find(|path| path.is_dir());
    if found.is_none() {
        println!("{test}: skipped, {variable} is not set and there is no {beside} beside the checkout");
    }
    found
}
