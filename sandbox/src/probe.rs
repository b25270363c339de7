//! What of all this works on this host, and what is there to do about the rest?

use std::fs;
use std::path::Path;

use crate::docker::{self, About, Socket};
use crate::footing::{CgroupMode, Footing, Mapping, cgroup_mode, is_root};
use crate::open::{Attempt, BoxSpec, OpenError};
use crate::runtime::Runtime;
use crate::sandbox::{Sandbox, Warmth};
use crate::selfcheck::SelfAttack;
use crate::stage;

/// The answers for `cloister doctor`.
#[derive(Debug)]
pub struct Probe {
    /// The runtimes of this host, each with what it says about its version.
    pub runtimes: Vec<(Runtime, Option<String>)>,
    /// Whether this process is root.
    pub root: bool,
    /// How control groups are mounted.
    pub cgroups: CgroupMode,
    /// Why this user may make no user namespace; `None` when it may.
    pub no_namespaces: Option<String>,
    /// The way in which a box was opened and attacked in vain; `None` when there is no way.
    pub footing: Option<Footing>,
    /// What that box tried against itself.
    pub self_attack: Option<SelfAttack>,
    /// Whether that box could be kept warm; `None` when there was no box.
    pub warmth: Option<Warmth>,
    /// Ways that do not work here, with the reason.
    pub attempts: Vec<Attempt>,
    /// One line per thing worth knowing.
    pub findings: Vec<Finding>,
}

/// One line of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it stands.
    pub state: State,
    /// What was looked at.
    pub what: &'static str,
    /// What was found.
    pub told: String,
    /// What to do about it; empty when there is nothing to do.
    pub remedy: &'static str,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Good,
    /// Boxes work, but weaker than they could.
    Weak,
    /// No box works until this is mended.
    Broken,
}

/// Looks around, then opens a box over a small repository below `state` and closes it again.
pub fn probe(state: &Path, runtime: Option<&Path>) -> Probe {
    let runtimes =
        Runtime::find(runtime).into_iter().map(|it| (it.version(), it)).map(|(version, it)| (it, version)).collect();
    let mut probe = Probe {
        runtimes,
        root: is_root(),
        cgroups: cgroup_mode(),
        no_namespaces: stage::may_make_user_namespace().err().map(|error| error.to_string()),
        footing: None,
        self_attack: None,
        warmth: None,
        attempts: Vec::new(),
        findings: Vec::new(),
    };
    let mut failure = None;
    match try_box(state, |spec| BoxSpec { runtime: runtime.map(Path::to_owned), ..spec }) {
        Ok((footing, self_attack, warmth)) => {
            (probe.footing, probe.self_attack, probe.warmth) = (Some(footing), Some(self_attack), Some(warmth));
        }
        Err(OpenError::Refused(attempts)) => probe.attempts = attempts,
        Err(error) => failure = Some(error.to_string()),
    }
    probe.findings = probe.judge(failure);
    probe
}

/// What is known of the engine that jobs could run in.
#[derive(Debug)]
pub struct DockerProbe {
    /// What it says about itself; `None` when it does not answer.
    pub about: Option<About>,
    /// What a box in it tried against itself.
    pub self_attack: Option<SelfAttack>,
    /// One line per thing worth knowing.
    pub findings: Vec<Finding>,
}

/// As [`probe`], for an engine.
pub fn probe_docker(state: &Path, socket: &Socket) -> DockerProbe {
    let finding = |state, what, told: String, remedy| Finding { state, what, told, remedy };
    let about = match docker::about(socket) {
        Ok(about) => about,
        Err(error) => {
            let remedy = "start it and join the group of its socket, or unset CLOISTER_DOCKER";
            let findings = vec![finding(State::Broken, "engine", error.to_string(), remedy)];
            return DockerProbe { about: None, self_attack: None, findings };
        }
    };
    let About { version, api, storage_driver, security } = &about;
    let told = format!("{version} (API {api}) at {socket}, storage {storage_driver}, {}", security.join(", "));
    let mut findings = vec![finding(State::Good, "engine", told, "")];
    let self_attack = match try_box(state, |spec| BoxSpec { docker: Some(socket.clone()), ..spec }) {
        Ok((footing, self_attack, _)) => {
            let told = format!("{footing}, in the user namespace of the host");
            findings.push(finding(State::Weak, "box", told, "leave CLOISTER_DOCKER unset where an OCI runtime works"));
            Some(self_attack)
        }
        Err(error) => {
            findings.push(finding(State::Broken, "box", error.to_string(), "see the reasons"));
            None
        }
    };
    DockerProbe { about: Some(about), self_attack, findings }
}

fn try_box(state: &Path, with: impl FnOnce(BoxSpec) -> BoxSpec) -> Result<(Footing, SelfAttack, Warmth), OpenError> {
    let at_state = |source| OpenError::State { what: "write in", path: state.to_owned(), source };
    fs::create_dir_all(state).map_err(at_state)?;
    let repo = tempfile::Builder::new().prefix(".probe-").tempdir_in(state).map_err(at_state)?;
    let spec = with(BoxSpec { label: "probe".into(), ..BoxSpec::new(repo.path(), state) });
    let sandbox = Sandbox::open(spec)?;
    let found = (sandbox.footing().clone(), sandbox.self_attack().clone(), sandbox.warmth());
    sandbox.close().map_err(at_state)?;
    Ok(found)
}

/// The version of Landlock that this kernel has (landlock(7)); `None` without it.
pub fn landlock_version() -> Option<u32> {
    const VERSION: libc::c_long = 1;
    // SAFETY: for this question the kernel takes a null pointer and no size.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u64>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

impl Probe {
    fn judge(&self, failure: Option<String>) -> Vec<Finding> {
        let finding = |state, what, told: String, remedy| Finding { state, what, told, remedy };
        let mut findings = Vec::new();
        let names: Vec<String> = self
            .runtimes
            .iter()
            .map(|(runtime, version)| {
                format!("{} ({})", runtime.path.display(), version.as_deref().unwrap_or("silent about its version"))
            })
            .collect();
        findings.push(if names.is_empty() {
            finding(State::Broken, "OCI runtime", "none".into(), "install one; on Debian: apt-get install runc")
        } else {
            finding(State::Good, "OCI runtime", names.join(", "), "")
        });
        findings.push(match &self.no_namespaces {
            None => finding(State::Good, "user namespaces", "allowed".into(), ""),
            Some(reason) => finding(
                State::Broken,
                "user namespaces",
                format!("refused: {reason}"),
                "run as root, or set user.max_user_namespaces above 0 and kernel.unprivileged_userns_clone to 1 with sysctl",
            ),
        });
        findings.push(match (self.cgroups, &self.footing) {
            (mode, Some(footing)) if !footing.cgroups => finding(
                State::Weak,
                "control groups",
                format!("{mode:?}, not used: limits hold per process, not for a whole job"),
                "run as root on a host whose control groups can be written",
            ),
            (mode, _) => finding(State::Good, "control groups", format!("{mode:?}"), ""),
        });
        findings.push(match landlock_version() {
            Some(version) => finding(State::Good, "Landlock", format!("version {version}, the second wall"), ""),
            None => finding(
                State::Weak,
                "Landlock",
                "not there: a box has no second wall".into(),
                "use Linux 5.13 or newer with landlock among the security modules",
            ),
        });
        findings.push(match &self.footing {
            Some(footing) => {
                let weak = footing.mapping == Mapping::Owner;
                let remedy = if weak {
                    "use Linux 5.19 or newer and a file system with id-mapped mounts (ext4, xfs, btrfs)"
                } else {
                    ""
                };
                finding(if weak { State::Weak } else { State::Good }, "box", footing.to_string(), remedy)
            }
            None => finding(
                State::Broken,
                "box",
                self.reason(failure),
                "see the reasons; keep CLOISTER_HOME on ext4, xfs, btrfs or tmpfs",
            ),
        });
        findings.extend(self.warmth.as_ref().map(|warmth| match warmth {
            Warmth::Warm => finding(State::Good, "warm boxes", "work".into(), ""),
            Warmth::Cold(reason) => {
                finding(State::Weak, "warm boxes", format!("every job gets a fresh container: {reason}"), "")
            }
        }));
        findings
    }

    fn reason(&self, failure: Option<String>) -> String {
        failure.unwrap_or_else(|| self.attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}
