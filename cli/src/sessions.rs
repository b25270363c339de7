//! What happened in the past? Sessions are read from their logs and from nothing else.

use crate::args::{KV_DISK_MIB, Run, Sessions, YesOrNo};
use crate::exit::{Exit, Fatal};
use crate::run::{Job, directory};
use crate::show;
use crate::state::{State, cancel_on_ctrl_c};
use agent::action::parse;
use agent::ask::Answer;
use agent::audit::{self, Durability, Key, Log};
use agent::gate::Logged;
use agent::monitor::{Rules, replay};
use agent::session::{Ending, Record, Step};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// `cloister sessions …`
pub fn sessions(command: Sessions) -> Result<Exit, Fatal> {
    let state = State::open()?;
    match command {
        Sessions::List => list(&state),
        Sessions::Show { id, json } => show(&state, &id, json),
        Sessions::Resume { id, apply, park, seconds } => resume(&state, &id, apply, park, seconds),
        Sessions::Answer { id, answer } => answer_question(&state, &id, answer),
        Sessions::Verify { id, head } => crate::audit::verify(&state, &log_path(&state, &id)?, head.as_deref()),
        Sessions::Monitor { id, json, rules } => monitor(&state, &id, json, rules.as_deref()),
    }
}

fn list(state: &State) -> Result<Exit, Fatal> {
    let mut names: Vec<String> = match std::fs::read_dir(state.sessions()) {
        Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect(),
        Err(_) => Vec::new(),
    };
    names.sort();
    for id in names.iter().rev() {
        let Ok((header, records)) = read(state, id) else {
            println!("{id}  unreadable; `cloister sessions verify {id}` says why");
            continue;
        };
        let ending = ending(&records).unwrap_or_else(|| "not ended".into());
        let task: String =
            header["task"].as_str().unwrap_or_default().lines().next().unwrap_or_default().chars().take(60).collect();
        println!("{id}  {ending:<16} {task}");
    }
    if names.is_empty() {
        println!("no sessions yet; start one with `cloister run \"TASK\"`");
    }
    Ok(Exit::Done)
}

fn show(state: &State, id: &str, json: bool) -> Result<Exit, Fatal> {
    if json {
        let path = log_path(state, id)?;
        std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::stdout())?;
        return Ok(Exit::Done);
    }
    let (header, records) = read(state, id)?;
    println!(
        "session {id}\ntask    {}\nrepo    {}\nmodel   {}\n",
        text(&header["task"]),
        text(&header["repo"]),
        text(&header["model"])
    );
    let mut screen = show::Screen::new();
    for record in &records {
        let inner = if let Record::Child { happened, .. } = record { happened } else { record };
        if let Record::Replied { text, .. } = inner
            && let Ok(call) = parse(text)
        {
            screen.watch(&agent::drive::Event::Recorded(record));
            println!("      {}", show::describe(&call));
            continue;
        }
        screen.watch(&agent::drive::Event::Recorded(record));
    }
    println!("\nending: {}", ending(&records).unwrap_or_else(|| "not ended".into()));
    if let Ok(diff) = std::fs::read(directory(state, id).join("change.diff")) {
        println!("\n{}", agent::text::sanitize(&diff, 64 * 1024).text);
    }
    Ok(Exit::Done)
}

fn resume(state: &State, id: &str, apply: bool, park: bool, seconds: u64) -> Result<Exit, Fatal> {
    // An answer in the log permits something, so the log must be the one that was written.
    let checked = audit::verify(&log_path(state, id)?, &Key::load(state.home.path())?, None)?;
    if let audit::Ending::Broken { record, why } = checked.ending {
        let error = anyhow::anyhow!("the log of {id} is broken at record {record}: {why}");
        return Err(Fatal { exit: Exit::Failed, error, hint: "start a new session with `cloister run`".into() });
    }
    let (header, records) = read(state, id)?;
    let path = |key: &str| header[key].as_str().map(PathBuf::from);
    let missing = || anyhow::anyhow!("the log of {id} does not name its repository");
    let args = Run {
        task: text(&header["task"]).to_owned(),
        repo: path("repo").ok_or_else(missing)?,
        apply,
        json: false,
        model: header["named_model"].as_str().map(str::to_owned),
        url: header["url"].as_str().map(str::to_owned),
        kv_disk: KV_DISK_MIB,
        policy: path("policy"),
        verify: path("verify"),
        mode: serde_json::from_value(header["mode"].clone()).unwrap_or_default(),
        hooks: path("hooks"),
        park,
        answers: false,
        seconds,
        tokens: 200_000,
        actions: 100,
        subagents: header["subagents"] == true,
        review_by: header["review_by"].as_str().map(str::to_owned),
        docker: header["docker"].as_str().and_then(|address| address.parse().ok()),
    };
    let cancel = cancel_on_ctrl_c()?;
    println!("resuming {id}: a fresh box, the policy as it is now, none of the earlier grants");
    for lost in agent::ask::granted(&records) {
        println!("  not restored: {}: {}", lost.covers(), lost.shown.lines().next().unwrap_or_default());
    }
    Job { task: args.task.clone(), args, earlier: Some((id.to_owned(), records)) }.run(state, &cancel)
}

/// Watches the session again, from its log.
fn monitor(state: &State, id: &str, json: bool, rules: Option<&Path>) -> Result<Exit, Fatal> {
    let rules = match rules {
        None => Rules::shipped(),
        Some(path) => Rules::parse(&path.display().to_string(), &std::fs::read_to_string(path)?)
            .map_err(|error| Fatal::config(error, "correct the file, or leave --rules out"))?,
    };
    let records: Vec<audit::Record> = audit::read(&log_path(state, id)?)?.map_while(Result::ok).collect();
    let flags = replay(rules, &records);
    for flag in &flags {
        if json {
            println!("{}", serde_json::to_string(flag)?);
            continue;
        }
        let finding = &flag.finding;
        let evidence: Vec<String> = finding.evidence.iter().map(u64::to_string).collect();
        let because =
            if evidence.is_empty() { String::new() } else { format!(" (see record {})", evidence.join(", ")) };
        println!(
            "record {:<5} {:?} {}{because}\n    {}",
            flag.record,
            finding.severity,
            finding.rule.name(),
            finding.what
        );
    }
    if flags.is_empty() && !json {
        println!("no rule of the monitor finds anything in {id}");
    }
    Ok(Exit::Done)
}

/// The answer is the last record of the parked session's log: it seals it, so there is only one.
fn answer_question(state: &State, id: &str, answer: YesOrNo) -> Result<Exit, Fatal> {
    let (_, records) = read(state, id)?;
    let Some(Ending::Parked { question }) = ended(&records) else {
        let error = anyhow::anyhow!("no question of session {id} waits for an answer");
        return Err(Fatal::config(error, "`cloister sessions list` shows which sessions are parked"));
    };
    let hint = format!("`cloister sessions show {id}` shows whether it was answered already");
    let mut log = Log::resume(&log_path(state, id)?, Key::load(state.home.path())?)
        .map_err(|error| Fatal::config(error, hint))?;
    for line in question.shown.lines() {
        println!("  | {line}");
    }
    let answer = match answer {
        YesOrNo::Yes => Answer::Yes,
        YesOrNo::No => Answer::No,
    };
    let record = Record::Answered { question: *question, answer };
    log.append("answered", serde_json::to_value(record)?, None, Durability::Synced)?;
    let head = log.seal()?;
    println!(
        "answered {}; go on with `cloister sessions resume {id}`\nlog: {} records, head {head}",
        if answer.is_yes() { "yes" } else { "no" },
        head.count
    );
    Ok(Exit::Done)
}

fn read(state: &State, id: &str) -> Result<(Value, Vec<Record>), Fatal> {
    let mut header = Value::Null;
    let mut records = Vec::new();
    for entry in audit::read(&log_path(state, id)?)? {
        let Ok(entry) = entry else { break };
        if entry.kind == "header" {
            header = entry.body;
        } else if let Ok(record) = serde_json::from_value(entry.body) {
            records.push(record);
        }
    }
    Ok((header, records))
}

/// Every action of a session that was judged, and how.
pub fn verdicts(state: &State, id: &str) -> Result<Vec<Logged>, Fatal> {
    let entries: Vec<audit::Record> = audit::read(&log_path(state, id)?)?.map_while(Result::ok).collect();
    Ok(Logged::of_log(&entries))
}

/// The log of a session that exists.
pub fn log_path(state: &State, id: &str) -> Result<PathBuf, Fatal> {
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let path = directory(state, id).join("log.jsonl");
    if !plain || !path.is_file() {
        return Err(Fatal::missing(
            anyhow::anyhow!("there is no session `{id}`"),
            "`cloister sessions list` shows them",
        ));
    }
    Ok(path)
}

/// The ending by its name.
fn ending(records: &[Record]) -> Option<String> {
    ended(records).map(|ending| ending.name().to_owned())
}

/// How a session ended, from what the log says last.
fn ended(records: &[Record]) -> Option<Ending> {
    let mut session = agent::Session::new(agent::profile::Profile::for_model(""));
    for record in records {
        session.apply(record);
    }
    match session.step() {
        Step::End(ending) => Some(ending),
        _ => None,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// `20261130-090412` for seconds since 1970, in UTC. The civil-from-days algorithm is Howard Hinnant's.
pub fn stamp(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn seconds_become_a_date() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_827_696), "20000229-123456");
        assert_eq!(stamp(1_796_028_973), "20261130-085613");
    }
}
