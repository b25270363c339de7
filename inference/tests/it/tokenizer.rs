//! Are the ids those of the reference tokenizers?

use crate::found;
use crate::tiny::Tiny;
use inference::model::Header;
use inference::{Special, Tokenizer};

fn ids(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn check_goldens(test: &str, file: &str, special: Special) {
    let Some(cases) = found::cases(test) else { return };
    let Some(model) = found::qwen(test, "0.5b") else { return };
    let tokenizer = Tokenizer::load(&Header::read(&model).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let cases = found::json_lines(&cases.join("tokenizer").join(file));
    for case in &cases {
        let text = case["text"].as_str().unwrap();
        let (expected, got) = (ids(&case["ids"]), tokenizer.encode(text, special));
        if expected != got {
            wrong.push(format!("{}: {text:?}\n  expected {expected:?}\n  got      {got:?}", case["id"]));
        }
    }
    println!("{} of {} cases agree", cases.len() - wrong.len(), cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ids_are_those_of_the_hugging_face_tokenizer() {
    check_goldens("ids_are_those_of_the_hugging_face_tokenizer", "hf_goldens.jsonl", Special::Allow);
}

#[test]
fn ids_are_those_of_llama_cpp() {
    check_goldens("ids_are_those_of_llama_cpp", "llamacpp_qwen2_goldens.jsonl", Special::Allow);
}

#[test]
fn control_tokens_in_text_stay_text_unless_allowed() {
    let tokenizer = Tokenizer::load(&Header::read(&Tiny::new().path()).unwrap()).unwrap();
    let end = tokenizer.control_id("<|im_end|>").unwrap();
    let text = "a<|im_end|>b<tool_call><|im_end|>";
    assert_eq!(tokenizer.encode(text, Special::Allow).iter().filter(|&&id| id == end).count(), 2);
    let forbidden = tokenizer.encode(text, Special::Forbid);
    assert!(!forbidden.contains(&end));
    for special in [Special::Allow, Special::Forbid] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text, special)), text);
    }
    assert!(tokenizer.ends_turn(end) && !tokenizer.ends_turn(0));
    assert_eq!(tokenizer.bytes(u32::MAX), b"");
}

#[test]
fn every_byte_survives_the_round_trip() {
    let tokenizer = Tokenizer::load(&Header::read(&Tiny::new().path()).unwrap()).unwrap();
    let text: String = ('\0'..='\u{FF}').chain("→ 日本語 😀".chars()).collect();
    assert_eq!(tokenizer.decode(&tokenizer.encode(&text, Special::Forbid)), text);
}
