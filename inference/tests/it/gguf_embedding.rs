//! Does a decoder give the vectors that its file asks for, and are similar texts near each other?

use crate::found;
use crate::tiny::{HIDDEN, Tiny, VOCABULARY};
use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use inference::embed::GGUF_TOKENS_MAX;
use inference::kv::{Arena, BLOCK_TOKENS, PrefixCache};
use inference::model::{ForwardError, Header, Model, Sequence};
use inference::{GgufEmbedder, LoadError, Special, Tokenizer};
use std::path::Path;

const LAST: u32 = 3;
/// `<|endoftext|>` of the tiny model.
const END: u32 = VOCABULARY as u32 - 1;

/// A tiny model with these entries of metadata in the place of its own.
fn with_keys(entries: &[(&str, Value)]) -> Tiny {
    Tiny::with(|metadata, _| {
        metadata.retain(|(known, _)| entries.iter().all(|(key, _)| key != known));
        metadata.extend(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    })
}

/// A tiny model that pools by the last token and ends every text with one.
fn by_last_token() -> Tiny {
    with_keys(&[
        ("qwen2.pooling_type", Value::U32(LAST)),
        ("tokenizer.ggml.add_eos_token", Value::Bool(true)),
        ("tokenizer.ggml.eos_token_id", Value::U32(END)),
    ])
}

/// The states of the tokens after the final norm, worked out here from the decoder's, token by token.
fn final_states(path: &Path, tokens: &[u32]) -> Vec<Vec<f32>> {
    let model = Model::load(&Header::read(path).unwrap()).unwrap();
    let mut file = std::fs::File::open(path).unwrap();
    let norm = Content::read(&mut file).unwrap().tensor(&mut file, "output_norm.weight", &Device::Cpu).unwrap();
    let norm: Vec<f32> = norm.dequantize(&Device::Cpu).unwrap().to_vec1().unwrap();
    let blocks_max = tokens.len().div_ceil(BLOCK_TOKENS);
    let mut arena = Arena::new(model.shape().kv(), blocks_max);
    let mut cache = PrefixCache::new(blocks_max);
    let mut lease = cache.begin_alone();
    (0..blocks_max).for_each(|_| _ = cache.grow(&mut lease).unwrap());
    let state = |(position, token): (usize, &u32)| {
        let sequence = Sequence { tokens: &[*token], position, blocks: lease.blocks() };
        let x = model.forward(&[sequence], &mut arena).unwrap();
        let mean_square = x.iter().map(|x| f64::from(x * x)).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean_square + 1e-6).sqrt();
        x.iter().zip(&norm).map(|(x, weight)| (f64::from(x * weight) * scale) as f32).collect()
    };
    let states = tokens.iter().enumerate().map(state).collect();
    cache.discard(lease);
    states
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[track_caller]
fn assert_same_direction(vector: &[f32], expected: &[f32]) {
    let cosine = dot(vector, expected) / dot(expected, expected).sqrt();
    assert!((dot(vector, vector) - 1.0).abs() < 1e-5, "length {}", dot(vector, vector).sqrt());
    assert!(cosine > 0.999_99, "cosine {cosine}");
}

fn embed(embedder: &GgufEmbedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text.to_owned()]).unwrap().remove(0)
}

#[test]
fn a_text_is_the_mean_of_its_tokens_where_the_file_says_nothing_else() {
    let tiny = Tiny::new();
    let embedder = GgufEmbedder::load(&tiny.path()).unwrap();
    assert_eq!((embedder.dimension(), embedder.method().as_str()), (HIDDEN, "mean-512"));
    let text = "fn read(path) -> rest of it";
    let tokens = Tokenizer::open(&tiny.path()).unwrap().encode(text, Special::Forbid);
    let mut mean = vec![0.0; HIDDEN];
    for state in final_states(&tiny.path(), &tokens) {
        mean.iter_mut().zip(&state).for_each(|(mean, x)| *mean += x / tokens.len() as f32);
    }
    assert_same_direction(&embed(&embedder, text), &mean);
}

#[test]
fn a_text_is_its_last_token_where_the_file_says_so_and_ends_as_the_file_wants() {
    let tiny = by_last_token();
    let embedder = GgufEmbedder::load(&tiny.path()).unwrap();
    assert_eq!(embedder.method(), "last-512");
    let text = "a text";
    let mut tokens = Tokenizer::open(&tiny.path()).unwrap().encode(text, Special::Forbid);
    tokens.push(END);
    assert_same_direction(&embed(&embedder, text), final_states(&tiny.path(), &tokens).last().unwrap());
    // What is cut ends the same way.
    let long = "xyz ".repeat(GGUF_TOKENS_MAX);
    let mut tokens = Tokenizer::open(&tiny.path()).unwrap().encode(&long, Special::Forbid);
    tokens.truncate(GGUF_TOKENS_MAX - 1);
    tokens.push(END);
    assert_same_direction(&embed(&embedder, &long), final_states(&tiny.path(), &tokens).last().unwrap());
}

#[test]
fn what_a_text_has_beyond_the_tokens_that_count_changes_nothing() {
    let embedder = GgufEmbedder::load(&Tiny::new().path()).unwrap();
    // No two of these bytes are merged: a token each.
    let full = "x".repeat(GGUF_TOKENS_MAX);
    assert_eq!(embed(&embedder, &full), embed(&embedder, &format!("{full}yz")));
    assert_ne!(embed(&embedder, &full), embed(&embedder, &format!("y{full}")));
    let short = with_keys(&[("qwen2.context_length", Value::U32(8))]);
    let embedder = GgufEmbedder::load(&short.path()).unwrap();
    assert_eq!(embedder.method(), "mean-8");
    assert_eq!(embed(&embedder, "xxxxxxxx"), embed(&embedder, "xxxxxxxxyz"));
}

#[test]
fn texts_together_have_the_vectors_that_they_have_alone() {
    let embedder = GgufEmbedder::load(&Tiny::new().path()).unwrap();
    let texts = ["", "one", &"a long text comes between ".repeat(12), "one", "<|im_end|>"].map(str::to_owned);
    let together = embedder.embed(&texts).unwrap();
    let alone: Vec<_> = texts.iter().map(|text| embed(&embedder, text)).collect();
    assert!(together == alone);
    assert!(together[0].iter().all(|x| *x == 0.0) && together[1] == together[3]);
    assert!(embedder.embed(&[]).unwrap().is_empty());
}

#[test]
fn a_file_without_a_chat_template_and_an_output_matrix_gives_the_same_vectors() {
    let bare = Tiny::with(|metadata, tensors| {
        metadata.retain(|(key, _)| key != "tokenizer.chat_template");
        tensors.retain(|(name, _)| name != "output.weight");
    });
    let (bare, whole) = (GgufEmbedder::load(&bare.path()).unwrap(), GgufEmbedder::load(&Tiny::new().path()).unwrap());
    assert_eq!(embed(&bare, "some text"), embed(&whole, "some text"));
}

#[test]
fn scores_are_not_to_be_had_of_a_model_that_was_loaded_for_its_states() {
    let model = Model::load_for_states(&Header::read(&Tiny::new().path()).unwrap()).unwrap();
    assert!(matches!(model.logits(&[0.5; HIDDEN]), Err(ForwardError::OutputNotLoaded)));
}

#[test]
fn what_cannot_be_embedded_with_is_refused_by_name() {
    let refused = |path: &Path| GgufEmbedder::load(path).err().expect("the file is refused");
    assert!(matches!(refused(Path::new("/nonexistent/model.gguf")), LoadError::NotFound { .. }));
    assert!(matches!(refused(&Tiny::of_bytes(b"PK\x03\x04 a zip file").path()), LoadError::NotGguf { .. }));
    let vocabulary = refused(&Tiny::with(|_, tensors| tensors.clear()).path());
    assert!(matches!(vocabulary, LoadError::VocabularyOnly { .. }), "{vocabulary}");
    for (key, value, word) in [
        (
            "general.architecture",
            Value::String("nomic-bert".into()),
            "\"nomic-bert\" is not known; known are: bert, qwen2",
        ),
        ("qwen2.pooling_type", Value::U32(2), "first token"),
        ("qwen2.pooling_type", Value::U32(4), "scores of pairs"),
        ("qwen2.pooling_type", Value::String("mean".into()), "unknown type"),
        ("qwen2.attention.causal", Value::Bool(false), "tokens that come after"),
    ] {
        let error = refused(&with_keys(&[(key, value.clone())]).path());
        assert!(error.to_string().contains(word), "{key} = {value:?}: {error}");
    }
    let outside = [
        ("tokenizer.ggml.add_eos_token", Value::Bool(true)),
        ("tokenizer.ggml.eos_token_id", Value::U32(VOCABULARY as u32)),
    ];
    assert!(matches!(refused(&with_keys(&outside).path()), LoadError::Corrupted { .. }));
}

#[test]
fn like_texts_are_nearer_than_others_by_the_real_models() {
    let test = "like_texts_are_nearer_than_others_by_the_real_models";
    if !found::slow(test) {
        return;
    }
    for path in ["0.5b", "1.5b"].into_iter().filter_map(|size| found::qwen(test, size)) {
        let begun = std::time::Instant::now();
        let embedder = GgufEmbedder::load(&path).unwrap();
        let loaded = begun.elapsed();
        let texts = [
            "Read a file line by line and print each line.",
            "Print the lines of a text file, one after the other.",
            "The weather in Paris is mild in spring, and it seldom rains.",
            "with open(path) as file:\n    for line in file:\n        print(line)",
        ];
        let [sentence, like, unlike, code] = texts.map(|text| embed(&embedder, text));
        let (near, far) = (dot(&sentence, &like), dot(&sentence, &unlike));
        // Code is only told of: these models were not trained to put it beside what is said of it.
        let code = dot(&sentence, &code);
        println!("{}: loaded in {loaded:.2?}; like {near:.3}, unlike {far:.3}, code {code:.3}", path.display());
        assert!(near > far, "like {near}, unlike {far}");
    }
}
