//! What is one box, from its first job to its closing?

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::beneath::Kind;
use crate::container::{Frame, RunError, Watch, bundle_dir, layers_dir, runtime_root};
use crate::footing::{Footing, Tier};
use crate::job::{Job, JobError, Outcome};
use crate::limits::Limits;
use crate::open::{BoxSpec, OpenError};
use crate::path::RelPath;
use crate::pool::{Patience, Pool};
use crate::pump::Budget;
use crate::remove::{remove_box, remove_tree};
use crate::selfcheck::{self, SelfAttack};
use crate::usage::Growth;
use crate::view::View;
use crate::warm::Warm;

/// One copy-on-write view over a repository, in which jobs run one after the other.
pub struct Sandbox {
    pub(crate) spec: BoxSpec,
    pub(crate) frame: Frame,
    pub(crate) view: View,
    pub(crate) self_attack: Arc<SelfAttack>,
    /// Held while a job runs, because two overlays may not share an upper layer.
    line: Mutex<Line>,
    pub(crate) pool: Pool,
}

struct Line {
    /// How many containers there were.
    containers: u64,
    /// How many orders warm boxes got.
    orders: u32,
    warmth: Warmth,
    /// Why the last warm box was not kept.
    unfit: Option<String>,
}

/// Whether jobs share a container that is kept between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warmth {
    /// They do. One that leaves anything behind, or has other limits or hidden paths, still costs a fresh container.
    Warm,
    /// Every job gets a fresh container, for this reason.
    Cold(String),
}

impl Sandbox {
    /// A box on a footing that was attacked.
    pub(crate) fn assemble(
        spec: &BoxSpec,
        frame: Frame,
        view: View,
        (self_attack, warmth): (Arc<SelfAttack>, Warmth),
    ) -> Sandbox {
        let line = Mutex::new(Line { containers: 0, orders: 0, warmth, unfit: None });
        Sandbox { spec: spec.clone(), frame, view, self_attack, line, pool: Pool::new(Patience::default()) }
    }

    /// Another box over the same repository, without the changes of this one: where a verifier applies only what is allowed.
    pub fn fresh(&self) -> Result<Sandbox, OpenError> {
        Self::open(self.spec.clone())
    }

    /// Runs one job over the same upper layer, in a fresh container or one that is as good as that; waits for a job that runs
    /// already. Setting `cancel` kills the whole tree within half a second.
    pub fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let cwd = job.check()?;
        let limits = job.limits.as_ref().unwrap_or(&self.spec.limits);
        if let Some(limit) = limits.too_tight() {
            return Err(JobError::Tight(limit).into());
        }
        let mut line = self.line();
        if !self.view.metadata(&cwd).is_ok_and(|entry| entry.kind == Kind::Dir) {
            return Err(JobError::Cwd(cwd).into());
        }
        // What is hidden is covered by mounts that the runtime makes, which a running container cannot get; and its
        // workspace can be written.
        if line.warmth == Warmth::Warm && job.hidden.is_empty() && !job.read_only {
            match self.warm(&mut line, limits) {
                Ok(warm) => return self.run_warm(warm, &mut line, (job, &cwd), limits, (started, cancel)),
                Err(reason) => line.warmth = Warmth::Cold(reason),
            }
        }
        line.containers += 1;
        self.frame.run(&self.view, (job, &cwd), limits, line.containers, cancel)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A warm box with a workspace in it: the idle one when it suits and works, else a new one.
    fn warm(&self, line: &mut Line, limits: &Limits) -> Result<Warm, String> {
        let mut idle = self.pool.take(|warm| warm.suits(&self.frame, limits));
        if idle.as_mut().is_some_and(|warm| warm.prepare(&self.frame, limits).is_err()) {
            idle = None;
        }
        if let Some(warm) = idle {
            return Ok(warm);
        }
        let Tier::Oci(runtime) = &self.frame.footing.tier else { return Err(NO_WARM_ENGINE.into()) };
        line.containers += 1;
        let mut warm = Warm::start(&self.frame, runtime, limits, line.containers).map_err(|error| error.to_string())?;
        warm.prepare(&self.frame, limits)?;
        Ok(warm)
    }

    fn run_warm(
        &self,
        mut warm: Warm,
        line: &mut Line,
        job: (&Job, &RelPath),
        limits: &Limits,
        (started, cancel): (Instant, &AtomicBool),
    ) -> Result<Outcome, RunError> {
        line.orders = line.orders.wrapping_add(1);
        let budget = Budget::new(limits.output_bytes_max);
        let growth = Growth::new(&self.view, limits.upper_bytes_max);
        let ran = warm.run(&self.frame, job, line.orders, Watch { started, limits, cancel, budget, growth });
        // A box that is not put back dies here, before the harness may write into the layers.
        match ran.unfit {
            None => self.pool.put(warm),
            Some(reason) => line.unfit = Some(reason),
        }
        ran.outcome
    }

    /// Has the attacks of the self-check made in a warm box too; where one is not to be had or one succeeds, there is none.
    pub(crate) fn attack_warm(&self) {
        let mut line = self.line();
        let attacked = selfcheck::attack(&self.frame.dir, &self.frame.footing.tier, |job, limits| {
            let warm = self.warm(&mut line, limits).map_err(|reason| RunError::Runtime { reason })?;
            let job = (job, &RelPath::root());
            self.run_warm(warm, &mut line, job, limits, (Instant::now(), &AtomicBool::new(false)))
        });
        // It has the limits of the self-check, which no job has.
        self.pool.clear();
        if let Err(reason) = attacked {
            line.warmth = Warmth::Cold(reason);
        }
    }

    /// Whether jobs share a container, as far as is known by now.
    pub fn warmth(&self) -> Warmth {
        self.line().warmth.clone()
    }

    /// Why the last warm box that was thrown away after a job was: what the job left in it.
    pub fn unfit(&self) -> Option<String> {
        self.line().unfit.clone()
    }

    /// Stops the idle warm boxes where they are, so that they use no processor time; a job lets the one that it needs go on. Happens by itself
    /// after seconds. `false`: there is none, or no control group to stop it with.
    pub fn pause(&self) -> io::Result<bool> {
        Ok(self.pool.each(Warm::pause)?.into_iter().any(|is_paused| is_paused))
    }

    /// Lets paused boxes go on before a job needs them.
    pub fn resume(&self) -> io::Result<()> {
        self.pool.each(Warm::resume).map(drop)
    }

    /// Process 1 of the idle warm box that was used last, as the host numbers it.
    pub fn warm_pid(&self) -> Option<u32> {
        self.pool.idle(|warm| warm.pid())
    }

    /// The workspace, for the harness to read and write between jobs.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Names the box; its containers are called `cloister-ID-NUMBER`.
    pub fn id(&self) -> &str {
        &self.frame.id
    }

    /// The way in which this box runs its jobs.
    pub fn footing(&self) -> &Footing {
        &self.frame.footing
    }

    /// What the first box of this process on this footing found when it attacked itself. Everything held, or there were no box.
    pub fn self_attack(&self) -> &SelfAttack {
        &self.self_attack
    }

    /// The repository, as it was resolved.
    pub fn repo(&self) -> &Path {
        &self.frame.repo
    }

    /// Throws the box and its changes away. What forks and snapshots still need goes with the last of them.
    pub fn close(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        // The containers first: they hold the layers.
        self.pool.close();
        self.view.let_go();
        self.frame.stack.clear();
        let Frame { dir, lineage, .. } = &self.frame;
        if !lineage.began_with(dir) || Arc::strong_count(lineage) == 1 {
            return remove_box(dir);
        }
        [layers_dir(dir), bundle_dir(dir), runtime_root(dir), dir.join("spent")]
            .iter()
            .try_for_each(|part| remove_tree(part))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // After `close` there is nothing left to remove.
        let _ = self.end();
    }
}

pub(crate) const NO_WARM_ENGINE: &str = "an engine makes a container for each job";
