//! What happened, for a person who is tired? One line an event, indented below its cause, in plain words.
//!
//! Everything in a log may come from a model or a repository, so every word of it is made safe for a terminal.

use std::collections::HashMap;

use serde_json::Value;

use super::Record;
use crate::text::{quote, redact_secrets};

/// The most of one quoted text, in bytes.
const QUOTE_BYTES_MAX: usize = 160;
/// Of one text, what is looked at at all, in bytes.
const LOOKED_AT_BYTES_MAX: usize = 4_096;
/// Files that one line names.
const FILES_SHOWN_MAX: usize = 6;
/// Digits of a digest that are shown: enough to compare by eye.
const DIGEST_SHOWN: usize = 12;
/// Deeper causes are not indented further.
const INDENT_MAX: usize = 6;
/// Kinds that begin at the left: what follows from them is indented below them.
const ROOTS: [&str; 8] = ["header", "opened", "resumed", "replied", "stopped", "repaired", "sealed", "closed"];

/// Tells a log, record after record.
#[derive(Debug, Default)]
pub struct Story {
    began_ms: Option<u64>,
    /// Of the session and of each of its sub-agents.
    turns: HashMap<String, usize>,
    depth: HashMap<u64, usize>,
    /// Where the sub-agent that works began.
    child: usize,
}

impl Story {
    /// Before the first record.
    #[must_use]
    pub fn new() -> Story {
        Story::default()
    }

    /// One line, without its newline: the record's number, the time since the log began, and what happened.
    pub fn tell(&mut self, record: &Record) -> String {
        let began = *self.began_ms.get_or_insert(record.at_ms);
        let depth = self.depth_of(record);
        self.depth.insert(record.n, depth);
        let words = self.words(record);
        let indent = "  ".repeat(depth.min(INDENT_MAX));
        // Every line of a sub-agent says whose it is.
        let whose = agent(record).map(|id| format!("[{id}] ")).unwrap_or_default();
        format!("{:>4} {:>9}  {indent}{whose}{words}", record.n, clock(record.at_ms.saturating_sub(began)))
    }

    fn depth_of(&mut self, record: &Record) -> usize {
        let cause = record.parent.and_then(|parent| self.depth.get(&parent)).copied().unwrap_or(0);
        match (agent(record), record.kind.as_str()) {
            // What a sub-agent does stands below the verdict that let it start, and its end beside its beginning.
            (Some(_), "opened") => {
                self.child = cause + 1;
                return self.child;
            }
            (Some(_), "replied") => return self.child + 1,
            (Some(_), "stopped") | (None, "returned") => return self.child,
            (Some(_), _) => return cause + 1,
            (None, _) => {}
        }
        if ROOTS.contains(&record.kind.as_str()) {
            return 0;
        }
        cause + 1
    }

    fn words(&mut self, record: &Record) -> String {
        let body = happened(record);
        match record.kind.as_str() {
            "header" => header(body),
            "opened" if agent(record).is_some() => format!("A sub-agent begins: {}", quoted(&body["task"])),
            "opened" => opened(body),
            "resumed" => "A person resumed the session; no permission of the earlier one is kept.".into(),
            "replied" => {
                let turn = self.turns.entry(agent(record).unwrap_or_default()).or_default();
                *turn += 1;
                replied(*turn, body)
            }
            "verdict" => verdict(body),
            "job" => format!("Runs {} in the box.", code(&argv(&body["argv"]))),
            "wrote" => format!("Really written: {}.", files(body)),
            "observed" => format!("Done: {}", text(&body["text"])),
            "refused" => format!("Not done: {}", text(&body["why"])),
            "tested" => format!("The tests ran: {}.", tests(&body["run"])),
            "flag" => flag(body),
            "hook" => hook(body),
            "told" => format!("The hook {} adds: {}", text(&body["by"]), text(&body["text"])),
            "sent_on" => format!("The hook {} does not let it end: {}", text(&body["by"]), text(&body["why"])),
            "answered" => answered(body),
            "compacted" => "The conversation no longer fitted the model: its older half was left out.".into(),
            "returned" => returned(body),
            "restored" => "Taken back: the files are as they were before the attempt.".into(),
            "verified" => verified(&body["report"]),
            "applying" => format!("Puts the change into the working tree: {}.", files(body)),
            "applied" => applied(body),
            "apply_failed" => format!("The change was NOT put into the working tree: {}", text(&body["why"])),
            "stopped" => format!("Ended: {}.", ending(&body["ending"])),
            "repaired" => format!(
                "The log ended in half a record of {} bytes, as a crash leaves it; that was cut off.",
                text(&body["cut_bytes"])
            ),
            "sealed" => "Sealed: nothing follows.".into(),
            other => format!("{}: {}", safe(&other.replace('_', " ")), fields(body)),
        }
    }
}

/// The sub-agent whose record it is.
fn agent(record: &Record) -> Option<String> {
    let theirs = record.kind != "returned";
    record.body["agent_id"].as_str().filter(|_| theirs).map(safe)
}

/// What a record tells, also where it happened to a sub-agent.
pub(super) fn happened(record: &Record) -> &Value {
    if record.body["record"] == "child" { &record.body["happened"] } else { &record.body }
}

/// `0:03.2` since the log began, `1:02:03.4` after an hour.
fn clock(ms: u64) -> String {
    let (hours, minutes, seconds, tenths) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms / 100 % 10);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}.{tenths}")
    } else {
        format!("{minutes}:{seconds:02}.{tenths}")
    }
}

fn header(body: &Value) -> String {
    let mut words = format!("Session {} begins: {}", text(&body["session"]), quoted(&body["task"]));
    for (name, key) in [("repository", "repo"), ("model", "model"), ("mode", "mode"), ("continues", "continues")] {
        if let Some(value) = body[key].as_str() {
            words += &format!("; {name} {}", safe(value));
        }
    }
    for (name, key) in [("model", "model_sha256"), ("policy", "policy_sha256")] {
        if let Some(digest) = body[key].as_str() {
            words += &format!("; {name} sha256 {}", short(digest));
        }
    }
    if let Some(generation) = body["index_generation"].as_u64() {
        words += &format!("; index generation {generation}");
    }
    words + "."
}

fn opened(body: &Value) -> String {
    let files = body["files"].as_array().map_or(0, Vec::len);
    let tests = match &body["tests"] {
        Value::Null => "no tests are known".into(),
        run => format!("before any change the tests say {}", tests(run)),
    };
    format!("Looked at the repository: {files} files; {tests}.")
}

fn replied(turn: usize, body: &Value) -> String {
    let usage = &body["usage"];
    let number = |key: &str| usage[key].as_u64().unwrap_or(0);
    let seconds = number("millis") as f64 / 1_000.0;
    let prompt = body["prompt_sha256"].as_str().map(|digest| format!(", sha256 {}", short(digest)));
    format!(
        "Turn {turn}. Asked with {} tokens{}, the model said {} ({} tokens, {seconds:.1} s)",
        number("prompt_tokens"),
        prompt.unwrap_or_default(),
        quoted(&body["text"]),
        number("generated_tokens")
    )
}

fn verdict(body: &Value) -> String {
    let judgement = &body["judgement"];
    let mut words = format!("It asks to {}: ", asked(&body["call"]));
    let by = |step: &Value| match step["rule"].as_str() {
        Some(rule) => format!("{} {}", text(&step["layer"]), safe(rule)),
        None => text(&step["layer"]),
    };
    if judgement["verdict"] == "allow" {
        let layers: Vec<String> = judgement["trace"].as_array().into_iter().flatten().map(by).collect();
        let layers = if layers.is_empty() { by(judgement) } else { layers.join(", ") };
        return words + &format!("allowed by {layers}.");
    }
    let verdict = if judgement["verdict"] == "ask" { "needs a person's yes" } else { "DENIED" };
    words += &format!("{verdict}, by {}: {}", by(judgement), text(&judgement["reason"]));
    if let Some(instead) = judgement["instead"].as_str().filter(|instead| !instead.is_empty()) {
        words += &format!(" Instead: {}", safe(instead));
    }
    words
}

fn flag(body: &Value) -> String {
    let evidence: Vec<String> = body["evidence"].as_array().into_iter().flatten().map(text).collect();
    let evidence = if evidence.is_empty() { String::new() } else { format!(" See records {}.", evidence.join(", ")) };
    format!("SUSPICIOUS ({}, {}): {}{evidence}", text(&body["severity"]), text(&body["rule"]), text(&body["what"]))
}

fn returned(body: &Value) -> String {
    let spent = |key: &str| body["spent"][key].as_u64().unwrap_or(0);
    let end = match body["ending"]["name"].as_str() {
        Some("unverified") => "done".into(),
        _ => ending(&body["ending"]),
    };
    format!(
        "The sub-agent {} ({}) came back: {end}. It spent {} tokens, {} actions, {} s.",
        text(&body["agent_id"]),
        text(&body["agent_type"]),
        spent("model_tokens"),
        spent("calls"),
        spent("seconds")
    )
}

fn hook(body: &Value) -> String {
    let words = match body["decision"].as_str().unwrap_or_default() {
        "block" => "blocks",
        "ask" => "wants a person to be asked",
        _ => "has nothing against it",
    };
    let why = ["failure", "reason"].iter().find_map(|key| body[*key].as_str().filter(|why| !why.is_empty()));
    let why = why.map_or(".".into(), |why| format!(": {}", safe(why)));
    format!("The hook {} ({}) {words}{why}", text(&body["hook"]), text(&body["event"]))
}

fn answered(body: &Value) -> String {
    let answer = match body["answer"].as_str().unwrap_or_default() {
        "yes" => "said yes, this time",
        "yes_for_session" => "said yes, for the rest of the session",
        "silence" => "did not answer in time, which is a no",
        _ => "said no",
    };
    format!("Asked about {}, a person {answer}.", code(&text(&body["question"]["shown"])))
}

/// A call in plain words; of a call that this program does not know, its name and its arguments.
fn asked(call: &Value) -> String {
    let path = || safe(call["path"].as_str().unwrap_or("some file"));
    match call["name"].as_str().unwrap_or_default() {
        "list_dir" => format!("list {}", path()),
        "read_file" => format!("read {}", path()),
        "search" => format!("search for {}", quoted(&call["query"])),
        "grep" => format!("find lines with {}", quoted(&call["pattern"])),
        "edit_file" => format!("change {}", path()),
        "edit_line" => format!("change the line {} of {}", quoted(&call["from"]), path()),
        "report_impossible" => format!("end, because it says that it cannot be done: {}", quoted(&call["why"])),
        "write_file" => format!("write the new file {}", path()),
        "run_command" => format!("run {}", code(&text(&call["command"]))),
        "run_tests" => "run the tests".into(),
        "task" => format!("have a sub-agent ({}) do {}", text(&call["subagent_type"]), quoted(&call["prompt"])),
        "finish" => "end, because it says that it is done".into(),
        other => format!("do {} ({})", safe(other), fields(call)),
    }
}

fn files(body: &Value) -> String {
    let files: Vec<&Value> = body["files"].as_array().into_iter().flatten().collect();
    let is_litter = |file: &&Value| file["path"].as_str().is_some_and(|path| path.contains("__pycache__"));
    let (litter, own): (Vec<&Value>, Vec<&Value>) = files.iter().copied().partition(is_litter);
    let mut told: Vec<String> = own.iter().take(FILES_SHOWN_MAX).map(|file| one_file(file)).collect();
    let all = body["files_all"].as_u64().map_or(files.len(), |all| all as usize);
    let more = all.saturating_sub(told.len() + litter.len());
    if more > 0 {
        told.push(format!("{more} more"));
    }
    if !litter.is_empty() {
        told.push(format!("{} compiled by Python in __pycache__", litter.len()));
    }
    told.join(", ")
}

fn one_file(file: &Value) -> String {
    let is = match file["is"].as_str().unwrap_or_default() {
        "created" => "new",
        "removed" => "removed",
        "as_before" => "as before",
        "unreadable" => "too large, or no regular file",
        _ => "changed",
    };
    let digest = file["sha256"].as_str().map(|digest| format!(", sha256 {}", short(digest)));
    format!("{} ({is}{})", text(&file["path"]), digest.unwrap_or_default())
}

fn tests(run: &Value) -> String {
    let command = code(&text(&run["command"]));
    let said = match (run["failed"].as_u64(), run["ran"].as_u64()) {
        (Some(0), Some(ran)) => format!("all {ran} pass"),
        // Sub-tests fail more than once in one test.
        (Some(failed), Some(ran)) if failed > ran => format!("{failed} failures"),
        (Some(failed), Some(ran)) => format!("{failed} of {ran} fail"),
        (Some(failed), None) if failed > 0 => format!("{failed} fail"),
        _ => text(&run["ended"]),
    };
    format!("{said} ({command}, {} ms)", run["millis"].as_u64().unwrap_or(0))
}

fn verified(report: &Value) -> String {
    let rungs: Vec<&Value> = report["rungs"].as_array().into_iter().flatten().collect();
    let failed: Vec<&&Value> = rungs.iter().filter(|rung| rung["mark"] == "failed").collect();
    let held = rungs.iter().filter(|rung| rung["mark"] == "passed");
    let names: Vec<String> = held.map(|rung| text(&rung["name"])).collect();
    let mut words = if failed.is_empty() && !names.is_empty() {
        format!("Verified: {} hold.", names.join(", "))
    } else {
        let why = failed.iter().map(|rung| format!("{}: {}", text(&rung["name"]), text(&rung["detail"])));
        format!("NOT verified: {}", why.collect::<Vec<_>>().join("; "))
    };
    for rung in rungs.iter().filter(|rung| rung["mark"] == "unknown") {
        words += &format!(" NOT KNOWN: {}: {}", text(&rung["name"]), text(&rung["detail"]));
    }
    let dropped: Vec<String> = report["dropped"].as_array().into_iter().flatten().map(text).collect();
    if !dropped.is_empty() {
        words += &format!(" Put back: {}.", dropped.join(", "));
    }
    words
}

fn applied(body: &Value) -> String {
    let hunk = body["hunk"].as_str().map(|hunk| format!(" {}", safe(hunk)));
    format!("Applied to the working tree: {}{}.", one_file(body), hunk.unwrap_or_default())
}

fn ending(ending: &Value) -> String {
    let name = text(&ending["name"]).replace('_', " ");
    let why = ["why", "which", "attempts"].iter().map(|key| &ending[*key]).find(|value| !value.is_null());
    match why {
        Some(why) => format!("{name}: {}", text(why)),
        None => name,
    }
}

fn argv(words: &Value) -> String {
    words.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// The plain fields of a body, for kinds that came later than this program.
fn fields(body: &Value) -> String {
    let told = |(key, value): (&String, &Value)| match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        _ if matches!(key.as_str(), "record" | "name") => None,
        value => Some(format!("{} {}", safe(key), text(value))),
    };
    body.as_object().into_iter().flatten().filter_map(told).collect::<Vec<_>>().join(", ")
}

fn short(digest: &str) -> String {
    safe(digest).chars().take(DIGEST_SHOWN).collect()
}

fn quoted(value: &Value) -> String {
    format!("\"{}\"", text(value))
}

fn code(text: &str) -> String {
    format!("`{}`", safe(text))
}

/// One safe line, whatever the value is.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => safe(text),
        Value::Null => "-".into(),
        other => safe(&other.to_string()),
    }
}

/// One bounded line without anything that acts on a terminal or is a credential.
pub(super) fn safe(raw: &str) -> String {
    // Credentials are looked for in more than is shown, so that none is cut into a shape that is not recognised.
    let (line, _) = redact_secrets(&quote(&raw[..raw.floor_char_boundary(LOOKED_AT_BYTES_MAX)], LOOKED_AT_BYTES_MAX));
    quote(line.trim(), QUOTE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(n: u64, at_ms: u64, kind: &str, parent: Option<u64>, body: Value) -> Record {
        Record { n, at_ms, prev: String::new(), kind: kind.into(), parent, body, mac: String::new() }
    }

    fn told(records: &[Record]) -> String {
        let mut story = Story::new();
        records.iter().map(|record| story.tell(record)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_the_verifier_really_writes_is_told_as_what_it_was() {
        use crate::verify::{Mark, Report, Rung};
        for (mark, words) in [
            (Mark::Failed, "NOT verified: tests: 1 failed"),
            (Mark::Passed, "Verified: tests hold."),
            (Mark::Unknown, "NOT KNOWN: tests: 1 failed"),
        ] {
            let rung = Rung { name: "tests".into(), mark, detail: "1 failed".into() };
            let body = json!({ "report": Report { rungs: vec![rung], ..Report::default() } });
            let story = told(&[record(0, 0, "verified", None, body)]);
            assert!(story.contains(words), "{story}");
        }
    }

    #[test]
    fn a_session_reads_like_a_story() {
        let run =
            json!({ "command": "make test", "passed": true, "ended": "exit 0", "failed": 0, "ran": 2, "millis": 40 });
        let trace = json!([{ "layer": "tools", "verdict": "allow", "rule": "edits" }, { "layer": "paths", "verdict": "allow", "rule": "source" }]);
        let allow = json!({ "verdict": "allow", "layer": "tools", "rule": "edits", "reason": "", "instead": "", "trace": trace });
        let file = json!({ "path": "calc.py", "is": "changed", "sha256": "ab".repeat(32), "size_bytes": 30 });
        let records = [
            record(0, 1_000, "header", None, json!({ "session": "s1", "task": "fix add", "model": "m" })),
            record(1, 1_500, "opened", Some(0), json!({ "files": ["calc.py", "test.py"], "tests": null })),
            record(
                2,
                4_200,
                "replied",
                Some(1),
                json!({ "text": "The sign\nis wrong.", "usage": { "prompt_tokens": 90, "generated_tokens": 7, "millis": 2_700 } }),
            ),
            record(
                3,
                4_210,
                "verdict",
                Some(2),
                json!({ "call": { "name": "edit_file", "path": "calc.py" }, "judgement": allow }),
            ),
            record(4, 4_220, "wrote", Some(3), json!({ "files": [file], "files_all": 1 })),
            record(5, 4_260, "tested", Some(4), json!({ "run": run })),
            record(
                6,
                64_300,
                "verified",
                Some(5),
                json!({ "report": { "rungs": [{ "name": "tests", "mark": "passed", "detail": "" }], "dropped": [] } }),
            ),
            record(7, 3_665_000, "sealed", Some(6), json!({})),
        ];
        let expected = "   \
   0    0:00.0  Session s1 begins: \"fix add\"; model m.
   1    0:00.5  Looked at the repository: 2 files; no tests are known.
   2    0:03.2  Turn 1. Asked with 90 tokens, the model said \"The sign is wrong.\" (7 tokens, 2.7 s)
   3    0:03.2    It asks to change calc.py: allowed by tools edits, paths source.
   4    0:03.2      Really written: calc.py (changed, sha256 abababababab).
   5    0:03.2        The tests ran: all 2 pass (`make test`, 40 ms).
   6    1:03.3          Verified: tests hold.
   7 1:01:04.0  Sealed: nothing follows.";
        assert_eq!(told(&records), expected);
    }

    #[test]
    fn what_a_sub_agent_does_stands_below_what_let_it_start_and_says_whose_it_is() {
        let allow = json!({ "verdict": "allow", "layer": "tools", "rule": "delegate", "reason": "", "instead": "", "trace": [] });
        let theirs = |happened: Value| json!({ "record": "child", "agent_id": "a1", "happened": happened });
        let task = json!({ "name": "task", "subagent_type": "Explore", "prompt": "where is f" });
        let records = [
            record(0, 0, "replied", None, json!({ "text": "I ask.", "usage": {} })),
            record(1, 0, "verdict", Some(0), json!({ "call": task, "judgement": allow })),
            record(2, 0, "opened", Some(1), theirs(json!({ "task": "where is f", "files": ["a.py"], "tests": null }))),
            record(3, 0, "replied", Some(2), theirs(json!({ "text": "I look.", "usage": {} }))),
            record(
                4,
                0,
                "verdict",
                Some(3),
                json!({ "agent_id": "a1", "call": { "name": "read_file", "path": "a.py" }, "judgement": allow }),
            ),
            record(
                5,
                0,
                "returned",
                Some(4),
                json!({ "agent_id": "a1", "agent_type": "Explore", "ending": { "name": "unverified" },
                        "spent": { "model_tokens": 70, "calls": 1, "seconds": 2 } }),
            ),
            record(6, 0, "observed", Some(5), json!({ "text": "The sub-agent says so." })),
            record(7, 0, "replied", Some(0), json!({ "text": "Good.", "usage": {} })),
        ];
        let expected = "   \
   0    0:00.0  Turn 1. Asked with 0 tokens, the model said \"I ask.\" (0 tokens, 0.0 s)
   1    0:00.0    It asks to have a sub-agent (Explore) do \"where is f\": allowed by tools delegate.
   2    0:00.0      [a1] A sub-agent begins: \"where is f\"
   3    0:00.0        [a1] Turn 1. Asked with 0 tokens, the model said \"I look.\" (0 tokens, 0.0 s)
   4    0:00.0          [a1] It asks to read a.py: allowed by tools delegate.
   5    0:00.0      The sub-agent a1 (Explore) came back: done. It spent 70 tokens, 1 actions, 2 s.
   6    0:00.0        Done: The sub-agent says so.
   7    0:00.0  Turn 2. Asked with 0 tokens, the model said \"Good.\" (0 tokens, 0.0 s)";
        assert_eq!(told(&records), expected);
    }

    #[test]
    fn a_refusal_names_layer_rule_reason_and_what_to_do_instead() {
        let deny = json!({ "verdict": "deny", "layer": "commands", "rule": "no-rm", "reason": "It removes everything.", "instead": "remove one file", "trace": [] });
        let body = json!({ "call": { "name": "run_command", "command": "rm -rf /" }, "judgement": deny });
        let line = told(&[record(3, 0, "verdict", None, body)]);
        assert!(
            line.ends_with(
                "It asks to run `rm -rf /`: DENIED, by commands no-rm: It removes everything. Instead: remove one file"
            ),
            "{line}"
        );
    }

    #[test]
    fn what_hooks_the_monitor_and_people_said_is_told() {
        let hook =
            json!({ "hook": "lint", "event": "PreToolUse", "decision": "block", "reason": "", "failure": "timed out" });
        let flag = json!({ "rule": "secret-out", "severity": "high", "what": "A key was read.", "evidence": [3, 5] });
        let question = json!({ "question": { "shown": "git push" }, "answer": "silence" });
        let lines = [("hook", hook), ("flag", flag), ("answered", question)]
            .map(|(kind, body)| told(&[record(1, 0, kind, None, body)]).split_once("0.0    ").unwrap().1.to_owned());
        assert_eq!(
            lines,
            [
                "The hook lint (PreToolUse) blocks: timed out",
                "SUSPICIOUS (high, secret-out): A key was read. See records 3, 5.",
                "Asked about `git push`, a person did not answer in time, which is a no.",
            ]
        );
    }

    #[test]
    fn a_kind_of_tomorrow_is_told_by_its_fields() {
        let line = told(&[record(
            9,
            0,
            "monitor_flag",
            None,
            json!({ "rule": "secret-then-net", "severity": "high", "trace": [1] }),
        )]);
        assert!(line.ends_with("monitor flag: rule secret-then-net, severity high"), "{line}");
    }

    #[test]
    fn hostile_text_stays_on_its_line_and_cannot_act_on_the_terminal() {
        let hostile = "\u{1b}[2Jx\r\n\u{202e}\u{7}ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let all =
            ["header", "opened", "replied", "verdict", "job", "wrote", "observed", "refused", "tested", "verified"];
        for kind in all.iter().chain(&[
            "applied", "returned", "flag", "hook", "told", "answered", "stopped", "repaired", "sealed", hostile,
        ]) {
            let body = json!({
                "session": hostile, "task": hostile, "text": hostile, "why": hostile, "path": hostile, "argv": [hostile],
                "call": { "name": hostile, "path": hostile }, "judgement": { "verdict": "deny", "reason": hostile, "layer": hostile },
                "files": [{ "path": hostile, "is": hostile, "sha256": hostile }], "run": { "command": hostile, "ended": hostile },
                "report": { "rungs": [{ "name": hostile, "mark": "failed", "detail": hostile }], "dropped": [hostile] },
                "ending": { "name": hostile, "why": hostile }, "cut_bytes": hostile, "hunk": hostile, hostile: hostile,
            });
            let line = told(&[record(1, 0, kind, None, body.clone())]);
            let child = json!({ "record": "child", "happened": body, "agent_id": hostile });
            let line = line + &told(&[record(1, 0, kind, None, child)]);
            assert!(!line.chars().any(|c| c.is_control() || crate::text::is_invisible(c)), "{kind:?}: {line:?}");
            assert!(!line.contains("ghp_aaaa"), "{line}");
        }
    }
}
