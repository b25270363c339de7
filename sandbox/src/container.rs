//! How does one container live and die?

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bundle::{self, Places};
use crate::cgroup;
use crate::docker;
use crate::footing::{Footing, Ids, Tier};
use crate::job::{Ending, Job, JobError, Outcome, Usage};
use crate::limits::Limits;
use crate::lineage::{Frozen, Lineage};
use crate::path::RelPath;
use crate::policy::{self, Process};
use crate::pump::{Budget, Pump};
use crate::remove::remove_tree;
use crate::runtime::{self, Runtime};
use crate::sockets;
use crate::stage::{self, How, Part};
use crate::usage::Growth;
use crate::view::View;

/// Why a job did not become an [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job itself is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The runtime or the engine could not make the container.
    #[error("the runtime or the engine refused: {reason}")]
    Runtime {
        /// What it said.
        reason: String,
    },
    /// Process 1 of a warm box died during the job, or did not speak as it should.
    #[error("the box died during the job or answered nonsense, and was thrown away; the next job gets a fresh one")]
    Init,
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
    /// User and group of the repository.
    pub(crate) owner: (u32, u32),
    /// Directories that the box shows at their own paths, beside /usr.
    pub(crate) tools: Vec<PathBuf>,
    /// The variables that every job finds.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) footing: Footing,
    pub(crate) ids: Ids,
    pub(crate) lineage: Arc<Lineage>,
    /// The frozen layers under the one that is written, topmost first.
    pub(crate) stack: Vec<Arc<Frozen>>,
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
        job: (&Job, &RelPath),
        limits: &Limits,
        number: u64,
        cancel: &AtomicBool,
    ) -> Result<Outcome, RunError> {
        match &self.footing.tier {
            Tier::Oci(runtime) => self.run_oci(runtime, view, job, (limits, number), cancel),
            Tier::Docker(socket) => docker::run(self, socket, view, job, (limits, number), cancel),
        }
    }

    /// Names a container of this box.
    pub(crate) fn container(&self, number: u64) -> String {
        format!("cloister-{}-{number}", self.id)
    }

    fn run_oci(
        &self,
        runtime: &Runtime,
        view: &View,
        job: (&Job, &RelPath),
        (limits, number): (&Limits, u64),
        cancel: &AtomicBool,
    ) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let name = self.container(number);
        let log = self.dir.join("runtime.log");
        let _ = fs::remove_file(&log);
        let budget = Budget::new(limits.output_bytes_max);
        let (child, pumps) = self.start(runtime, (&name, &log), job, limits, &budget)?;
        let mut watch = Watch { started, limits, cancel, budget, growth: Growth::new(view, limits.upper_bytes_max) };
        let waited = self.wait(runtime, child, &name, &mut watch);
        if waited.is_err() {
            self.clean_up(runtime, &name, true);
        }
        let (status, stopped) = waited?;
        let usage = self.clean_up(runtime, &name, stopped.is_some() || !status.success());
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
        runtime: &Runtime,
        (name, log): (&str, &Path),
        (job, cwd): (&Job, &RelPath),
        limits: &Limits,
        budget: &Arc<Budget>,
    ) -> Result<(Child, Vec<Pump>), RunError> {
        let place = self.stage_place(runtime)?;
        let places = self.places(place.as_deref());
        self.renew_work(None)?;
        self.write_config(name, Process::Job(job, cwd, &self.env), limits, &places)?;
        let mut command = self.run_command(runtime, log);
        if self.footing.keeps {
            command.arg("--keep");
        }
        command.arg("--bundle").arg(&places.bundle).arg(name);
        let pumps = Streams::connect(&mut command, job).map_err(io_error("make pipes"))?;
        let mut child = match &place {
            Some(place) => {
                stage::within(place, &self.parts(), self.ids.idmap.as_ref(), || command.spawn()).and_then(|it| it)
            }
            None => command.spawn(),
        }
        .map_err(io_error("start the OCI runtime"))?;
        // Our copies of the pipes' writing ends go with the command, so that the pumps see the end.
        drop(command);
        feed(&mut child, job.stdin.clone());
        let pumps = pumps.start(&mut child, budget);
        Ok((child, pumps))
    }

    /// Empties the directory that an overlay works in: one that was mounted without syncing (`volatile`) leaves a mark there,
    /// and with it the next one would be refused. What was in it goes into `spent`, or is removed, which on a busy disk takes
    /// longer than a job in a warm box.
    pub(crate) fn renew_work(&self, spent: Option<&Path>) -> Result<(), RunError> {
        let work = layers_dir(&self.dir).join("work");
        let renewed = (|| {
            if let Some(spent) = spent {
                fs::create_dir_all(spent)?;
                return set_aside(&work.join("work"), spent);
            }
            remove_tree(&work)?;
            fs::create_dir(&work)?;
            let staged = bundle::is_staged(self.footing.mapping);
            if staged { chown(&work, Some(self.owner.0), Some(self.owner.1)) } else { Ok(()) }
        })();
        renewed.map_err(io_error("make the overlay's work directory"))
    }

    /// Sockets of the host below the trees that the box shows.
    pub(crate) fn host_sockets(&self) -> Vec<PathBuf> {
        sockets::below(policy::host_trees(&self.tools).iter().map(PathBuf::as_path))
    }

    /// Where the stage goes; `None` where the mapping needs none.
    pub(crate) fn stage_place(&self, runtime: &Runtime) -> Result<Option<PathBuf>, RunError> {
        if !bundle::is_staged(self.footing.mapping) {
            return Ok(None);
        }
        let visible = [self.dir.as_path(), &runtime.path];
        let place = stage::place(&visible);
        place.map(Some).ok_or_else(|| RunError::Runtime { reason: "no directory for the stage".into() })
    }

    pub(crate) fn write_config(
        &self,
        name: &str,
        process: Process<'_>,
        limits: &Limits,
        places: &Places,
    ) -> Result<(), RunError> {
        let mut config = bundle::config(process, limits, &self.footing, &self.ids, places);
        if self.footing.cgroups {
            config["linux"]["cgroupsPath"] = format!("/{name}").into();
        }
        let path = bundle_dir(&self.dir).join("config.json");
        fs::write(path, config.to_string()).map_err(io_error("write the bundle"))
    }

    /// The runtime's `run`, without the options that say how and what.
    pub(crate) fn run_command(&self, runtime: &Runtime, log: &Path) -> Command {
        let mut command = runtime.command(&runtime_root(&self.dir), log);
        if !self.footing.cgroups {
            command.args(runtime.without_cgroups());
        }
        command.arg("run");
        // A terminal's Ctrl-C is for us alone: we end the job in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    pub(crate) fn places(&self, stage: Option<&Path>) -> Places {
        let trees = policy::host_trees(&self.tools).into_iter();
        let stack = self.stack.iter().map(|frozen| frozen.number()).collect();
        match stage {
            Some(stage) => Places {
                bundle: stage.join("bundle"),
                lower: stage.join("lower"),
                layers: stage.join("layers"),
                frozen: stage.join("frozen"),
                stack,
                shown: trees.enumerate().map(|(n, tree)| (stage.join(host_part(n)), tree)).collect(),
            },
            None => Places {
                bundle: bundle_dir(&self.dir),
                lower: self.repo.clone(),
                layers: layers_dir(&self.dir),
                frozen: self.lineage.place(),
                stack,
                shown: trees.map(|tree| (tree.clone(), tree)).collect(),
            },
        }
    }

    pub(crate) fn parts(&self) -> Vec<Part> {
        let part = |source: PathBuf, name: &str, how| Part { source, name: name.to_owned(), how };
        let mut parts = vec![
            part(bundle_dir(&self.dir), "bundle", How::Plain),
            part(self.repo.clone(), "lower", How::Idmapped),
            part(layers_dir(&self.dir), "layers", How::Idmapped),
            part(self.lineage.place(), "frozen", How::Idmapped),
        ];
        let trees = policy::host_trees(&self.tools).into_iter().enumerate();
        parts.extend(trees.map(|(n, tree)| part(tree, &host_part(n), How::ReadOnly)));
        parts
    }

    /// Waits for the runtime; stops the whole tree when the watch says so.
    fn wait(
        &self,
        runtime: &Runtime,
        mut child: Child,
        name: &str,
        watch: &mut Watch<'_>,
    ) -> Result<(ExitStatus, Option<Ending>), RunError> {
        loop {
            if let Some(status) = child.try_wait().map_err(io_error("wait for the OCI runtime"))? {
                return Ok((status, None));
            }
            if let Some(ending) = watch.verdict() {
                self.kill(runtime, &mut child, name);
                let status = child.wait().map_err(io_error("wait for the OCI runtime"))?;
                return Ok((status, Some(ending)));
            }
            thread::sleep(watch.pause());
        }
    }

    /// Kills process 1 of the container, and with it, as it leads the process-id namespace, every other one.
    fn kill(&self, runtime: &Runtime, child: &mut Child, name: &str) {
        let root = runtime_root(&self.dir);
        let started = Instant::now();
        let gone = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        // The container may not exist yet, therefore more than one try.
        while !gone(child) && runtime.kill(&root, name).is_err() && started.elapsed() < KILL_PATIENCE {
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
    fn clean_up(&self, runtime: &Runtime, name: &str, doubtful: bool) -> Usage {
        let usage = if self.footing.keeps && self.footing.cgroups { cgroup::usage(name) } else { Usage::default() };
        if self.footing.keeps || doubtful {
            let root = runtime_root(&self.dir);
            let _ = runtime.delete(&root, name);
        }
        usage
    }
}

/// Moves a directory, where there is one, into `spent`. Overlayfs makes it without permissions, without which an ordinary user
/// cannot move it. Jobs do not reach it.
fn set_aside(dir: &Path, spent: &Path) -> io::Result<()> {
    static NAME: AtomicU64 = AtomicU64::new(0);
    let moved = fs::set_permissions(dir, Permissions::from_mode(0o700))
        .and_then(|()| fs::rename(dir, spent.join(NAME.fetch_add(1, Ordering::Relaxed).to_string())));
    match moved {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
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
pub(crate) struct Watch<'a> {
    pub(crate) started: Instant,
    pub(crate) limits: &'a Limits,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) budget: Arc<Budget>,
    pub(crate) growth: Growth<'a>,
}

impl Watch<'_> {
    /// How long to sleep before the next look: a twentieth of the time that went by.
    pub(crate) fn pause(&self) -> Duration {
        (self.started.elapsed() / 20).clamp(Duration::from_millis(1), Duration::from_millis(20))
    }

    pub(crate) fn verdict(&mut self) -> Option<Ending> {
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
    pub(crate) fn verdict_after(&self) -> Option<Ending> {
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
