//! What does a large tree cost? A cold build in a process of its own, then answers, patterns and edits on a linked copy.

use super::latency::{Answers, Patterns, absent_symbols, edits, greps, plain_symbols, searches, symbols};
use super::metrics::percentile;
use super::peers::{Codesearch, Peer, Semble};
use super::process::{is_installed, load_average, own_cpu_seconds, peak_memory_mb, run};
use super::sample::{Seed, sample};
use super::shadow::Shadow;
use anyhow::{Context, Result};
use benches::table::Table;
use index::{Embedder, Index};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const BUILD_SECONDS_MAX: u64 = 6 * 3_600;
const BUILD_BYTES_MAX: u64 = 64 * 1024 * 1024;
const SEED: u64 = 20_261_130;

/// What a cold build did, as the process that did it tells.
#[derive(Debug, Serialize, Deserialize)]
pub struct Built {
    seconds: f64,
    cpu_seconds: f64,
    peak_mb: f64,
    lines: usize,
    files: usize,
    definitions: usize,
    chunks: usize,
    stages: [f64; 4],
    /// Paths that are not indexed, and whether their lines can be searched all the same.
    skipped: Vec<(String, bool)>,
}

/// `cloister bench build`: one cold build, told as JSON.
pub fn build(dir: &Path, store: &Path, embedder: Option<Arc<dyn Embedder>>, cancel: &AtomicBool) -> Result<Built> {
    let cpu_begun = own_cpu_seconds();
    let begun = Instant::now();
    let mut index = Index::open(store, dir, embedder)?;
    let report = index.refresh(&mut |_| {}, cancel)?;
    let skip = |skip: index::Skipped| (skip.path, skip.reason.is_text());
    Ok(Built {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: own_cpu_seconds() - cpu_begun,
        peak_mb: peak_memory_mb().context("/proc tells no peak memory")?,
        lines: report.lines,
        files: report.files_indexed,
        definitions: report.definitions,
        chunks: report.chunks,
        stages: [report.seconds.walk, report.seconds.chunk, report.seconds.embed, report.seconds.commit],
        skipped: report.files_skipped.into_iter().map(skip).collect(),
    })
}

/// What is measured on a tree.
pub struct Measure<'a> {
    /// Ours and the peers' scratch; on the file system of the tree, where it can be.
    pub scratch: &'a Path,
    /// With meaning, or without.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The same for a process of its own: its arguments.
    pub vectors: Vec<String>,
    /// Who else.
    pub peers: &'a [Peer],
    /// How many patterns.
    pub patterns: usize,
    /// Set by Ctrl-C.
    pub cancel: &'a AtomicBool,
}

/// Measures one tree. The tree itself is only read.
pub fn measure(tree: &Path, measure: &Measure, semble: Option<&mut Semble>) -> Result<Table> {
    let mut table = Table::new(format!("tree {}", tree.display()), &["what", "value", "unit", "bar"]);
    table.notes.push(format!("load average before: {}", load_average()));
    let shadow = Shadow::of(tree, measure.scratch)?;
    let store = tempfile::Builder::new().prefix("store").tempdir_in(measure.scratch)?;
    let built = build_apart(shadow.root(), store.path(), &measure.vectors)?;
    build_rows(&mut table, &built, &shadow, directory_bytes(store.path()));
    let skipped: BTreeSet<String> = built.skipped.iter().map(|(path, _)| path.clone()).collect();

    let mut seed = Seed(SEED);
    let taken: Vec<String> = shadow.paths.iter().filter(|path| !skipped.contains(*path)).cloned().collect();
    let sample = sample(shadow.root(), &taken, &mut seed);
    let mut index = Index::open(store.path(), shadow.root(), measure.embedder.clone())?;
    let found = searches(&index, &sample, &mut seed)?;
    latency_rows(&mut table, "search", &found, [Some("15"), Some("50")]);
    let found = symbols(&index, &sample, &mut seed);
    latency_rows(&mut table, "definition, path and name", &found, [None, Some("20")]);
    right_row(&mut table, "definition, path and name", &found, "0.95");
    let found = plain_symbols(&index, shadow.root(), &sample, &mut seed);
    right_row(&mut table, "definition, name alone", &found, "0.95");
    right_row(&mut table, "name that is nowhere is not found", &absent_symbols(&index, &sample, &mut seed), "1");

    let unseen = built.skipped.iter().filter(|(_, is_text)| !is_text).map(|(path, _)| path.clone()).collect();
    let codesearch =
        wants_codesearch(measure.peers).then(|| Codesearch::new(shadow.root(), measure.scratch)).transpose()?;
    let patterns = greps(&index, &unseen, &sample, &mut seed, measure.patterns, measure.peers, codesearch.as_ref())?;
    pattern_rows(&mut table, &patterns, codesearch.as_ref());

    let found = edits(&mut index, &shadow, &mut seed, measure.cancel)?;
    let p95 = percentile(&found.seconds, 95.0).map(|seconds| seconds * 1e3);
    table.rows.push(vec![json!("one edited file to searchable, p95"), json!(p95), json!("ms"), json!("200")]);
    right_row(&mut table, "edited file found first", &found, "1");
    if let Some(semble) = semble {
        semble_rows(&mut table, semble, &shadow, &built, measure.scratch)?;
    }
    table.notes.push(format!("load average after: {}", load_average()));
    Ok(table)
}

fn wants_codesearch(peers: &[Peer]) -> bool {
    peers.contains(&Peer::Codesearch) && is_installed("cindex") && is_installed("csearch")
}

fn build_apart(dir: &Path, store: &Path, vectors: &[String]) -> Result<Built> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "build"]).arg(dir).arg("--store").arg(store).args(vectors);
    let ran = run(&mut command, Duration::from_secs(BUILD_SECONDS_MAX), BUILD_BYTES_MAX, &[])?;
    serde_json::from_slice(&ran.stdout).context("the build tells nothing that is understood")
}

fn build_rows(table: &mut Table, built: &Built, shadow: &Shadow, index_bytes: u64) {
    let skipped: BTreeSet<&str> = built.skipped.iter().map(|(path, _)| path.as_str()).collect();
    let bytes_of = |path: &String| std::fs::metadata(shadow.root().join(path)).map_or(0, |found| found.len());
    let source: u64 = shadow.paths.iter().filter(|path| !skipped.contains(path.as_str())).map(bytes_of).sum();
    let mut row = |what: &str, value: Value, unit: &str, bar: &str| {
        table.rows.push(vec![json!(what), value, json!(unit), json!(bar)]);
    };
    let bar = if built.lines > 2_000_000 { "60000" } else { "30000" };
    row("files indexed", json!(built.files), "files", "");
    row("lines indexed", json!(built.lines), "lines", "");
    row("definitions", json!(built.definitions), "", "");
    row("chunks", json!(built.chunks), "", "");
    row("cold build", json!(built.seconds), "s", "");
    row("cold build, processor time", json!(built.cpu_seconds), "CPU s", "");
    row("cold build, lines a second", json!(built.lines as f64 / built.seconds), "lines/s", bar);
    row("cold build, lines a CPU second", json!(built.lines as f64 / built.cpu_seconds), "lines/CPU s", "");
    for (name, seconds) in ["walk", "chunk", "embed", "commit"].iter().zip(built.stages) {
        row(&format!("  of it {name}"), json!(seconds), "s", "");
    }
    row("peak memory of the build", json!(built.peak_mb), "MB", "600");
    row("source indexed", json!(source as f64 / 1e6), "MB", "");
    row("index", json!(index_bytes as f64 / 1e6), "MB", "");
    row("index / source", json!(index_bytes as f64 / source.max(1) as f64), "", "0.6");
    row("paths skipped, each with its reason", json!(built.skipped.len()), "", "");
}

fn latency_rows(table: &mut Table, what: &str, found: &Answers, bars: [Option<&str>; 2]) {
    for (percent, bar) in [50.0, 99.0].into_iter().zip(bars) {
        let value = percentile(&found.seconds, percent).map(|seconds| seconds * 1e3);
        let what = format!("{what}, p{percent} of {}", found.seconds.len());
        table.rows.push(vec![json!(what), json!(value), json!("ms"), json!(bar.unwrap_or(""))]);
    }
}

fn right_row(table: &mut Table, what: &str, found: &Answers, bar: &str) {
    let share = (!found.seconds.is_empty()).then(|| found.right as f64 / found.seconds.len() as f64);
    let what = format!("{what}: right, of {}", found.seconds.len());
    if let Some(wrong) = &found.wrong {
        table.notes.push(format!("{what}: the first that was not: {wrong}"));
    }
    table.rows.push(vec![json!(what), json!(share), json!("share"), json!(bar)]);
}

fn pattern_rows(table: &mut Table, patterns: &Patterns, codesearch: Option<&Codesearch>) {
    latency_rows(table, "pattern, all matches", &patterns.ours, [None, Some("100")]);
    if patterns.compared {
        right_row(table, "pattern, the lines of ripgrep", &patterns.ours, "1");
        let theirs = Answers { seconds: patterns.ripgrep.clone(), ..Answers::default() };
        latency_rows(table, "ripgrep, pattern", &theirs, [None, None]);
    }
    if let Some(codesearch) = codesearch {
        let theirs = Answers { seconds: patterns.codesearch.clone(), ..Answers::default() };
        latency_rows(table, "codesearch, pattern", &theirs, [None, None]);
        table.rows.push(vec![json!("codesearch, index"), json!(codesearch.seconds), json!("s"), json!("")]);
        table.rows.push(vec![json!("codesearch, index"), json!(codesearch.cpu_seconds), json!("CPU s"), json!("")]);
    }
}

fn semble_rows(table: &mut Table, semble: &mut Semble, shadow: &Shadow, built: &Built, scratch: &Path) -> Result<()> {
    let answer = match semble.ask(&[(shadow.root(), vec!["open a file for reading"])], scratch) {
        Ok(answer) => answer,
        Err(error) => {
            table.notes.push(format!("semble gave up: {error:#}"));
            return Ok(());
        }
    };
    let tree = &answer.trees[0];
    let mut row = |what: &str, value: f64, unit: &str| {
        table.rows.push(vec![json!(what), json!(value), json!(unit), json!("")]);
    };
    row("semble, index", tree.seconds, "s");
    row("semble, index", tree.cpu_seconds, "CPU s");
    // Of the lines that we index; semble takes fewer kinds of files.
    row("semble, our lines a CPU second", built.lines as f64 / tree.cpu_seconds, "lines/CPU s");
    row("semble, peak memory", tree.peak_mb, "MB");
    row("semble, search, p50", percentile(&tree.search_seconds, 50.0).unwrap_or(0.0) * 1e3, "ms");
    Ok(())
}

fn directory_bytes(dir: &Path) -> u64 {
    let mut bytes = 0;
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => waiting.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}
