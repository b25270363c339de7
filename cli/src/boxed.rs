//! Where is it done? A sandbox behind the agent's [`Workspace`] trait.

use agent::Workspace;
use agent::gate::{Access, Policy, Verdict};
use agent::workspace::{Change, Checkpoint, Command, Ended, Entry, Ran, WorkspaceError};
use sandbox::{BoxSpec, Ending, Job, Kind, Limits, RunError, Sandbox, Snapshot, SnapshotError, ViewError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Directories that builds make, and the file beside each that says so. Not those of Maven and Gradle: the reports of their
/// tests lie in there, and the verifier reads them.
const BUILT: [(&str, &str); 2] = [("target", "Cargo.toml"), ("node_modules", "package.json")];

/// One box over the repository.
pub struct Boxed {
    spec: BoxSpec,
    sandbox: Sandbox,
    policy: Arc<Policy>,
    checkpoints: Vec<Snapshot>,
}

impl Boxed {
    /// Opens a box.
    pub fn open(spec: BoxSpec, policy: Arc<Policy>) -> Result<Self, sandbox::OpenError> {
        Ok(Self { sandbox: Sandbox::open(spec.clone())?, spec, policy, checkpoints: Vec::new() })
    }

    /// The runtime and how it is used, for the first line of a run.
    pub fn footing(&self) -> String {
        self.sandbox.footing().to_string()
    }

    /// What the box tried against itself before its first job, for the log.
    pub fn self_attack(&self) -> &sandbox::SelfAttack {
        self.sandbox.self_attack()
    }

    /// Whether this directory is what a build makes for itself, told by the file beside it. It can be larger than all the rest
    /// and says nothing that the sources do not, so neither the model nor the verifier is shown it, nor is it applied.
    fn is_built(&self, dir: &Path) -> bool {
        let name = dir.file_name().and_then(|name| name.to_str());
        let by = BUILT.iter().find(|(built, _)| Some(*built) == name).map(|(_, by)| by);
        by.is_some_and(|by| self.sandbox.view().metadata(dir.with_file_name(by)).is_ok())
    }

    /// What no job may see: the gate reads commands, but a program can open any file that is there.
    fn hidden(&self) -> Result<Vec<PathBuf>, WorkspaceError> {
        // What a job built cannot be a secret of the repository.
        let told_by_base = |entry: &sandbox::Entry| {
            !self.is_built(&entry.path) || self.spec.repo.join(&entry.path).symlink_metadata().is_ok()
        };
        let walked = self.sandbox.view().walk(told_by_base).map_err(|error| told(".", error))?;
        let denied = |path: &Path| {
            path.to_str().is_some_and(|path| self.policy.path_verdict(Access::Read, path) != Verdict::Allow)
        };
        Ok(walked
            .into_iter()
            .filter(|entry| entry.kind == Kind::File && denied(&entry.path))
            .map(|entry| entry.path)
            .collect())
    }

    /// What differs from the repository, as the sandbox tells it: what `apply` takes.
    pub fn typed_changes(&self, wanted: &[Change]) -> Result<Vec<sandbox::Change>, ViewError> {
        let paths: Vec<&Path> = wanted.iter().map(|change| Path::new(&change.path)).collect();
        // A directory on the way must be kept too, or nothing below it is looked at.
        let changes = self.sandbox.view().changes(|at| paths.iter().any(|path| path.starts_with(at.as_path())))?;
        Ok(changes.into_iter().filter(|change| paths.contains(&change.path.as_path())).collect())
    }
}

impl Workspace for Boxed {
    fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        self.sandbox.view().read(path).map_err(|error| told(path, error))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
        self.sandbox.view().write(path, bytes).map_err(|error| told(path, error))
    }

    fn remove(&mut self, path: &str) -> Result<(), WorkspaceError> {
        self.sandbox.view().remove(path).map_err(|error| told(path, error))
    }

    fn revert(&mut self, path: &str) -> Result<(), WorkspaceError> {
        let wanted = Change { path: path.to_owned(), before: None, after: None };
        let changed = self.typed_changes(&[wanted]).map_err(|error| told(path, error))?;
        match changed.into_iter().next() {
            None => Ok(()),
            Some(sandbox::Change { before: Some(bytes), .. }) => self.write(path, &bytes),
            Some(_) => self.remove(path),
        }
    }

    fn checkpoint(&mut self) -> Result<Option<Checkpoint>, WorkspaceError> {
        let snapshot = match self.sandbox.snapshot() {
            Ok(snapshot) => snapshot,
            // After so many, what a command made is not taken back any more; what the session wrote still is.
            Err(SnapshotError::TooDeep { .. }) => return Ok(None),
            Err(error) => return Err(WorkspaceError::Failed(error.to_string())),
        };
        self.checkpoints.push(snapshot);
        Ok(Some(Checkpoint(self.checkpoints.len() - 1)))
    }

    fn back_to(&mut self, Checkpoint(number): Checkpoint) -> Result<(), WorkspaceError> {
        let snapshot = self.checkpoints.get(number);
        let snapshot = snapshot.ok_or_else(|| WorkspaceError::Failed("there is no such checkpoint".into()))?;
        self.sandbox.rollback(snapshot).map_err(|error| WorkspaceError::Failed(error.to_string()))
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>, WorkspaceError> {
        let entries = self.sandbox.view().list(dir).map_err(|error| told(dir, error))?;
        let entry = |entry: sandbox::Entry| Entry {
            name: entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            directory: entry.kind == Kind::Dir,
        };
        Ok(entries.into_iter().map(entry).filter(|entry| entry.name != ".git").collect())
    }

    fn walk(&self) -> Result<Vec<String>, WorkspaceError> {
        let keep = |entry: &sandbox::Entry| {
            let named = entry.path.file_name().is_none_or(|name| name != ".git" && name != "__pycache__");
            named && !self.is_built(&entry.path)
        };
        let entries = self.sandbox.view().walk(keep).map_err(|error| told(".", error))?;
        let files = entries.into_iter().filter(|entry| entry.kind == Kind::File);
        let mut files: Vec<String> = files.filter_map(|entry| entry.path.into_os_string().into_string().ok()).collect();
        files.sort();
        Ok(files)
    }

    fn run(&mut self, command: &Command, cancel: &AtomicBool) -> Result<Ran, WorkspaceError> {
        let limits = Limits { seconds_max: command.seconds_max.as_secs_f64(), ..self.spec.limits.clone() };
        let job = Job {
            limits: Some(limits.clone()),
            hidden: self.hidden()?,
            stdin: Some(command.stdin.clone()).filter(|bytes| !bytes.is_empty()),
            env: command.env.clone(),
            merged: !command.split,
            read_only: command.read_only,
            ..Job::new(command.argv.clone())
        };
        let outcome =
            self.sandbox.run(&job, cancel).map_err(|error: RunError| WorkspaceError::Failed(error.to_string()))?;
        let ended = match outcome.ending {
            Ending::Exited(code) => Ended::Exited(i32::from(code)),
            Ending::Signalled(signal) => Ended::Stopped(format!("killed by signal {signal}")),
            Ending::DeadlineExceeded => Ended::Stopped(format!("killed: still running after {} s", limits.seconds_max)),
            Ending::OutputLimit => {
                Ended::Stopped(format!("killed: more than {} bytes of output", limits.output_bytes_max))
            }
            Ending::DiskLimit => Ended::Stopped(format!("killed: wrote more than {} bytes", limits.upper_bytes_max)),
            Ending::OutOfMemory => {
                Ended::Stopped(format!("killed: more than {} bytes of memory", limits.memory_bytes_max))
            }
            Ending::Cancelled => return Err(WorkspaceError::Cancelled),
        };
        Ok(Ran { ended, output: outcome.stdout, errors: outcome.stderr, seconds: outcome.seconds })
    }

    fn missing(&self, output: &[u8]) -> Option<String> {
        sandbox::missing(output, &self.spec.mirrors)
    }

    fn touched(&self) -> Result<Vec<String>, WorkspaceError> {
        let touched =
            self.sandbox.view().touched(|at| !self.is_built(at.as_path())).map_err(|error| told(".", error))?;
        Ok(touched.into_iter().filter_map(|path| path.into_os_string().into_string().ok()).collect())
    }

    fn changes(&self) -> Result<Vec<Change>, WorkspaceError> {
        let changes =
            self.sandbox.view().changes(|at| !self.is_built(at.as_path())).map_err(|error| told(".", error))?;
        let change = |change: sandbox::Change| {
            Some(Change {
                path: change.path.into_os_string().into_string().ok()?,
                before: change.before,
                after: change.after,
            })
        };
        Ok(changes.into_iter().filter_map(change).collect())
    }

    fn fresh(&self) -> Result<Box<dyn Workspace>, WorkspaceError> {
        let fresh = self.sandbox.fresh().map_err(|error| WorkspaceError::Failed(error.to_string()))?;
        Ok(Box::new(Self {
            spec: self.spec.clone(),
            sandbox: fresh,
            policy: self.policy.clone(),
            checkpoints: Vec::new(),
        }))
    }
}

fn told(path: &str, error: ViewError) -> WorkspaceError {
    let path = path.to_owned();
    match error {
        ViewError::NotFound(_) => WorkspaceError::NotFound { path },
        ViewError::IsDirectory(_) => WorkspaceError::Unusable { path, why: "is a directory; use list_dir".into() },
        ViewError::NotDirectory(_) => {
            WorkspaceError::Unusable { path, why: "is not a directory; use read_file".into() }
        }
        error => WorkspaceError::Unusable { path, why: error.to_string() },
    }
}
