//! What can the model propose to do?

use serde::{Deserialize, Serialize};

use super::{Access, PathError, normalise};
use crate::subagent::AgentType;
use crate::text::quote;

/// A description of an action is cut to this length.
const DESCRIPTION_BYTES_MAX: usize = 400;

/// Everything that can be proposed. What an edit puts into a file does not matter to the gate: it travels beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Names in a directory.
    ListDir {
        /// The directory.
        path: String,
    },
    /// Content of a file.
    ReadFile {
        /// The file.
        path: String,
    },
    /// A question to the code index.
    Search {
        /// Words.
        query: String,
    },
    /// Lines that match a pattern.
    Grep {
        /// A regular expression.
        pattern: String,
        /// A file, or a directory that is searched with everything below it.
        path: String,
    },
    /// A change to a file that exists.
    EditFile {
        /// The file.
        path: String,
    },
    /// A new file.
    WriteFile {
        /// The file.
        path: String,
    },
    /// A shell command in the box.
    RunCommand {
        /// As bash would read it.
        command: String,
    },
    /// The tests of the repository, by the command that the session knows.
    RunTests,
    /// Work for a sub-agent, whose own actions are judged one by one.
    Task {
        /// All that it is told.
        prompt: String,
        /// What kind.
        subagent_type: AgentType,
    },
    /// The model says that it is done.
    Finish,
}

impl Action {
    /// The name that policies and prompts use.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Action::ListDir { .. } => "list_dir",
            Action::ReadFile { .. } => "read_file",
            Action::Search { .. } => "search",
            Action::Grep { .. } => "grep",
            Action::EditFile { .. } => "edit_file",
            Action::WriteFile { .. } => "write_file",
            Action::RunCommand { .. } => "run_command",
            Action::RunTests => "run_tests",
            Action::Task { .. } => "task",
            Action::Finish => "finish",
        }
    }

    /// The action of this name about a path, a query, a pattern or a command; `None` when there is no such name.
    #[must_use]
    pub fn named(name: &str, what: &str) -> Option<Action> {
        let what = what.to_owned();
        Some(match name {
            "list_dir" => Action::ListDir { path: what },
            "read_file" => Action::ReadFile { path: what },
            "search" => Action::Search { query: what },
            "grep" => Action::Grep { pattern: what, path: ".".into() },
            "edit_file" => Action::EditFile { path: what },
            "write_file" => Action::WriteFile { path: what },
            "run_command" => Action::RunCommand { command: what },
            "run_tests" => Action::RunTests,
            "task" => Action::Task { prompt: what, subagent_type: AgentType::default() },
            "finish" => Action::Finish,
            _ => return None,
        })
    }

    /// The action in one safe line, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let what = match self {
            Action::ListDir { path }
            | Action::ReadFile { path }
            | Action::EditFile { path }
            | Action::WriteFile { path } => path.as_str(),
            Action::Search { query } => query.as_str(),
            Action::Grep { pattern, path } => {
                return quote(&format!("grep {pattern} in {path}"), DESCRIPTION_BYTES_MAX);
            }
            Action::RunCommand { command } => command.as_str(),
            Action::Task { prompt, .. } => prompt.as_str(),
            Action::RunTests | Action::Finish => return self.name().to_owned(),
        };
        quote(&format!("{} {what}", self.name()), DESCRIPTION_BYTES_MAX)
    }

    /// Every name there is, in the order of the enum.
    pub const NAMES: [&'static str; 10] = [
        "list_dir",
        "read_file",
        "search",
        "grep",
        "edit_file",
        "write_file",
        "run_command",
        "run_tests",
        "task",
        "finish",
    ];

    /// The paths that it names, and what for.
    pub(super) fn paths(&self) -> impl Iterator<Item = (Access, &str)> {
        let named = match self {
            Action::ListDir { path } | Action::ReadFile { path } | Action::Grep { path, .. } => {
                Some((Access::Read, path.as_str()))
            }
            Action::EditFile { path } | Action::WriteFile { path } => Some((Access::Write, path.as_str())),
            Action::Search { .. }
            | Action::RunCommand { .. }
            | Action::RunTests
            | Action::Task { .. }
            | Action::Finish => None,
        };
        named.into_iter()
    }

    /// The same action with its path relative to the workspace and in normal form.
    pub(crate) fn normalised(&self) -> Result<Action, PathError> {
        let mut action = self.clone();
        match &mut action {
            Action::ListDir { path }
            | Action::ReadFile { path }
            | Action::Grep { path, .. }
            | Action::EditFile { path }
            | Action::WriteFile { path } => *path = normalise(path)?,
            Action::Search { .. }
            | Action::RunCommand { .. }
            | Action::RunTests
            | Action::Task { .. }
            | Action::Finish => {}
        }
        Ok(action)
    }
}
