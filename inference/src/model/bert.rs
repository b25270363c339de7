//! How is a sentence encoder of the BERT family computed?
//!
//! candle-transformers' own model over safetensors: it is small, needs no cache, and is not worth writing again.

use super::error::ForwardError;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};

/// The weights of one encoder.
pub struct SentenceEncoder {
    model: BertModel,
    dimension: usize,
    tokens_max: usize,
}

impl SentenceEncoder {
    /// Builds the encoder from the text of its `config.json` and the bytes of its safetensors file.
    pub fn load(config: &str, weights: Vec<u8>) -> Result<SentenceEncoder, String> {
        let config: Config = serde_json::from_str(config).map_err(|error| format!("config.json: {error}"))?;
        let (dimension, tokens_max) = (config.hidden_size, config.max_position_embeddings);
        if config.num_attention_heads == 0 || config.num_hidden_layers > 512 || dimension > 1 << 16 {
            return Err("config.json: sizes outside the limits".into());
        }
        let variables = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu);
        let variables = variables.map_err(|error| format!("safetensors: {error}"))?;
        let model = BertModel::load(variables, &config).map_err(|error| format!("safetensors: {error}"))?;
        Ok(SentenceEncoder { model, dimension, tokens_max })
    }

    /// Numbers in a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The longest input, in tokens.
    pub fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// Hidden states of `rows` inputs padded to one length: `ids` and `mask` are rows of it, the result is
    /// `[row][token][dimension]`.
    pub fn forward(&self, ids: Vec<u32>, mask: Vec<u32>, rows: usize) -> Result<Vec<f32>, ForwardError> {
        let shape = (rows, ids.len() / rows.max(1));
        let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
        let kinds = ids.zeros_like()?;
        let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
        Ok(self.model.forward(&ids, &kinds, Some(&mask))?.flatten_all()?.to_vec1()?)
    }
}
