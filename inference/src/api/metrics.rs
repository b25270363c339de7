//! What has this server done so far? Prometheus' text format, version 0.0.4, at `GET /metrics`.
//!
//! Counted in tokens where caches are concerned: a request of ten tokens and one of ten thousand are not the same. Names are
//! vLLM's where the meaning is.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{FinishReason, Usage};

/// The counts of one server.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    running: AtomicU64,
    prompt_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    disk_tokens: AtomicU64,
    computed_tokens: AtomicU64,
    generated_tokens: AtomicU64,
    prefill_micros: AtomicU64,
    decode_micros: AtomicU64,
    /// Stop, length, cancelled, failed.
    ended: [AtomicU64; 4],
}

const ENDS: [&str; 4] = ["stop", "length", "abort", "error"];

impl Metrics {
    pub fn begin(&self) {
        self.running.fetch_add(1, Relaxed);
    }

    pub fn leave(&self) {
        self.running.fetch_sub(1, Relaxed);
    }

    pub fn done(&self, reason: &FinishReason, usage: &Usage) {
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        for (counter, amount) in [
            (&self.prompt_tokens, usage.prompt_tokens as u64),
            (&self.cached_tokens, usage.cached_tokens as u64),
            (&self.disk_tokens, usage.disk_tokens as u64),
            (&self.computed_tokens, usage.computed_tokens as u64),
            (&self.generated_tokens, usage.generated_tokens as u64),
            (&self.prefill_micros, micros(usage.prefill_seconds)),
            (&self.decode_micros, micros(usage.decode_seconds)),
        ] {
            counter.fetch_add(amount, Relaxed);
        }
        let end = match reason {
            FinishReason::Stop => 0,
            FinishReason::Length => 1,
            FinishReason::Cancelled | FinishReason::Expired => 2,
            FinishReason::Failed(_) => 3,
        };
        self.ended[end].fetch_add(1, Relaxed);
    }

    /// All of it, for the model of this name.
    pub fn text(&self, model: &str) -> String {
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let mut text = String::new();
        let head = |name: &str, kind: &str, help: &str| format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let seconds = |micros: &AtomicU64| micros.load(Relaxed) as f64 / 1e6;
        let count = |counter: &AtomicU64| counter.load(Relaxed) as f64;
        for (name, kind, help, value) in [
            (
                "vllm:num_requests_running",
                "gauge",
                "Requests that were accepted and have not ended.",
                count(&self.running),
            ),
            ("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", count(&self.prompt_tokens)),
            ("vllm:generation_tokens_total", "counter", "Tokens of answers.", count(&self.generated_tokens)),
            (
                "vllm:prefix_cache_queries_total",
                "counter",
                "Tokens that the cache was asked for.",
                count(&self.prompt_tokens),
            ),
            ("vllm:prefix_cache_hits_total", "counter", "Tokens that it had.", count(&self.cached_tokens)),
            ("cloister:disk_tokens_total", "counter", "Tokens that it had on the disk.", count(&self.disk_tokens)),
            (
                "cloister:computed_tokens_total",
                "counter",
                "Tokens of prompts that were computed.",
                count(&self.computed_tokens),
            ),
            ("cloister:prefill_seconds_total", "counter", "Time for prompts.", seconds(&self.prefill_micros)),
            ("cloister:decode_seconds_total", "counter", "Time for answers.", seconds(&self.decode_micros)),
        ] {
            let _ = writeln!(text, "{}{name}{{model_name=\"{model}\"}} {value}", head(name, kind, help));
        }
        let name = "vllm:request_success_total";
        text += &head(name, "counter", "Requests that ended, by how.");
        for (end, ended) in ENDS.iter().zip(&self.ended) {
            let _ =
                writeln!(text, "{name}{{model_name=\"{model}\",finished_reason=\"{end}\"}} {}", ended.load(Relaxed));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_summed_over_requests_and_a_name_cannot_break_out() {
        let metrics = Metrics::default();
        let usage =
            Usage { prompt_tokens: 10, cached_tokens: 7, disk_tokens: 2, decode_seconds: 0.5, ..Usage::default() };
        metrics.begin();
        metrics.begin();
        metrics.done(&FinishReason::Stop, &usage);
        metrics.done(&FinishReason::Cancelled, &usage);
        metrics.leave();
        let text = metrics.text("a\"b\n");
        for line in [
            "vllm:num_requests_running{model_name=\"a\\\"b\\n\"} 1",
            "vllm:prompt_tokens_total{model_name=\"a\\\"b\\n\"} 20",
            "vllm:prefix_cache_hits_total{model_name=\"a\\\"b\\n\"} 14",
            "cloister:disk_tokens_total{model_name=\"a\\\"b\\n\"} 4",
            "cloister:decode_seconds_total{model_name=\"a\\\"b\\n\"} 1",
            "vllm:request_success_total{model_name=\"a\\\"b\\n\",finished_reason=\"abort\"} 1",
            "# TYPE vllm:request_success_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
