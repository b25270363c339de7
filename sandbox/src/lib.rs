//! How does a command run where it can do no harm?
//!
//! A [`Sandbox`] is one copy-on-write view over a repository. Every [`Job`] runs in a container of the host's OCI runtime over
//! that view, a fresh one or one that was proven to be as good as fresh ([`Warmth`]), and ends in exactly one [`Ending`]; the [`View`] lets the harness read, write and diff the workspace without
//! running anything; [`Sandbox::snapshot`], [`Sandbox::fork`] and
//! [`Sandbox::rollback`] keep a moment of it; [`apply`] carries chosen [`Change`]s into the real repository, wholly or not at all; [`reap`] buries what a
//! killed process left behind; [`probe`] says what works here. This crate runs jobs and does not judge them.
//!
//! What is absent on purpose: no writable bind of anything of the host, no network, no capability, no following of a symlink
//! below a workspace, no daemon, no mount that outlives its box.

mod apply;
mod arrival;
mod beneath;
mod bundle;
mod cgroup;
mod changes;
mod container;
mod docker;
mod footing;
mod job;
mod journal;
mod layers;
mod limits;
mod lineage;
mod mirror;
mod names;
mod open;
mod owner;
mod path;
mod policy;
mod pool;
mod probe;
mod pump;
mod reap;
mod remove;
mod runtime;
mod sandbox;
mod seccomp;
mod selfcheck;
mod snapshot;
mod sockets;
mod stage;
mod usage;
mod view;
mod warm;
#[path = "../init/wire.rs"]
#[allow(dead_code, reason = "the init decodes what is encoded here, and the other way round")]
mod wire;

pub use apply::{Applied, ApplyError, Refusal, apply};
pub use beneath::Kind;
pub use changes::{CHANGES_BYTES_MAX, Change, ChangeKind, Node};
pub use container::RunError;
pub use docker::{About, EngineError, Socket, SocketError, about};
pub use footing::{CgroupMode, Footing, Mapping, Tier, cgroup_mode, docker_footings, footings};
pub use job::{ARGUMENT_BYTES_MAX, Ending, Job, JobError, Outcome, Usage};
pub use journal::{RecoverError, Recovered, recover};
pub use limits::Limits;
pub use mirror::{Ecosystem, Mirror, MirrorError, missing};
pub use names::Protected;
pub use open::{Attempt, BoxSpec, OpenError};
pub use path::{DEPTH_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PathError, RelPath};
pub use policy::WORKSPACE;
pub use probe::{DockerProbe, Finding, Probe, State, landlock_version, probe, probe_docker};
pub use reap::{Leftover, reap};
pub use runtime::{RUNTIME_NAMES, Runtime};
pub use sandbox::{Sandbox, Warmth};
pub use selfcheck::{Attack, SelfAttack, Trial};
pub use snapshot::{ForkError, LAYERS_MAX, RollbackError, Snapshot, SnapshotError};
pub use view::{ENTRIES_MAX, Entry, FILE_BYTES_MAX, View, ViewError};
