//! Does the decoder compute what the reference computes, with the same bits however it is called?

use crate::found;
use crate::tiny::{Random, Tiny};
use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_qwen2::ModelWeights;
use inference::kv::{Arena, BLOCK_TOKENS, Lease, PrefixCache};
use inference::model::{Header, Model, Sequence};
use std::path::Path;

/// Hidden states of `tokens`, computed `chunk` at a time.
fn hidden_states(model: &Model, tokens: &[u32], chunk: usize) -> Vec<f32> {
    let blocks_max = tokens.len().div_ceil(BLOCK_TOKENS);
    let mut arena = Arena::new(model.shape().kv(), blocks_max);
    let mut cache = PrefixCache::new(blocks_max);
    let mut lease = cache.begin_alone();
    (0..blocks_max).for_each(|_| _ = cache.grow(&mut lease).unwrap());
    let mut states = Vec::new();
    for (i, tokens) in tokens.chunks(chunk).enumerate() {
        let sequence = Sequence { tokens, position: i * chunk, blocks: lease.blocks() };
        states.extend(model.forward(&[sequence], &mut arena).unwrap());
    }
    cache.discard(lease);
    states
}

fn random_tokens(n: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = Random(3);
    (0..n).map(|_| random.below(vocabulary) as u32).collect()
}

#[track_caller]
fn check_chunkings(path: &Path, tokens: usize) {
    let model = Model::load(&Header::read(path).unwrap()).unwrap();
    let tokens = random_tokens(tokens, model.shape().vocabulary);
    let all = hidden_states(&model, &tokens, tokens.len());
    assert!(all.iter().all(|x| x.is_finite()));
    let width = model.shape().hidden;
    for chunk in [1, 7, 32, 64] {
        let chunked = hidden_states(&model, &tokens, chunk);
        let differs = |row: &usize| all[row * width..][..width] != chunked[row * width..][..width];
        let first = (0..tokens.len()).find(differs);
        assert_eq!(first, None, "in chunks of {chunk}, the first row that differs");
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_chunking() {
    check_chunkings(&Tiny::new().path(), 150);
}

#[test]
fn a_row_has_the_same_bits_in_every_chunking_of_the_real_models() {
    let test = "a_row_has_the_same_bits_in_every_chunking_of_the_real_models";
    if found::slow(test) {
        for size in ["0.5b", "1.5b"] {
            if let Some(path) = found::qwen(test, size) {
                check_chunkings(&path, 200);
            }
        }
    }
}

/// Computes sequences of these lengths in calls that each take some of them, and of those a random piece: every row must
/// be what it is in a call of its own sequence alone.
#[track_caller]
fn check_batches(path: &Path, lengths: &[usize]) {
    let model = Model::load(&Header::read(path).unwrap()).unwrap();
    let width = model.shape().hidden;
    let mut tokens = random_tokens(lengths.iter().sum(), model.shape().vocabulary);
    let all: Vec<Vec<u32>> = lengths.iter().map(|&length| tokens.split_off(tokens.len() - length)).collect();
    let alone: Vec<Vec<f32>> = all.iter().map(|tokens| hidden_states(&model, tokens, tokens.len())).collect();
    let blocks_max = lengths.iter().map(|length| length.div_ceil(BLOCK_TOKENS)).sum();
    let (mut arena, mut cache) = (Arena::new(model.shape().kv(), blocks_max), PrefixCache::new(blocks_max));
    let mut leases: Vec<Lease> = all.iter().map(|_| cache.begin_alone()).collect();
    for (lease, tokens) in leases.iter_mut().zip(&all) {
        (0..tokens.len().div_ceil(BLOCK_TOKENS)).for_each(|_| _ = cache.grow(lease).unwrap());
    }
    let mut together = vec![Vec::new(); all.len()];
    let mut random = Random(11);
    while together.iter().zip(&alone).any(|(together, alone)| together.len() < alone.len()) {
        let mut call = Vec::new();
        for (i, tokens) in all.iter().enumerate() {
            let position = together[i].len() / width;
            let rows = [0, 1, 1, 1, 3, 17, 40][random.below(7)].min(tokens.len() - position);
            if rows > 0 {
                let tokens = &tokens[position..position + rows];
                call.push((i, Sequence { tokens, position, blocks: leases[i].blocks() }));
            }
        }
        let sequences: Vec<Sequence> = call.iter().map(|(_, sequence)| *sequence).collect();
        if sequences.is_empty() {
            continue;
        }
        let states = model.forward(&sequences, &mut arena).unwrap();
        let mut states = states.chunks(width);
        for (i, sequence) in call {
            sequence.tokens.iter().for_each(|_| together[i].extend_from_slice(states.next().unwrap()));
        }
    }
    for (i, (together, alone)) in together.iter().zip(&alone).enumerate() {
        let differs = |row: &usize| together[row * width..][..width] != alone[row * width..][..width];
        assert_eq!((0..lengths[i]).find(differs), None, "sequence {i}, the first row that differs");
    }
    leases.into_iter().for_each(|lease| cache.discard(lease));
}

#[test]
fn a_row_has_the_same_bits_beside_other_sequences_as_alone() {
    check_batches(&Tiny::new().path(), &[150, 33, 64, 1, 90, 12, 70, 128]);
}

#[test]
fn a_row_has_the_same_bits_beside_other_sequences_of_the_real_models() {
    let test = "a_row_has_the_same_bits_beside_other_sequences_of_the_real_models";
    if found::slow(test) {
        for size in ["0.5b", "1.5b"] {
            if let Some(path) = found::qwen(test, size) {
                check_batches(&path, &[60, 33, 20, 70]);
            }
        }
    }
}

/// How far our scores are from the reference's: the largest difference, and at how many positions both have the same best token.
#[derive(Debug)]
struct Agreement {
    largest: f32,
    /// Root mean square of the differences.
    typical: f32,
    same_best: usize,
    /// Root mean square of what the reference differs from itself by, at the last position, between one call and many.
    oracle_with_itself: f32,
    /// Root mean square of the reference's scores, to judge the difference by.
    scale: f32,
}

fn compare(path: &Path, tokens: &[u32]) -> Agreement {
    let model = Model::load(&Header::read(path).unwrap()).unwrap();
    let states = hidden_states(&model, tokens, tokens.len());
    let mut file = std::fs::File::open(path).unwrap();
    let content = Content::read(&mut file).unwrap();
    let mut oracle = ModelWeights::from_gguf(content, &mut file, &Device::Cpu).unwrap();
    let mut agreement = Agreement { largest: 0.0, typical: 0.0, same_best: 0, oracle_with_itself: 0.0, scale: 0.0 };
    let mut ask = |tokens: &[u32], position: usize| -> Vec<f32> {
        let input = Tensor::new(tokens, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        oracle.forward(&input, position).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    };
    let mean_square =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>() / a.len() as f32;
    let at_once = ask(tokens, 0);
    for (i, state) in states.chunks(model.shape().hidden).enumerate() {
        let theirs = ask(&tokens[i..=i], i);
        let ours = model.logits(state).unwrap();
        let best = |logits: &[f32]| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        agreement.same_best += usize::from(best(&ours) == best(&theirs));
        let differences = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs());
        agreement.largest = differences.fold(agreement.largest, f32::max);
        agreement.typical += mean_square(&ours, &theirs);
        agreement.oracle_with_itself = mean_square(&at_once, &theirs).sqrt();
        agreement.scale += theirs.iter().map(|x| x * x).sum::<f32>() / theirs.len() as f32;
    }
    agreement.scale = (agreement.scale / tokens.len() as f32).sqrt();
    agreement.typical = (agreement.typical / tokens.len() as f32).sqrt();
    agreement
}

/// With dense weights nothing is rounded to 8 bits on the way; what is left is our 16-bit KV.
#[test]
fn scores_agree_with_candle_transformers_on_a_dense_tiny_model() {
    let tokens = random_tokens(80, crate::tiny::VOCABULARY);
    let dense = Tiny::with(|_, tensors| {
        for (_, tensor) in tensors {
            let numbers = tensor.dequantize(&Device::Cpu).unwrap();
            *tensor = QTensor::quantize(&numbers, GgmlDType::F32).unwrap();
        }
    });
    let agreement = compare(&dense.path(), &tokens);
    println!("{agreement:?}");
    assert!(agreement.largest < 0.03 * agreement.scale, "{agreement:?}");
    assert!(agreement.same_best >= 79, "{agreement:?}");
}

/// Quantised matrices make small differences large: activations are rounded to 8 bits, and a sum that differs a little
/// can round the other way. Here the small difference is our 16-bit KV. Measured once with the KV in 32 bits instead, the
/// typical difference of this test fell from 0.18 to 0.02 and all 80 best tokens agreed (dense model: 0.0055 to 0.00001).
/// So this test says what 16 bits cost on a model of random weights; it is wide because that cost is real.
#[test]
fn scores_stay_near_those_of_candle_transformers_on_the_quantised_tiny_model() {
    let agreement = compare(&Tiny::new().path(), &random_tokens(80, crate::tiny::VOCABULARY));
    println!("{agreement:?}");
    assert!(agreement.typical < 0.1 * agreement.scale, "{agreement:?}");
    assert!(agreement.same_best >= 72, "{agreement:?}");
}

/// The tolerance: the best token is the same at 195 of 200 positions, no score is off by more than a quarter of the scores'
/// scale, and the typical one by no more than a twentieth. The bounds were set after the first measurement (typical 0.07
/// and 0.09 at a scale of 3.7). At the last position the oracle differs from itself, called once or row by row, by 0.06 and
/// 0.07. How much of our difference is the 16-bit KV was not measured on these models.
#[test]
fn scores_agree_with_candle_transformers_on_the_real_models() {
    let test = "scores_agree_with_candle_transformers_on_the_real_models";
    if !found::slow(test) {
        return;
    }
    for size in ["0.5b", "1.5b"] {
        let Some(path) = found::qwen(test, size) else { continue };
        let tokenizer = inference::Tokenizer::load(&Header::read(&path).unwrap()).unwrap();
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kv/tree.rs")).unwrap();
        let tokens = tokenizer.encode(&text, inference::Special::Forbid);
        let agreement = compare(&path, &tokens[..200]);
        println!("{size}: {agreement:?}");
        assert!(agreement.largest < 0.25 * agreement.scale, "{size}: {agreement:?}");
        assert!(agreement.typical < 0.05 * agreement.scale, "{size}: {agreement:?}");
        assert!(agreement.same_best >= 195, "{size}: {agreement:?}");
    }
}
