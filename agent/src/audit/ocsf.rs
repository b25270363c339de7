//! How does a log reach the tools of a security team? As events of the Open Cybersecurity Schema Framework.
//!
//! Names and numbers are those of OCSF 1.3: `class_uid`, `activity_id` and `type_uid` = class * 100 + activity; the
//! outcome of the gate as `action_id` and `disposition_id` of the profile `security_control`. What the schema has no
//! place for is in `unmapped`: the record's number, its cause and its MAC, so that each event leads back to the log.
//! The texts of prompts and files stay in the log.

use serde_json::{Value, json};

use super::Record;
use super::story::{happened, safe, text};

/// The version of the schema that the events follow.
pub const OCSF_VERSION: &str = "1.3.0";

const SUCCESS: u8 = 1;
const FAILURE: u8 = 2;

/// A class of the schema, as far as it is used here.
#[derive(Clone, Copy)]
enum Class {
    Base,
    FileSystem,
    Process,
    Detection,
    Lifecycle,
    Api,
}

impl Class {
    /// `(class_uid, class_name, category_uid, category_name)`
    fn names(self) -> (u32, &'static str, u32, &'static str) {
        match self {
            Class::Base => (0, "Base Event", 0, "Uncategorized"),
            Class::FileSystem => (1001, "File System Activity", 1, "System Activity"),
            Class::Process => (1007, "Process Activity", 1, "System Activity"),
            Class::Detection => (2004, "Detection Finding", 2, "Findings"),
            Class::Lifecycle => (6002, "Application Lifecycle", 6, "Application Activity"),
            Class::Api => (6003, "API Activity", 6, "Application Activity"),
        }
    }
}

/// `severity_id` of the schema.
#[derive(Clone, Copy)]
enum Severity {
    Informational = 1,
    Low = 2,
    Medium = 3,
    High = 4,
    Critical = 5,
}

/// One event before its common fields.
struct Event {
    class: Class,
    activity: (u32, &'static str),
    severity: Severity,
    message: String,
    more: Value,
}

/// Exports a log, record after record.
#[derive(Debug, Default)]
pub struct Ocsf {
    session: String,
    model: String,
    version: String,
}

impl Ocsf {
    /// Before the first record.
    #[must_use]
    pub fn new() -> Ocsf {
        Ocsf::default()
    }

    /// The events of one record: one, or one for each file that was written.
    pub fn events(&mut self, record: &Record) -> Vec<Value> {
        if record.kind == "header" {
            self.session = text(&record.body["session"]);
            self.model = text(&record.body["model"]);
            self.version = text(&record.body["version"]);
        }
        let events = match record.kind.as_str() {
            "wrote" => files(happened(record)),
            _ => vec![self.event(record)],
        };
        let several = events.len() > 1;
        let uid = |at: usize| if several { format!("{}/{}.{at}", self.session, record.n) } else { self.uid(record) };
        events.into_iter().enumerate().map(|(at, event)| self.complete(record, &uid(at), event)).collect()
    }

    fn uid(&self, record: &Record) -> String {
        format!("{}/{}", self.session, record.n)
    }

    fn event(&self, record: &Record) -> Event {
        let body = happened(record);
        let app = json!({ "app": { "name": "Cloister", "vendor_name": "Cloister", "version": self.version } });
        let life =
            |activity, severity, message| Event { class: Class::Lifecycle, activity, severity, message, more: app };
        let quiet = Severity::Informational;
        match record.kind.as_str() {
            "header" => life((3, "Start"), quiet, format!("session {} begins: {}", self.session, text(&body["task"]))),
            "resumed" => life((3, "Start"), quiet, "a person resumed the session".into()),
            "stopped" => {
                let failed = body["ending"]["name"] == "failed";
                let severity = if failed { Severity::Low } else { quiet };
                life((4, "Stop"), severity, format!("ended: {}", text(&body["ending"]["name"])))
            }
            "sealed" => life((4, "Stop"), quiet, "the log is sealed".into()),
            "repaired" => finding(
                self.uid(record),
                Severity::Low,
                "torn tail of the audit log",
                format!("half a record of {} bytes was cut off after a crash", text(&body["cut_bytes"])),
            ),
            "returned" => {
                let message =
                    format!("the sub-agent {} ended: {}", text(&body["agent_id"]), text(&body["ending"]["name"]));
                api((99, "Other"), "task", "Cloister", &Value::Null, message)
            }
            "replied" => api((99, "Other"), "complete", &self.model, &Value::Null, "the model replied".into()),
            "verdict" => self.verdict(record),
            "job" => process((1, "Launch"), body, quiet, "a job starts in the box".into()),
            "tested" => tested(&body["run"]),
            "verified" => verified(&body["report"], self.uid(record)),
            "applied" => applied(body),
            "apply_failed" => {
                finding(self.uid(record), Severity::Medium, "a verified change was not applied", text(&body["why"]))
            }
            "hook" if body["decision"] != "nothing" => {
                let title = format!("a hook said {}", text(&body["decision"]));
                let why = if body["failure"].is_string() { &body["failure"] } else { &body["reason"] };
                let mut event = finding(self.uid(record), Severity::Medium, &title, text(why));
                event.more["finding_info"]["analytic"] = analytic(&body["hook"]);
                event
            }
            kind if body.get("rule").is_some() => flagged(kind, body, self.uid(record)),
            kind => Event {
                class: Class::Base,
                activity: (99, "Other"),
                severity: quiet,
                message: safe(&kind.replace('_', " ")),
                more: json!({}),
            },
        }
    }

    /// What was allowed is a call; what was not is a finding about one.
    fn verdict(&self, record: &Record) -> Event {
        let (call, judgement) = (&record.body["call"], &record.body["judgement"]);
        let name = call["name"].as_str().unwrap_or("unknown");
        let activity = match name {
            "write_file" => (1, "Create"),
            "list_dir" | "read_file" | "search" | "grep" => (2, "Read"),
            "edit_file" | "edit_line" => (3, "Update"),
            _ => (99, "Other"),
        };
        if judgement["verdict"] == "allow" {
            let mut event = api(activity, name, "Cloister", &call["path"], format!("{} was allowed", safe(name)));
            set(
                &mut event.more,
                json!({ "action_id": 1, "action": "Allowed", "disposition_id": 1, "disposition": "Allowed" }),
            );
            return event;
        }
        let severity = match judgement["layer"].as_str() {
            Some("monitor") => Severity::High,
            Some("hooks") => Severity::Medium,
            _ => Severity::Low,
        };
        let title = format!("{} was refused by {}", safe(name), text(&judgement["layer"]));
        let mut event = finding(self.uid(record), severity, &title, text(&judgement["reason"]));
        set(
            &mut event.more,
            json!({ "action_id": 2, "action": "Denied", "disposition_id": 2, "disposition": "Blocked" }),
        );
        event.more["finding_info"]["analytic"] = analytic(&judgement["rule"]);
        if let Some(path) = call["path"].as_str() {
            event.more["resources"] = json!([{ "type": "file", "name": safe(path) }]);
        }
        event
    }

    fn complete(&self, record: &Record, uid: &str, event: Event) -> Value {
        let (class, class_name, category, category_name) = event.class.names();
        let (activity, activity_name) = event.activity;
        let mut whole = json!({
            "class_uid": class, "class_name": class_name, "category_uid": category, "category_name": category_name,
            "activity_id": activity, "activity_name": activity_name,
            "type_uid": class * 100 + activity, "type_name": format!("{class_name}: {activity_name}"),
            "severity_id": event.severity as u8, "severity": name_of(event.severity),
            "time": record.at_ms, "message": event.message,
            "actor": { "app_name": "Cloister", "session": { "uid": self.session } },
            "metadata": {
                "version": OCSF_VERSION, "uid": uid, "sequence": record.n, "correlation_uid": self.session,
                "log_name": "audit", "event_code": safe(&record.kind), "profiles": ["security_control"],
                "product": { "name": "Cloister", "vendor_name": "Cloister", "version": self.version },
            },
            "unmapped": { "record": record.n, "cause": record.parent, "prev": safe(&record.prev), "mac": safe(&record.mac) },
        });
        if let Some(id) = record.body["agent_id"].as_str() {
            whole["unmapped"]["agent_id"] = safe(id).into();
        }
        set(&mut whole, event.more);
        whole
    }
}

fn name_of(severity: Severity) -> &'static str {
    match severity {
        Severity::Informational => "Informational",
        Severity::Low => "Low",
        Severity::Medium => "Medium",
        Severity::High => "High",
        Severity::Critical => "Critical",
    }
}

fn set(event: &mut Value, more: Value) {
    if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
        event.extend(more);
    }
}

fn finding(uid: String, severity: Severity, title: &str, desc: String) -> Event {
    let message = format!("{title}: {desc}");
    let more = json!({
        "finding_info": { "uid": uid, "title": title, "desc": desc },
        "is_alert": matches!(severity, Severity::High | Severity::Critical),
    });
    Event { class: Class::Detection, activity: (1, "Create"), severity, message, more }
}

fn analytic(rule: &Value) -> Value {
    json!({ "type_id": 1, "type": "Rule", "name": text(rule) })
}

/// A record of another layer that names a rule: a hook, the monitor.
fn flagged(kind: &str, body: &Value, uid: String) -> Event {
    let severity = match body["severity"].as_str() {
        Some("critical") => Severity::Critical,
        Some("high") => Severity::High,
        Some("medium") => Severity::Medium,
        Some("low") => Severity::Low,
        _ => Severity::Informational,
    };
    let title = format!("{}: {}", safe(&kind.replace('_', " ")), text(&body["rule"]));
    let why = ["what", "reason", "why"].iter().find_map(|key| body.get(*key)).unwrap_or(&Value::Null);
    let mut event = finding(uid, severity, &title, text(why));
    event.more["finding_info"]["analytic"] = analytic(&body["rule"]);
    event
}

fn api(activity: (u32, &'static str), operation: &str, service: &str, path: &Value, message: String) -> Event {
    let mut more = json!({
        "api": { "operation": safe(operation), "service": { "name": safe(service) } },
        "src_endpoint": { "name": "cloister", "type_id": 0 },
    });
    if path.is_string() {
        more["resources"] = json!([{ "type": "file", "name": text(path) }]);
    }
    Event { class: Class::Api, activity, severity: Severity::Informational, message, more }
}

fn device() -> Value {
    json!({ "name": "box", "type_id": 6, "type": "Virtual" })
}

fn process(activity: (u32, &'static str), body: &Value, severity: Severity, message: String) -> Event {
    let words = body["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    let line = body["command"].as_str().map_or(words, str::to_owned);
    let name = line.split(' ').next().unwrap_or_default();
    let more = json!({ "device": device(), "process": { "name": safe(name), "cmd_line": safe(&line) } });
    Event { class: Class::Process, activity, severity, message, more }
}

fn tested(run: &Value) -> Event {
    let ended = text(&run["ended"]);
    let mut event = process((2, "Terminate"), run, Severity::Informational, format!("the tests ended: {ended}"));
    if let Some(code) = ended.strip_prefix("exit ").and_then(|code| code.parse::<i64>().ok()) {
        event.more["exit_code"] = code.into();
    }
    set(&mut event.more, status(run["passed"] == true));
    event.more["duration"] = run["millis"].as_u64().into();
    event
}

fn status(good: bool) -> Value {
    json!({ "status_id": if good { SUCCESS } else { FAILURE }, "status": if good { "Success" } else { "Failure" } })
}

fn verified(report: &Value, uid: String) -> Event {
    let held = |rung: &&Value| rung["mark"] != "failed" && rung["mark"] != "unknown";
    let failed = report["rungs"].as_array().into_iter().flatten().find(|rung| !held(rung));
    match failed {
        None => {
            let mut event = api((99, "Other"), "verify", "Cloister", &Value::Null, "the change was verified".into());
            set(&mut event.more, status(true));
            event
        }
        Some(rung) => {
            let title = format!("the change did not pass: {}", text(&rung["name"]));
            finding(uid, Severity::Low, &title, text(&rung["detail"]))
        }
    }
}

fn files(body: &Value) -> Vec<Event> {
    let files = body["files"].as_array().into_iter().flatten();
    files.map(|file| file_event(file, device(), "in the box")).collect()
}

fn applied(body: &Value) -> Event {
    let mut event = file_event(body, json!({ "name": "host", "type_id": 0 }), "in the working tree");
    if let Some(hunk) = body["hunk"].as_str() {
        event.message += &format!(" {}", safe(hunk));
    }
    event
}

fn file_event(file: &Value, device: Value, place: &str) -> Event {
    let (activity, verb) = match file["is"].as_str().unwrap_or_default() {
        "created" => ((1, "Create"), "created"),
        "removed" => ((4, "Delete"), "removed"),
        "as_before" => ((3, "Update"), "put back"),
        _ => ((3, "Update"), "changed"),
    };
    let path = text(&file["path"]);
    let name = path.rsplit('/').next().unwrap_or(&path);
    let mut about = json!({ "name": name, "path": path, "type_id": 1, "type": "Regular File" });
    if let Some(digest) = file["sha256"].as_str() {
        about["hashes"] = json!([{ "algorithm_id": 3, "algorithm": "SHA-256", "value": safe(digest) }]);
    }
    if let Some(size) = file["size_bytes"].as_u64() {
        about["size"] = size.into();
    }
    let message = format!("{path} was {verb} {place}");
    let more = json!({ "device": device, "file": about });
    Event { class: Class::FileSystem, activity, severity: Severity::Informational, message, more }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(kind: &str, body: Value) -> Vec<Value> {
        let record = |n, kind: &str, body| Record {
            n,
            at_ms: 1_700_000_000_000 + n,
            prev: "00".into(),
            kind: kind.into(),
            parent: n.checked_sub(1),
            body,
            mac: "ff".into(),
        };
        let mut ocsf = Ocsf::new();
        let mut first = ocsf.events(&record(0, "header", json!({ "session": "s1", "model": "m", "version": "1.0.0" })));
        if kind != "header" {
            first = ocsf.events(&record(1, kind, body));
        }
        first
    }

    #[track_caller]
    fn check(kind: &str, body: Value, expected: (u64, u64, u64)) -> Value {
        let event = export(kind, body).remove(0);
        let number = |key: &str| event[key].as_u64().unwrap();
        assert_eq!((number("class_uid"), number("activity_id"), number("severity_id")), expected, "{event}");
        assert_eq!(number("type_uid"), number("class_uid") * 100 + number("activity_id"));
        assert_eq!(number("category_uid"), number("class_uid") / 1_000);
        event
    }

    #[test]
    fn each_kind_has_its_class_its_activity_and_its_severity() {
        let allow = json!({ "call": { "name": "edit_file", "path": "a.py" }, "judgement": { "verdict": "allow" } });
        check("header", json!({}), (6002, 3, 1));
        check("replied", json!({}), (6003, 99, 1));
        let event = check("verdict", allow, (6003, 3, 1));
        assert_eq!((&event["action_id"], &event["disposition_id"]), (&1.into(), &1.into()));
        check("job", json!({ "argv": ["make", "test"] }), (1007, 1, 1));
        let event =
            check("tested", json!({ "run": { "ended": "exit 2", "passed": false, "command": "make" } }), (1007, 2, 1));
        assert_eq!((&event["exit_code"], &event["status_id"]), (&2.into(), &2.into()));
        check("verified", json!({ "report": { "rungs": [{ "name": "tests", "mark": "passed" }] } }), (6003, 99, 1));
        check("verified", json!({ "report": { "rungs": [{ "name": "tests", "mark": "failed" }] } }), (2004, 1, 2));
        check("applied", json!({ "path": "a.py", "is": "changed" }), (1001, 3, 1));
        check("repaired", json!({ "cut_bytes": 3 }), (2004, 1, 2));
        check("sealed", json!({}), (6002, 4, 1));
        check("hook_ran", json!({}), (0, 99, 1));
        let event = check("flag", json!({ "rule": "secret-out", "severity": "high", "what": "w" }), (2004, 1, 4));
        check("hook", json!({ "hook": "h", "decision": "block", "reason": "r" }), (2004, 1, 3));
        assert_eq!(event["is_alert"], true);
    }

    #[test]
    fn a_refusal_is_a_finding_that_was_blocked_and_names_its_rule() {
        let judgement =
            json!({ "verdict": "deny", "layer": "commands", "rule": "no-rm", "reason": "It removes everything." });
        let body = json!({ "call": { "name": "run_command", "command": "rm -rf /" }, "judgement": judgement });
        let event = check("verdict", body, (2004, 1, 2));
        assert_eq!((&event["action"], &event["disposition"]), (&"Denied".into(), &"Blocked".into()));
        assert_eq!(event["finding_info"]["analytic"]["name"], "no-rm");
        assert_eq!(event["finding_info"]["uid"], "s1/1");
    }

    #[test]
    fn every_written_file_is_an_event_with_its_hash_and_leads_back_to_its_record() {
        let file = |path: &str, is: &str| json!({ "path": path, "is": is, "sha256": "ab", "size_bytes": 2 });
        let events = export("wrote", json!({ "files": [file("d/a.py", "created"), file("b", "removed")] }));
        let activities: Vec<u64> = events.iter().map(|event| event["activity_id"].as_u64().unwrap()).collect();
        assert_eq!(activities, [1, 4]);
        assert_eq!(events[0]["file"]["name"], "a.py");
        assert_eq!(events[0]["file"]["hashes"][0], json!({ "algorithm_id": 3, "algorithm": "SHA-256", "value": "ab" }));
        assert_eq!(events[1]["metadata"]["uid"], "s1/1.1");
        assert_eq!(events[1]["unmapped"], json!({ "record": 1, "cause": 0, "prev": "00", "mac": "ff" }));
        assert_eq!(
            (&events[0]["metadata"]["version"], &events[0]["time"]),
            (&"1.3.0".into(), &1_700_000_000_001u64.into())
        );
    }

    #[test]
    fn an_event_has_every_field_that_its_class_requires() {
        let verdict = |verdict: &str| json!({ "call": { "name": "read_file" }, "judgement": { "verdict": verdict } });
        let cases: [(&str, Value, &[&str]); 6] = [
            ("header", json!({}), &["app"]),
            ("verdict", verdict("allow"), &["actor", "api", "src_endpoint"]),
            ("verdict", verdict("deny"), &["finding_info"]),
            ("job", json!({ "argv": ["x"] }), &["actor", "device", "process"]),
            ("wrote", json!({ "files": [{ "path": "a" }] }), &["actor", "device", "file"]),
            ("applied", json!({ "path": "a" }), &["actor", "device", "file"]),
        ];
        let common = ["activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"];
        for (kind, body, required) in cases {
            for event in export(kind, body) {
                for key in common.iter().chain(required) {
                    assert!(event.get(*key).is_some(), "{kind} has no {key}: {event}");
                }
            }
        }
    }
}
