//! Which texts mean something similar?
//!
//! Sentence vectors as sentence-transformers makes them with all-MiniLM-L6-v2: mean of the hidden states over the
//! real tokens, then length 1, so that a dot product is the cosine. Texts are cut to [`TOKENS_MAX`] tokens.

mod distil;
mod gguf_decoder;
mod gguf_embedder;
mod gguf_encoder;
mod pooling;
mod principal;
mod static_embedder;
mod table;
mod wordpiece;

pub use gguf_embedder::{GGUF_TOKENS_MAX, GgufEmbedder};
pub use static_embedder::{StaticEmbedder, StaticError};

use crate::model::SentenceEncoder;
use pooling::Pooling;
use std::path::{Path, PathBuf};
use tokenizers::{Tokenizer, TruncationParams};

/// Tokens of a text that count; all-MiniLM-L6-v2 was trained with this many.
pub const TOKENS_MAX: usize = 256;
/// Bytes of a text that are looked at; 256 tokens are never more.
const TEXT_BYTES_MAX: usize = 16 << 10;
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Turns texts into vectors. Calls may come from several threads.
pub struct Embedder {
    encoder: SentenceEncoder,
    tokenizer: Tokenizer,
}

/// Why an embedder was not loaded, or a text not embedded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A file of the model cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// A file of the model is not what it should be.
    #[error("{} is not a sentence encoder: {reason}", directory.display())]
    Invalid {
        /// The directory of the model.
        directory: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Embedding failed; not expected with a model that loaded.
    #[error("embedding failed: {reason}")]
    Failed {
        /// Where it failed.
        reason: String,
    },
}

impl Embedder {
    /// Loads `config.json`, `tokenizer.json` and `model.safetensors` from one directory.
    pub fn load(directory: &Path) -> Result<Embedder, EmbedError> {
        let invalid = |reason: String| EmbedError::Invalid { directory: directory.to_owned(), reason };
        let config = read(directory, "config.json")?;
        let config = String::from_utf8(config).map_err(|_| invalid("config.json is not UTF-8".into()))?;
        let mut tokenizer = Tokenizer::from_bytes(read(directory, "tokenizer.json")?)
            .map_err(|error| invalid(format!("tokenizer.json: {error}")))?;
        let encoder = SentenceEncoder::load(&config, read(directory, "model.safetensors")?).map_err(invalid)?;
        let truncation =
            TruncationParams { max_length: TOKENS_MAX.min(encoder.tokens_max()), ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| invalid(error.to_string()))?;
        tokenizer.with_padding(None);
        Ok(Embedder { encoder, tokenizer })
    }

    /// Numbers in a vector.
    pub fn dimension(&self) -> usize {
        self.encoder.dimension()
    }

    /// One vector of length 1 for each text, in the order of the texts.
    pub fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let failed = |reason: String| EmbedError::Failed { reason };
        let encode = |text: &String| {
            let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
            let encoding = self.tokenizer.encode_fast(text, true).map_err(|error| failed(error.to_string()))?;
            Ok(encoding.get_ids().to_vec())
        };
        let ids = texts.iter().map(encode).collect::<Result<Vec<_>, EmbedError>>()?;
        Pooling::Mean.embed(&self.encoder, &ids).map_err(|error| failed(error.to_string()))
    }

    /// All tokens of the vocabulary, in the order of their numbers; an empty text where a number has none.
    fn vocabulary(&self) -> Vec<String> {
        let known = self.tokenizer.get_vocab(true);
        let mut vocabulary = vec![String::new(); known.values().max().map_or(0, |&last| last as usize + 1)];
        for (text, token) in known {
            vocabulary[token as usize] = text;
        }
        vocabulary
    }

    /// The mean state of each token, alone between the tokens that begin and end a text; not scaled.
    fn token_means(&self, tokens: &[u32]) -> Result<Vec<f32>, EmbedError> {
        let failed = |reason: String| EmbedError::Failed { reason };
        let around = self.tokenizer.encode_fast("", true).map_err(|error| failed(error.to_string()))?;
        let &[begin, end] = around.get_ids() else {
            return Err(failed("the tokenizer puts nothing around a text".into()));
        };
        let ids: Vec<u32> = tokens.iter().flat_map(|&token| [begin, token, end]).collect();
        let mask = vec![1; ids.len()];
        let hidden = self.encoder.forward(ids, mask, tokens.len()).map_err(|error| failed(error.to_string()))?;
        let mut means: Vec<f32> =
            hidden.chunks(3 * self.dimension()).flat_map(|states| sum(states, self.dimension())).collect();
        means.iter_mut().for_each(|x| *x /= 3.0);
        Ok(means)
    }
}

/// Over the tokens, of states that are `width` wide.
fn sum(states: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0f32; width];
    for state in states.chunks(width) {
        sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += x);
    }
    sum
}

/// The same direction at length 1; nothing stays nothing.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

fn read(directory: &Path, name: &str) -> Result<Vec<u8>, EmbedError> {
    let path = directory.join(name);
    let read = || {
        let bytes = std::fs::metadata(&path)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(std::io::Error::other(format!("{bytes} bytes, more than {FILE_BYTES_MAX}")));
        }
        std::fs::read(&path)
    };
    read().map_err(|source| EmbedError::Unreadable { path: path.clone(), source })
}
