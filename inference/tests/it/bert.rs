//! Does an encoder out of a GGUF file give the vectors that the same encoder gives out of its own files?

use crate::found;
use crate::tiny::{Random, Tiny};
use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use inference::{Embedder, GgufEmbedder, LoadError};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

const HIDDEN: usize = 32;
const INNER: usize = 64;
const LAYERS: usize = 2;
const POSITIONS: usize = 24;
const WORDS: &[&str] = &[
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "read", "a", "file", "line", "##s", "##by", "by", "print", "(", ")",
    "[", "]", ".", "##r", "文",
];

/// The names of the weights by the model's own files, and by llama.cpp's converter.
const NAMES: &[(&str, &str)] = &[
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("encoder.layer.", "blk."),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
];

/// Writes a small encoder with random weights as its own three files.
fn write_tiny(directory: &Path) {
    let mut random = Random(7);
    let mut weights = HashMap::new();
    let mut add = |name: String, shape: &[usize]| {
        // Norms near 1 and small biases, else all states point the same way.
        let (middle, width) = match name.as_str() {
            name if name.ends_with("LayerNorm.weight") => (1.0, 0.2),
            name if name.ends_with(".bias") => (0.0, 0.1),
            _ => (0.0, 1.0),
        };
        let number = |_| middle + width * (random.below(2001) as f32 / 1000.0 - 1.0);
        let numbers: Vec<f32> = (0..shape.iter().product()).map(number).collect();
        weights.insert(name, Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap());
    };
    for (name, rows) in [("word", WORDS.len()), ("position", POSITIONS), ("token_type", 2)] {
        add(format!("embeddings.{name}_embeddings.weight"), &[rows, HIDDEN]);
    }
    let mut with_bias = |name: String, shape: &[usize]| {
        add(format!("{name}.weight"), shape);
        add(format!("{name}.bias"), &shape[..1]);
    };
    with_bias("embeddings.LayerNorm".into(), &[HIDDEN]);
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("attention.self.query", [HIDDEN, HIDDEN].as_slice()),
            ("attention.self.key", &[HIDDEN, HIDDEN]),
            ("attention.self.value", &[HIDDEN, HIDDEN]),
            ("attention.output.dense", &[HIDDEN, HIDDEN]),
            ("attention.output.LayerNorm", &[HIDDEN]),
            ("intermediate.dense", &[INNER, HIDDEN]),
            ("output.dense", &[HIDDEN, INNER]),
            ("output.LayerNorm", &[HIDDEN]),
        ] {
            with_bias(format!("encoder.layer.{layer}.{name}"), shape);
        }
    }
    candle_core::safetensors::save(&weights, directory.join("model.safetensors")).unwrap();
    let config = serde_json::json!({
        "vocab_size": WORDS.len(), "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
        "intermediate_size": INNER, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    });
    fs::write(directory.join("config.json"), config.to_string()).unwrap();
    let vocabulary: HashMap<&str, usize> = WORDS.iter().enumerate().map(|(id, word)| (*word, id)).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0",
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2] },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    });
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

/// The encoder of this directory as one GGUF file, its matrices stored as `kind`, and its metadata as `change` wants it.
fn as_gguf(directory: &Path, kind: GgmlDType, change: impl FnOnce(&mut Vec<(String, Value)>)) -> Tiny {
    let read =
        |name: &str| -> serde_json::Value { serde_json::from_slice(&fs::read(directory.join(name)).unwrap()).unwrap() };
    let (config, tokenizer) = (read("config.json"), read("tokenizer.json"));
    let number = |key: &str| Value::U32(config[key].as_u64().unwrap() as u32);
    let known: Vec<(&String, u64)> = tokenizer["model"]["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(word, id)| (word, id.as_u64().unwrap()))
        .collect();
    let mut tokens = vec![String::new(); known.len()];
    for (word, id) in known {
        tokens[id as usize] = match word.strip_prefix("##") {
            Some(inside) => inside.to_owned(),
            None if word.starts_with('[') && word.ends_with(']') => word.clone(),
            None => format!("\u{2581}{word}"),
        };
    }
    let mut metadata: Vec<(String, Value)> = [
        ("general.architecture", Value::String("bert".into())),
        ("bert.block_count", number("num_hidden_layers")),
        ("bert.context_length", number("max_position_embeddings")),
        ("bert.embedding_length", number("hidden_size")),
        ("bert.feed_forward_length", number("intermediate_size")),
        ("bert.attention.head_count", number("num_attention_heads")),
        ("bert.attention.layer_norm_epsilon", Value::F32(config["layer_norm_eps"].as_f64().unwrap() as f32)),
        ("bert.attention.causal", Value::Bool(false)),
        ("bert.pooling_type", Value::U32(1)),
        ("tokenizer.ggml.model", Value::String("bert".into())),
        ("tokenizer.ggml.tokens", Value::Array(tokens.into_iter().map(Value::String).collect())),
        ("tokenizer.ggml.token_type_count", number("type_vocab_size")),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    change(&mut metadata);
    let weights = candle_core::safetensors::load(directory.join("model.safetensors"), &Device::Cpu).unwrap();
    let weights = weights.iter().filter(|(name, _)| !name.starts_with("pooler.") && !name.ends_with("position_ids"));
    let tensors: Vec<(String, QTensor)> = weights
        .map(|(name, weight)| {
            let name = NAMES.iter().fold(name.clone(), |name, (theirs, llama)| name.replace(theirs, llama));
            let name = name.replace("attn_output.LayerNorm", "attn_output_norm");
            // As the converter does: tables that are added to other numbers stay whole.
            let stays =
                weight.rank() < 2 || ["position_embd", "token_types"].iter().any(|table| name.starts_with(table));
            (name, QTensor::quantize(weight, if stays { GgmlDType::F32 } else { kind }).unwrap())
        })
        .collect();
    let mut bytes = std::io::Cursor::new(Vec::new());
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    write(&mut bytes, &metadata, &tensors).unwrap();
    Tiny::of_bytes(bytes.get_ref())
}

fn tiny_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_tiny(directory.path());
    directory
}

/// The smallest cosine between what both say of the same texts.
fn least_cosine(one: &[Vec<f32>], other: &[Vec<f32>]) -> f32 {
    let dot = |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    one.iter().zip(other).map(dot).fold(f32::INFINITY, f32::min)
}

fn texts() -> Vec<String> {
    ["", "Read a file", "print(lines) [by] byby.", "文 unknowable Reader", &"read a file ".repeat(40)]
        .map(str::to_owned)
        .into()
}

#[test]
fn an_encoder_gives_the_same_vectors_out_of_either_file() {
    let directory = tiny_directory();
    let theirs = Embedder::load(directory.path()).unwrap().embed(&texts()).unwrap();
    assert!(least_cosine(&theirs[..4], &theirs[1..]) < 0.7, "the texts must differ");
    for (kind, least) in [(GgmlDType::F32, 0.999_99), (GgmlDType::F16, 0.999), (GgmlDType::Q8_0, 0.99)] {
        let file = as_gguf(directory.path(), kind, |_| {});
        let embedder = GgufEmbedder::load(&file.path()).unwrap();
        assert_eq!((embedder.dimension(), embedder.method()), (HIDDEN, format!("mean-{POSITIONS}")));
        let cosine = least_cosine(&theirs, &embedder.embed(&texts()).unwrap());
        assert!(cosine > least, "{kind:?}: {cosine}");
    }
}

#[test]
fn an_encoder_that_pools_by_its_first_token_says_so_and_gives_other_vectors() {
    let directory = tiny_directory();
    let pooled = |pooling: u32| {
        let file = as_gguf(directory.path(), GgmlDType::F32, |metadata| {
            metadata.retain(|(key, _)| key != "bert.pooling_type");
            metadata.push(("bert.pooling_type".into(), Value::U32(pooling)));
        });
        let embedder = GgufEmbedder::load(&file.path()).unwrap();
        (embedder.method(), embedder.embed(&texts()).unwrap())
    };
    let (mean, first) = (pooled(1), pooled(2));
    assert_eq!([mean.0, first.0], ["mean-24", "first-24"]);
    assert!(least_cosine(&mean.1, &first.1) < 0.9);
    assert!(least_cosine(&first.1, &first.1) > 0.999);
}

#[test]
fn an_encoder_that_cannot_be_computed_is_refused_by_what_it_lacks() {
    let directory = tiny_directory();
    for (key, value, words) in [
        ("tokenizer.ggml.model", Value::String("t5".into()), "a vocabulary of the kind \"t5\""),
        ("bert.attention.head_count", Value::U32(5), "5 heads do not divide a width of 32"),
        ("bert.context_length", Value::U32(1), "no room for a text"),
        ("bert.context_length", Value::U32(25), "position_embd.weight has the shape [24, 32], expected [25, 32]"),
        ("bert.block_count", Value::U32(3), "lacks the tensor blk.2.attn_q.weight"),
        ("tokenizer.ggml.cls_token_id", Value::U32(20), "no token of the vocabulary is [CLS]"),
        ("bert.pooling_type", Value::U32(4), "scores of pairs"),
    ] {
        let file = as_gguf(directory.path(), GgmlDType::F32, |metadata| {
            metadata.retain(|(known, _)| known != key);
            metadata.push((key.into(), value.clone()));
        });
        let error = GgufEmbedder::load(&file.path()).err().expect("the file is refused");
        assert!(error.to_string().contains(words), "{key} = {value:?}: {error}");
    }
    let nothing = Tiny::with(|metadata, tensors| {
        metadata.retain(|(key, _)| key != "general.architecture");
        metadata.push(("general.architecture".into(), Value::String("nomic-bert".into())));
        tensors.clear();
    });
    let error = GgufEmbedder::load(&nothing.path()).err().expect("the file is refused");
    assert!(matches!(error, LoadError::UnknownArchitecture { known: "bert, qwen2", .. }), "{error}");
}

#[test]
fn the_real_encoder_gives_the_same_vectors_out_of_a_gguf_file() {
    let test = "the_real_encoder_gives_the_same_vectors_out_of_a_gguf_file";
    let Some(config) = found::model_file(test, "all-minilm-l6-v2", "config.json") else { return };
    let directory = config.parent().unwrap();
    let texts = [
        "How do I read a file line by line in Python?",
        "with open(path) as f:\n    for line in f: print(line)",
        "Straße, naïveté and 東京 in one text.",
        "fn main() { println!(\"[SEP]\"); }",
    ]
    .map(str::to_owned);
    let theirs = Embedder::load(directory).unwrap().embed(&texts).unwrap();
    for (kind, least) in [(GgmlDType::F16, 0.999_9), (GgmlDType::Q8_0, 0.999)] {
        let file = as_gguf(directory, kind, |_| {});
        let ours = GgufEmbedder::load(&file.path()).unwrap().embed(&texts).unwrap();
        // The last text spells a control token, which is text here and a token there.
        let cosine = least_cosine(&theirs[..3], &ours[..3]);
        println!("{kind:?}: cosine at least {cosine}");
        assert!(cosine > least, "{kind:?}: {cosine}");
        assert!(least_cosine(&theirs[3..], &ours[3..]) > 0.5);
    }
}
