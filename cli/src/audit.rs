//! What does the log of a session prove, tell and export? `cloister audit …`

use crate::args::Audit;
use crate::exit::{Exit, Fatal};
use crate::sessions::log_path;
use crate::state::State;
use agent::audit::{self, Ending, Head, Key, Ocsf, Report, Story};
use std::io::Write;
use std::path::{Path, PathBuf};

/// `cloister audit …`
pub fn audit(command: Audit) -> Result<Exit, Fatal> {
    let state = State::open()?;
    match command {
        Audit::Verify { log: None, .. } => verify_all(&state),
        Audit::Verify { log: Some(log), head } => verify(&state, &find(&state, Some(&log))?, head.as_deref()),
        Audit::Show { log } => show(&state, &find(&state, log.as_deref())?),
        Audit::Export { log } => export(&find(&state, log.as_deref())?),
    }
}

/// Checks one log. `head` is what was printed at its end.
pub fn verify(state: &State, path: &Path, head: Option<&str>) -> Result<Exit, Fatal> {
    let head = head
        .map(str::parse::<Head>)
        .transpose()
        .map_err(|error| Fatal::config(error, "copy it from the end of the run"))?;
    let report = audit::verify(path, &key(state)?, head.as_ref())?;
    println!("{} records, {}", report.records, sealed(&report));
    match &report.ending {
        Ending::Whole => println!("the chain is whole"),
        Ending::TornTail { bytes } => {
            println!("the chain is whole up to a torn tail of {bytes} bytes, left by a crash")
        }
        Ending::Broken { record, why } => {
            let error = anyhow::anyhow!("the chain is broken at record {record}: {why}");
            let hint = "somebody or something changed this log after it was written".into();
            return Err(Fatal { exit: Exit::Failed, error, hint });
        }
    }
    if let (None, Some(now)) = (head, &report.head) {
        if !report.sealed {
            println!("without its seal, records may be missing at its end");
        }
        println!("head {now}");
    }
    Ok(Exit::Done)
}

/// Every session of this host, newest first, in one line each.
fn verify_all(state: &State) -> Result<Exit, Fatal> {
    let (key, mut exit) = (key(state)?, Exit::Done);
    for id in ids(state) {
        let told = match audit::verify(&log_path(state, &id)?, &key, None) {
            Err(error) => Err(error.to_string()),
            Ok(Report { ending: Ending::Broken { record, why }, .. }) => {
                Err(format!("BROKEN at record {record}: {why}"))
            }
            Ok(report) => {
                let tail = if report.ending == Ending::Whole { "whole" } else { "whole up to a torn tail" };
                Ok(format!("{} records, {}, {tail}", report.records, sealed(&report)))
            }
        };
        if told.is_err() {
            exit = Exit::Failed;
        }
        println!("{id}  {}", told.unwrap_or_else(|why| why));
    }
    Ok(exit)
}

/// The log as a story, and what can be said about its integrity.
fn show(state: &State, path: &Path) -> Result<Exit, Fatal> {
    let mut out = std::io::stdout().lock();
    let mut story = Story::new();
    for record in audit::read(path)? {
        let line = match record {
            Ok(record) => story.tell(&record),
            Err(error) => format!("the rest cannot be read: {error}"),
        };
        // A reader that has gone away (`| head`) ends it.
        if writeln!(out, "{line}").is_err() {
            return Ok(Exit::Done);
        }
    }
    let integrity = match Key::load(state.home.path()) {
        Err(error) => format!("not checked: {error}"),
        Ok(key) => match audit::verify(path, &key, None)? {
            Report { ending: Ending::Broken { record, why }, .. } => {
                format!("BROKEN at record {record}: {why}. Believe nothing from there on.")
            }
            report if report.ending == Ending::Whole => format!("the chain is whole, {}", sealed(&report)),
            report => format!("the chain is whole up to a torn tail, {}", sealed(&report)),
        },
    };
    let _ = writeln!(out, "\nintegrity: {integrity}");
    Ok(Exit::Done)
}

fn export(path: &Path) -> Result<Exit, Fatal> {
    let mut out = std::io::stdout().lock();
    let mut ocsf = Ocsf::new();
    for record in audit::read(path)? {
        for event in ocsf.events(&record?) {
            if writeln!(out, "{event}").is_err() {
                return Ok(Exit::Done);
            }
        }
    }
    Ok(Exit::Done)
}

/// A session by its name, a log by its path, else the newest session.
fn find(state: &State, named: Option<&str>) -> Result<PathBuf, Fatal> {
    match named {
        Some(named) if Path::new(named).is_file() => Ok(named.into()),
        Some(named) => log_path(state, named),
        None => {
            let newest = ids(state).into_iter().next();
            let hint = "start one with `cloister run \"TASK\"`";
            log_path(state, &newest.ok_or_else(|| Fatal::missing(anyhow::anyhow!("there is no session yet"), hint))?)
        }
    }
}

/// The sessions that have a log, newest first.
fn ids(state: &State) -> Vec<String> {
    let entries = std::fs::read_dir(state.sessions()).into_iter().flatten().flatten();
    let mut ids: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ids.retain(|id| log_path(state, id).is_ok());
    ids.sort();
    ids.reverse();
    ids
}

fn key(state: &State) -> Result<Key, Fatal> {
    let hint = "a log is verified on the host that wrote it, with the audit.key in its $CLOISTER_HOME";
    Key::load(state.home.path()).map_err(|error| Fatal::missing(error, hint))
}

fn sealed(report: &Report) -> &'static str {
    if report.sealed { "sealed" } else { "not sealed" }
}
