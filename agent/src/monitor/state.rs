//! What has the monitor seen so far? Bounded memory, whatever a session does.

use super::follow::{Goal, Proposed, secret_read};
use super::planted::{self, Mark, spelled, squeeze};
use super::{command, literals, places, runs};
use crate::action::{self, Call};
use crate::gate::{Judgement, Layer};
use crate::session::Record;
use crate::test_files::is_test;
use crate::verify::tests_diff::{self, TestLoss};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Marks of instructions that are kept; the first ones stay.
const PLANTED_MAX: usize = 2_000;
const DENIED_MAX: usize = 200;
const SECRETS_MAX: usize = 50;
const RESULTS_MAX: usize = 200;
const WRITTEN_MAX: usize = 2_000;
const DIRECTORIES_MAX: usize = 2_000;
/// Lines of all files together that are remembered as shown.
const LINES_MAX: usize = 200_000;
/// Of a file that is kept to be compared with its next state, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;
const TEXTS_MAX: usize = 100;

/// A mark of an instruction, and where it stood.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    pub mark: Mark,
    pub n: u64,
    /// In the pasted part of the task, not in a file or an output.
    pub pasted: bool,
}

/// A call that was refused, and what it was after.
#[derive(Debug, Clone)]
pub(super) struct Denied {
    pub call: Call,
    pub goal: Goal,
    pub n: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The person's own words.
    asked: String,
    pub planted: Vec<Planted>,
    pub denied: Vec<Denied>,
    /// Secrets that were read.
    pub secrets: Vec<(u64, String)>,
    /// Files of which something was shown without a secret in it.
    pub withheld: BTreeSet<String>,
    /// Files that the session wrote.
    pub written: BTreeMap<String, u64>,
    /// Their texts, to see what the next write takes away.
    texts: BTreeMap<String, String>,
    /// Lines that were shown of a file, by hash.
    shown: BTreeMap<String, BTreeSet<u64>>,
    lines: usize,
    /// The run of the tests that failed last, if the last one did.
    pub failing: Option<u64>,
    /// The values that it expected.
    pub expected: Option<(u64, BTreeSet<String>)>,
    /// Calls with the hash of their last result, and the records of equal results.
    pub results: Vec<(Call, u64, Vec<u64>)>,
    pub read_directories: BTreeSet<String>,
    /// Directories that the task, the failure or a change touch.
    pub related: BTreeSet<String>,
    /// The call that was allowed and whose result is awaited.
    pending: Option<Call>,
    /// The call of the last reply: in a resumed session nothing else says what brought a result.
    replied: Option<Call>,
    /// The same of the session, while its sub-agent acts.
    above: Option<Call>,
}

impl State {
    /// Was this line shown as a line of this file?
    pub fn knows(&self, path: &str, line: &str) -> bool {
        self.shown.get(path).is_some_and(|lines| lines.contains(&hash(line)))
    }

    /// Does the person ask for this?
    pub fn asks_for(&self, mark: &Mark) -> bool {
        let asked = self.asked.to_lowercase();
        match mark {
            Mark::Package(name) => spelled(&asked).contains(name.as_str()),
            Mark::Place(place) => places::paths_in(&self.asked).contains(place),
            Mark::Command(text) | Mark::Code(text) | Mark::Host(text) | Mark::Word(text) => {
                asked.contains(&text.to_lowercase())
            }
        }
    }

    pub fn judged(&mut self, n: u64, call: &Call, judgement: &Judgement) {
        self.pending = runs(judgement).then(|| call.clone());
        if self.pending.is_some() || self.denied.len() >= DENIED_MAX {
            return;
        }
        let proposed = Proposed::new(call, &|path, line| self.knows(path, line));
        let goal = Goal::of(&proposed, judgement.layer == Layer::Paths);
        if !goal.is_empty() {
            self.denied.push(Denied { call: call.clone(), goal, n });
        }
    }

    /// Folds one record; returns what tests lost by it.
    pub fn recorded(&mut self, n: u64, record: &Record) -> Vec<(String, TestLoss)> {
        match record {
            Record::Opened { task, files: _, memory, tests, called: _, named } => {
                let (spoken, pasted) = planted::spoken_and_pasted(task);
                self.asked = squeeze(spoken);
                self.plant(n, pasted, false, true);
                self.plant(n, memory.as_deref().unwrap_or_default(), false, false);
                self.related.extend(named.iter().map(|path| directory(path).to_owned()));
                self.related.extend(places::paths_in(task).iter().map(|path| directory(path).to_owned()));
                if let Some(run) = tests {
                    self.tested(n, run.passed, &run.output);
                }
            }
            Record::Observed { text, writes, .. } => return self.observed(n, text, writes),
            Record::Tested { run } => {
                self.tested(n, run.passed, &run.output);
                self.result(n, &Call::RunTests, &run.output);
            }
            Record::Restored => self.texts.clear(),
            Record::Refused { .. } => (self.pending, self.replied) = (None, None),
            Record::Replied { text, .. } => self.replied = action::parse(text).ok(),
            Record::Verified { .. } | Record::Resumed | Record::Stopped { .. } => {}
            // A sub-agent's actions are the session's. Its task is the model's words, not the person's.
            Record::Child { happened, .. } => match &**happened {
                Record::Opened { .. } => self.above = self.pending.take(),
                happened => return self.recorded(n, happened),
            },
            Record::Returned { .. } => self.pending = self.above.take(),
            // An administrator's hooks and a person are no strangers.
            Record::Told { .. } | Record::SentOn { .. } | Record::Compacted | Record::Answered { .. } => {}
        }
        Vec::new()
    }

    fn observed(&mut self, n: u64, text: &str, writes: &BTreeMap<String, String>) -> Vec<(String, TestLoss)> {
        let replied = self.replied.take();
        let Some(call) = self.pending.take() else {
            // A resumed session brings the results of the earlier one without its verdicts.
            if writes.is_empty() {
                self.plant(n, text, true, false);
                let proposed = replied.map(|call| Proposed::new(&call, &|_, _| false));
                self.remember_secret(n, proposed.as_ref(), text);
            }
            return writes.iter().flat_map(|(path, after)| self.wrote(n, path, after, text)).collect();
        };
        let proposed = Proposed::new(&call, &|_, _| false);
        let own_words = matches!(call, Call::EditFile { .. } | Call::WriteFile { .. });
        if !own_words {
            // The first line is the tool's: it quotes the call.
            self.plant(n, text.split_once('\n').map_or("", |(_, rest)| rest), true, false);
            self.remember_secret(n, Some(&proposed), text);
        }
        if let Call::ReadFile { path, .. } = &call {
            self.show(&places::normal(path), text);
        }
        if let Some(path) = proposed.path.as_deref().filter(|_| self.read_directories.len() < DIRECTORIES_MAX) {
            let directory = directory(path).to_owned();
            if proposed.writes {
                self.related.insert(directory);
            } else if !self.related.contains(&directory) && !is_test(path) {
                self.read_directories.insert(directory);
            }
        }
        if !matches!(call, Call::RunTests) {
            self.result(n, &call, text);
        }
        writes.iter().flat_map(|(path, after)| self.wrote(n, path, after, text)).collect()
    }

    /// That a secret was read, by the place that was asked for or by what was left out of the text; never the secret.
    fn remember_secret(&mut self, n: u64, proposed: Option<&Proposed>, text: &str) {
        let redacted = text.contains("[redacted: ");
        if redacted && self.withheld.len() < SECRETS_MAX {
            let read = proposed.iter().flat_map(|proposed| {
                let by_commands = proposed.commands.iter().flat_map(command::Simple::paths);
                proposed.path.iter().cloned().chain(by_commands)
            });
            self.withheld.extend(read.take(SECRETS_MAX));
        }
        let secret = proposed.and_then(secret_read).or_else(|| redacted.then(|| "a redacted secret".into()));
        self.secrets.extend(secret.filter(|_| self.secrets.len() < SECRETS_MAX).map(|what| (n, what)));
    }

    fn wrote(&mut self, n: u64, path: &str, after: &str, told: &str) -> Vec<(String, TestLoss)> {
        let path = places::normal(path);
        if self.written.len() < WRITTEN_MAX {
            self.written.insert(path.clone(), n);
        }
        let before = self.texts.remove(&path).or_else(|| unpatch(after, told));
        self.show(&path, after);
        let mut lost = Vec::new();
        // Rust keeps tests beside the code.
        if is_test(&path) || path.ends_with(".rs") {
            let found = tests_diff::compare(&path, before.as_deref().unwrap_or_default(), after);
            lost = found.into_iter().map(|loss| (path.clone(), loss)).collect();
        }
        if after.len() <= TEXT_BYTES_MAX && self.texts.len() < TEXTS_MAX {
            self.texts.insert(path, after.to_owned());
        }
        lost
    }

    fn tested(&mut self, n: u64, passed: bool, output: &str) {
        self.failing = (!passed).then_some(n);
        if !passed {
            self.expected = Some((n, literals::expected(output)));
            self.plant(n, output, false, false);
        }
    }

    fn result(&mut self, n: u64, call: &Call, result: &str) {
        let result = hash(result);
        let room = self.results.len() < RESULTS_MAX;
        match self.results.iter_mut().find(|(seen, _, _)| seen == call) {
            Some((_, last, records)) if *last == result => records.push(n),
            Some((_, last, records)) => (*last, *records) = (result, vec![n]),
            None if room => self.results.push((call.clone(), result, vec![n])),
            None => {}
        }
    }

    fn plant(&mut self, n: u64, text: &str, wrapped: bool, pasted: bool) {
        for mark in planted::marks(text, wrapped) {
            let new = self.planted.iter().all(|seen| seen.mark != mark || seen.pasted && !pasted);
            if new && self.planted.len() < PLANTED_MAX {
                self.planted.push(Planted { mark, n, pasted });
            }
        }
    }

    fn show(&mut self, path: &str, text: &str) {
        let lines = self.shown.entry(path.to_owned()).or_default();
        for line in text.lines().map(str::trim) {
            if self.lines < LINES_MAX && lines.insert(hash(line)) {
                self.lines += 1;
            }
        }
    }
}

impl Proposed {
    /// The files that it writes, by a tool or by the commands that are known to write.
    pub(super) fn written_paths(&self) -> Vec<String> {
        let mut found: Vec<String> = self.path.iter().filter(|_| self.writes).cloned().collect();
        for simple in &self.commands {
            found.extend(simple.writes.iter().map(|path| places::normal(path)));
            if writes_operands(simple) {
                found.extend(simple.args().iter().filter(|arg| !arg.starts_with('-')).map(|path| places::normal(path)));
            }
        }
        found
    }
}

fn writes_operands(simple: &command::Simple) -> bool {
    let in_place = simple.program() == "sed"
        && simple.args().iter().any(|arg| arg.starts_with("-i") || arg.starts_with("--in-place"));
    in_place
        || matches!(
            simple.program(),
            "rm" | "mv" | "cp" | "tee" | "truncate" | "touch" | "unlink" | "install" | "ln" | "patch"
        )
}

/// The directory of a path, at most two parts deep.
pub(super) fn directory(path: &str) -> &str {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.match_indices('/').nth(1).map_or(folder, |(at, _)| &folder[..at])
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The text before a change, from the text after it and the diff that the model was shown. `None` where the diff was
/// cut or does not fit.
fn unpatch(after: &str, told: &str) -> Option<String> {
    let (_, diff) = told.split_once("```diff\n")?;
    let lines: Vec<&str> = after.lines().collect();
    let mut before: Vec<&str> = Vec::new();
    let mut at = 0;
    for line in diff.lines() {
        if let Some(hunk) = line.strip_prefix("@@ ") {
            let start: usize = hunk.split('+').nth(1)?.split([',', ' ']).next()?.parse().ok()?;
            let start = start.saturating_sub(1);
            before.extend(lines.get(at..start)?);
            at = start;
        } else if let Some(old) = line.strip_prefix('-') {
            before.push(old);
        } else if line.starts_with('+') {
            at += 1;
        } else if let Some(same) = line.strip_prefix(' ') {
            before.push(same);
            at += 1;
        } else if line.starts_with("[... ") {
            return None;
        } else if line.starts_with("```") {
            break;
        }
    }
    before.extend(lines.get(at..)?);
    Some(before.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_before_a_change_is_found_again() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        let after = before.replace("b\n", "B\nB2\n").replace("h\n", "");
        let change = crate::workspace::Change {
            path: "x".into(),
            before: Some(before.into()),
            after: Some(after.clone().into_bytes()),
        };
        let diff = crate::verify::diff(&change);
        let hunks = &diff[diff.find("@@").unwrap()..];
        assert_eq!(unpatch(&after, &format!("You changed x:\n```diff\n{hunks}```")).unwrap(), before.trim_end());
        assert_eq!(unpatch("a", "no diff"), None);
        assert_eq!(unpatch("a", "```diff\n@@ -1,9 +90,9 @@\n"), None);
    }
}
