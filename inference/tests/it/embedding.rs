//! Are similar texts near each other?

use crate::found;
use inference::{EmbedError, Embedder};

#[test]
fn similar_texts_are_nearer_than_others_and_batches_change_nothing() {
    let test = "similar_texts_are_nearer_than_others_and_batches_change_nothing";
    let Some(config) = found::model_file(test, "all-minilm-l6-v2", "config.json") else { return };
    let embedder = Embedder::load(config.parent().unwrap()).unwrap();
    assert_eq!(embedder.dimension(), 384);
    let texts = [
        "How do I read a file line by line in Python?",
        "with open(path) as f:\n    for line in f: print(line)",
        "The weather in Paris is mild in spring.",
        "",
        &"a very long text that is cut off after some tokens ".repeat(2000),
    ];
    let texts: Vec<String> = texts.map(str::to_owned).into();
    let vectors = embedder.embed(&texts).unwrap();
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    for vector in &vectors {
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5);
    }
    assert!(dot(&vectors[0], &vectors[1]) > dot(&vectors[0], &vectors[2]) + 0.2);
    for (text, vector) in texts.iter().zip(&vectors) {
        let alone = &embedder.embed(std::slice::from_ref(text)).unwrap()[0];
        assert!(dot(alone, vector) > 0.9999, "padding changed {text:.20}");
    }
    assert!(embedder.embed(&[]).unwrap().is_empty());
}

#[test]
fn a_directory_without_a_model_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = Embedder::load(directory.path()).err().unwrap();
    assert!(matches!(error, EmbedError::Unreadable { .. }) && error.to_string().contains("config.json"), "{error}");
    std::fs::write(directory.path().join("config.json"), "{}").unwrap();
    std::fs::write(directory.path().join("tokenizer.json"), "{}").unwrap();
    std::fs::write(directory.path().join("model.safetensors"), "no").unwrap();
    assert!(matches!(Embedder::load(directory.path()), Err(EmbedError::Invalid { .. })));
}
