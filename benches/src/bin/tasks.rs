//! How many programs with one bug does `cloister run` repair? `tasks DIR [NAME]` runs each folder of DIR: `task.md` (what
//! to ask), `repo/` (the program), `verify.toml` (the tests). Prints a table.
//!
//! The verdict is not Cloister's own: its change, without any protected file, is put on a fresh copy of `repo/` and the
//! test command runs there, in a box because a model wrote the code.

use agent::plan::Plan;
use anyhow::{Context, Result, ensure};
use sandbox::{BoxSpec, Ending, Job, Limits, Sandbox};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const SECONDS_MAX: u64 = 600;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().context("usage: tasks DIR [NAME]")?);
    let only = args.next();
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .with_context(|| format!("{} holds the tasks", dir.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| dir.join(name).join("task.md").is_file() && only.as_ref().is_none_or(|only| only == name))
        .collect();
    names.sort();
    ensure!(!names.is_empty(), "no task in {}", dir.display());
    println!("load average {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    println!(
        "{:<28} {:<8} {:<18} {:>8} {:>6} {:>9} {:>9} {:>10}",
        "task", "solved", "ending", "seconds", "calls", "reused", "computed", "generated"
    );
    let mut solved = 0;
    for name in &names {
        let row = attempt(&dir.join(name))?;
        solved += usize::from(row.solved);
        let told = if row.solved { "yes" } else { "no" };
        println!(
            "{name:<28} {told:<8} {:<18} {:>8.1} {:>6} {:>9} {:>9} {:>10}",
            row.ending, row.seconds, row.calls, row.reused, row.computed, row.generated
        );
    }
    println!("{solved} of {} solved", names.len());
    ensure!(solved == names.len() || only.is_none(), "not solved");
    Ok(())
}

struct Row {
    solved: bool,
    ending: String,
    seconds: f64,
    calls: usize,
    reused: u64,
    computed: u64,
    generated: u64,
}

fn attempt(task: &Path) -> Result<Row> {
    let work = tempfile::tempdir()?;
    let repo = work.path().join("repo");
    copy(&task.join("repo"), &repo)?;
    let start = Instant::now();
    let output = Command::new(cloister()?)
        .args(["run", "--json", "--apply", "--repo"])
        .arg(&repo)
        .arg("--verify")
        .arg(task.join("verify.toml"))
        .args(["--seconds", &SECONDS_MAX.to_string()])
        .arg(std::fs::read_to_string(task.join("task.md"))?)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = events.rfind(|event| event["event"] == "ended");
    let ended = ended.with_context(|| format!("no `ended` event from {}: exit {}", task.display(), output.status))?;
    let costs = &ended["costs"];
    let number = |key: &str| costs[key].as_u64().unwrap_or(0);
    Ok(Row {
        solved: judge(task, &repo)?,
        ending: ended["ending"]["name"].as_str().unwrap_or("?").to_owned(),
        seconds,
        calls: costs["calls"].as_array().map_or(0, Vec::len),
        reused: number("reused_tokens"),
        computed: number("computed_tokens"),
        generated: number("generated_tokens"),
    })
}

/// The change alone, on a fresh copy, under the original tests.
fn judge(task: &Path, changed: &Path) -> Result<bool> {
    let plan = Plan::parse("verify.toml", &std::fs::read_to_string(task.join("verify.toml"))?)?;
    let fresh = tempfile::tempdir()?;
    let repo = fresh.path().join("repo");
    copy(&task.join("repo"), &repo)?;
    for entry in std::fs::read_dir(changed)? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if changed.join(&name).is_file() && !plan.protects(&name) {
            std::fs::copy(changed.join(&name), repo.join(&name))?;
        }
    }
    let boxes = boxes();
    sandbox::reap(&boxes)?;
    let limits = Limits { seconds_max: plan.seconds_max as f64, ..Limits::DEFAULT };
    let sandbox = Sandbox::open(BoxSpec { limits, ..BoxSpec::new(&repo, boxes) })?;
    let outcome = sandbox.run(&Job::new(plan.argv.clone()), &AtomicBool::new(false))?;
    Ok(outcome.ending == Ending::Exited(0))
}

/// Where the judge's boxes live: always the same place, so that what a killed run left behind is found by the next.
fn boxes() -> PathBuf {
    let home = std::env::var_os("CLOISTER_HOME").map(PathBuf::from);
    home.unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(".cloister")).join("judge")
}

/// The binary that was built beside this one.
fn cloister() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("cloister");
    ensure!(path.is_file(), "{} is missing; run `make build`", path.display());
    Ok(path)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
