//! Is a bad model file refused with the right words, and never with a panic?

use crate::tiny::{HIDDEN, Random, Tiny};
use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use inference::model::Header;
use inference::{Engine, EngineSettings, LoadError};
use std::path::Path;

fn load(tiny: &Tiny) -> Result<Engine, LoadError> {
    Engine::load(&tiny.path(), EngineSettings::default())
}

#[track_caller]
fn refused(tiny: &Tiny) -> LoadError {
    load(tiny).err().expect("the file is refused")
}

/// A tiny model without, or with another, entry of metadata.
fn with_key(key: &str, value: Option<Value>) -> Tiny {
    Tiny::with(|metadata, _| {
        metadata.retain(|(known, _)| known != key);
        metadata.extend(value.map(|value| (key.to_owned(), value)));
    })
}

#[test]
fn a_sound_file_says_what_it_is() {
    let tiny = Tiny::new();
    let engine = load(&tiny).unwrap();
    let info = engine.info();
    assert_eq!((info.name.as_str(), info.architecture.as_str(), info.layers), ("tiny", "qwen2", 3));
    assert_eq!((info.context_tokens, info.context_tokens_model), (4096, 4096));
    assert_eq!(info.kv_bytes_per_token, 3 * 2 * 64 * 2 * 2);
    assert!(info.quantization.contains("Q4K"), "{}", info.quantization);
}

#[test]
fn a_file_that_is_not_there_or_not_a_model_is_named() {
    let missing = Engine::load(Path::new("/nonexistent/model.gguf"), EngineSettings::default()).err().unwrap();
    assert!(matches!(&missing, LoadError::NotFound { .. }), "{missing}");
    assert_eq!(missing.to_string(), "no model file at /nonexistent/model.gguf");
    for bytes in [&b""[..], b"GG", b"GGUF", b"GGUF\x03\0\0\0\xff"] {
        let error = refused(&Tiny::of_bytes(bytes));
        assert!(matches!(error, LoadError::Truncated { .. }), "{bytes:?}: {error}");
    }
    for bytes in [&b"PK\x03\x04 a zip file"[..], b"GGUF\x01\0\0\0 an old one", b"FUGG\0\0\0\x03 big endian"] {
        let error = refused(&Tiny::of_bytes(bytes));
        assert!(matches!(error, LoadError::NotGguf { .. }), "{bytes:?}: {error}");
    }
    let tiny = Tiny::new();
    let error = Engine::load(tiny.directory(), EngineSettings::default()).err().unwrap();
    assert!(matches!(error, LoadError::NotGguf { .. }), "{error}");
}

#[test]
fn an_unknown_architecture_is_named_with_those_known() {
    let error = refused(&with_key("general.architecture", Some(Value::String("mamba9".into()))));
    assert_eq!(error.to_string(), "the model architecture \"mamba9\" is not known; known are: qwen2");
}

#[test]
fn a_missing_key_or_tensor_is_named() {
    for key in ["general.architecture", "qwen2.block_count", "tokenizer.ggml.merges", "tokenizer.chat_template"] {
        match refused(&with_key(key, None)) {
            LoadError::MissingKey { key: named, .. } => assert_eq!(named, key),
            other => panic!("{key}: {other}"),
        }
    }
    let tiny = Tiny::with(|_, tensors| tensors.retain(|(name, _)| name != "blk.1.ffn_up.weight"));
    match refused(&tiny) {
        LoadError::MissingTensor { name, .. } => assert_eq!(name, "blk.1.ffn_up.weight"),
        other => panic!("{other}"),
    }
}

#[test]
fn sizes_beyond_the_limits_are_refused_before_memory_is_taken() {
    for (key, value) in [
        ("qwen2.block_count", Value::U32(u32::MAX)),
        ("qwen2.embedding_length", Value::U32(0)),
        ("qwen2.embedding_length", Value::U64(u64::MAX)),
        ("qwen2.attention.head_count", Value::U32(3)),
        ("qwen2.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN)),
        ("qwen2.rope.freq_base", Value::F32(-1.0)),
        ("qwen2.context_length", Value::String("long".into())),
        ("general.alignment", Value::U32(0)),
        ("general.alignment", Value::U32(7)),
    ] {
        let error = refused(&with_key(key, Some(value.clone())));
        assert!(matches!(error, LoadError::Corrupted { .. }), "{key} = {value:?}: {error}");
    }
    let tiny = Tiny::with(|_, tensors| {
        let wrong = Tensor::zeros((HIDDEN, HIDDEN), candle_core::DType::F32, &Device::Cpu).unwrap();
        tensors.retain(|(name, _)| name != "output.weight");
        tensors.push(("output.weight".into(), QTensor::quantize(&wrong, GgmlDType::Q8_0).unwrap()));
    });
    assert!(refused(&tiny).to_string().contains("output.weight has the shape [256, 256], expected [320, 256]"));
}

#[test]
fn a_model_without_an_output_matrix_uses_its_embeddings() {
    let tiny = Tiny::with(|_, tensors| tensors.retain(|(name, _)| name != "output.weight"));
    let engine = load(&tiny).unwrap();
    let finish = engine.submit(inference::GenerateRequest::greedy(vec![1, 2, 3], 4)).unwrap().finish();
    assert!(finish.usage.generated_tokens > 0, "{finish:?}");
}

#[test]
fn a_file_cut_off_anywhere_is_refused_as_truncated() {
    let whole = std::fs::read(Tiny::new().path()).unwrap();
    let mut random = Random(5);
    for _ in 0..300 {
        let length = random.below(whole.len() - 32);
        let parsed = Header::parse(Path::new("cut"), &whole[..length], length as u64);
        assert!(matches!(parsed, Err(LoadError::Truncated { .. })), "cut at {length}: {parsed:?}");
    }
    let cut = refused(&Tiny::of_bytes(&whole[..whole.len() / 2]));
    assert!(matches!(cut, LoadError::Truncated { .. }), "{cut}");
}

/// Flipped bytes may leave a file that loads; what they may not do is end in a panic or in memory taken on their word.
#[test]
fn flipped_bytes_in_the_header_never_panic() {
    let whole = std::fs::read(Tiny::new().path()).unwrap();
    let header_bytes = 14_000.min(whole.len());
    let mut random = Random(std::env::var("CLOISTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11));
    for _ in 0..5_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(3) {
            bytes[random.below(header_bytes)] = random.next() as u8;
        }
        let _ = Header::parse(Path::new("flipped"), &bytes, bytes.len() as u64);
    }
    for _ in 0..25 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(2) {
            bytes[random.below(header_bytes)] ^= 1 << random.below(8);
        }
        if let Ok(engine) = load(&Tiny::of_bytes(&bytes)) {
            let _ = engine.submit(inference::GenerateRequest::greedy(vec![1, 2, 3], 2)).map(|g| g.finish());
        }
    }
}

#[test]
fn kv_memory_below_one_block_and_other_thread_counts_are_refused() {
    let tiny = Tiny::new();
    let settings = EngineSettings { kv_bytes_max: 1000, ..EngineSettings::default() };
    assert!(matches!(Engine::load(&tiny.path(), settings), Err(LoadError::KvTooSmall { block_bytes: 49152, .. })));
    let settings = EngineSettings { threads: Some(1000), ..EngineSettings::default() };
    assert!(matches!(Engine::load(&tiny.path(), settings), Err(LoadError::Threads { asked: 1000, .. })));
}
