//! What is the smallest model that has everything a real one has?
//!
//! Three layers of random weights in the types that real files mix, a vocabulary of 256 bytes, some merges and the
//! control tokens, and a chat template. Written with candle's own GGUF writer, so that reader and writer differ.

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use std::path::{Path, PathBuf};

pub const HIDDEN: usize = 256;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const FEED_FORWARD: usize = 512;
const LAYERS: usize = 3;
pub const VOCABULARY: usize = 320;

const TEMPLATE: &str = "{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
";

/// A model file that is removed when this is dropped.
pub struct Tiny {
    directory: tempfile::TempDir,
}

impl Tiny {
    pub fn new() -> Tiny {
        Tiny::with(|_, _| {})
    }

    /// A model whose metadata and tensors `change` has changed.
    pub fn with(change: impl FnOnce(&mut Vec<(String, Value)>, &mut Vec<(String, QTensor)>)) -> Tiny {
        let directory = tempfile::tempdir().unwrap();
        let (mut metadata, mut tensors) = (metadata(), tensors());
        change(&mut metadata, &mut tensors);
        let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = std::fs::File::create(directory.path().join("tiny.gguf")).unwrap();
        write(&mut file, &metadata, &tensors).unwrap();
        Tiny { directory }
    }

    /// A file with these bytes in the place of a model.
    pub fn of_bytes(bytes: &[u8]) -> Tiny {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("tiny.gguf"), bytes).unwrap();
        Tiny { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("tiny.gguf")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// A small generator of numbers for tests: the same seed, the same numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    /// Roughly normal, mean 0, deviation 1.
    fn normal(&mut self) -> f32 {
        let sum: f32 = (0..12).map(|_| self.next() as f32 / (1u64 << 31) as f32).sum();
        sum - 6.0
    }
}

fn metadata() -> Vec<(String, Value)> {
    let (tokens, kinds, merges) = vocabulary();
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let entries = [
        ("general.architecture", Value::String("qwen2".into())),
        ("general.name", Value::String("tiny".into())),
        ("qwen2.block_count", Value::U32(LAYERS as u32)),
        ("qwen2.context_length", Value::U32(4096)),
        ("qwen2.embedding_length", Value::U32(HIDDEN as u32)),
        ("qwen2.feed_forward_length", Value::U32(FEED_FORWARD as u32)),
        ("qwen2.attention.head_count", Value::U32(HEADS as u32)),
        ("qwen2.attention.head_count_kv", Value::U32(KV_HEADS as u32)),
        ("qwen2.attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
        ("qwen2.rope.freq_base", Value::F32(1e6)),
        ("tokenizer.ggml.model", Value::String("gpt2".into())),
        ("tokenizer.ggml.pre", Value::String("qwen2".into())),
        ("tokenizer.ggml.tokens", texts(tokens)),
        ("tokenizer.ggml.token_type", Value::Array(kinds.into_iter().map(Value::I32).collect())),
        ("tokenizer.ggml.merges", texts(merges)),
        ("tokenizer.ggml.eos_token_id", Value::U32(VOCABULARY as u32 - 3)),
        ("tokenizer.chat_template", Value::String(TEMPLATE.into())),
    ];
    entries.map(|(key, value)| (key.to_owned(), value)).into()
}

fn vocabulary() -> (Vec<String>, Vec<i32>, Vec<String>) {
    let mut spare = 256;
    let mut tokens: Vec<String> = (0..=255u8)
        .map(|byte| {
            let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let code = if printable { u32::from(byte) } else { spare };
            spare += u32::from(!printable);
            char::from_u32(code).unwrap().to_string()
        })
        .collect();
    let special = ["<tool_call>", "</tool_call>", "<|im_end|>", "<|im_start|>", "<|endoftext|>"];
    let letters = || "etaoinsr".chars();
    let pairs = letters().flat_map(|a| letters().map(move |b| (a, b)));
    let pairs: Vec<_> = pairs.take(VOCABULARY - 256 - special.len()).collect();
    tokens.extend(pairs.iter().map(|(a, b)| format!("{a}{b}")));
    let mut kinds = vec![1; tokens.len()];
    tokens.extend(special.map(str::to_owned));
    kinds.extend([4, 4, 3, 3, 3]);
    (tokens, kinds, pairs.iter().map(|(a, b)| format!("{a} {b}")).collect())
}

fn tensors() -> Vec<(String, QTensor)> {
    use GgmlDType::{F32, Q4K, Q5_0, Q6K, Q8_0};
    let mut random = Random(42);
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[usize], kind: GgmlDType, scale: f32, mean: f32| {
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| random.normal() * scale + mean).collect();
        let dense = Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap();
        all.push((name, QTensor::quantize(&dense, kind).unwrap()));
    };
    let head_dim = HIDDEN / HEADS;
    let (q, kv) = (HEADS * head_dim, KV_HEADS * head_dim);
    add("token_embd.weight".into(), &[VOCABULARY, HIDDEN], Q5_0, 1.0, 0.0);
    add("output_norm.weight".into(), &[HIDDEN], F32, 0.1, 1.0);
    add("output.weight".into(), &[VOCABULARY, HIDDEN], Q6K, 0.2, 0.0);
    for layer in 0..LAYERS {
        let name = |suffix: &str| format!("blk.{layer}.{suffix}");
        // As in Q4_K_M files, some layers keep v and down in a finer type.
        let fine = if layer % 2 == 0 { Q6K } else { Q4K };
        let up = if layer == 2 { Q8_0 } else { Q4K };
        add(name("attn_norm.weight"), &[HIDDEN], F32, 0.1, 1.0);
        add(name("attn_q.weight"), &[q, HIDDEN], Q4K, 0.15, 0.0);
        add(name("attn_q.bias"), &[q], F32, 0.5, 0.0);
        add(name("attn_k.weight"), &[kv, HIDDEN], Q4K, 0.15, 0.0);
        add(name("attn_k.bias"), &[kv], F32, 0.5, 0.0);
        add(name("attn_v.weight"), &[kv, HIDDEN], fine, 0.08, 0.0);
        add(name("attn_v.bias"), &[kv], F32, 0.1, 0.0);
        add(name("attn_output.weight"), &[HIDDEN, q], Q4K, 0.08, 0.0);
        add(name("ffn_norm.weight"), &[HIDDEN], F32, 0.1, 1.0);
        add(name("ffn_gate.weight"), &[FEED_FORWARD, HIDDEN], up, 0.08, 0.0);
        add(name("ffn_up.weight"), &[FEED_FORWARD, HIDDEN], up, 0.08, 0.0);
        add(name("ffn_down.weight"), &[HIDDEN, FEED_FORWARD], fine, 0.08, 0.0);
    }
    all
}
