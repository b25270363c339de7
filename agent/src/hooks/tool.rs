//! How is an action written for a hook, and how is it read back when a hook has rewritten it?
//!
//! Both directions are the same structs, so what a hook may write is exactly what it was shown.

use super::occasion::WORKSPACE;
use crate::action::Call;
use crate::gate::normalise;
use crate::subagent::AgentType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Every tool by the name that scripts know, then by our own.
pub const NAMES: [[&str; 2]; 10] = [
    ["LS", "list_dir"],
    ["Read", "read_file"],
    ["Search", "search"],
    ["Grep", "grep"],
    ["Edit", "edit_file"],
    ["Write", "write_file"],
    ["Bash", "run_command"],
    ["RunTests", "run_tests"],
    ["Task", "task"],
    ["Finish", "finish"],
];

/// The two names of the tool that this call uses.
pub fn names(call: &Call) -> [&'static str; 2] {
    NAMES[match call {
        Call::ListDir { .. } => 0,
        Call::ReadFile { .. } => 1,
        Call::Search { .. } => 2,
        Call::Grep { .. } => 3,
        Call::EditFile { .. } | Call::EditLine { .. } => 4,
        Call::WriteFile { .. } => 5,
        Call::RunCommand { .. } => 6,
        Call::RunTests => 7,
        Call::Task { .. } => 8,
        Call::Finish { .. } | Call::ReportImpossible { .. } => 9,
    }]
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ls {
    path: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    file_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grep {
    pattern: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

/// Without an `old_string` an edit is whole functions, which take the place of those with the same names; with one it is
/// that line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_string: Option<String>,
    new_string: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    file_path: String,
    content: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bash {
    command: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunTests {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    description: String,
    prompt: String,
    subagent_type: AgentType,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finish {
    summary: String,
}

/// `tool_input`, with absolute paths as the box shows them.
pub fn input(call: &Call) -> Value {
    let value = match call.clone() {
        Call::ListDir { path } => serde_json::to_value(Ls { path: absolute(&path) }),
        Call::ReadFile { path, start, end } => {
            let limit = end.map(|end| (end + 1).saturating_sub(start.unwrap_or(1)));
            serde_json::to_value(Read { file_path: absolute(&path), offset: start, limit })
        }
        Call::Search { query } => serde_json::to_value(Search { query }),
        Call::Grep { pattern, path } => serde_json::to_value(Grep { pattern, path: path.map(|path| absolute(&path)) }),
        Call::EditFile { path, text } => edit(path, None, text),
        Call::EditLine { path, from, to } => edit(path, Some(from), to),
        Call::WriteFile { path, text } => serde_json::to_value(Write { file_path: absolute(&path), content: text }),
        Call::RunCommand { command } => serde_json::to_value(Bash { command }),
        Call::RunTests => serde_json::to_value(RunTests {}),
        Call::Task { description, prompt, subagent_type } => {
            serde_json::to_value(Task { description, prompt, subagent_type })
        }
        Call::Finish { summary } | Call::ReportImpossible { why: summary } => serde_json::to_value(Finish { summary }),
    };
    value.unwrap_or_default()
}

fn edit(path: Option<String>, old_string: Option<String>, new_string: String) -> Result<Value, serde_json::Error> {
    serde_json::to_value(Edit { file_path: absolute(&path.unwrap_or_default()), old_string, new_string })
}

/// The call with the input that a hook wrote. The tool stays the same; the paths are for the gate to judge.
pub fn rewritten(call: &Call, input: Map<String, Value>) -> Result<Call, serde_json::Error> {
    let input = Value::Object(input);
    Ok(match call {
        Call::ListDir { .. } => Call::ListDir { path: relative(serde_json::from_value::<Ls>(input)?.path) },
        Call::ReadFile { .. } => {
            let Read { file_path, offset, limit } = serde_json::from_value(input)?;
            let end = limit.map(|limit| offset.unwrap_or(1).saturating_add(limit).saturating_sub(1));
            Call::ReadFile { path: relative(file_path), start: offset, end }
        }
        Call::Search { .. } => Call::Search { query: serde_json::from_value::<Search>(input)?.query },
        Call::Grep { .. } => {
            let Grep { pattern, path } = serde_json::from_value(input)?;
            Call::Grep { pattern, path: path.map(relative) }
        }
        Call::EditFile { .. } | Call::EditLine { .. } => {
            let Edit { file_path, old_string, new_string } = serde_json::from_value(input)?;
            let path = Some(relative(file_path));
            match old_string {
                Some(from) => Call::EditLine { path, from, to: new_string },
                None => Call::EditFile { path, text: new_string },
            }
        }
        Call::WriteFile { .. } => {
            let Write { file_path, content } = serde_json::from_value(input)?;
            Call::WriteFile { path: relative(file_path), text: content }
        }
        Call::RunCommand { .. } => Call::RunCommand { command: serde_json::from_value::<Bash>(input)?.command },
        Call::RunTests => {
            serde_json::from_value::<RunTests>(input)?;
            Call::RunTests
        }
        Call::Task { .. } => {
            let Task { description, prompt, subagent_type } = serde_json::from_value(input)?;
            Call::Task { description, prompt, subagent_type }
        }
        Call::Finish { .. } => Call::Finish { summary: serde_json::from_value::<Finish>(input)?.summary },
        Call::ReportImpossible { .. } => {
            Call::ReportImpossible { why: serde_json::from_value::<Finish>(input)?.summary }
        }
    })
}

fn absolute(path: &str) -> String {
    match normalise(path).as_deref() {
        Ok(".") => WORKSPACE.into(),
        Ok(path) => format!("{WORKSPACE}/{path}"),
        Err(_) => path.to_owned(),
    }
}

/// A path out of the workspace stays as it is: the gate must see it.
fn relative(path: String) -> String {
    normalise(&path).unwrap_or(path)
}
