//! How fast is the engine on this machine?
//!
//!     cargo build --workspace --examples && target/debug/examples/speed MODEL.gguf [PROMPT_TOKENS] [TOKENS] [CHUNK_TOKENS]
//!
//! Prints tokens per second of a prefill of PROMPT_TOKENS (512) and of TOKENS (64) decoded after it, three times; then of
//! all together when 1, 4 and 16 continuations of the prompt are decoded at once. Other
//! work on the same cores shows in the wall clock, so the load of the machine is printed too, and the processor time of
//! each step, which suffers less; with CLOISTER_THREADS=1 no thread waits for another, and processor time is what an
//! idle core would take. The profile of the workspace is optimised for this crate, so `dev` is what ships.

use inference::{Engine, EngineSettings, GenerateRequest, Sampling, Special};
use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: speed MODEL.gguf [PROMPT_TOKENS] [TOKENS] [CHUNK_TOKENS]");
        std::process::exit(2);
    };
    let prompt_tokens = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(512);
    let tokens = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(64);
    let mut settings = EngineSettings::default();
    settings.chunk_tokens = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(settings.chunk_tokens);
    let begun = Instant::now();
    let engine = match Engine::load(&path, settings) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    println!("loaded in {:.1} s: {:?}", begun.elapsed().as_secs_f64(), engine.info());
    println!("load average: {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    let text = include_str!("../src/model/decoder.rs").repeat(1 + prompt_tokens / 2000);
    let ids = engine.chat().tokenizer().encode(&text, Special::Forbid);
    let prompt: Vec<u32> = ids.into_iter().take(prompt_tokens).collect();
    for round in 0..3 {
        // Another first token, so that nothing of the prompt is in the cache.
        let mut prompt = prompt.clone();
        prompt[0] = round;
        measure(&engine, "prefill", GenerateRequest::greedy(prompt.clone(), 1));
        measure(&engine, "decode", GenerateRequest::greedy(prompt, tokens));
    }
    for batch in [1, 4, 16, 1, 4, 16, 1, 4, 16] {
        together(&engine, batch, &prompt, tokens);
    }
}

/// Sampled, so that the continuations differ; of requests that are cached but for their last block.
fn together(engine: &Engine, batch: u64, prompt: &[u32], tokens: usize) {
    let request = |seed| {
        let sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, seed };
        GenerateRequest { sampling, ..GenerateRequest::greedy(prompt.to_vec(), tokens) }
    };
    let running: Result<Vec<_>, _> = (0..batch).map(|seed| engine.submit(request(seed))).collect();
    let running = match running {
        Ok(running) => running,
        Err(error) => return eprintln!("{error}"),
    };
    let usages: Vec<_> = running.into_iter().map(|generation| generation.finish().usage).collect();
    let decoded: usize = usages.iter().map(|usage| usage.generated_tokens - 1).sum();
    // Each begins and ends near the others: the longest is the time of all.
    let wall = usages.iter().map(|usage| usage.decode_seconds).fold(0.0, f64::max);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "{batch} at once: {decoded} tokens in {wall:.2} s, {:.1} tokens/s (load {})",
        decoded as f64 / wall,
        load.trim()
    );
}

fn measure(engine: &Engine, what: &str, request: GenerateRequest) {
    let cpu = cpu_seconds();
    let usage = match engine.submit(request) {
        Ok(generation) => generation.finish().usage,
        Err(error) => return eprintln!("{error}"),
    };
    // Each token but the last is computed; the first comes out of the prefill.
    let tokens = usage.computed_tokens + usage.generated_tokens - 1;
    let (wall, cpu) = (usage.prefill_seconds + usage.decode_seconds, cpu_seconds() - cpu);
    println!(
        "{what}: {tokens} tokens computed, {} reused: {wall:.2} s, {:.1} tokens/s; processor {cpu:.2} s, {:.1} tokens/s",
        usage.cached_tokens,
        tokens as f64 / wall,
        tokens as f64 / cpu,
    );
}

/// Processor time of this process so far, all threads, user and system: fields 14 and 15 of /proc/self/stat, in
/// hundredths of a second. 0 where there is no such file.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
    ticks / 100.0
}
