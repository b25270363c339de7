//! How does a Qwen2 decoder turn tokens into hidden states, and a hidden state into scores for the next token?
//!
//! The family's layout: RMS norm before each half, biases on q, k and v, grouped heads, rotary positions, a gated unit
//! with SiLU. Reference: the `qwen2` model of the `transformers` library; the oracle in our tests is candle-transformers'.

use super::attention::{Keys, attend};
use super::error::{ForwardError, LoadError};
use super::gguf::{Header, TensorType};
use super::linear::{Linear, Matrix, forward_each, load_vector};
use super::ops::{Rope, add, gated, rms_norm, rotate};
use super::pool;
use super::shape::ModelShape;
use crate::kv::{Arena, BLOCK_TOKENS, BlockId};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;

/// The weights of one decoder, ready to multiply.
pub struct Model {
    shape: ModelShape,
    embedding: Linear,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    output: Output,
    rope: Rope,
    weights_bytes: u64,
    quantization: String,
}

/// What one sequence has in a forward call.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The tokens to compute, at least one.
    pub tokens: &'a [u32],
    /// Where the first of them stands.
    pub position: usize,
    /// The blocks of the sequence, from its start on.
    pub blocks: &'a [BlockId],
}

/// What turns a state into scores.
enum Output {
    Own(Linear),
    /// Without an output matrix of its own a model uses its embeddings (tied weights).
    Tied,
    NotLoaded,
}

struct Layer {
    attention_norm: Vec<f32>,
    query: Linear,
    query_bias: Vec<f32>,
    key: Linear,
    key_bias: Vec<f32>,
    value: Linear,
    value_bias: Vec<f32>,
    attention_out: Linear,
    feed_norm: Vec<f32>,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Sequence<'_> {
    fn positions(&self) -> Range<usize> {
        self.position..self.position + self.tokens.len()
    }
}

impl Model {
    /// Reads the weights that `header` describes and lays them out for the kernels of this machine.
    pub fn load(header: &Header) -> Result<Model, LoadError> {
        let mut model = Model::load_for_states(header)?;
        model.output = match header.tensors.contains_key("output.weight") {
            true => {
                let (vocabulary, hidden) = (model.shape.vocabulary, model.shape.hidden);
                Output::Own(Linear::load(header, &mut header.open()?, "output.weight", vocabulary, hidden)?)
            }
            false => Output::Tied,
        };
        Ok(model)
    }

    /// The same without the output matrix, for whoever wants states and no next token: of a small model it is a
    /// fifth or more of the weights. [`Model::logits`] is not legal then.
    pub fn load_for_states(header: &Header) -> Result<Model, LoadError> {
        let shape = ModelShape::read(header)?;
        let file = &mut header.open()?;
        let embedding = Linear::load(header, file, "token_embd.weight", shape.vocabulary, shape.hidden)?;
        let norm = load_vector(header, file, "output_norm.weight", shape.hidden)?;
        let layers = (0..shape.layers).map(|i| Layer::load(header, file, &shape, i)).collect::<Result<Vec<_>, _>>()?;
        Ok(Model {
            embedding,
            layers,
            norm,
            output: Output::NotLoaded,
            rope: Rope::new(shape.rope_base, shape.head_dim),
            weights_bytes: header.tensors.values().map(|tensor| tensor.bytes as u64).sum(),
            quantization: quantization(header),
            shape,
        })
    }

    /// The sizes.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// Bytes of all tensors in the file.
    pub fn weights_bytes(&self) -> u64 {
        self.weights_bytes
    }

    /// The types of the matrices, largest share first, such as `Q4K 71 %, Q6K 29 %` by bytes.
    pub fn quantization(&self) -> &str {
        &self.quantization
    }

    /// Computes the next tokens of each sequence, adds their KV to its blocks, and returns their hidden states, one row
    /// each in the order of the call, for [`Model::logits`]. The rows of all sequences share every product; each row
    /// has the bits that it has alone.
    ///
    /// Legal when each sequence has a token to compute, its blocks hold its tokens up to the last of these, the positions
    /// before are filled, and no block that is written here is in two of the sequences.
    pub fn forward(&self, sequences: &[Sequence], arena: &mut Arena) -> Result<Vec<f32>, ForwardError> {
        let vocabulary = self.shape.vocabulary;
        for sequence in sequences {
            if let Some(&id) = sequence.tokens.iter().find(|&&id| id as usize >= vocabulary) {
                return Err(ForwardError::UnknownToken { id, vocabulary });
            }
            let end = sequence.positions().end;
            if end > sequence.blocks.len() * BLOCK_TOKENS {
                return Err(ForwardError::BlocksMissing { blocks: sequence.blocks.len(), tokens: end });
            }
        }
        let positions = sequences.iter().flat_map(Sequence::positions);
        let angles: Vec<_> = positions.map(|position| self.rope.angles(position)).collect();
        let tokens: Vec<u32> = sequences.iter().flat_map(|sequence| sequence.tokens).copied().collect();
        let mut x = self.embedding.lookup(&tokens)?.into_data();
        for (index, layer) in self.layers.iter().enumerate() {
            let h = self.normed(&x, &layer.attention_norm);
            let queries = self.project(layer, index, &h, &angles, sequences, arena)?;
            let attended = self.attended(&queries, index, sequences, arena);
            add(&mut x, layer.attention_out.forward(&attended)?.data());
            let h = self.normed(&x, &layer.feed_norm);
            let [gate, up] = forward_each([&layer.gate, &layer.up], &h)?;
            let inner = self.gated(&gate, &up);
            add(&mut x, layer.down.forward(&inner)?.data());
        }
        Ok(x)
    }

    /// A score for each token id to come next, from each hidden state: rows in, rows out.
    pub fn logits(&self, hidden: &[f32]) -> Result<Vec<f32>, ForwardError> {
        let output = match &self.output {
            Output::Own(output) => output,
            Output::Tied => &self.embedding,
            Output::NotLoaded => return Err(ForwardError::OutputNotLoaded),
        };
        Ok(output.forward(&self.normed(hidden, &self.norm))?.into_data())
    }

    /// Hidden states after the final norm, as the output matrix takes them; rows in, rows out.
    pub fn final_states(&self, hidden: &[f32]) -> Vec<f32> {
        self.normed(hidden, &self.norm).into_data()
    }

    fn normed(&self, x: &[f32], weight: &[f32]) -> Matrix {
        let hidden = self.shape.hidden;
        let mut out = vec![0.0; x.len()];
        pool::each_row(&mut out, hidden, |row, out| {
            rms_norm(&x[row * hidden..][..hidden], weight, self.shape.norm_epsilon, out);
        });
        Matrix::new(out, hidden)
    }

    /// Queries, rotated, scaled, and within each sequence grouped by KV head; keys and values go straight into the arena.
    fn project(
        &self,
        layer: &Layer,
        index: usize,
        h: &Matrix,
        angles: &[Vec<(f32, f32)>],
        sequences: &[Sequence],
        arena: &mut Arena,
    ) -> Result<Vec<f32>, ForwardError> {
        let ModelShape { head_dim, kv_heads, heads, .. } = self.shape;
        let [q, k, v] = forward_each([&layer.query, &layer.key, &layer.value], h)?;
        let mut keys = k.into_data();
        for (keys, angles) in keys.chunks_mut(kv_heads * head_dim).zip(angles) {
            add(keys, &layer.key_bias);
            keys.chunks_mut(head_dim).for_each(|head| rotate(head, angles));
        }
        let mut values = v.into_data();
        values.chunks_mut(kv_heads * head_dim).for_each(|values| add(values, &layer.value_bias));

        let scale = 1.0 / (head_dim as f32).sqrt();
        let (width, kv_width) = (heads / kv_heads * head_dim, kv_heads * head_dim);
        let mut queries = vec![0.0; q.data().len()];
        let mut first = 0;
        for Sequence { tokens, position, blocks } in sequences {
            let rows = tokens.len();
            let part = first * kv_width..(first + rows) * kv_width;
            arena.store(blocks, index, *position, &keys[part.clone()], &values[part]);
            let queries = &mut queries[first * heads * head_dim..][..rows * heads * head_dim];
            pool::each_row(queries, width, |i, out| {
                let (kv_head, row) = (i / rows, first + i % rows);
                let from = row * heads * head_dim + kv_head * width;
                out.copy_from_slice(&q.data()[from..from + width]);
                add(out, &layer.query_bias[kv_head * width..][..width]);
                out.chunks_mut(head_dim).for_each(|head| rotate(head, &angles[row]));
                out.iter_mut().for_each(|x| *x *= scale);
            });
            first += rows;
        }
        Ok(queries)
    }

    /// Attention, and its result back from "grouped by KV head" to one row for each token.
    fn attended(&self, queries: &[f32], layer: usize, sequences: &[Sequence], arena: &Arena) -> Matrix {
        let ModelShape { head_dim, kv_heads, heads, .. } = self.shape;
        let group = heads / kv_heads;
        let mut out = vec![0.0; queries.len()];
        attend(&Keys { arena, layer }, sequences, queries, &mut out, group);
        if sequences.iter().all(|sequence| sequence.tokens.len() == 1) {
            return Matrix::new(out, heads * head_dim);
        }
        let width = group * head_dim;
        let mut by_row = vec![0.0; out.len()];
        let mut first = 0;
        for rows in sequences.iter().map(|sequence| sequence.tokens.len()) {
            let part = first * heads * head_dim..(first + rows) * heads * head_dim;
            let by_row = &mut by_row[part.clone()];
            for (i, part) in out[part].chunks(width).enumerate() {
                let (kv_head, row) = (i / rows, i % rows);
                by_row[row * heads * head_dim + kv_head * width..][..width].copy_from_slice(part);
            }
            first += rows;
        }
        Matrix::new(by_row, heads * head_dim)
    }

    fn gated(&self, gate: &Matrix, up: &Matrix) -> Matrix {
        let width = self.shape.feed_forward;
        let mut out = vec![0.0; gate.data().len()];
        pool::each_row(&mut out, width, |row, out| {
            gated(&gate.data()[row * width..][..width], &up.data()[row * width..][..width], out);
        });
        Matrix::new(out, width)
    }
}

impl Layer {
    fn load(header: &Header, file: &mut File, shape: &ModelShape, index: usize) -> Result<Layer, LoadError> {
        let (hidden, feed_forward) = (shape.hidden, shape.feed_forward);
        let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let name = |suffix: &str| format!("blk.{index}.{suffix}");
        let mut matrix = |suffix: &str, out: usize, input: usize| Linear::load(header, file, &name(suffix), out, input);
        let query = matrix("attn_q.weight", q, hidden)?;
        let key = matrix("attn_k.weight", kv, hidden)?;
        let value = matrix("attn_v.weight", kv, hidden)?;
        let attention_out = matrix("attn_output.weight", hidden, q)?;
        let gate = matrix("ffn_gate.weight", feed_forward, hidden)?;
        let up = matrix("ffn_up.weight", feed_forward, hidden)?;
        let down = matrix("ffn_down.weight", hidden, feed_forward)?;
        let mut vector = |suffix: &str, length: usize| load_vector(header, file, &name(suffix), length);
        Ok(Layer {
            attention_norm: vector("attn_norm.weight", hidden)?,
            query_bias: vector("attn_q.bias", q)?,
            key_bias: vector("attn_k.bias", kv)?,
            value_bias: vector("attn_v.bias", kv)?,
            feed_norm: vector("ffn_norm.weight", hidden)?,
            query,
            key,
            value,
            attention_out,
            gate,
            up,
            down,
        })
    }
}

fn quantization(header: &Header) -> String {
    let mut bytes: BTreeMap<TensorType, u64> = BTreeMap::new();
    for tensor in header.tensors.values().filter(|tensor| tensor.shape.len() > 1) {
        *bytes.entry(tensor.kind).or_default() += tensor.bytes as u64;
    }
    let total: u64 = bytes.values().sum::<u64>().max(1);
    let mut shares: Vec<_> = bytes.into_iter().map(|(kind, bytes)| (bytes * 100 / total, kind)).collect();
    shares.sort_by_key(|&(share, _)| std::cmp::Reverse(share));
    let shares: Vec<String> = shares.iter().map(|(share, kind)| format!("{kind:?} {share} %")).collect();
    shares.join(", ")
}
