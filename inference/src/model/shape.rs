//! How large is this model, by its own account?

use super::error::LoadError;
use super::gguf::{Header, Value};
use crate::kv::KvShape;

/// The families that this build has a decoder for.
const KNOWN: &str = "qwen2";

/// The sizes of a decoder, each checked against a limit when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelShape {
    /// Family, such as `qwen2`.
    pub architecture: String,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the gated unit.
    pub feed_forward: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Token ids.
    pub vocabulary: usize,
    /// The longest sequence that the model was made for, in tokens.
    pub context_tokens: usize,
    /// Added under the root of the norms.
    pub norm_epsilon: f32,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
}

impl ModelShape {
    /// Reads the sizes from the metadata of a file and checks that they fit together.
    pub fn read(header: &Header) -> Result<ModelShape, LoadError> {
        let architecture = header.text("general.architecture")?;
        if architecture != "qwen2" {
            return Err(LoadError::UnknownArchitecture { name: architecture.to_owned(), known: KNOWN });
        }
        if header.tensors.is_empty() {
            return Err(LoadError::VocabularyOnly { path: header.path.clone() });
        }
        let key = |suffix: &str| format!("{architecture}.{suffix}");
        // Some embedding models are trained to look ahead; computed otherwise their states mean nothing.
        if header.metadata.get(&key("attention.causal")) == Some(&Value::Bool(false)) {
            let what = "attention to the tokens that come after".to_owned();
            return Err(LoadError::Unsupported { path: header.path.clone(), what });
        }
        if let Some(Value::Text(kind)) = header.metadata.get(&key("rope.scaling.type"))
            && kind != "none"
        {
            let what = format!("rope scaling of type {kind:?}");
            return Err(LoadError::Unsupported { path: header.path.clone(), what });
        }
        let heads = header.number(&key("attention.head_count"), 1 << 10)?;
        let kv_heads = header.number(&key("attention.head_count_kv"), 1 << 10)?;
        let hidden = header.number(&key("embedding_length"), 1 << 16)?;
        if !hidden.is_multiple_of(heads) || !heads.is_multiple_of(kv_heads) {
            let reason = format!("{heads} heads over {kv_heads} KV heads do not divide a width of {hidden}");
            return Err(header.corrupted(reason));
        }
        let head_dim = hidden / heads;
        if !super::attention::HEAD_DIMS.contains(&head_dim) {
            let what = format!("heads {head_dim} wide");
            return Err(LoadError::Unsupported { path: header.path.clone(), what });
        }
        Ok(ModelShape {
            architecture: architecture.to_owned(),
            layers: header.number(&key("block_count"), 1 << 9)?,
            hidden,
            feed_forward: header.number(&key("feed_forward_length"), 1 << 20)?,
            heads,
            kv_heads,
            head_dim,
            vocabulary: header.texts("tokenizer.ggml.tokens")?.len(),
            context_tokens: header.number(&key("context_length"), 1 << 20)?,
            norm_epsilon: header.positive(&key("attention.layer_norm_rms_epsilon"))?,
            rope_base: header.positive(&key("rope.freq_base"))?,
        })
    }

    /// What one token costs in the KV arena.
    pub fn kv(&self) -> KvShape {
        KvShape { layers: self.layers, kv_heads: self.kv_heads, head_dim: self.head_dim }
    }
}
