//! How does one container live and die?

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bundle::{self, Places};
use crate::cgroup;
use crate::footing::{Footing, Ids};
use crate::job::{Ending, Job, JobError, Outcome, Usage};
use crate::limits::Limits;
use crate::path::RelPath;
use crate::pump::{Budget, Pump};
use crate::runtime;
use crate::stage::{self, How, Part};
use crate::usage::Growth;
use crate::view::View;

/// Why a job did not become an [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job itself is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The runtime could not make the container.
    #[error("the OCI runtime refused: {reason}")]
    Runtime {
        /// What it said.
        reason: String,
    },
    /// The bundle or the runtime's process could not be made.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

pub(crate) fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Io { what, source }
}

/// What all containers of a box share.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Names the box, its directory and its containers.
    pub(crate) id: String,
    /// The box's own directory: bundle, layers and notes.
    pub(crate) dir: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) tools: Vec<PathBuf>,
    pub(crate) footing: Footing,
    pub(crate) ids: Ids,
}

/// Where a box's directory keeps what.
pub(crate) fn bundle_dir(dir: &Path) -> PathBuf {
    dir.join("bundle")
}
pub(crate) fn layers_dir(dir: &Path) -> PathBuf {
    dir.join("layers")
}
/// The runtime's notes: one directory per container that may exist.
pub(crate) fn runtime_root(dir: &Path) -> PathBuf {
    dir.join("runtime")
}

impl Frame {
    /// Runs one job in the container `cloister-ID-NUMBER` and leaves nothing of it but the upper layer.
    pub(crate) fn run(
        &self,
        view: &View,
        (job, cwd): (&Job, &RelPath),
        limits: &Limits,
        number: u64,
        cancel: &AtomicBool,
    ) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let name = format!("cloister-{}-{number}", self.id);
        let log = self.dir.join("runtime.log");
        let _ = fs::remove_file(&log);
        let budget = Budget::new(limits.output_bytes_max);
        let (child, pumps) = self.start(&name, &log, (job, cwd), limits, &budget)?;
        let mut watch = Watch { started, limits, cancel, budget, growth: Growth::new(view, limits.upper_bytes_max) };
        let waited = self.wait(child, &name, &mut watch);
        if waited.is_err() {
            self.clean_up(&name, true);
        }
        let (status, stopped) = waited?;
        let usage = self.clean_up(&name, stopped.is_some() || !status.success());
        let mut streams = pumps.into_iter().map(Pump::finish);
        let (stdout, stdout_truncated) = streams.next().unwrap_or_default();
        let (stderr, stderr_truncated) = streams.next().unwrap_or_default();
        let ending = match stopped.or_else(|| watch.verdict_after()) {
            Some(ending) => ending,
            None => ending_of(status, &usage, &log)?,
        };
        let seconds = started.elapsed().as_secs_f64();
        Ok(Outcome { ending, stdout, stderr, stdout_truncated, stderr_truncated, seconds, usage })
    }

    fn start(
        &self,
        name: &str,
        log: &Path,
        (job, cwd): (&Job, &RelPath),
        limits: &Limits,
        budget: &Arc<Budget>,
    ) -> Result<(Child, Vec<Pump>), RunError> {
        let bundle_dir = bundle_dir(&self.dir);
        let visible = [self.dir.as_path(), &self.footing.runtime.path];
        let place = if bundle::is_staged(self.footing.mapping) {
            Some(
                stage::place(&visible)
                    .ok_or_else(|| RunError::Runtime { reason: "no directory for the stage".into() })?,
            )
        } else {
            None
        };
        let places = self.places(place.as_deref());
        let mut config = bundle::config(job, cwd, limits, &self.footing, &self.ids, &places);
        if self.footing.cgroups {
            config["linux"]["cgroupsPath"] = format!("/{name}").into();
        }
        fs::write(bundle_dir.join("config.json"), config.to_string()).map_err(io_error("write the bundle"))?;

        let mut command = self.footing.runtime.command(&runtime_root(&self.dir), log);
        if !self.footing.cgroups {
            command.args(self.footing.runtime.without_cgroups());
        }
        command.arg("run");
        if self.footing.keeps {
            command.arg("--keep");
        }
        command.arg("--bundle").arg(&places.bundle).arg(name);
        let pumps = Streams::connect(&mut command, job).map_err(io_error("make pipes"))?;
        let mut child = match &place {
            Some(place) => stage::spawn(place, &self.parts(), self.ids.idmap.as_ref(), &mut command),
            None => command.spawn(),
        }
        .map_err(io_error("start the OCI runtime"))?;
        // Our copies of the pipes' writing ends go with the command, so that the pumps see the end.
        drop(command);
        feed(&mut child, job.stdin.clone());
        let pumps = pumps.start(&mut child, budget);
        Ok((child, pumps))
    }

    fn places(&self, stage: Option<&Path>) -> Places {
        let trees = bundle::host_trees(&self.tools).into_iter();
        match stage {
            Some(stage) => Places {
                bundle: stage.join("bundle"),
                lower: stage.join("lower"),
                layers: stage.join("layers"),
                shown: trees.enumerate().map(|(n, tree)| (stage.join(host_part(n)), tree)).collect(),
            },
            None => Places {
                bundle: bundle_dir(&self.dir),
                lower: self.repo.clone(),
                layers: layers_dir(&self.dir),
                shown: trees.map(|tree| (tree.clone(), tree)).collect(),
            },
        }
    }

    fn parts(&self) -> Vec<Part> {
        let part = |source: PathBuf, name: &str, how| Part { source, name: name.to_owned(), how };
        let mut parts = vec![
            part(bundle_dir(&self.dir), "bundle", How::Plain),
            part(self.repo.clone(), "lower", How::Idmapped),
            part(layers_dir(&self.dir), "layers", How::Idmapped),
        ];
        let trees = bundle::host_trees(&self.tools).into_iter().enumerate();
        parts.extend(trees.map(|(n, tree)| part(tree, &host_part(n), How::ReadOnly)));
        parts
    }

    /// Waits for the runtime; stops the whole tree when the watch says so.
    fn wait(
        &self,
        mut child: Child,
        name: &str,
        watch: &mut Watch<'_>,
    ) -> Result<(ExitStatus, Option<Ending>), RunError> {
        loop {
            if let Some(status) = child.try_wait().map_err(io_error("wait for the OCI runtime"))? {
                return Ok((status, None));
            }
            if let Some(ending) = watch.verdict() {
                self.kill(&mut child, name);
                let status = child.wait().map_err(io_error("wait for the OCI runtime"))?;
                return Ok((status, Some(ending)));
            }
            thread::sleep((watch.started.elapsed() / 20).clamp(Duration::from_millis(1), Duration::from_millis(20)));
        }
    }

    /// Kills process 1 of the container, and with it, as it leads the process-id namespace, every other one.
    fn kill(&self, child: &mut Child, name: &str) {
        let root = runtime_root(&self.dir);
        let started = Instant::now();
        let gone = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        // The container may not exist yet, therefore more than one try.
        while !gone(child) && self.footing.runtime.kill(&root, name).is_err() && started.elapsed() < KILL_PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        while !gone(child) && started.elapsed() < KILL_PATIENCE {
            thread::sleep(Duration::from_millis(2));
        }
        if !gone(child) {
            let _ = child.kill();
        }
    }

    /// Reads what the container used and makes the runtime forget it.
    fn clean_up(&self, name: &str, doubtful: bool) -> Usage {
        let usage = if self.footing.keeps && self.footing.cgroups { cgroup::usage(name) } else { Usage::default() };
        if self.footing.keeps || doubtful {
            let root = runtime_root(&self.dir);
            let _ = self.footing.runtime.delete(&root, name);
        }
        usage
    }
}

fn host_part(number: usize) -> String {
    format!("host{number}")
}

const KILL_PATIENCE: Duration = Duration::from_millis(300);

fn ending_of(status: ExitStatus, usage: &Usage, log: &Path) -> Result<Ending, RunError> {
    let mut errors = runtime::logged_errors(log);
    if let Some(reason) = errors.pop() {
        return Err(RunError::Runtime { reason });
    }
    let code = status.code().ok_or_else(|| RunError::Runtime { reason: format!("it ended with {status}") })?;
    if code != 0 && usage.memory_kills.is_some_and(|kills| kills > 0) {
        return Ok(Ending::OutOfMemory);
    }
    Ok(Ending::from_code(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// What ends a job from outside.
struct Watch<'a> {
    started: Instant,
    limits: &'a Limits,
    cancel: &'a AtomicBool,
    budget: Arc<Budget>,
    growth: Growth<'a>,
}

impl Watch<'_> {
    fn verdict(&mut self) -> Option<Ending> {
        if self.cancel.load(Ordering::Relaxed) {
            Some(Ending::Cancelled)
        } else if self.started.elapsed() >= self.limits.deadline() {
            Some(Ending::DeadlineExceeded)
        } else if self.budget.is_exceeded() {
            Some(Ending::OutputLimit)
        } else if self.growth.is_exceeded_now_and_then() {
            Some(Ending::DiskLimit)
        } else {
            None
        }
    }

    /// A job that ended by itself may still have gone over a limit since the last look.
    fn verdict_after(&self) -> Option<Ending> {
        if self.budget.is_exceeded() {
            Some(Ending::OutputLimit)
        } else if self.growth.is_exceeded() {
            Some(Ending::DiskLimit)
        } else {
            None
        }
    }
}

/// The reading ends of a job's output, before the job has started.
enum Streams {
    Merged(io::PipeReader),
    Two,
}

impl Streams {
    fn connect(command: &mut Command, job: &Job) -> io::Result<Streams> {
        command.stdin(if job.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        // A terminal's Ctrl-C is for us alone: we end the job in order.
        std::os::unix::process::CommandExt::process_group(command, 0);
        if !job.merged {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            return Ok(Streams::Two);
        }
        let (reader, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        Ok(Streams::Merged(reader))
    }

    fn start(self, child: &mut Child, budget: &Arc<Budget>) -> Vec<Pump> {
        match self {
            Streams::Merged(reader) => vec![Pump::start(reader, Arc::clone(budget))],
            Streams::Two => {
                let stdout = child.stdout.take().map(|from| Pump::start(from, Arc::clone(budget)));
                let stderr = child.stderr.take().map(|from| Pump::start(from, Arc::clone(budget)));
                stdout.into_iter().chain(stderr).collect()
            }
        }
    }
}

/// Writes standard input from a thread of its own; a job that does not read it just ends.
fn feed(child: &mut Child, bytes: Option<Vec<u8>>) {
    if let (Some(mut stdin), Some(bytes)) = (child.stdin.take(), bytes) {
        thread::spawn(move || stdin.write_all(&bytes));
    }
}
