//! Do requests that run together get what each gets alone?

use crate::engine::{drain, engine, generate};
use crate::found;
use inference::{Engine, EngineSettings, Event, Finish, FinishReason, GenerateRequest, Generation, Sampling, Special};
use std::time::Duration;

/// Bytes that a block of the tiny model takes.
const BLOCK_BYTES: usize = 49152;

/// Asks for all of these at once, and again one after the other with the cache off.
#[track_caller]
fn check_together(engine: &Engine, requests: &[GenerateRequest]) -> Vec<Finish> {
    let running: Vec<Generation> = requests.iter().map(|request| engine.submit(request.clone()).unwrap()).collect();
    let together: Vec<_> = running.into_iter().map(drain).collect();
    for (i, (request, (tokens, text, finish))) in requests.iter().zip(&together).enumerate() {
        let (alone, text_alone, finish_alone) = generate(engine, GenerateRequest { cache: false, ..request.clone() });
        assert_eq!((tokens, text, &finish.reason), (&alone, &text_alone, &finish_alone.reason), "request {i}");
    }
    together.into_iter().map(|(_, _, finish)| finish).collect()
}

/// Requests of all lengths, some greedy, some of one family, of two namespaces.
fn crowd(count: u32, vocabulary: u32, prompt_max: u32, tokens_max: usize) -> Vec<GenerateRequest> {
    let request = |i: u32| {
        let prompt = (0..1 + i * 37 % prompt_max).map(|t| (t * 7 + i % 3) % vocabulary).collect();
        let seeded = Sampling { temperature: 0.8, top_p: 0.95, top_k: 40, seed: u64::from(i) };
        let sampling = if i.is_multiple_of(3) { seeded } else { Sampling::GREEDY };
        GenerateRequest { sampling, namespace: u64::from(i % 2), ..GenerateRequest::greedy(prompt, tokens_max) }
    };
    (0..count).map(request).collect()
}

#[test]
fn requests_that_run_together_get_the_tokens_that_they_get_alone() {
    let settings = EngineSettings { chunk_tokens: 40, queue_max: 32, ..EngineSettings::default() };
    let (_tiny, engine) = engine(settings);
    check_together(&engine, &crowd(24, 300, 170, 40));
}

#[test]
fn memory_for_one_alone_serves_many_with_the_same_tokens_and_no_error() {
    let kv_bytes_max = 7 * BLOCK_BYTES;
    let settings = EngineSettings { kv_bytes_max, queue_max: 32, chunk_tokens: 40, ..EngineSettings::default() };
    let (_tiny, engine) = engine(settings);
    for finish in check_together(&engine, &crowd(16, 300, 120, 100)) {
        assert!(matches!(finish.reason, FinishReason::Stop | FinishReason::Length), "{finish:?}");
    }
}

#[test]
fn requests_that_run_together_get_the_tokens_that_they_get_alone_from_a_real_model() {
    let test = "requests_that_run_together_get_the_tokens_that_they_get_alone_from_a_real_model";
    if !found::slow(test) {
        return;
    }
    let Some(path) = found::qwen(test, "0.5b") else { return };
    let engine = Engine::load(&path, EngineSettings::default()).unwrap();
    let text = "fn main() { let numbers = [1, 2, 3]; println!(\"{}\", numbers.iter().sum::<i32>()); }";
    let tokens = engine.chat().tokenizer().encode(text, Special::Forbid);
    let request = |i: usize| GenerateRequest::greedy(tokens[..tokens.len() - i].to_vec(), 24);
    check_together(&engine, &(0..4).map(request).collect::<Vec<_>>());
}

#[test]
fn continuations_of_one_prompt_share_it_while_the_first_still_runs() {
    let (_tiny, engine) = engine(EngineSettings { chunk_tokens: 64, ..EngineSettings::default() });
    let prompt: Vec<u32> = (0..1000).map(|i| i * 11 % 300).collect();
    let request = |seed| {
        let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed };
        GenerateRequest { sampling, ..GenerateRequest::greedy(prompt.clone(), 12) }
    };
    let finishes = check_together(&engine, &(0..4).map(request).collect::<Vec<_>>());
    let computed: usize = finishes.iter().map(|finish| finish.usage.computed_tokens).sum();
    // 1000 once, and for each of the others what stands after the last full block.
    assert!(computed <= 1000 + 3 * 32, "{computed} tokens computed for four continuations");
}

#[test]
fn what_one_namespace_computed_is_not_reused_for_another() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let request = |namespace| GenerateRequest { namespace, ..GenerateRequest::greedy((0..200).collect(), 1) };
    let reused = |namespace| {
        let usage = generate(&engine, request(namespace)).2.usage;
        (usage.cached_tokens, usage.diverged_at)
    };
    assert_eq!([reused(1), reused(2), reused(0)], [(0, None); 3]);
    assert_eq!([reused(1), reused(2), reused(0)], [(199, None); 3]);
}

#[test]
fn a_request_ends_at_its_deadline_whether_it_runs_or_waits() {
    let (_tiny, engine) = engine(EngineSettings { running_max: 1, ..EngineSettings::default() });
    let forever = GenerateRequest { cache: false, ..GenerateRequest::greedy(vec![7; 4000], 90) };
    let deadline = Some(Duration::from_millis(10));
    let runs = engine.submit(GenerateRequest { deadline, ..forever.clone() }).unwrap();
    let waits = engine.submit(GenerateRequest { deadline: Some(Duration::ZERO), ..forever }).unwrap();
    assert_eq!(drain(waits).2.reason, FinishReason::Expired);
    assert_eq!(drain(runs).2.reason, FinishReason::Expired);
}

#[test]
fn a_short_request_is_answered_while_a_long_prompt_is_computed() {
    let (_tiny, engine) = engine(EngineSettings { chunk_tokens: 64, ..EngineSettings::default() });
    let prompt = |n: usize| (0..n as u32).map(|i| i % 300).collect();
    let mut long = engine.submit(GenerateRequest::greedy(prompt(4000), 1)).unwrap();
    assert!(matches!(long.recv(), Some(Event::Started { .. })));
    let short = GenerateRequest { namespace: 1, ..GenerateRequest::greedy(prompt(20), 3) };
    let (tokens, _, _) = generate(&engine, short);
    assert!(!tokens.is_empty());
    long.cancel();
    let (answered, _, finish) = drain(long);
    assert_eq!((answered, finish.reason), (Vec::new(), FinishReason::Cancelled), "the long prompt was over first");
    let (_, _, finish) = generate(&engine, GenerateRequest::greedy(prompt(4000), 1));
    assert!(finish.usage.cached_tokens > 0, "what was computed before the cancellation was lost");
}

#[test]
fn clients_that_come_and_go_all_get_one_end_and_leave_nothing_running() {
    let settings = EngineSettings { kv_bytes_max: 20 * BLOCK_BYTES, queue_max: 64, ..EngineSettings::default() };
    let (_tiny, engine) = engine(settings);
    let clients: Vec<_> = crowd(48, 300, 170, 60)
        .into_iter()
        .enumerate()
        .map(|(i, request)| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(i as u64 * 7 % 60));
                let mut generation = engine.submit(request).unwrap();
                if i % 3 == 0 {
                    // It leaves after a few events, or before the first.
                    (0..i % 5).for_each(|_| _ = generation.recv());
                    return;
                }
                let (_, _, finish) = drain(generation);
                assert!(matches!(finish.reason, FinishReason::Stop | FinishReason::Length), "{finish:?}");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    // All of the memory can be had again.
    let tokens = engine.info().context_tokens as u32;
    let whole = GenerateRequest::greedy((0..tokens - 1).map(|i| i * 13 % 300).collect(), 1);
    assert!(matches!(generate(&engine, whole).2.reason, FinishReason::Stop | FinishReason::Length));
}
