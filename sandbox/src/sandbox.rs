//! What is one box, from opening to closing?

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::beneath::Kind;
use crate::bundle;
use crate::container::{Frame, RunError, bundle_dir, layers_dir, runtime_root};
use crate::footing::{self, Footing, Ids, Mapping};
use crate::job::{Job, JobError, Outcome};
use crate::limits::Limits;
use crate::owner::Owner;
use crate::path::RelPath;
use crate::remove::remove_tree;
use crate::selfcheck::{self, SelfAttack};
use crate::stage;
use crate::view::View;

/// What a box is made from.
#[derive(Debug, Clone)]
pub struct BoxSpec {
    /// The repository: the lower layer, never written.
    pub repo: PathBuf,
    /// Where boxes keep their layers; on a file system that can be the upper layer of an overlay, and not in the repository.
    pub state: PathBuf,
    /// For people: whose box this is, for example the session's name.
    pub label: String,
    /// Limits of jobs that bring none of their own.
    pub limits: Limits,
    /// The OCI runtime; `None` to find one.
    pub runtime: Option<PathBuf>,
    /// Further directories of the host that jobs may read (a toolchain outside /usr), at the same paths.
    pub tools: Vec<PathBuf>,
}

impl BoxSpec {
    /// A box over `repo` with its layers below `state`, default limits, and whatever runtime there is.
    pub fn new(repo: impl Into<PathBuf>, state: impl Into<PathBuf>) -> BoxSpec {
        BoxSpec {
            repo: repo.into(),
            state: state.into(),
            label: String::new(),
            limits: Limits::DEFAULT,
            runtime: None,
            tools: Vec::new(),
        }
    }
}

/// Why there is no box.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// This host has no OCI runtime.
    #[error("no OCI runtime found (looked for {looked_for}); install one, on Debian with `apt-get install runc`")]
    NoRuntime {
        /// Names or the path that was looked for.
        looked_for: String,
    },
    /// The kernel lets this user make no user namespace.
    #[error(
        "this user may not make a user namespace ({source}); run as root or set sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0 where they exist"
    )]
    NoNamespaces {
        /// What the kernel said.
        source: io::Error,
    },
    /// Every runtime refused, in every way that was tried.
    #[error("no OCI runtime could run a box here: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused(Vec<Attempt>),
    /// The repository is not a directory that can be boxed.
    #[error("the repository {path:?} cannot be boxed: {reason}")]
    Repo {
        /// The repository.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The state directory could not be made.
    #[error("could not {what} {path:?}: {source}")]
    State {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// One way of running a box that did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What was tried.
    pub footing: Footing,
    /// Why it did not work, in the runtime's words or the self-check's.
    pub reason: String,
}

impl std::fmt::Display for Attempt {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.footing, self.reason)
    }
}

/// One copy-on-write view over a repository, in which jobs run one after the other.
pub struct Sandbox {
    spec: BoxSpec,
    frame: Frame,
    view: View,
    self_attack: Arc<SelfAttack>,
    /// How many jobs there were; held while one runs, because two overlays may not share an upper layer.
    jobs: Mutex<u64>,
}

/// What a box's directory says about it to a later start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) owner: Owner,
    pub(crate) label: String,
    pub(crate) repo: String,
    pub(crate) runtime: Option<PathBuf>,
}

pub(crate) const NOTE: &str = "box.json";
/// Begins the name of a directory that is still being made.
pub(crate) const UNFINISHED: &str = ".new-";

impl Sandbox {
    /// Opens a box. The first one in a process finds a runtime that works here and attacks it (`selfcheck.rs`); the next
    /// ones on the same file systems trust that.
    pub fn open(spec: BoxSpec) -> Result<Sandbox, OpenError> {
        Self::open_on(&spec, None)
    }

    /// Opens a box on one footing of [`crate::footings`]; attacks it, whatever worked before.
    pub fn open_on_footing(spec: &BoxSpec, footing: Footing) -> Result<Sandbox, OpenError> {
        Self::open_on(spec, Some(vec![footing]))
    }

    /// `footings` are tried and attacked in this order; `None` tries what worked before, or all that this host may offer.
    fn open_on(spec: &BoxSpec, footings: Option<Vec<Footing>>) -> Result<Sandbox, OpenError> {
        let repo = repository(spec)?;
        let (id, dir) = make_dir(spec, &repo)?;
        let made = Self::open_in(spec, footings, &repo, id, &dir);
        if made.is_err() {
            let _ = remove_tree(&dir);
        }
        made
    }

    fn open_in(
        spec: &BoxSpec,
        footings: Option<Vec<Footing>>,
        repo: &Path,
        id: String,
        dir: &Path,
    ) -> Result<Sandbox, OpenError> {
        let owner = fs::metadata(repo).map_err(state_error("look at", repo))?;
        let owner = (owner.uid(), owner.gid());
        let view = View::open(repo, &layers_dir(dir)).map_err(state_error("make layers in", dir))?;
        let key = (spec.runtime.clone(), device(repo), device(dir));
        let known =
            FOOTINGS.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|map| map.get(&key).cloned());
        let known = known.filter(|_| footings.is_none());
        let candidates = match (footings, &known) {
            (Some(footings), _) => footings,
            (None, Some((footing, _))) => vec![footing.clone()],
            (None, None) => candidates(spec)?,
        };
        let mut attempts = Vec::new();
        for footing in candidates {
            note(dir, spec, repo, Some(&footing)).map_err(state_error("write a note in", dir))?;
            let frame = match frame(spec, repo, &id, dir, owner, footing.clone()) {
                Ok(frame) => frame,
                Err(source) => {
                    attempts.push(Attempt { footing, reason: source.to_string() });
                    continue;
                }
            };
            let checked = match &known {
                Some((_, report)) => Ok(Arc::clone(report)),
                None => {
                    let (root, never) = (RelPath::root(), AtomicBool::new(false));
                    selfcheck::attack(dir, |job, limits| frame.run(&view, (job, &root), limits, 0, &never))
                        .map(Arc::new)
                }
            };
            match checked {
                Ok(self_attack) => {
                    let mut memo = FOOTINGS.lock().unwrap_or_else(PoisonError::into_inner);
                    memo.get_or_insert_default().insert(key, (footing, Arc::clone(&self_attack)));
                    return Ok(Sandbox { spec: spec.clone(), frame, view, self_attack, jobs: Mutex::new(0) });
                }
                Err(reason) => attempts.push(Attempt { footing, reason }),
            }
        }
        Err(OpenError::Refused(attempts))
    }

    /// Another box over the same repository, without the changes of this one: where a verifier applies only what is allowed.
    pub fn fresh(&self) -> Result<Sandbox, OpenError> {
        Self::open(self.spec.clone())
    }

    /// Runs one job in a fresh container over the same upper layer; waits for a job that runs already. Setting `cancel`
    /// kills the whole tree within half a second.
    pub fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Outcome, RunError> {
        let cwd = job.check()?;
        let limits = job.limits.as_ref().unwrap_or(&self.spec.limits);
        if let Some(limit) = limits.too_tight() {
            return Err(JobError::Tight(limit).into());
        }
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.view.metadata(&cwd).is_ok_and(|entry| entry.kind == Kind::Dir) {
            return Err(JobError::Cwd(cwd).into());
        }
        *jobs += 1;
        self.frame.run(&self.view, (job, &cwd), limits, *jobs, cancel)
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

    /// Throws the box and its changes away.
    pub fn close(self) -> io::Result<()> {
        remove_tree(&self.frame.dir)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // After `close` there is nothing left to remove.
        let _ = remove_tree(&self.frame.dir);
    }
}

type Key = (Option<PathBuf>, Option<u64>, Option<u64>);
/// A footing that worked, and what held on it.
type Known = (Footing, Arc<SelfAttack>);
/// By runtime asked for and the devices of repository and state.
static FOOTINGS: Mutex<Option<HashMap<Key, Known>>> = Mutex::new(None);

fn device(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|meta| meta.dev())
}

fn state_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::State { what, path, source }
}

fn repository(spec: &BoxSpec) -> Result<PathBuf, OpenError> {
    let refuse = |reason: String| OpenError::Repo { path: spec.repo.clone(), reason };
    let repo = fs::canonicalize(&spec.repo).map_err(|error| refuse(error.to_string()))?;
    if !repo.is_dir() {
        return Err(refuse("it is not a directory".into()));
    }
    if repo.parent().is_none() {
        return Err(refuse("it is the root of the file system".into()));
    }
    if repo.to_str().is_none_or(|path| path.contains('\n')) {
        return Err(refuse("its path is not UTF-8 or contains a line break".into()));
    }
    if let Some(tool) = spec.tools.iter().find(|tool| !is_showable(tool)) {
        return Err(refuse(format!(
            "the tools {tool:?} are not a directory that a box can show at the same absolute path"
        )));
    }
    Ok(repo)
}

fn is_showable(tool: &Path) -> bool {
    let plain = tool.is_absolute() && tool.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    let own = ["/proc", "/sys", "/dev", bundle::WORKSPACE].iter().any(|own| tool.starts_with(own));
    plain && !own && tool.parent().is_some() && tool.is_dir()
}

fn candidates(spec: &BoxSpec) -> Result<Vec<Footing>, OpenError> {
    let candidates = footing::footings(spec.runtime.as_deref());
    if candidates.is_empty() {
        let names = || crate::runtime::RUNTIME_NAMES.join(", ");
        let looked_for = spec.runtime.as_ref().map_or_else(names, |path| path.display().to_string());
        return Err(OpenError::NoRuntime { looked_for });
    }
    stage::may_make_user_namespace().map_err(|source| OpenError::NoNamespaces { source })?;
    Ok(candidates)
}

/// Makes the box's directory under a name that the reaper leaves alone until the note about its owner is in it.
fn make_dir(spec: &BoxSpec, repo: &Path) -> Result<(String, PathBuf), OpenError> {
    fs::create_dir_all(&spec.state).map_err(state_error("make", &spec.state))?;
    let state = fs::canonicalize(&spec.state).map_err(state_error("resolve", &spec.state))?;
    if state.starts_with(repo) {
        let reason = format!("boxes would be kept inside it, in {state:?}");
        return Err(OpenError::Repo { path: repo.to_owned(), reason });
    }
    let id = random_id().map_err(state_error("read", Path::new("/dev/urandom")))?;
    let unfinished = state.join(format!("{UNFINISHED}{id}"));
    let dir = state.join(&id);
    let made = (|| {
        fs::create_dir(&unfinished)?;
        fs::set_permissions(&unfinished, Permissions::from_mode(0o700))?;
        for part in [layers_dir(&unfinished), runtime_root(&unfinished), bundle_dir(&unfinished)] {
            fs::create_dir(part)?;
        }
        note(&unfinished, spec, repo, None)?;
        fs::rename(&unfinished, &dir)
    })();
    made.map_err(state_error("make", &dir))?;
    Ok((id, dir))
}

fn note(dir: &Path, spec: &BoxSpec, repo: &Path, footing: Option<&Footing>) -> io::Result<()> {
    let note = Note {
        owner: Owner::me(),
        label: spec.label.clone(),
        repo: repo.display().to_string(),
        runtime: footing.map(|footing| footing.runtime.path.clone()),
    };
    let draft = dir.join(".box.json");
    fs::write(&draft, serde_json::to_vec_pretty(&note)?)?;
    fs::rename(draft, dir.join(NOTE))
}

/// Everything that one footing needs, made afresh.
fn frame(spec: &BoxSpec, repo: &Path, id: &str, dir: &Path, owner: (u32, u32), footing: Footing) -> io::Result<Frame> {
    let random = u32::from_str_radix(&id[..8], 16).unwrap_or(0);
    let ids = Ids::choose(footing.mapping, owner, random)?;
    let layers = layers_dir(dir);
    let work = layers.join("work");
    remove_tree(&work)?;
    fs::create_dir(&work)?;
    if footing.mapping != Mapping::Rootless {
        for path in [&layers, &work] {
            chown(path, Some(owner.0), Some(owner.1))?;
        }
    }
    let bundle = bundle_dir(dir);
    remove_tree(&bundle)?;
    bundle::build(&bundle, &spec.tools, ids.inside())?;
    Ok(Frame { id: id.to_owned(), dir: dir.to_owned(), repo: repo.to_owned(), tools: spec.tools.clone(), footing, ids })
}

fn random_id() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Ending;

    #[test]
    fn every_footing_that_this_host_offers_passes_the_self_check_or_says_why_it_cannot() {
        let dir = tempfile::tempdir().expect("directory");
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).expect("repository");
        fs::write(repo.join("file"), "one\n").expect("file");
        let spec = BoxSpec::new(&repo, dir.path().join("boxes"));
        let mut worked = 0;
        for footing in footing::footings(None) {
            match Sandbox::open_on(&spec, Some(vec![footing.clone()])) {
                Ok(sandbox) => {
                    worked += 1;
                    let script =
                        "test -O file && echo two >> file && rm -f file && mkdir file && touch file/x && id -u";
                    let outcome = sandbox.run(&Job::new(["sh", "-c", script]), &AtomicBool::new(false)).expect("runs");
                    assert_eq!(
                        outcome.ending,
                        Ending::Exited(0),
                        "{footing}: {}",
                        String::from_utf8_lossy(&outcome.stdout)
                    );
                    eprintln!("works: {footing}; it attacked itself for {} ms", sandbox.self_attack().milliseconds);
                    sandbox.self_attack().trials.iter().for_each(|trial| eprintln!("  {trial}"));
                    assert!(sandbox.self_attack().held());
                }
                Err(OpenError::Refused(attempts)) => eprintln!("does not: {}", attempts[0]),
                Err(error) => panic!("{error}"),
            }
        }
        let nothing_here = footing::footings(None).is_empty() || stage::may_make_user_namespace().is_err();
        assert!(worked > 0 || nothing_here);
    }
}
