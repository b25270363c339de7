//! Which texts mean something similar, by the states of a decoder out of a GGUF file?
//!
//! It is read and computed by the code that serves the engine, without the output matrix. The vector of a text is the
//! mean of its tokens' states after the final norm, or the state of its last token where the file says so. The file also
//! says whether a token begins or ends every text, which models that pool by the last token are trained with.

use super::pooling::Pooling;
use super::{EmbedError, GGUF_TOKENS_MAX, TEXT_BYTES_MAX};
use crate::kv::{Arena, BLOCK_TOKENS, BlockId};
use crate::model::{ForwardError, Header, LoadError, Model, ModelShape, Sequence, Value};
use crate::tokenizer::{Special, Tokenizer};

/// A decoder and its tokens.
pub(super) struct Decoder {
    model: Model,
    tokenizer: Tokenizer,
    pooling: Pooling,
    /// The token that begins every text.
    begin: Option<u32>,
    /// The token that ends every text, a cut one too.
    end: Option<u32>,
    tokens_max: usize,
}

impl Decoder {
    pub(super) fn load(header: &Header) -> Result<Decoder, LoadError> {
        let shape = ModelShape::read(header)?;
        let pooling = Pooling::read(header, &shape.architecture)?;
        if pooling == Pooling::First {
            // The first token of a decoder knows nothing of the others.
            let what = "pooling by the first token of a decoder".to_owned();
            return Err(LoadError::Unsupported { path: header.path.clone(), what });
        }
        let tokenizer = Tokenizer::load(header)?;
        let begin = token_around(header, "bos", tokenizer.len())?;
        let end = token_around(header, "eos", tokenizer.len())?;
        let model = Model::load_for_states(header)?;
        let tokens_max = GGUF_TOKENS_MAX.min(shape.context_tokens);
        Ok(Decoder { model, tokenizer, pooling, begin, end, tokens_max })
    }

    pub(super) fn dimension(&self) -> usize {
        self.model.shape().hidden
    }

    pub(super) fn pooling(&self) -> Pooling {
        self.pooling
    }

    pub(super) fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// Zeros for a text without a token.
    pub(super) fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let shape = self.model.shape();
        let blocks: Vec<BlockId> = (0..self.tokens_max.div_ceil(BLOCK_TOKENS) as u32).map(BlockId).collect();
        // Each text begins at position 0 and reads only what it has stored itself: all can share the blocks.
        let mut arena = Arena::new(shape.kv(), blocks.len());
        let mut embed = |text: &String| {
            let tokens = self.tokens(text);
            if tokens.is_empty() {
                return Ok(vec![0.0; shape.hidden]);
            }
            let sequence = Sequence { tokens: &tokens, position: 0, blocks: &blocks };
            let hidden = self.model.forward(&[sequence], &mut arena)?;
            Ok(self.pooling.pool(&self.model.final_states(&hidden), shape.hidden))
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

/// The token that the file wants around every text, `bos` before or `eos` behind it.
fn token_around(header: &Header, which: &str, vocabulary: usize) -> Result<Option<u32>, LoadError> {
    if header.metadata.get(&format!("tokenizer.ggml.add_{which}_token")) != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let id = header.number(&format!("tokenizer.ggml.{which}_token_id"), vocabulary as u64 - 1)?;
    Ok(Some(id as u32))
}
