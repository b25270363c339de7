//! How do model servers compare at what an agent does? The workload is the crate `benches`; here are the servers and the paper.

use super::{Fatal, show};
use crate::args::BenchServe;
use crate::exit::Exit;
use crate::state::cancel_on_ctrl_c;
use anyhow::{Context, Result, bail, ensure};
use benches::serve::arms::{self, Around, Length, Step};
use benches::serve::client::Server;
use benches::serve::{load, plot, speed};
use benches::table::Table;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HINT: &str = "`cloister bench serve --help` tells what is needed; `cloister serve` is a server to begin with";
/// A server that is started again may take so long to load its model.
const RESTART_SECONDS_MAX: u64 = 300;

/// `cloister bench serve`
pub fn serve(args: &BenchServe) -> Result<Exit, Fatal> {
    let cancel = cancel_on_ctrl_c()?;
    let told = tables(args, &cancel);
    if cancel.load(Ordering::Relaxed) {
        return Ok(Exit::Cancelled);
    }
    show(&told.map_err(|error| Fatal::missing(error, HINT))?, args.json);
    Ok(Exit::Done)
}

fn tables(args: &BenchServe, cancel: &AtomicBool) -> Result<Vec<Table>> {
    ensure!(!args.measure.is_empty() || !args.arm.is_empty(), "nothing to measure: give --measure or --arm");
    ensure!(args.repeats > 0 && args.turns > 0, "--repeats and --turns begin at 1");
    ensure!(args.scale.is_finite() && args.scale > 0.0, "--scale must be above 0");
    let servers = args.server.iter().map(|given| Server::connect(given)).collect::<Result<Vec<_>>>()?;
    let (begun, loaded) = (Instant::now(), load());
    let mut tables = Vec::new();
    if !args.measure.is_empty() {
        tables.push(speed::run(&servers, &args.measure, args.repeats, &|line| eprintln!("{line}"), cancel)?);
    }
    if !args.arm.is_empty() {
        let steps = replayed(args, &servers, cancel)?;
        if let Some(out) = &args.out {
            keep(out, &steps).with_context(|| format!("{} must be writable", out.display()))?;
        }
        tables.push(arms::table(&steps));
    }
    for table in &mut tables {
        table.notes.push(format!(
            "load average {loaded:.1} before and {:.1} after, the servers' own work with it; {:.0} s in all",
            load(),
            begun.elapsed().as_secs_f64()
        ));
    }
    Ok(tables)
}

fn replayed(args: &BenchServe, servers: &[Server], cancel: &AtomicBool) -> Result<Vec<Step>> {
    let heard = |step: &Step| {
        let computed = step.answer.computed_tokens().map_or("?".to_owned(), |computed| computed.to_string());
        eprintln!(
            "{} {} turn {} agent {}: {computed} of {} prompt tokens computed, ideal {}; first token after {:.2} s",
            step.arm,
            step.server,
            step.turn,
            step.agent,
            step.answer.prompt_tokens,
            step.ideal,
            step.answer.first_seconds
        );
    };
    let length = Length { turns: args.turns, scale: args.scale };
    let salt = std::process::id().to_string();
    let mut steps = Vec::new();
    for &arm in &args.arm {
        for server in servers {
            let command = args.restart.iter().find_map(|given| given.strip_prefix(&format!("{}=", server.name)));
            let again = || restart(server, command.unwrap_or_default());
            let restart = command.map(|_| &again as &dyn Fn() -> Result<()>);
            steps.extend(arms::replay(server, arm, &Around { length, salt: &salt, restart, heard: &heard, cancel })?);
        }
    }
    Ok(steps)
}

/// Runs the person's command and waits until the server lists its model.
fn restart(server: &Server, command: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", command]).status().context("sh")?;
    ensure!(status.success(), "the command that starts {} again ended with {status}", server.name);
    let begun = Instant::now();
    while let Err(error) = server.first_model() {
        if begun.elapsed().as_secs() > RESTART_SECONDS_MAX {
            bail!("{} does not answer {RESTART_SECONDS_MAX} s after its start: {error:#}", server.name);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn keep(out: &Path, steps: &[Step]) -> Result<()> {
    fs::create_dir_all(out)?;
    let mut lines = fs::File::create(out.join("steps.jsonl"))?;
    for step in steps {
        writeln!(lines, "{}", step.json())?;
    }
    for arm in arms::ARMS.into_iter().filter(|arm| steps.iter().any(|step| step.arm == *arm)) {
        fs::write(out.join(format!("{arm}.svg")), plot::svg(arm, steps))?;
    }
    Ok(())
}
