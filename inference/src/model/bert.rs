//! How is a sentence encoder of the BERT family computed?
//!
//! candle-transformers' own model in `f32`: it is small, needs no cache, and is not worth writing again. Its weights come out
//! of a safetensors file, or of a GGUF file, whose names for them are llama.cpp's.

use super::error::{ForwardError, LoadError};
use super::gguf::Header;
use super::linear::load_tensor;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use std::collections::HashMap;

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

    /// Builds the encoder of a GGUF file of the architecture `bert`, whose vocabulary has this many tokens.
    pub fn load_gguf(header: &Header, vocabulary: usize) -> Result<SentenceEncoder, LoadError> {
        let number = |key: &str, max: u64| header.number(&format!("bert.{key}"), max);
        let config = Config {
            vocab_size: vocabulary,
            hidden_size: number("embedding_length", 1 << 16)?,
            num_hidden_layers: number("block_count", 1 << 9)?,
            num_attention_heads: number("attention.head_count", 1 << 10)?,
            intermediate_size: number("feed_forward_length", 1 << 20)?,
            max_position_embeddings: number("context_length", 1 << 20)?,
            layer_norm_eps: f64::from(header.positive("bert.attention.layer_norm_epsilon")?),
            type_vocab_size: header.tensors.get("token_types.weight").map_or(1, |tensor| tensor.shape[0]),
            ..Config::default()
        };
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        if !hidden.is_multiple_of(heads) {
            return Err(header.corrupted(format!("{heads} heads do not divide a width of {hidden}")));
        }
        // Two tokens stand around every text.
        if config.max_position_embeddings < 2 {
            return Err(header.corrupted("there is no room for a text".into()));
        }
        let file = &mut header.open()?;
        let mut weights = HashMap::new();
        for (theirs, ours, shape) in tensors(&config) {
            let tensor = load_tensor(header, file, &theirs, &shape)?.dequantize(&Device::Cpu);
            weights.insert(ours, tensor.map_err(|error| header.corrupted(format!("{theirs}: {error}")))?);
        }
        let variables = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        let model = BertModel::load(variables, &config).map_err(|error| header.corrupted(error.to_string()))?;
        Ok(SentenceEncoder { model, dimension: hidden, tokens_max: config.max_position_embeddings })
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

/// Every tensor: its name in a GGUF file, the one that the model is loaded by, and its shape.
fn tensors(config: &Config) -> Vec<(String, String, Vec<usize>)> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let table = |theirs: &str, ours: &str, rows: usize| {
        (format!("{theirs}.weight"), format!("embeddings.{ours}.weight"), vec![rows, hidden])
    };
    let mut tensors = vec![
        table("token_embd", "word_embeddings", config.vocab_size),
        table("position_embd", "position_embeddings", config.max_position_embeddings),
        table("token_types", "token_type_embeddings", config.type_vocab_size),
    ];
    let mut add = |theirs: String, ours: String, weight: Vec<usize>| {
        let bias = vec![weight[0]];
        tensors.push((format!("{theirs}.weight"), format!("{ours}.weight"), weight));
        tensors.push((format!("{theirs}.bias"), format!("{ours}.bias"), bias));
    };
    add("token_embd_norm".into(), "embeddings.LayerNorm".into(), vec![hidden]);
    for layer in 0..config.num_hidden_layers {
        for (theirs, ours, weight) in [
            ("attn_q", "attention.self.query", vec![hidden, hidden]),
            ("attn_k", "attention.self.key", vec![hidden, hidden]),
            ("attn_v", "attention.self.value", vec![hidden, hidden]),
            ("attn_output", "attention.output.dense", vec![hidden, hidden]),
            ("attn_output_norm", "attention.output.LayerNorm", vec![hidden]),
            ("ffn_up", "intermediate.dense", vec![inner, hidden]),
            ("ffn_down", "output.dense", vec![hidden, inner]),
            ("layer_output_norm", "output.LayerNorm", vec![hidden]),
        ] {
            add(format!("blk.{layer}.{theirs}"), format!("encoder.layer.{layer}.{ours}"), weight);
        }
    }
    tensors
}
