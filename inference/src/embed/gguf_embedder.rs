//! Which texts mean something similar, by the states of a decoder?
//!
//! A GGUF file is read and computed by the code that serves the engine, without the output matrix. The vector of a text is
//! the mean of its tokens' states after the final norm, or the state of its last token where the file says so, scaled to
//! length 1. What a file says about this: `<architecture>.pooling_type`, numbered as llama.cpp's `llama_pooling_type`,
//! and whether a token begins or ends every text, which models that pool by the last token are trained with.

use super::{EmbedError, TEXT_BYTES_MAX, sum, unit};
use crate::kv::{Arena, BLOCK_TOKENS, BlockId};
use crate::model::{ForwardError, Header, LoadError, Model, Value};
use crate::tokenizer::{Special, Tokenizer};
use std::path::Path;

/// Tokens of a text that count, where the model was not made for fewer: a piece of an index is seldom longer, and time
/// grows with them.
pub const DECODER_TOKENS_MAX: usize = 512;

/// Turns texts into vectors by a decoder. Calls may come from several threads.
pub struct GgufEmbedder {
    model: Model,
    tokenizer: Tokenizer,
    pooling: Pooling,
    /// The token that begins every text.
    begin: Option<u32>,
    /// The token that ends every text, a cut one too.
    end: Option<u32>,
    tokens_max: usize,
}

/// How the states of the tokens become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    Mean,
    Last,
}

impl GgufEmbedder {
    /// Loads the GGUF file at `path`. What this build cannot run is refused before memory is taken for its weights.
    pub fn load(path: &Path) -> Result<GgufEmbedder, LoadError> {
        let header = Header::read(path)?;
        let shape = crate::model::ModelShape::read(&header)?;
        let pooling = Pooling::read(&header, &shape.architecture)?;
        let tokenizer = Tokenizer::load(&header)?;
        let begin = token_around(&header, "bos", tokenizer.len())?;
        let end = token_around(&header, "eos", tokenizer.len())?;
        let model = Model::load_for_states(&header)?;
        let tokens_max = DECODER_TOKENS_MAX.min(shape.context_tokens);
        Ok(GgufEmbedder { model, tokenizer, pooling, begin, end, tokens_max })
    }

    /// Numbers in a vector.
    pub fn dimension(&self) -> usize {
        self.model.shape().hidden
    }

    /// Names what changes the vectors of one and the same file, such as `mean-512`: the pooling and the tokens that count.
    pub fn method(&self) -> String {
        let pooling = match self.pooling {
            Pooling::Mean => "mean",
            Pooling::Last => "last",
        };
        format!("{pooling}-{}", self.tokens_max)
    }

    /// One vector of length 1 for each text, in the order of the texts; zeros for a text without a token.
    pub fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let shape = self.model.shape();
        let blocks: Vec<BlockId> = (0..self.tokens_max.div_ceil(BLOCK_TOKENS) as u32).map(BlockId).collect();
        // Each text begins at position 0 and reads only what it has stored itself: all can share the blocks.
        let mut arena = Arena::new(shape.kv(), blocks.len());
        let mut embed = |text: &String| {
            let tokens = self.tokens(text);
            if tokens.is_empty() {
                return Ok(vec![0.0; shape.hidden]);
            }
            let hidden = self.model.forward(&tokens, 0, &mut arena, &blocks)?;
            Ok(unit(self.pooling.pool(&self.model.final_states(&hidden), shape.hidden)))
        };
        let vectors: Result<_, ForwardError> = texts.iter().map(&mut embed).collect();
        vectors.map_err(|error| EmbedError::Failed { reason: error.to_string() })
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        let around = usize::from(self.begin.is_some()) + usize::from(self.end.is_some());
        let inner =
            self.tokenizer.encode(text, Special::Forbid).into_iter().take(self.tokens_max.saturating_sub(around));
        self.begin.into_iter().chain(inner).chain(self.end).collect()
    }
}

impl Pooling {
    /// What the file says; the mean where it says nothing, or that it does not pool (0).
    fn read(header: &Header, architecture: &str) -> Result<Pooling, LoadError> {
        let unsupported = |what: String| LoadError::Unsupported { path: header.path.clone(), what };
        match header.metadata.get(&format!("{architecture}.pooling_type")) {
            None | Some(Value::Unsigned(0 | 1) | Value::Signed(-1..=1)) => Ok(Pooling::Mean),
            Some(Value::Unsigned(3) | Value::Signed(3)) => Ok(Pooling::Last),
            // The first token of a decoder knows nothing of the others.
            Some(Value::Unsigned(2) | Value::Signed(2)) => Err(unsupported("pooling by the first token".into())),
            Some(Value::Unsigned(4) | Value::Signed(4)) => {
                Err(unsupported("scores of pairs instead of vectors".into()))
            }
            Some(other) => Err(unsupported(format!("pooling of the unknown type {other:?}"))),
        }
    }

    /// One vector of the states' direction, of any length: the number of tokens cancels out.
    fn pool(self, states: &[f32], width: usize) -> Vec<f32> {
        match self {
            Pooling::Last => states[states.len() - width..].to_vec(),
            Pooling::Mean => sum(states, width),
        }
    }
}

/// The token that the file wants around every text, `bos` before or `eos` behind it.
fn token_around(header: &Header, which: &str, vocabulary: usize) -> Result<Option<u32>, LoadError> {
    if header.metadata.get(&format!("tokenizer.ggml.add_{which}_token")) != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let id = header.number(&format!("tokenizer.ggml.{which}_token_id"), vocabulary as u64 - 1)?;
    Ok(Some(id as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_takes_the_sum_of_all_states_or_the_last_alone() {
        let states = [1.0, 2.0, 10.0, 20.0, 100.0, -200.0];
        assert_eq!(Pooling::Mean.pool(&states, 2), [111.0, -178.0]);
        assert_eq!(Pooling::Last.pool(&states, 2), [100.0, -200.0]);
        assert_eq!(Pooling::Mean.pool(&states[..2], 2), Pooling::Last.pool(&states[..2], 2));
    }
}
