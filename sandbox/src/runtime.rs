//! Which OCI runtime does this host have, and how is it spoken to?

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runtimes that are looked for, in this order.
pub const RUNTIME_NAMES: [&str; 3] = ["runc", "crun", "youki"];
const ALSO_IN: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// An OCI runtime: one program that takes a bundle and makes a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Runtime {
    /// The program.
    pub path: PathBuf,
}

impl Runtime {
    /// The runtimes of this host; only `chosen` when that is given and exists.
    pub fn find(chosen: Option<&Path>) -> Vec<Runtime> {
        if let Some(path) = chosen {
            return if path.is_file() { vec![Runtime { path: path.to_owned() }] } else { Vec::new() };
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<PathBuf> = env::split_paths(&path).chain(ALSO_IN.map(PathBuf::from)).collect();
        let mut seen = BTreeSet::new();
        RUNTIME_NAMES
            .iter()
            .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)))
            .filter(|path| path.is_absolute())
            .filter_map(|path| fs::canonicalize(path).ok())
            .filter(|path| path.is_file() && seen.insert(path.clone()))
            .map(|path| Runtime { path })
            .collect()
    }

    /// First line of what `--version` says.
    pub fn version(&self) -> Option<String> {
        let told = Command::new(&self.path).arg("--version").stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&told.stdout).lines().next()?.trim().to_owned())
    }

    /// Whether `run --keep` exists: then the control group can be read after the job, before the container is deleted.
    pub(crate) fn can_keep(&self) -> bool {
        let told = Command::new(&self.path).args(["run", "--help"]).stdin(Stdio::null()).output();
        told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).split_whitespace().any(|word| word == "--keep"))
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// The runtime with its options; `root` is where it keeps its own notes about containers.
    pub(crate) fn command(&self, root: &Path, log: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
        // A private place: an ordinary user may not write where these programs look by themselves.
        command.env("XDG_RUNTIME_DIR", root);
        command.arg("--root").arg(root).arg("--log").arg(log).args(["--log-format", "json"]);
        command
    }

    /// Options that tell the runtime to leave control groups alone.
    pub(crate) fn without_cgroups(&self) -> &'static [&'static str] {
        if self.name() == "crun" { &["--cgroup-manager=disabled"] } else { &["--rootless=true"] }
    }

    /// Kills every process of a container; `Err` when there is no such container (any more, or yet).
    pub(crate) fn kill(&self, root: &Path, id: &str) -> io::Result<()> {
        self.order(root, &["kill", id, "KILL"])
    }

    /// Kills what is left of a container and forgets it.
    pub(crate) fn delete(&self, root: &Path, id: &str) -> io::Result<()> {
        self.order(root, &["delete", "--force", id])
    }

    fn order(&self, root: &Path, args: &[&str]) -> io::Result<()> {
        let mut command = self.command(root, Path::new("/dev/null"));
        let told = command.args(args).stdin(Stdio::null()).output()?;
        if told.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&told.stderr).trim().to_owned()))
    }
}

/// The errors in a runtime's JSON log, last one last.
pub(crate) fn logged_errors(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["level"] == "error" || line["level"] == "fatal")
        .filter_map(|line| line["msg"].as_str().map(str::to_owned))
        .collect()
}
