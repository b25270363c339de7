//! How is a box made?

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::bundle;
use crate::container::{Frame, bundle_dir, layers_dir, runtime_root};
use crate::docker::Socket;
use crate::footing::{self, Footing, Ids, Mapping, Tier};
use crate::limits::Limits;
use crate::lineage::{Frozen, Lineage};
use crate::mirror::Mirror;
use crate::owner::Owner;
use crate::path::RelPath;
use crate::policy::{self, WORKSPACE};
use crate::remove::remove_tree;
use crate::sandbox::{NO_WARM_ENGINE, Sandbox, Warmth};
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
    /// The engine to run jobs in, instead of a runtime.
    pub docker: Option<Socket>,
    /// Further directories of the host that jobs may read (a toolchain outside /usr), at the same paths; what they have in
    /// `bin` is found first.
    pub tools: Vec<PathBuf>,
    /// Where package managers find packages without a network.
    pub mirrors: Vec<Mirror>,
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
            docker: None,
            tools: Vec::new(),
            mirrors: Vec::new(),
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
    /// Every runtime, or the engine, refused, in every way that was tried.
    #[error("no box could be run here: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
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

/// What a box's directory says about it to a later start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) owner: Owner,
    pub(crate) label: String,
    pub(crate) repo: String,
    pub(crate) runtime: Option<PathBuf>,
    #[serde(default)]
    pub(crate) docker: Option<Socket>,
    /// The box whose directory has the layers that this one shares.
    #[serde(default)]
    pub(crate) over: Option<String>,
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
        let (id, dir) = make_dir(spec, &repo, None)?;
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
        let lineage = Lineage::begin(dir).map_err(state_error("make layers in", dir))?;
        let view = View::open(repo, &layers_dir(dir)).map_err(state_error("make layers in", dir))?;
        let key = ((spec.runtime.clone(), spec.docker.clone()), device(repo), device(dir));
        let known =
            FOOTINGS.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|map| map.get(&key).cloned());
        let known = known.filter(|_| footings.is_none());
        let candidates = match (footings, &known) {
            (Some(footings), _) => footings,
            (None, Some((footing, ..))) => vec![footing.clone()],
            (None, None) => candidates(spec)?,
        };
        let mut attempts = Vec::new();
        for footing in candidates {
            note(dir, spec, repo, Some(&footing), None).map_err(state_error("write a note in", dir))?;
            let frame = match frame(spec, repo, (&id, dir), (owner, &footing), (Arc::clone(&lineage), Vec::new())) {
                Ok(frame) => frame,
                Err(source) => {
                    attempts.push(Attempt { footing, reason: source.to_string() });
                    continue;
                }
            };
            let self_attack = match &known {
                Some((_, report, _)) => Ok(Arc::clone(report)),
                None => {
                    let (root, never) = (RelPath::root(), AtomicBool::new(false));
                    selfcheck::attack(dir, &footing.tier, |job, limits| {
                        frame.run(&view, (job, &root), limits, 0, &never)
                    })
                    .map(Arc::new)
                }
            };
            let self_attack = match self_attack {
                Ok(report) => report,
                Err(reason) => {
                    attempts.push(Attempt { footing, reason });
                    continue;
                }
            };
            let warmth = match (&known, &frame.footing.tier) {
                (Some((.., warmth)), _) => warmth.clone(),
                (None, Tier::Oci(_)) => Warmth::Warm,
                (None, Tier::Docker(_)) => Warmth::Cold(NO_WARM_ENGINE.into()),
            };
            let sandbox = Sandbox::assemble(spec, frame, view, (self_attack, warmth));
            if known.is_none() {
                if sandbox.warmth() == Warmth::Warm {
                    sandbox.attack_warm();
                }
                let mut memo = FOOTINGS.lock().unwrap_or_else(PoisonError::into_inner);
                let held = Arc::clone(&sandbox.self_attack);
                memo.get_or_insert_default().insert(key, (footing, held, sandbox.warmth()));
            }
            return Ok(sandbox);
        }
        Err(OpenError::Refused(attempts))
    }

    /// Opens a box over frozen layers of this one's lineage, on the same footing, which was attacked already.
    pub(crate) fn open_over(&self, lineage: Arc<Lineage>, stack: Vec<Arc<Frozen>>) -> Result<Sandbox, OpenError> {
        let (spec, Frame { repo, owner, footing, .. }) = (&self.spec, &self.frame);
        let (id, dir) = make_dir(spec, repo, Some((footing, &lineage)))?;
        let made = (|| {
            let view = View::over(repo, &layers_dir(&dir), &stack)?;
            let frame = frame(spec, repo, (&id, &dir), (*owner, footing), (lineage, stack))?;
            Ok(Sandbox::assemble(spec, frame, view, (Arc::clone(&self.self_attack), self.warmth())))
        })();
        if made.is_err() {
            let _ = remove_tree(&dir);
        }
        made.map_err(state_error("make layers in", &dir))
    }
}

type Key = ((Option<PathBuf>, Option<Socket>), Option<u64>, Option<u64>);
/// A footing that worked, what held on it, and whether warm boxes did.
type Known = (Footing, Arc<SelfAttack>, Warmth);
/// By runtime or engine asked for and the devices of repository and state.
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
    if let Some(tool) = shown(spec).iter().find(|tool| !is_showable(tool)) {
        return Err(refuse(format!("{tool:?} is not a directory that a box can show at the same absolute path")));
    }
    Ok(repo)
}

/// Every directory that a box shows at its own path.
fn shown(spec: &BoxSpec) -> Vec<PathBuf> {
    spec.tools.iter().cloned().chain(spec.mirrors.iter().map(|mirror| mirror.dir().to_owned())).collect()
}

fn is_showable(tool: &Path) -> bool {
    let plain = tool.is_absolute() && tool.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    let own = ["/proc", "/sys", "/dev", WORKSPACE].iter().any(|own| tool.starts_with(own));
    plain && !own && tool.parent().is_some() && tool.is_dir()
}

fn candidates(spec: &BoxSpec) -> Result<Vec<Footing>, OpenError> {
    if let Some(socket) = &spec.docker {
        return Ok(footing::docker_footings(socket));
    }
    let candidates = footing::footings(spec.runtime.as_deref());
    if candidates.is_empty() {
        let names = || crate::runtime::RUNTIME_NAMES.join(", ");
        let looked_for = spec.runtime.as_ref().map_or_else(names, |path| path.display().to_string());
        return Err(OpenError::NoRuntime { looked_for });
    }
    stage::may_make_user_namespace().map_err(|source| OpenError::NoNamespaces { source })?;
    Ok(candidates)
}

/// What a box is known to stand on before its directory is made, when it is a fork.
type Over<'a> = Option<(&'a Footing, &'a Lineage)>;

/// Makes the box's directory under a name that the reaper leaves alone until the note about its owner is in it.
fn make_dir(spec: &BoxSpec, repo: &Path, over: Over<'_>) -> Result<(String, PathBuf), OpenError> {
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
        note(&unfinished, spec, repo, over.map(|(footing, _)| footing), over.map(|(_, lineage)| lineage))?;
        fs::rename(&unfinished, &dir)
    })();
    made.map_err(state_error("make", &dir))?;
    Ok((id, dir))
}

fn note(dir: &Path, spec: &BoxSpec, repo: &Path, footing: Option<&Footing>, over: Option<&Lineage>) -> io::Result<()> {
    let note = Note {
        owner: Owner::me(),
        label: spec.label.clone(),
        repo: repo.display().to_string(),
        runtime: footing.and_then(|footing| match &footing.tier {
            Tier::Oci(runtime) => Some(runtime.path.clone()),
            Tier::Docker(_) => None,
        }),
        docker: footing.and_then(|footing| match &footing.tier {
            Tier::Oci(_) => None,
            Tier::Docker(socket) => Some(socket.clone()),
        }),
        over: over.map(Lineage::id),
    };
    let draft = dir.join(".box.json");
    fs::write(&draft, serde_json::to_vec_pretty(&note)?)?;
    fs::rename(draft, dir.join(NOTE))
}

/// Everything that one footing needs, made afresh.
fn frame(
    spec: &BoxSpec,
    repo: &Path,
    (id, dir): (&str, &Path),
    (owner, footing): ((u32, u32), &Footing),
    (lineage, stack): (Arc<Lineage>, Vec<Arc<Frozen>>),
) -> io::Result<Frame> {
    let random = u32::from_str_radix(&id[..8], 16).unwrap_or(0);
    let ids = Ids::choose(footing, owner, random)?;
    let layers = layers_dir(dir);
    if footing.mapping != Mapping::Rootless {
        for layers in [layers, lineage.place()] {
            chown(layers, Some(owner.0), Some(owner.1))?;
        }
    }
    let bundle = bundle_dir(dir);
    remove_tree(&bundle)?;
    let tools = shown(spec);
    bundle::build(&bundle, &tools, &spec.mirrors, ids.inside())?;
    let env = policy::base_env(&spec.tools, &spec.mirrors);
    let (id, dir, repo, footing) = (id.to_owned(), dir.to_owned(), repo.to_owned(), footing.clone());
    Ok(Frame { id, dir, repo, owner, tools, env, footing, ids, lineage, stack })
}

fn random_id() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Ending, Job};

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
                    eprintln!(
                        "works: {footing}, {:?}; it attacked itself for {} ms",
                        sandbox.warmth(),
                        sandbox.self_attack().milliseconds
                    );
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
