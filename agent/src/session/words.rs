//! What is the model told? The harness's side of the conversation, in one place.

use crate::action::{Call, LINE_IS, LINE_SHOULD_BE};
use crate::subagent::AgentType;
use crate::tests_run::TestRun;
use crate::text::fenced;

/// Paths shown in the opening message.
const FILES_SHOWN_MAX: usize = 60;
/// Of one path, in bytes.
const PATH_BYTES_MAX: usize = 512;
/// Why a look that was taken already is not taken again.
pub const REPEATED: &str = "you have done exactly this before, and its result stands above. If you see the \
    wrong line, write the edit now";
/// Why no look is taken any more.
pub const ENOUGH: &str = "you have looked enough. Of the functions that you have seen, one is wrong. Say what is wrong \
    in it, then write the line `edit_file PATH` and the complete corrected function in a code block";
/// The same for a sub-agent.
pub const REPEATED_BY_CHILD: &str = "you have done exactly this before, and its result stands above. If you know \
    enough, use finish and write your answer as its summary";
/// What a sub-agent hears after each look.
pub const ANSWER: &str = "\nIf you know enough, use finish and write your answer as its summary. If not, look at one \
    more place.";
/// What the model hears when a person has refused.
pub const SAID_NO: &str = "a person was asked and said no. Do the task without this";
/// How a look at a file begins.
pub const READ_PREFIX: &str = "{\"name\": \"read_file\", \"arguments\": {\"path\":";
/// How a diagnosis begins, after which the edit follows.
pub const DIAGNOSIS_PREFIX: &str = "The bug is";

/// A diagnosis that names a function.
pub fn suspect_function(name: &str) -> String {
    format!("{DIAGNOSIS_PREFIX} in `{name}`")
}

/// A diagnosis that quotes a statement; what it should be is the model's to say.
pub fn suspect_line(line: &str) -> String {
    format!("{LINE_IS}{line}{LINE_SHOULD_BE}")
}

/// Turns that are told when the conversation is shortened; of older ones the count is enough.
const DONE_SHOWN_MAX: usize = 40;

/// What stays of turns that were left out.
pub fn shortened(done: &[String]) -> String {
    let older = done.len().saturating_sub(DONE_SHOWN_MAX);
    let mut text = String::from("\n\nEarlier in this session, left out here because the conversation grew too long:\n");
    if older > 0 {
        text += &format!("{older} actions, and then\n");
    }
    done[older..].iter().for_each(|line| text += &format!("{line}\n"));
    text + "Files that you need are read again."
}

/// An action in a line.
pub fn did(call: &Call) -> String {
    let short = |text: &str| crate::text::quote(text, PATH_BYTES_MAX);
    match call {
        Call::ListDir { path } => format!("list_dir {}", short(path)),
        Call::ReadFile { path, .. } => format!("read_file {}", short(path)),
        Call::Search { query } => format!("search {}", short(query)),
        Call::Grep { pattern, .. } => format!("grep {}", short(pattern)),
        Call::EditFile { path, .. } | Call::EditLine { path, .. } => {
            format!("edit_file {}, and the edit was kept", short(path.as_deref().unwrap_or_default()))
        }
        Call::WriteFile { path, .. } => format!("write_file {}", short(path)),
        Call::RunCommand { command } => format!("run_command {}", short(command)),
        Call::RunTests => "run_tests".into(),
        Call::Task { prompt, .. } => format!("task {}", short(prompt)),
        Call::Finish { .. } => "finish, which the verifier did not accept".into(),
        Call::ReportImpossible { .. } => "report_impossible".into(),
    }
}

const REFUSAL: &str = "That reply was not carried out: ";

/// The task and everything known before the first word.
pub fn opening(task: &str, files: &[String], memory: Option<&str>, tests: Option<&TestRun>) -> String {
    let mut text = repository(task, files, memory);
    match tests {
        Some(run) => text += &format!("\n{}", self::tests(run, "The tests ran before any change")),
        None => text += "\nNo test command is known for this repository.",
    }
    text
}

/// The task of a sub-agent, in the words of the model that started it.
pub fn delegated(kind: AgentType, task: &str, files: &[String], memory: Option<&str>) -> String {
    let what = match kind {
        AgentType::Explore => "Look for the answer; you cannot change files or run commands.",
        AgentType::General => "Do it, and nothing else.",
    };
    let text = repository(task, files, memory);
    format!(
        "{text}\nAnother agent has given you this task, sees none of what you do and reads only your answer. {what} Then \
         use finish: its summary is your answer. Write into it all that was asked for, with paths and names."
    )
}

fn repository(task: &str, files: &[String], memory: Option<&str>) -> String {
    let mut text = format!("Task: {}\n\nFiles in the repository", task.trim());
    if files.len() > FILES_SHOWN_MAX {
        text += &format!(" (the first {FILES_SHOWN_MAX} of {})", files.len());
    }
    text += ":\n";
    for file in files.iter().take(FILES_SHOWN_MAX) {
        text += &crate::text::quote(file, PATH_BYTES_MAX);
        text.push('\n');
    }
    if let Some(memory) = memory {
        text += &format!("\nNotes of the project:\n{}\n", memory.trim());
    }
    text
}

/// Where to look first: a file that the task names, else a function that the failure calls.
pub fn begin(called: &[String], named: &[String]) -> String {
    match (named.first(), called.first()) {
        (Some(file), _) => format!("\nThe task names: {}. Begin with read_file on {file}.", named.join(", ")),
        (None, Some(name)) => format!("\nThe failure calls: {}. Begin with grep for `def {name}`.", called.join(", ")),
        (None, None) => String::new(),
    }
}

/// What a hook adds, as data.
pub fn told(by: &str, text: &str) -> String {
    format!("\n\nThe hook {by} adds:\n{}", text.trim())
}

/// Why the session does not end yet.
pub fn sent_on(by: &str, why: &str) -> String {
    format!("The work is not done: the hook {by} says: {}", why.trim())
}

/// A run of the tests, as data.
pub fn tests(run: &TestRun, what: &str) -> String {
    let result = if run.passed { "they pass" } else { "they fail" };
    let mut text = format!("{what}: `{}`, {result} ({}).", run.command, run.summary());
    if !run.passed {
        text += &format!("\n{}", fenced(run.output.trim()));
    }
    text
}

/// A reply that was not carried out.
pub fn refusal(why: &str, tests: Option<&TestRun>) -> String {
    let mut text = format!("{REFUSAL}{why}");
    // An edit that changes nothing is answered with the failure itself: it is what the model overlooked.
    if let Some(run) = tests.filter(|run| !run.passed && why.contains("changes nothing")) {
        text += &format!("\nThe failure is still:\n{}", fenced(run.output.trim()));
    }
    text
}

/// How an edit begins that comes without a word before it: with its file, where only one was seen.
pub fn code_first(seen: &[String]) -> String {
    match seen {
        [path] if path.ends_with(".py") => format!("edit_file {path}\n```python\n"),
        [path] => format!("edit_file {path}\n```"),
        _ => "edit_file".into(),
    }
}

/// Was this message written by [`refusal`]?
pub fn is_refusal(text: &str) -> bool {
    text.starts_with(REFUSAL)
}

/// A push for a model that looks and looks.
pub fn nudge(explored: usize, explore_actions_max: usize) -> &'static str {
    if explored >= explore_actions_max {
        "\nYou have looked enough. Say what is wrong and in which function, then write the line `edit_file PATH` and the complete corrected function in a code block."
    } else {
        "\nIf you see what is wrong, say it in one sentence, then write the line `edit_file PATH` and the complete corrected function in a code block. If not, look at one more place."
    }
}

/// What failed before, after the files went back.
pub fn retry(attempts: &[(&str, &TestRun)], base: Option<&TestRun>) -> String {
    let mut text = String::from("Earlier edits did not help and were taken back; the files are as you read them.\n");
    for (change, run) in attempts {
        text += &format!("\nThis edit was wrong:\n{change}\nIts tests: {}.\n", run.summary());
    }
    // The failure of the base stands above already.
    if let Some((_, run)) = attempts.last().filter(|(_, run)| base.is_none_or(|base| base.output != run.output)) {
        text += &format!("The last failure:\n{}\n", fenced(run.output.trim()));
    }
    text += "Say what is really wrong, then write a different edit: the line `edit_file PATH` and the complete corrected function in a code block.";
    text
}
