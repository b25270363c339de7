//! How does a sentence encoder become a table with one vector per token?
//!
//! The method of model2vec (van Dongen and Tulkens, "Model2Vec: fast state-of-the-art static embeddings", 2024): every
//! token of the vocabulary goes through the encoder alone, the vectors are turned to their principal components, of
//! which [`DIMENSION`] stay, and frequent tokens weigh less (smooth inverse frequency of Arora, Liang and Ma, 2017, the
//! frequency guessed by Zipf's law from the token's place in the vocabulary, which BERT sorts by frequency). The very
//! first components are dropped: they tell frequent from rare, not one meaning from another (Mu and Viswanath,
//! "All-but-the-top", 2018).
//! See docs/decisions/9-static-vectors.md.

use candle_core::{Device, Tensor};

use super::principal::principal;
use super::table::Table;
use super::wordpiece::NODES_MAX;
use super::{EmbedError, Embedder};

/// Numbers that stay of a vector.
pub(crate) const DIMENSION: usize = 256;
/// Components before them that are dropped.
const DROPPED: usize = 2;
/// Tokens in one forward call.
const BATCH_TOKENS: usize = 256;
/// The constant of smooth inverse frequency, as model2vec has it.
const SMOOTH: f64 = 1e-4;

/// Makes the table. `on_progress` hears tokens done and tokens in all, and stops the work by saying false: then there
/// is no table.
pub(crate) fn distil(
    embedder: &Embedder,
    on_progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Option<Table>, EmbedError> {
    let failed = |reason: &str| EmbedError::Failed { reason: reason.to_owned() };
    let vocabulary = embedder.vocabulary();
    if vocabulary.iter().map(String::len).sum::<usize>() > NODES_MAX / 2 {
        return Err(failed("the vocabulary is too large for a table"));
    }
    if vocabulary.iter().any(|token| token.contains('\n')) {
        return Err(failed("a token of the vocabulary has two lines"));
    }
    let tokens: Vec<u32> = (0..vocabulary.len() as u32).filter(|&token| is_text(&vocabulary[token as usize])).collect();
    if tokens.is_empty() {
        return Err(failed("the vocabulary is empty"));
    }
    let mut means = Vec::with_capacity(tokens.len() * embedder.dimension());
    for (at, batch) in tokens.chunks(BATCH_TOKENS).enumerate() {
        if !on_progress(at * BATCH_TOKENS, tokens.len()) {
            return Ok(None);
        }
        means.extend(embedder.token_means(batch)?);
    }
    let turned = components(&means, embedder.dimension()).map_err(|error| failed(&error.to_string()))?;
    let mut values = vec![0f32; vocabulary.len() * DIMENSION];
    for ((rank, &token), row) in tokens.iter().enumerate().zip(turned.chunks(DIMENSION)) {
        let weight = weight(rank, tokens.len());
        let place = &mut values[token as usize * DIMENSION..][..DIMENSION];
        place.iter_mut().zip(row).for_each(|(place, x)| *place = x * weight);
    }
    on_progress(tokens.len(), tokens.len());
    Ok(Some(Table::round(vocabulary, DIMENSION, &values)))
}

/// Whether a token can stand for something that was written: not `[PAD]`, `[CLS]` or `[unused7]`.
fn is_text(token: &str) -> bool {
    let is_control = token.len() > 2 && token.starts_with('[') && token.ends_with(']');
    !token.is_empty() && !is_control
}

/// Between 0 and 1, more for the rarer.
fn weight(rank: usize, tokens: usize) -> f32 {
    let harmonic = (tokens as f64).ln() + 0.577;
    let frequency = 1.0 / (rank as f64 + 2.0) / harmonic;
    (SMOOTH / (SMOOTH + frequency)) as f32
}

/// The vectors in the coordinates of their principal components, around their mean.
fn components(vectors: &[f32], dimension: usize) -> Result<Vec<f32>, candle_core::Error> {
    let device = &Device::Cpu;
    let count = vectors.len() / dimension;
    let data = Tensor::from_slice(vectors, (count, dimension), device)?;
    let data = data.broadcast_sub(&data.mean_keepdim(0)?)?;
    let covariance: Vec<f32> = data.t()?.matmul(&data)?.flatten_all()?.to_vec1()?;
    let covariance: Vec<f64> = covariance.into_iter().map(f64::from).collect();
    let axes = principal(&covariance, dimension, DROPPED + DIMENSION).into_iter().skip(DROPPED * dimension);
    let axes = Tensor::from_vec(axes.map(|x| x as f32).collect(), (DIMENSION, dimension), device)?;
    data.matmul(&axes.t()?)?.flatten_all()?.to_vec1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_tokens_are_no_text() {
        for token in ["[PAD]", "[CLS]", "[unused12]", ""] {
            assert!(!is_text(token), "{token}");
        }
        for token in ["[", "]", "##s", "the", "[]"] {
            assert!(is_text(token), "{token}");
        }
    }

    #[test]
    fn rarer_tokens_weigh_more() {
        let weights: Vec<f32> = [0, 100, 10_000, 29_000].map(|rank| weight(rank, 29_524)).into();
        assert!(weights.is_sorted() && weights[0] > 0.0 && weights[3] < 1.0, "{weights:?}");
    }
}
