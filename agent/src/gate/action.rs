//! What can the model propose to do?

use serde::{Deserialize, Serialize};

use super::{Access, PathError, normalise};

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
            Action::Finish => "finish",
        }
    }

    /// Every name there is, in the order of the enum.
    pub const NAMES: [&'static str; 9] =
        ["list_dir", "read_file", "search", "grep", "edit_file", "write_file", "run_command", "run_tests", "finish"];

    /// The paths that it names, and what for.
    pub(super) fn paths(&self) -> impl Iterator<Item = (Access, &str)> {
        let named = match self {
            Action::ListDir { path } | Action::ReadFile { path } | Action::Grep { path, .. } => {
                Some((Access::Read, path.as_str()))
            }
            Action::EditFile { path } | Action::WriteFile { path } => Some((Access::Write, path.as_str())),
            Action::Search { .. } | Action::RunCommand { .. } | Action::RunTests | Action::Finish => None,
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
            Action::Search { .. } | Action::RunCommand { .. } | Action::RunTests | Action::Finish => {}
        }
        Ok(action)
    }
}
