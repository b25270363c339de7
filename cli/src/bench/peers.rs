//! What do the others answer, in the same run? semble, ripgrep and codesearch, each as a process with a deadline.

use super::answers::{Group, Outcome, outcome};
use super::process::{Ran, is_installed, run};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const INDEX_SECONDS_MAX: u64 = 3_600;
const QUERY_SECONDS_MAX: u64 = 120;
const ANSWER_BYTES_MAX: u64 = 256 * 1024 * 1024;
const SEMBLE: &str = include_str!("ask_semble.py");

/// Lines of files, as (path, line number).
pub type Lines = BTreeSet<(String, usize)>;

/// Another program to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Peer {
    /// semble, the Python package
    Semble,
    /// ripgrep
    Rg,
    /// codesearch: `cindex` and `csearch`
    Codesearch,
}

/// semble under one Python.
pub struct Semble {
    python: PathBuf,
    /// Its version and the name of its model.
    pub told: String,
}

/// What semble did on some trees.
#[derive(Deserialize)]
pub struct SembleAnswer {
    version: String,
    model: String,
    /// One for each tree that was asked about.
    pub trees: Vec<SembleTree>,
}

/// What semble did on one tree.
#[derive(Deserialize)]
pub struct SembleTree {
    /// Indexing, wall time.
    pub seconds: f64,
    /// Indexing, processor time.
    pub cpu_seconds: f64,
    /// The most memory.
    pub peak_mb: f64,
    /// Every search of every setting.
    pub search_seconds: Vec<f64>,
    answers: BTreeMap<String, Vec<Vec<String>>>,
}

/// Semble's dials: which share meaning has, whether it ranks again, how many pieces it is asked for.
fn settings() -> Vec<serde_json::Value> {
    let setting = |name: &str, alpha: Option<f64>, rerank: bool, top_k: usize| json!({"name": name, "alpha": alpha, "rerank": rerank, "top_k": top_k});
    let mut all = vec![
        setting("semble, as it comes", None, true, 10),
        setting("semble, 50 pieces", None, true, 50),
        setting("semble, no rerank", None, false, 50),
    ];
    for alpha in [0.0, 0.3, 0.5, 0.7, 1.0] {
        all.push(setting(&format!("semble, alpha {alpha}"), Some(alpha), true, 50));
    }
    all
}

impl Semble {
    /// None where this Python has no semble.
    pub fn find(python: &Path) -> Option<Semble> {
        let mut probe = Command::new(python);
        probe.args(["-c", "import semble"]);
        run(&mut probe, Duration::from_secs(QUERY_SECONDS_MAX), 100, &[]).ok()?;
        Some(Semble { python: python.to_path_buf(), told: "semble".to_owned() })
    }

    /// Indexes each directory and asks it each question under each setting.
    pub fn ask(&mut self, trees: &[(&Path, Vec<&str>)], scratch: &Path) -> Result<SembleAnswer> {
        let all: Vec<_> = trees.iter().map(|(dir, queries)| json!({"dir": dir, "queries": queries})).collect();
        let home = tempfile::Builder::new().prefix("semble").tempdir_in(scratch)?;
        let (program, request) = (home.path().join("ask.py"), home.path().join("request.json"));
        std::fs::write(&program, SEMBLE)?;
        std::fs::write(&request, json!({"trees": all, "settings": settings()}).to_string())?;
        let mut command = Command::new(&self.python);
        command.arg(&program).arg(&request).env("SEMBLE_CACHE_LOCATION", home.path()).env("HF_HUB_OFFLINE", "1");
        command.env("HOME", home.path()).current_dir(home.path());
        let ran = run(&mut command, Duration::from_secs(INDEX_SECONDS_MAX), ANSWER_BYTES_MAX, &[])?;
        let answer: SembleAnswer = serde_json::from_slice(&ran.stdout).context("semble's answer is not understood")?;
        ensure!(answer.trees.len() == trees.len(), "semble answered for {} trees", answer.trees.len());
        self.told = format!("semble {} with the model {}", answer.version, answer.model);
        Ok(answer)
    }

    /// Asks it every case, and gives the outcomes by setting.
    pub fn ask_cases(&mut self, groups: &[Group], scratch: &Path) -> Result<Vec<(String, Vec<Outcome>)>> {
        let queries = |group: &Group| group.cases.iter().map(|(_, case)| case.query.clone()).collect::<Vec<_>>();
        let queries: Vec<Vec<String>> = groups.iter().map(queries).collect();
        let trees: Vec<(&Path, Vec<&str>)> = groups
            .iter()
            .zip(&queries)
            .map(|(group, queries)| (group.source.dir.as_path(), queries.iter().map(String::as_str).collect()))
            .collect();
        let answer = self.ask(&trees, scratch)?;
        let mut by_setting: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
        for (group, tree) in groups.iter().zip(answer.trees) {
            for (setting, answers) in tree.answers {
                ensure!(answers.len() == group.cases.len(), "semble left a question out");
                let outcomes = by_setting.entry(setting).or_default();
                for ((set, case), ranked) in group.cases.iter().zip(answers) {
                    outcomes.push(outcome(set, case, &group.source.prefix, &ranked, 0.0));
                }
            }
        }
        Ok(by_setting.into_iter().collect())
    }
}

/// ripgrep over a directory, with hidden files and with the rules of ignore files also where there is no git: those
/// that the index leaves out are taken away by its own account.
pub fn ripgrep(root: &Path, pattern: &str) -> Result<(Lines, Ran)> {
    let mut command = Command::new("rg");
    command.args([
        "--no-config",
        "--hidden",
        "--no-require-git",
        "--no-heading",
        "--line-number",
        "--null",
        "--color=never",
        "--no-messages",
        "-e",
    ]);
    command.arg(pattern).arg("./").current_dir(root);
    let ran = run(&mut command, Duration::from_secs(QUERY_SECONDS_MAX), ANSWER_BYTES_MAX, &[1])?;
    ensure!(!ran.truncated, "more than 256 MiB of matches");
    let lines = ran.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let zero = line.iter().position(|byte| *byte == 0)?;
        let rest = &line[zero + 1..];
        let number = &rest[..rest.iter().position(|byte| *byte == b':')?];
        let path = std::str::from_utf8(&line[..zero]).ok()?;
        Some((path.trim_start_matches("./").to_owned(), std::str::from_utf8(number).ok()?.parse().ok()?))
    });
    Ok((lines.collect(), ran))
}

/// codesearch with an index of its own.
pub struct Codesearch {
    index: PathBuf,
    /// Indexing, wall time.
    pub seconds: f64,
    /// Indexing, processor time.
    pub cpu_seconds: f64,
}

impl Codesearch {
    /// Indexes a directory.
    pub fn new(root: &Path, scratch: &Path) -> Result<Codesearch> {
        let index = scratch.join("csearchindex");
        let mut command = Command::new("cindex");
        command.arg(root).env("CSEARCHINDEX", &index);
        let ran = run(&mut command, Duration::from_secs(INDEX_SECONDS_MAX), ANSWER_BYTES_MAX, &[])?;
        Ok(Codesearch { index, seconds: ran.seconds, cpu_seconds: ran.cpu_seconds })
    }

    /// Searches it, and gives the number of lines found.
    pub fn search(&self, pattern: &str) -> Result<(usize, Ran)> {
        let mut command = Command::new("csearch");
        command.args(["-n", "--"]).arg(pattern).env("CSEARCHINDEX", &self.index);
        let ran = run(&mut command, Duration::from_secs(QUERY_SECONDS_MAX), ANSWER_BYTES_MAX, &[1])?;
        Ok((ran.stdout.iter().filter(|byte| **byte == b'\n').count(), ran))
    }
}

/// The peers of these that are not on this host, in words.
pub fn absent(peers: &[Peer], python: &Path) -> Vec<String> {
    let is_absent = |peer: &&Peer| match peer {
        Peer::Semble => Semble::find(python).is_none(),
        Peer::Rg => !is_installed("rg"),
        Peer::Codesearch => !is_installed("cindex") || !is_installed("csearch"),
    };
    peers.iter().filter(is_absent).map(|peer| format!("{peer:?} is not installed; left out").to_lowercase()).collect()
}

/// The version that a program tells of itself.
pub fn version(program: &str) -> Result<String> {
    let ran = run(Command::new(program).arg("--version"), Duration::from_secs(QUERY_SECONDS_MAX), 10_000, &[])?;
    match String::from_utf8_lossy(&ran.stdout).lines().next() {
        Some(line) => Ok(line.to_owned()),
        None => bail!("{program} tells no version"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ripgrep_answers_with_paths_and_lines() {
        if !is_installed("rg") {
            eprintln!("skipped: ripgrep is not installed");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a:1.rs"), "x\nneedle: 3\n").unwrap();
        let (lines, _) = ripgrep(dir.path(), "needle").unwrap();
        assert_eq!(lines.into_iter().collect::<Vec<_>>(), [("a:1.rs".to_owned(), 2)]);
        assert!(ripgrep(dir.path(), "absent").unwrap().0.is_empty());
    }

    #[test]
    fn a_peer_that_is_not_installed_is_named() {
        let told = absent(&[Peer::Semble], Path::new("/nonexistent/python"));
        assert_eq!(told, ["semble is not installed; left out"]);
    }
}
