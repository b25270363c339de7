//! How does one container of an engine live and die?

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::body::{self, Parts};
use super::engine::{Ended, Engine, EngineError};
use super::image;
use super::socket::Socket;
use super::stage::{self, Stage};
use crate::container::{Frame, RunError, Watch, bundle_dir, io_error};
use crate::job::{Ending, Job, Outcome, Usage};
use crate::limits::Limits;
use crate::owner::Owner;
use crate::path::RelPath;
use crate::policy::{self, Policy, Process};
use crate::pump::Budget;
use crate::usage::Growth;
use crate::view::View;

/// Labels of all that we have an engine make: whose box it is, and which process opened that.
const BOX: &str = "cloister.box";
const OWNER: &str = "cloister.owner";

impl From<EngineError> for RunError {
    fn from(error: EngineError) -> RunError {
        RunError::Runtime { reason: error.to_string() }
    }
}

/// Runs one job in the container `cloister-ID-NUMBER` and leaves nothing of it but the upper layer.
pub(crate) fn run(
    frame: &Frame,
    socket: &Socket,
    view: &View,
    (job, cwd): (&Job, &RelPath),
    (limits, number): (&Limits, u64),
    cancel: &AtomicBool,
) -> Result<Outcome, RunError> {
    let started = Instant::now();
    let engine = Engine::connect(socket)?;
    let name = frame.container(number);
    let bundle = bundle_dir(&frame.dir);
    let (tag, tar) = image::of(&bundle.join("rootfs")).map_err(io_error("make the image of the box"))?;
    let image = engine.ensure_image(image::REPOSITORY, &tag, tar)?;
    frame.renew_work(None)?;
    let shown = policy::host_trees(&frame.tools);
    let policy = Policy::of(
        Process::Job(job, cwd, &frame.env),
        limits,
        &frame.footing,
        &frame.ids,
        shown.iter().map(|tree| tree.as_path()),
    );
    let labels = labels(&frame.id, &Owner::me()).map_err(io_error("write the labels"))?;
    let (stage, places) = Stage::set(frame).map_err(io_error("mount the layers of the workspace"))?;
    let volume = body::volume(&name, labels.clone(), &places);
    let parts = Parts {
        name: &name,
        image: &image,
        labels,
        user: frame.ids.outside(),
        bundle: &bundle,
        shown,
        has_stdin: job.stdin.is_some(),
    };
    let body = body::container(&policy, parts);
    let budget = Budget::new(limits.output_bytes_max);
    let mut watch = Watch { started, limits, cancel, budget, growth: Growth::new(view, limits.upper_bytes_max) };
    let ended = engine.run(&name, (body, volume), job.stdin.clone(), &mut watch, || drop(stage));
    let removed = engine.remove(&name);
    let ended = ended?;
    removed?;
    let ending = ending_of(&ended, &watch)?;
    let Ended { stdout, stderr, .. } = ended;
    // An engine forgets the control group with the container; only this it remembers.
    let usage = Usage { memory_kills: ended.out_of_memory.then_some(1), ..Usage::default() };
    Ok(Outcome {
        ending,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        stdout_truncated: stdout.truncated,
        stderr_truncated: stderr.truncated,
        seconds: started.elapsed().as_secs_f64(),
        usage,
    })
}

fn ending_of(ended: &Ended, watch: &Watch<'_>) -> Result<Ending, RunError> {
    if let Some(ending) = ended.stopped.or_else(|| watch.verdict_after()) {
        return Ok(ending);
    }
    if ended.code != 0 && ended.out_of_memory {
        return Ok(Ending::OutOfMemory);
    }
    let code = u8::try_from(ended.code);
    code.map(Ending::from_code).map_err(|_| RunError::Runtime { reason: format!("it ended with {}", ended.code) })
}

fn labels(id: &str, owner: &Owner) -> io::Result<HashMap<String, String>> {
    let owner = serde_json::to_string(owner)?;
    Ok([(BOX.to_owned(), id.to_owned()), (OWNER.to_owned(), owner)].into())
}

/// Removes what the killed process `owner` left of the box `id` in an engine and in the box's directory: only what carries both
/// labels and a name that we gave. Says which containers there were.
pub(crate) fn bury(socket: &Socket, dir: &Path, id: &str, owner: &Owner) -> Result<Vec<String>, EngineError> {
    let engine = Engine::connect(socket)?;
    let labels = labels(id, owner).unwrap_or_default();
    let names = engine.labelled(&labels)?;
    let names: Vec<_> = names.into_iter().filter(|name| name.starts_with(&format!("cloister-{id}-"))).collect();
    for name in &names {
        engine.remove(name)?;
    }
    stage::clear(dir);
    Ok(names)
}
