//! Are the index and the model server as good and as fast as they should be? `cloister bench`, and `cloister index report`.
//!
//! - `cases`, `mine`, `git`: what is asked. `answers`, `metrics`: what comes back and what it is worth.
//! - `size`, `shadow`, `sample`, `latency`: what a large tree costs. `peers`, `process`: what the others do.
//! - `lanes`: which way of finding serves a repository. `serve`: model servers, by the crate `benches`.

mod answers;
mod cases;
mod git;
mod lanes;
mod latency;
mod metrics;
mod mine;
mod peers;
mod process;
mod sample;
mod serve;
mod shadow;
mod size;

use crate::args::{Bench, BenchBuild, BenchIndex, IndexReport};
use crate::embedder::Choice;
use crate::exit::{Exit, Fatal};
use crate::state::{State, cancel_on_ctrl_c, repository};
use anyhow::{Context, Result};
use benches::table::Table;
use cases::{Repositories, Set};
pub use peers::Peer;
use peers::Semble;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const HINT: &str = "`cloister bench index --help` tells what is needed";

/// `cloister bench`
pub fn bench(command: Bench) -> Result<Exit, Fatal> {
    match command {
        Bench::Index(args) => index(args),
        Bench::Serve(args) => serve::serve(&args),
        Bench::Build(args) => build(args),
    }
}

fn build(args: BenchBuild) -> Result<Exit, Fatal> {
    let state = State::open()?;
    let cancel = cancel_on_ctrl_c()?;
    let embedder = embedder(&state, args.no_vectors, args.embedder.as_ref(), &cancel)?;
    let built = size::build(&args.dir, &args.store, embedder, &cancel).map_err(|error| Fatal::missing(error, HINT))?;
    println!("{}", serde_json::to_string(&built).map_err(|error| Fatal::missing(error, ""))?);
    Ok(Exit::Done)
}

fn index(args: BenchIndex) -> Result<Exit, Fatal> {
    let state = State::open()?;
    let cancel = cancel_on_ctrl_c()?;
    let embedder = embedder(&state, args.no_vectors, args.embedder.as_ref(), &cancel)?;
    let scratch = scratch(&state).map_err(|error| Fatal::missing(error, ""))?;
    let run = Run { args, embedder, scratch, cancel };
    let tables = run.tables().map_err(|error| Fatal::missing(error, HINT))?;
    show(&tables, run.args.json);
    Ok(Exit::Done)
}

/// `cloister index report DIR`
pub fn report(args: IndexReport) -> Result<Exit, Fatal> {
    let state = State::open()?;
    let repo = repository(&args.dir)?;
    let cancel = cancel_on_ctrl_c()?;
    let embedder = embedder(&state, args.no_vectors, args.embedder.as_ref(), &cancel)?;
    let scratch = scratch(&state).map_err(|error| Fatal::missing(error, ""))?;
    let lanes::Told { mut table, better } =
        lanes::report(&repo, scratch.path(), args.commits, embedder.as_ref(), &cancel)
            .map_err(|error| Fatal::missing(error, "name a git repository whose commits say what they change"))?;
    if args.keep {
        let index = state.index(&repo);
        let weights = better.unwrap_or_default();
        let hint = || format!("{} must be writable", index.display());
        weights.keep(&index).map_err(|error| Fatal::missing(error, hint()))?;
        let told =
            if better.is_some() { "searches here use them from now on" } else { "searches here use the default" };
        table.notes.push(told.to_owned());
    }
    show(&[table], args.json);
    Ok(Exit::Done)
}

/// The token table, where nothing else was asked for.
fn embedder(
    state: &State,
    no_vectors: bool,
    choice: Option<&Choice>,
    cancel: &AtomicBool,
) -> Result<Option<Arc<dyn index::Embedder>>, Fatal> {
    if no_vectors { Ok(None) } else { choice.unwrap_or(&Choice::Static).load(state, cancel) }
}

/// Below the home, so that large trees can be linked and nothing is left in a small /tmp.
fn scratch(state: &State) -> Result<TempDir> {
    let dir = state.home.join("bench");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    // A run that was killed left its copies behind.
    for entry in std::fs::read_dir(&dir)?.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix("run-")?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(tempfile::Builder::new().prefix(&format!("run-{}-", std::process::id())).tempdir_in(dir)?)
}

fn show(tables: &[Table], json: bool) {
    for table in tables {
        if json {
            println!("{}", table.json());
        } else {
            println!("{}", table.text());
        }
    }
}

/// One run of the benchmark.
struct Run {
    args: BenchIndex,
    embedder: Option<Arc<dyn index::Embedder>>,
    scratch: TempDir,
    cancel: Arc<AtomicBool>,
}

impl Run {
    fn tables(&self) -> Result<Vec<Table>> {
        let mut tables = vec![self.conditions()];
        let mut semble =
            self.args.peers.contains(&Peer::Semble).then(|| Semble::find(&self.args.semble_python)).flatten();
        let sets = self.sets()?;
        if !sets.is_empty() && !self.args.repo.is_empty() {
            tables.push(self.accuracy(sets, semble.as_mut())?);
        }
        for repo in &self.args.mine {
            tables.push(self.history(repo)?);
        }
        for tree in &self.args.tree {
            let measure = size::Measure {
                scratch: self.scratch.path(),
                embedder: self.embedder.clone(),
                vectors: self.vectors(),
                peers: &self.args.peers,
                patterns: self.args.patterns,
                cancel: &self.cancel,
            };
            tables.push(size::measure(&tree.canonicalize()?, &measure, semble.as_mut())?);
        }
        Ok(tables)
    }

    /// What tells another process of ours who makes the vectors.
    fn vectors(&self) -> Vec<String> {
        match (&self.embedder, &self.args.embedder) {
            (None, _) => vec!["--no-vectors".to_owned()],
            (Some(_), None) => Vec::new(),
            (Some(_), Some(choice)) => vec!["--embedder".to_owned(), choice.to_string()],
        }
    }

    fn conditions(&self) -> Table {
        let mut table = Table::new("conditions", &["what", "value"]);
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let mut row = |what: &str, value: String| table.rows.push(vec![what.into(), value.into()]);
        row("cloister", env!("CARGO_PKG_VERSION").to_owned());
        row("embedder", self.embedder.as_ref().map_or("none".to_owned(), |embedder| embedder.name().to_owned()));
        row("cores", cores.to_string());
        row("load average", process::load_average());
        if self.args.peers.contains(&Peer::Rg) {
            row("ripgrep", peers::version("rg").unwrap_or_else(|_| "absent".to_owned()));
        }
        table.notes = peers::absent(&self.args.peers, &self.args.semble_python);
        table
    }

    /// The sets that were named, or those of $CLOISTER_CASES.
    fn sets(&self) -> Result<Vec<Set>> {
        let mut paths: Vec<PathBuf> = self.args.cases.clone();
        if let (true, Some(shared)) = (paths.is_empty(), std::env::var_os("CLOISTER_CASES")) {
            let dir = Path::new(&shared).join("retrieval");
            paths = ["queries.jsonl", "localisation.jsonl"].map(|name| dir.join(name)).to_vec();
        }
        paths.iter().map(|path| cases::load(path)).collect()
    }

    fn accuracy(&self, sets: Vec<Set>, semble: Option<&mut Semble>) -> Result<Table> {
        let repositories = Repositories::new(&self.args.repo)?;
        let (groups, notes) = answers::groups(sets, &repositories, self.scratch.path())?;
        let mut table = answers::table("answers");
        table.notes = notes;
        let ours = answers::ask(&groups, self.scratch.path(), self.embedder.as_ref(), &self.cancel)?;
        table.rows.extend(answers::rows("cloister", &ours));
        if self.args.each {
            table.notes.extend(ours.iter().map(|outcome| format!("{} mrr {:.3}", outcome.id, outcome.scores.mrr)));
        }
        if let Some(semble) = semble {
            for (setting, outcomes) in semble.ask_cases(&groups, self.scratch.path())? {
                table.rows.extend(answers::rows(&setting, &outcomes));
            }
            table.notes.push(semble.told.clone());
        }
        let seconds: Vec<f64> = ours.iter().map(|outcome| outcome.seconds).collect();
        if let Some(median) = metrics::percentile(&seconds, 50.0) {
            table.notes.push(format!("median search {:.1} ms; load average {}", median * 1e3, process::load_average()));
        }
        Ok(table)
    }

    fn history(&self, repo: &Path) -> Result<Table> {
        let mut mine = mine::Mine::open(repo, self.scratch.path(), self.args.commits)?;
        let name = repo.canonicalize()?.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let scratch = self.scratch.path();
        let outcomes =
            answers::ask_history(&mut mine, &name, scratch, self.embedder.as_ref(), &self.cancel, &mut |_, _, _| {
                Ok(())
            })?;
        let mut table = answers::table(&format!("history of {name}: subjects of commits, code files that they change"));
        table.rows = answers::rows("cloister", &outcomes);
        Ok(table)
    }
}
