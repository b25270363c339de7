//! How is git asked about a repository that nobody trusts? So that nothing which the repository configures is started.
//!
//! The configuration of a repository can make git run programs: hooks, the file monitor, pagers, external diffs,
//! signatures, lazy fetches. So git is started from a fixed place with an environment of its own, and all of that is
//! overruled. The commands that run filters (a checkout, an archive) are for nobody to ask.

use std::path::Path;
use std::process::{Command, Stdio};

/// Where git is looked for. Not in PATH, which may lead into the tree.
const PROGRAMS: &[&str] = &["/usr/bin/git", "/usr/local/bin/git", "/bin/git"];
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C"),
];
const SETTINGS: &[&str] = &[
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "diff.external=",
    "gpg.program=/bin/false",
    "log.showSignature=false",
    "protocol.allow=never",
];

/// Git over the repository in `directory`, ready for a subcommand that only reads; nothing where it is not installed.
/// It reads nothing and its errors are dropped, unless the caller says otherwise.
#[must_use]
pub fn inert_git(directory: &Path) -> Option<Command> {
    let program = PROGRAMS.iter().map(Path::new).find(|path| path.is_file())?;
    let mut command = Command::new(program);
    command.env_clear().envs(ENVIRONMENT.iter().copied());
    command.args(["--no-optional-locks", "--no-pager", "-C"]).arg(directory);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null());
    Some(command)
}
