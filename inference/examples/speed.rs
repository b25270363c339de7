//! How fast is the engine on this machine?
//!
//!     cargo build --workspace --examples && target/debug/examples/speed MODEL.gguf [PROMPT_TOKENS] [TOKENS]
//!
//! Prints the tokens per second of a prefill of PROMPT_TOKENS (512) and of TOKENS (64) decoded after it, three times with
//! the cache off, then once more with the prompt in the cache; and the load of the machine, because other work on the
//! same cores shows in the numbers. The profile of the workspace is optimised for this crate, so `dev` is what ships.

use inference::{Engine, EngineSettings, GenerateRequest, Special};
use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: speed MODEL.gguf [PROMPT_TOKENS] [TOKENS]");
        std::process::exit(2);
    };
    let prompt_tokens = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(512);
    let tokens = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(64);
    let begun = Instant::now();
    let engine = match Engine::load(&path, EngineSettings::default()) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    println!("loaded in {:.1} s: {:?}", begun.elapsed().as_secs_f64(), engine.info());
    println!("load average: {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    let text = include_str!("../src/model/decoder.rs").repeat(1 + prompt_tokens / 2000);
    let prompt: Vec<u32> = engine.chat().tokenizer().encode(&text, Special::Forbid).into_iter().take(prompt_tokens).collect();
    for cache in [false, false, false, true, true] {
        let request = GenerateRequest { cache, ..GenerateRequest::greedy(prompt.clone(), tokens) };
        match engine.submit(request) {
            Ok(generation) => report(&generation.finish()),
            Err(error) => eprintln!("{error}"),
        }
    }
}

fn report(finish: &inference::Finish) {
    let usage = finish.usage;
    // The first token comes out of the prefill; the decode computes one token fewer than it gives.
    let decoded = usage.generated_tokens.saturating_sub(1) as f64;
    println!(
        "prefill {} tokens ({} cached) in {:.2} s: {:.1} tokens/s; decode {} in {:.2} s: {:.1} tokens/s",
        usage.computed_tokens,
        usage.cached_tokens,
        usage.prefill_seconds,
        usage.computed_tokens as f64 / usage.prefill_seconds,
        usage.generated_tokens,
        usage.decode_seconds,
        decoded / usage.decode_seconds,
    );
}
