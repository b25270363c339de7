//! On what footing does a box stand on this host: which runtime, whose ids, with or without control groups?

use std::fmt;
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Gid, Uid};
use serde_json::{Value, json};

use crate::docker::Socket;
use crate::runtime::Runtime;
use crate::stage;

/// What makes the containers of a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tier {
    /// An OCI runtime of this host, without any daemon.
    Oci(Runtime),
    /// A Docker or Podman engine behind a Unix socket of this host.
    Docker(Socket),
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tier::Oci(runtime) => write!(out, "{}", runtime.path.display()),
            Tier::Docker(socket) => write!(out, "the engine at {socket}"),
        }
    }
}

/// Who the processes of a box are on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mapping {
    /// We are root, and the box's user is a host id that owns nothing; the layers are mounted id-mapped, so files still
    /// belong to the repository's owner. The strongest: who breaks out of the box is nobody.
    Idmapped,
    /// We are root, and the box's user is the repository's owner, for kernels (before 5.19) and file systems without
    /// id-mapped mounts.
    Owner,
    /// We are an ordinary user, and so is the box's user: id 0 inside, without a single capability, us outside.
    Rootless,
}

/// The way of running boxes that was found to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footing {
    /// What makes the containers.
    pub tier: Tier,
    /// Who the box's processes are on the host.
    pub mapping: Mapping,
    /// Whether control groups enforce memory, processor and process limits; without them resource limits per process do.
    pub cgroups: bool,
    /// Whether the runtime keeps a container for a moment, so that what it used can be read.
    pub keeps: bool,
}

impl fmt::Display for Footing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mapping = match self.mapping {
            Mapping::Idmapped => "an id of its own",
            Mapping::Owner => "the repository owner's id",
            Mapping::Rootless => "the caller's id",
        };
        let cgroups = if self.cgroups { "with control groups" } else { "without control groups" };
        write!(out, "{} under {mapping}, {cgroups}", self.tier)
    }
}

/// The footings worth a try on this host, best first; of one runtime when that is `chosen`.
pub fn footings(chosen: Option<&Path>) -> Vec<Footing> {
    let mappings: &[Mapping] = if is_root() { &[Mapping::Idmapped, Mapping::Owner] } else { &[Mapping::Rootless] };
    // A box without control groups is weaker than one under another runtime, so it comes after all of these.
    let cgroups: &[bool] = if is_root() { &[true, false] } else { &[false] };
    let runtimes: Vec<_> = Runtime::find(chosen).into_iter().map(|runtime| (runtime.can_keep(), runtime)).collect();
    let mut found = Vec::new();
    for &cgroups in cgroups {
        for (keeps, runtime) in &runtimes {
            for &mapping in mappings {
                found.push(Footing { tier: Tier::Oci(runtime.clone()), mapping, cgroups, keeps: *keeps });
            }
        }
    }
    found
}

/// The footings worth a try on an engine, best first. An engine always has control groups, and forgets them with the container.
pub fn docker_footings(socket: &Socket) -> Vec<Footing> {
    let mappings: &[Mapping] = if is_root() { &[Mapping::Idmapped, Mapping::Owner] } else { &[Mapping::Owner] };
    let footing = |mapping| Footing { tier: Tier::Docker(socket.clone()), mapping, cgroups: true, keeps: false };
    mappings.iter().copied().map(footing).collect()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How control groups are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupMode {
    /// The old hierarchy, one tree per controller.
    V1,
    /// The old hierarchy with the new one, without controllers, beside it.
    Hybrid,
    /// The new hierarchy only.
    V2,
    /// Not mounted.
    None,
}

/// How control groups are mounted on this host.
pub fn cgroup_mode() -> CgroupMode {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => CgroupMode::Hybrid,
        (true, false) => CgroupMode::V1,
        (false, true) => CgroupMode::V2,
        (false, false) => CgroupMode::None,
    }
}

/// The numbers that one box's ids have outside, and how its layers are mounted.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) mapping: Mapping,
    /// The id of the job's user inside the box.
    inside: u32,
    /// First of the host ids of this box: its id 0 while the runtime sets up, then its user, then everybody else on disk.
    base: u32,
    /// Outside ids of the box's user.
    agent: (u32, u32),
    /// The user namespace whose maps turn ids on disk into ids of the box.
    pub(crate) idmap: Option<OwnedFd>,
}

/// First of the host ids that boxes use: above those that systemd hands out to containers, below 2^31.
const IDS_FIRST: u32 = 1_900_000_000;
/// How many a box uses.
const IDS_PER_BOX: u32 = 65_540;
const BOXES: u32 = 3_700;
/// Owners on disk with a smaller id than this, other than the repository's, are shown in the box, from [`OTHERS_INSIDE`] on.
const OTHERS: u32 = 65_536;
const OTHERS_INSIDE: u32 = 100_000;

impl Ids {
    /// `owner` is the repository's; `random` spreads boxes over ids, so that an escape from one is not in another.
    pub(crate) fn choose(footing: &Footing, owner: (u32, u32), random: u32) -> std::io::Result<Ids> {
        let base = IDS_FIRST + IDS_PER_BOX * (random % BOXES);
        let mapping = footing.mapping;
        let is_docker = matches!(footing.tier, Tier::Docker(_));
        // An engine's own user, root, makes the mounts: what it makes on them must belong to somebody else on disk.
        let setup = if is_docker { 0 } else { base };
        let (agent, idmap) = match mapping {
            Mapping::Idmapped => {
                let map = |owner| disk_map(base, setup, owner);
                ((base + 1, base + 1), Some(stage::user_namespace(&map(owner.0), &map(owner.1))?))
            }
            Mapping::Owner => (owner, None),
            Mapping::Rootless => ((rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()), None),
        };
        if is_docker && (agent.0 == 0 || agent.1 == 0) {
            return Err(std::io::Error::other(
                "the repository belongs to root, who no job may be: give it to another user",
            ));
        }
        let inside = match (is_docker, mapping) {
            // An engine's containers have the host's numbers.
            (true, _) => agent.0,
            (false, Mapping::Rootless) => 0,
            (false, _) => 1000,
        };
        Ok(Ids { mapping, inside, base, agent, idmap })
    }

    /// Makes the box's user the owner of a pipe.
    pub(crate) fn give(&self, pipe: BorrowedFd<'_>) -> std::io::Result<()> {
        if self.mapping == Mapping::Rootless {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(self.agent.0), Gid::from_raw(self.agent.1));
        Ok(rustix::fs::fchown(pipe, Some(uid), Some(gid))?)
    }

    /// The id of the job's user inside the box.
    pub(crate) fn inside(&self) -> u32 {
        self.inside
    }

    /// Outside ids of the box's user.
    pub(crate) fn outside(&self) -> (u32, u32) {
        self.agent
    }

    /// `linux.uidMappings` and `linux.gidMappings`.
    pub(crate) fn mappings(&self) -> (Value, Value) {
        let line =
            |inside: u32, outside: u32, size: u32| json!({ "containerID": inside, "hostID": outside, "size": size });
        let map = |agent: u32| {
            let mut lines = vec![line(self.inside(), agent, 1)];
            if self.mapping != Mapping::Rootless {
                lines.push(line(0, self.base, 1));
            }
            if self.mapping == Mapping::Idmapped {
                lines.push(line(OTHERS_INSIDE, self.base + 2, OTHERS));
            }
            Value::Array(lines)
        };
        (map(self.agent.0), map(self.agent.1))
    }
}

/// Which id of the box every owner on disk is: the repository's owner is the box's user, everybody else somebody else. What
/// the set-up id makes (overlayfs keeps a directory of its own beside the upper layer) belongs to it on disk too.
fn disk_map(base: u32, setup: u32, owner: u32) -> String {
    let (agent, others) = (base + 1, base + 2);
    let mut lines = vec![(owner, agent, 1), (base, setup, 1)];
    let below = owner.min(OTHERS);
    lines.push((0, others, below));
    if owner + 1 < OTHERS {
        lines.push((owner + 1, others + owner + 1, OTHERS - owner - 1));
    }
    let lines = lines.into_iter().filter(|line| line.2 > 0);
    lines.map(|(disk, shown, count)| format!("{disk} {shown} {count}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(owner: u32, expected: &str) {
        assert_eq!(disk_map(1_900_000_000, 1_900_000_000, owner), expected);
    }

    #[test]
    fn the_owner_of_the_repository_is_the_boxs_user_and_nobody_else_is() {
        check(0, "0 1900000001 1\n1900000000 1900000000 1\n1 1900000003 65535\n");
        check(1000, "1000 1900000001 1\n1900000000 1900000000 1\n0 1900000002 1000\n1001 1900001003 64535\n");
        check(65_535, "65535 1900000001 1\n1900000000 1900000000 1\n0 1900000002 65535\n");
        check(200_000, "200000 1900000001 1\n1900000000 1900000000 1\n0 1900000002 65536\n");
    }
}
