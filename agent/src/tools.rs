//! What does an action do? Each cleared call becomes a text for the model and the files it wrote.
//!
//! All text that comes back is hostile: bounded, stripped of control characters, and shown as data.

use crate::action::Call;
use crate::code::Code;
use crate::edit::{self, EditError};
use crate::gate::{Access, Action, Cleared, Mode, Policy, Verdict, program_alone};
use crate::session::{Files, statements};
use crate::text::{fence, fenced, quote, restore_secrets, shown};
use crate::verify::{self, own_changes};
use crate::workspace::{Change, Command, Ended, Workspace, WorkspaceError};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

mod read;

pub use read::{READ_BYTES_MAX, called};

/// The most of a command's output that is shown, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 3_000;
const PATH_BYTES_MAX: usize = 512;
const LIST_ENTRIES_MAX: usize = 100;
const FOUND_MAX: usize = 4;
const FOUND_BYTES_MAX: usize = 1_200;
const GREP_LINES_MAX: usize = 30;
const GREP_FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
const COMMAND_SECONDS_MAX: u64 = 60;
const RESOLVE_FILES_MAX: usize = 2_000;
/// Where outputs are kept that are too long to be shown.
pub const SPILL_DIRECTORY: &str = ".cloister-out/";
const SPILL_BYTES_MAX: usize = 4 << 20;
const SPILLS_MAX: usize = 100;

/// What an action led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran: what the model is told, and the files that it wrote.
    Done {
        /// For the model.
        text: String,
        /// Path to new text.
        writes: Files,
        /// Paths whose text the model has now seen.
        shown: Vec<String>,
        /// Functions whose text the model has now seen.
        functions: Vec<String>,
        /// Their statements.
        lines: Vec<String>,
    },
    /// It could not: the reply is taken back, and this is the reason.
    Refused(String),
}

impl Outcome {
    fn said(text: String) -> Self {
        Self::Done { text, writes: Files::new(), shown: Vec::new(), functions: Vec::new(), lines: Vec::new() }
    }
}

/// The hands of the agent: a box and an index.
pub struct Tools<'a> {
    /// The copy-on-write view.
    pub workspace: &'a mut dyn Workspace,
    /// The index.
    pub code: &'a dyn Code,
    /// Files that the session has looked at, newest first.
    pub recent: &'a [String],
    /// What may be read, for actions that look into many files.
    pub policy: &'a Policy,
    /// In plan mode a command cannot write the working copy.
    pub mode: Mode,
}

impl Tools<'_> {
    /// Names the file of an edit that names none, by the functions in its block. Before the gate, so that it judges a path.
    pub fn resolve(&self, call: Call) -> Result<Call, String> {
        let text = match call {
            Call::EditFile { path: None, text } => text,
            Call::EditLine { path: None, from, to } => {
                let has = |path: &&String| {
                    self.workspace
                        .read(path)
                        .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).lines().any(|line| line.trim() == from))
                };
                let Some(path) = self.recent.iter().find(has).cloned() else {
                    return Err(format!("no file that you have seen has the line `{}`", clean(&from, 200)));
                };
                return Ok(Call::EditLine { path: Some(path), from, to });
            }
            call => return Ok(call),
        };
        let walked = self.workspace.walk().unwrap_or_default();
        let candidates = self.recent.iter().chain(walked.iter().take(RESOLVE_FILES_MAX));
        for path in candidates {
            let theirs = self.code.outline(path, text.as_bytes());
            if theirs.is_empty() {
                continue;
            }
            let Ok(bytes) = self.workspace.read(path) else { continue };
            let ours = self.code.outline(path, &bytes);
            if theirs.iter().any(|new| ours.iter().any(|old| old.name == new.name)) {
                return Ok(Call::EditFile { path: Some(path.clone()), text });
            }
        }
        Err("your code block does not say which file it belongs to. Write a line `edit_file PATH` before it".into())
    }

    /// Does what the gate has cleared.
    ///
    /// # Errors
    /// Only when the box itself fails or the session is cancelled; everything else is an answer for the model.
    pub fn execute(
        &mut self,
        cleared: &Cleared<Action>,
        call: &Call,
        cancel: &AtomicBool,
    ) -> Result<Outcome, WorkspaceError> {
        let call = &judged(call, cleared.action());
        let outcome = match call {
            Call::ListDir { path } => self.list_dir(path),
            Call::ReadFile { path, start, end } => self.read_file(path, *start, *end),
            Call::Search { query } => Ok(self.search(query)),
            Call::Grep { pattern, path } => self.grep(pattern, path.as_deref()),
            Call::EditFile { path, text } => {
                let path = path.as_deref().unwrap_or_default();
                self.edit(path, |old, code| edit::splice(path, old, &restored(path, text, old)?, code))
            }
            Call::EditLine { path, from, to } => {
                let path = path.as_deref().unwrap_or_default();
                self.edit(path, |old, code| {
                    let (from, to) = (restored(path, from, old)?, restored(path, to, old)?);
                    edit::replace_line(path, old, &from, &to, code)
                })
            }
            Call::WriteFile { path, text } => self.write_file(path, text),
            Call::RunCommand { command } => self.run_command(command, cancel),
            // The loop does these.
            Call::RunTests | Call::Task { .. } | Call::Finish { .. } | Call::ReportImpossible { .. } => {
                Ok(Outcome::said(String::new()))
            }
        };
        match outcome {
            Err(error @ (WorkspaceError::NotFound { .. } | WorkspaceError::Unusable { .. })) => {
                Ok(Outcome::Refused(format!("{error}{}", self.near(call))))
            }
            other => other,
        }
    }

    fn list_dir(&self, path: &str) -> Result<Outcome, WorkspaceError> {
        let entries = self.workspace.list(path)?;
        let mut text = format!("Entries of {path}:\n");
        for entry in entries.iter().take(LIST_ENTRIES_MAX) {
            text += &format!("{}{}\n", quote(&entry.name, PATH_BYTES_MAX), if entry.directory { "/" } else { "" });
        }
        if entries.len() > LIST_ENTRIES_MAX {
            text += &format!("and {} more\n", entries.len() - LIST_ENTRIES_MAX);
        }
        Ok(Outcome::said(clean(&text, READ_BYTES_MAX)))
    }

    fn search(&self, query: &str) -> Outcome {
        let readable = |hit: &crate::code::Found| self.policy.path_verdict(Access::Read, &hit.path) == Verdict::Allow;
        let found = self.code.search(query, FOUND_MAX);
        match found.map(|found| found.into_iter().filter(readable).collect::<Vec<_>>()) {
            Err(why) => Outcome::Refused(why),
            Ok(found) if found.is_empty() => {
                Outcome::said(format!("Nothing found for `{}`. Try grep with one name.", clean(query, 200)))
            }
            Ok(found) => {
                let mut text = format!("Found for `{}`:", clean(query, 200));
                for hit in &found {
                    let symbol = hit.symbol.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
                    let body = clean(&hit.text, FOUND_BYTES_MAX);
                    text += &format!(
                        "\n{}, lines {} to {}{symbol}:\n{}",
                        quote(&hit.path, PATH_BYTES_MAX),
                        hit.lines.0,
                        hit.lines.1,
                        fenced(&body)
                    );
                }
                Outcome::Done {
                    text,
                    writes: Files::new(),
                    functions: found.iter().filter_map(|hit| hit.symbol.clone()).collect(),
                    lines: found.iter().flat_map(|hit| statements(&clean(&hit.text, FOUND_BYTES_MAX))).collect(),
                    shown: found.into_iter().map(|hit| hit.path).collect(),
                }
            }
        }
    }

    fn grep(&self, pattern: &str, within: Option<&str>) -> Result<Outcome, WorkspaceError> {
        let within = within
            .map(|path| path.trim_start_matches("./").trim_matches('/'))
            .filter(|path| !path.is_empty() && *path != ".");
        let inside = |path: &String| {
            within.map_or(!path.starts_with(SPILL_DIRECTORY), |dir| {
                path == dir || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let may_read = |path: &String| self.policy.path_verdict(Access::Read, path) == Verdict::Allow;
        let walked = self.workspace.walk()?;
        let namesake = walked.iter().find(|path| *path == pattern || path.rsplit('/').next() == Some(pattern)).cloned();
        let paths = walked.into_iter().filter(inside).filter(may_read);
        // The index knows the repository; what the box may have changed is read in any case.
        let touched: HashSet<String> = self.workspace.touched()?.into_iter().collect();
        let (changed, unchanged): (Vec<String>, Vec<String>) = paths.partition(|path| touched.contains(path));
        let mut paths = self.code.may_match(pattern, unchanged);
        paths.extend(changed);
        paths.sort_unstable();
        let mut files = paths.into_iter().filter_map(|path| {
            let bytes = self.workspace.read(&path).ok()?;
            let text = bytes.len() <= GREP_FILE_BYTES_MAX && !bytes.iter().take(8192).any(|byte| *byte == 0);
            text.then_some((path, bytes))
        });
        let matches = match self.code.grep(pattern, &mut files, GREP_LINES_MAX) {
            Ok(matches) => matches,
            Err(why) => return Ok(Outcome::Refused(why)),
        };
        if matches.lines.is_empty() {
            let file = namesake.map(|path| format!(" There is a file {path}: use read_file.")).unwrap_or_default();
            return Ok(Outcome::said(format!("No line matches `{}`.{file}", clean(pattern, 200))));
        }
        let mut text = String::new();
        for (path, line, found) in &matches.lines {
            text += &format!("{}:{line}: {}\n", quote(path, PATH_BYTES_MAX), found.trim_end());
        }
        if matches.truncated {
            text += "and more; narrow the pattern\n";
        }
        let note = matches.note.map(|note| format!("{note}\n")).unwrap_or_default();
        Ok(Outcome::said(format!(
            "Lines that match `{}`:\n{note}{}",
            clean(pattern, 200),
            fenced(&clean(&text, OUTPUT_BYTES_MAX))
        )))
    }

    fn edit(
        &mut self,
        path: &str,
        change: impl FnOnce(&str, &dyn Code) -> Result<String, EditError>,
    ) -> Result<Outcome, WorkspaceError> {
        let bytes = self.workspace.read(path)?;
        // A model that has not seen a file invents what is in it.
        if !self.recent.iter().any(|seen| seen == path) {
            return Ok(Outcome::Refused(format!(
                "{path} must be read before it is edited. Use read_file on it, or grep for the function that the failing test calls"
            )));
        }
        let Ok(old) = String::from_utf8(bytes) else {
            return Ok(Outcome::Refused(format!("{path} is not UTF-8 text; it cannot be edited")));
        };
        match change(&old, self.code) {
            Err(error) => Ok(Outcome::Refused(error.to_string())),
            Ok(new) => self.put(path, Some(old), new),
        }
    }

    fn write_file(&mut self, path: &str, text: &str) -> Result<Outcome, WorkspaceError> {
        match self.workspace.read(path) {
            Err(WorkspaceError::NotFound { .. }) => self.put(path, None, text.to_owned()),
            Err(error) => Err(error),
            Ok(_) => Ok(Outcome::Refused(format!("{path} exists already; use edit_file to change it"))),
        }
    }

    fn put(&mut self, path: &str, old: Option<String>, new: String) -> Result<Outcome, WorkspaceError> {
        self.workspace.write(path, new.as_bytes())?;
        let change =
            Change { path: path.into(), before: old.map(String::into_bytes), after: Some(new.clone().into_bytes()) };
        let diff = clean(&hunks(&verify::diff(&change)), OUTPUT_BYTES_MAX);
        let fence = fence(&diff);
        let text = format!("You changed {path}:\n{fence}diff\n{diff}{fence}");
        Ok(Outcome::Done {
            text,
            lines: self.lines(path, &new),
            writes: Files::from([(path.to_owned(), new)]),
            shown: vec![path.to_owned()],
            functions: Vec::new(),
        })
    }

    fn run_command(&mut self, command: &str, cancel: &AtomicBool) -> Result<Outcome, WorkspaceError> {
        let before = own_changes(self.workspace)?;
        let shell = || vec!["/bin/sh".into(), "-c".into(), command.to_owned()];
        let argv = program_alone(command).unwrap_or_else(shell);
        let job = Command::new(argv, Duration::from_secs(COMMAND_SECONDS_MAX));
        let ran = self.workspace.run(&Command { read_only: self.mode == Mode::Plan, ..job }, cancel)?;
        let ended = match &ran.ended {
            Ended::Exited(code) => format!("exit {code}"),
            Ended::Stopped(why) => why.clone(),
        };
        let output = shown(&ran.output, OUTPUT_BYTES_MAX);
        let spilled = if output.truncated_bytes > 0 { self.spill(&ran.output) } else { String::new() };
        // Told apart from the output: a model that reads it there alone tries the next package, and the next.
        let missing = if ran.ended == Ended::Exited(0) { None } else { self.workspace.missing(&ran.output) };
        let missing = missing.map_or(String::new(), |missing| format!("\n{}", clean(&missing, 400)));
        let text = format!("`{}` ended with {ended}:\n{}{spilled}{missing}", clean(command, 400), fenced(&output.text));
        let writes = own_changes(self.workspace)?
            .into_iter()
            .filter(|change| !before.contains(change))
            .filter_map(|change| Some((change.path, String::from_utf8(change.after?).ok()?)))
            .collect();
        Ok(Outcome::Done { text, writes, shown: Vec::new(), functions: Vec::new(), lines: Vec::new() })
    }

    /// Keeps a long output as a file that can be read and searched, and says where. The file is no part of the change.
    /// A view that cannot be written keeps none; then the head and the tail must do.
    fn spill(&mut self, output: &[u8]) -> String {
        let taken = self.workspace.walk().unwrap_or_default();
        let taken = taken.iter().filter(|path| path.starts_with(SPILL_DIRECTORY)).count();
        let path = format!("{SPILL_DIRECTORY}{}.txt", taken + 1);
        let kept = &output[..output.len().min(SPILL_BYTES_MAX)];
        if taken >= SPILLS_MAX || self.workspace.write(&path, kept).is_err() {
            return String::new();
        }
        format!("\nAll of it is in {path}: use grep or read_file there.")
    }

    /// For a path that does not exist: the path that was probably meant.
    fn near(&self, call: &Call) -> String {
        let (Call::ReadFile { path, .. } | Call::EditFile { path: Some(path), .. } | Call::ListDir { path }) = call
        else {
            return String::new();
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let walked = self.workspace.walk().unwrap_or_default();
        let same = walked.iter().find(|file| file.rsplit('/').next() == Some(name) && *file != path);
        same.map(|file| format!(". There is {file}")).unwrap_or_default()
    }
}

/// The text of an edit with the secrets that the model was not shown.
fn restored(path: &str, text: &str, old: &str) -> Result<String, EditError> {
    restore_secrets(text, old).ok_or_else(|| EditError::Redacted { path: path.into() })
}

/// What the gate is asked about.
pub fn action(call: &Call) -> Action {
    match call.clone() {
        Call::ListDir { path } => Action::ListDir { path },
        Call::ReadFile { path, .. } => Action::ReadFile { path },
        Call::Search { query } => Action::Search { query },
        Call::Grep { pattern, path } => Action::Grep { pattern, path: path.unwrap_or_else(|| ".".into()) },
        Call::EditFile { path, .. } | Call::EditLine { path, .. } => {
            Action::EditFile { path: path.unwrap_or_default() }
        }
        Call::WriteFile { path, .. } => Action::WriteFile { path },
        Call::RunCommand { command } => Action::RunCommand { command },
        Call::RunTests => Action::RunTests,
        Call::Task { prompt, subagent_type, .. } => Action::Task { prompt, subagent_type },
        // Another way to say that nothing more is done.
        Call::Finish { .. } | Call::ReportImpossible { .. } => Action::Finish,
    }
}

/// The call with the paths as the gate judged them: what was judged is what runs.
fn judged(call: &Call, action: &Action) -> Call {
    let mut call = call.clone();
    match (&mut call, action) {
        (Call::ListDir { path } | Call::ReadFile { path, .. } | Call::WriteFile { path, .. }, action) => {
            if let Action::ListDir { path: normal }
            | Action::ReadFile { path: normal }
            | Action::WriteFile { path: normal } = action
            {
                path.clone_from(normal);
            }
        }
        (Call::EditFile { path, .. } | Call::EditLine { path, .. }, Action::EditFile { path: normal }) => {
            *path = Some(normal.clone())
        }
        (Call::Grep { path, .. }, Action::Grep { path: normal, .. }) => *path = Some(normal.clone()),
        _ => {}
    }
    call
}

fn clean(text: &str, bytes_max: usize) -> String {
    shown(text.as_bytes(), bytes_max).text
}

/// A diff without its file header: the path was said already.
fn hunks(diff: &str) -> String {
    diff.split_inclusive('\n').filter(|line| !line.starts_with("--- ") && !line.starts_with("+++ ")).collect()
}
