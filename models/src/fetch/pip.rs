//! How does one wheel get onto this disk? By the ordinary pip client, with whatever mirror its configuration names.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{FetchError, Stop, Transfer};
use crate::Wheel;
use crate::pull::PullError;

/// How much of pip's last words an error carries.
const STDERR_TAIL_BYTES: u64 = 1500;

/// The lines of it, from the end.
const STDERR_TAIL_LINES: usize = 3;

/// How long to sleep between two looks at a running pip.
const POLL: Duration = Duration::from_millis(30);

/// How pip is run.
#[derive(Debug, Clone)]
pub struct Pip {
    /// The Python that has pip.
    pub python: PathBuf,
    /// Variables to set for pip on top of the environment, such as `PIP_INDEX_URL`.
    pub env: Vec<(OsString, OsString)>,
    /// The longest time that one wheel may take.
    pub wheel_seconds_max: u64,
    /// How often pip is run again for a wheel when it failed, once the mirror has served another wheel.
    pub retries_max: u32,
}

impl Default for Pip {
    fn default() -> Pip {
        Pip { python: "python3".into(), env: Vec::new(), wheel_seconds_max: 900, retries_max: 2 }
    }
}

impl Pip {
    /// Downloads one wheel into `dir`, which must be empty, and says where it is. Its hash is not checked here.
    ///
    /// Nothing of the package runs: source distributions, whose build would run code, are refused.
    pub(crate) fn download(&self, wheel: &Wheel, dir: &Path, transfer: &Transfer<'_, '_>) -> Result<PathBuf, Stop> {
        let stderr_path = dir.join("pip.stderr");
        let stderr = File::create(&stderr_path).map_err(|e| PullError::io("make", &stderr_path, e))?;
        let mut command = self.command(dir, &["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]);
        command.args(["--no-cache-dir", "--disable-pip-version-check", "--no-input", "-q", "-d"]).arg(dir);
        command.arg(format!("{}=={}", wheel.package, wheel.version));
        // What pip unpacks on the way belongs into the directory that is removed afterwards.
        command.env("TMPDIR", dir).stdout(Stdio::null()).stderr(stderr);
        let mut child = command.process_group(0).spawn().map_err(|source| self.no_python(source))?;
        let status = self.wait(&mut child, wheel, transfer)?;
        if !status.success() {
            if !self.has_pip(dir) {
                return Err(FetchError::NoPip { python: self.python.display().to_string() }.into());
            }
            return Err(failed(wheel, tail(&stderr_path)));
        }
        let entries = std::fs::read_dir(dir).map_err(|e| PullError::io("list", dir, e))?;
        let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let wheel_path = paths.find(|path| path.extension().is_some_and(|ext| ext == "whl"));
        wheel_path.ok_or_else(|| failed(wheel, "it ended well and left no wheel".to_string()))
    }

    fn command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        // pip's own default keeps trying for about 8 seconds where there is no network.
        if std::env::var_os("PIP_RETRIES").is_none() {
            command.env("PIP_RETRIES", "3");
        }
        // `python -m` and `-c` import from the working directory first, which may be a repository with a pip.py in it.
        command.current_dir(dir).args(args).envs(self.env.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Waits for pip; kills it and what it started on a cancel or past the time limit.
    fn wait(&self, child: &mut Child, wheel: &Wheel, transfer: &Transfer<'_, '_>) -> Result<ExitStatus, Stop> {
        let deadline = Instant::now() + Duration::from_secs(self.wheel_seconds_max);
        loop {
            if let Some(status) = child.try_wait().map_err(|e| PullError::io("wait for", &self.python, e))? {
                return Ok(status);
            }
            let cancelled = transfer.check_cancel();
            if cancelled.is_err() || Instant::now() >= deadline {
                // Its own process group, so the group's number is the child's.
                let _ = rustix::process::kill_process_group(
                    rustix::process::Pid::from_child(child),
                    rustix::process::Signal::KILL,
                );
                let _ = child.wait();
                cancelled?;
                let (package, seconds) = (wheel.package.clone(), self.wheel_seconds_max);
                return Err(FetchError::PipTimeout { package, seconds }.into());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Asked only after pip has failed, to tell a missing pip from a missing package.
    fn has_pip(&self, dir: &Path) -> bool {
        let mut command = self.command(dir, &["-c", "import pip"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn no_python(&self, source: std::io::Error) -> Stop {
        FetchError::NoPython { python: self.python.display().to_string(), source }.into()
    }
}

fn failed(wheel: &Wheel, stderr_tail: String) -> Stop {
    let (package, version) = (wheel.package.clone(), wheel.version.clone());
    FetchError::Pip { package, version, stderr_tail }.into()
}

/// The end of pip's error output on one line, without control characters: it may quote a server. The last lines are
/// the newest warning, which has the cause, and pip's own conclusion.
fn tail(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let length = file.metadata().map_or(0, |m| m.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL_BYTES)));
        let _ = file.take(STDERR_TAIL_BYTES).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_string())
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        return "it said nothing".to_string();
    }
    lines[lines.len().saturating_sub(STDERR_TAIL_LINES)..].join(" / ")
}
