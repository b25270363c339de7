//! Does a box of this host hold what it promises?
//!
//! Before the first job a box attacks itself (`selfcheck.sh`): it tries what a job that wants out tries first, and tells what it
//! is. The host looks at its own side too: whether a file appeared, whether somebody called. One attack that works, or one
//! fact that is missing, and there is no box on this footing.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;

use serde::Serialize;

use crate::container::RunError;
use crate::footing::Tier;
use crate::job::{Ending, Job, Outcome};
use crate::limits::Limits;

const SCRIPT: &str = include_str!("selfcheck.sh");
/// What the self-check may use, so that it is quick to go beyond it.
const LIMITS: Limits = Limits {
    seconds_max: 20.0,
    pids_max: 32,
    memory_bytes_max: 48 << 20,
    output_bytes_max: 1 << 20,
    ..Limits::DEFAULT
};
/// More than [`LIMITS`] allow.
const MEMORY_MIB_TRIED: u64 = 64;

/// What a box tries against itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// Write where the box is not: the root, /usr, /etc, /dev, /proc/sys, the host's own directories.
    WriteOutside,
    /// Gain a capability or a privilege, or lose the filter on system calls.
    GainPrivilege,
    /// Reach a network: an interface, a route, a port of the host.
    ReachNetwork,
    /// Reach a Unix socket of the host, by its path or by its name.
    ReachHostSocket,
    /// Mount anew what is mounted read-only, or mount something else.
    Remount,
    /// Make a namespace in the box, or be in one of the host's.
    NestNamespace,
    /// Send a signal to a process of the host.
    KillHostProcess,
    /// Have more processes than the limit.
    ExceedPids,
    /// Use more memory than the limit.
    ExceedMemory,
}

impl Attack {
    /// All of them, in the order of the report.
    pub const ALL: [Attack; 9] = [
        Attack::WriteOutside,
        Attack::GainPrivilege,
        Attack::ReachNetwork,
        Attack::ReachHostSocket,
        Attack::Remount,
        Attack::NestNamespace,
        Attack::KillHostProcess,
        Attack::ExceedPids,
        Attack::ExceedMemory,
    ];

    fn name(self) -> &'static str {
        match self {
            Attack::WriteOutside => "write-outside",
            Attack::GainPrivilege => "gain-privilege",
            Attack::ReachNetwork => "reach-network",
            Attack::ReachHostSocket => "reach-host-socket",
            Attack::Remount => "remount",
            Attack::NestNamespace => "nest-namespace",
            Attack::KillHostProcess => "kill-host-process",
            Attack::ExceedPids => "exceed-pids",
            Attack::ExceedMemory => "exceed-memory",
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Attack::WriteOutside => "write outside",
            Attack::GainPrivilege => "gain a privilege",
            Attack::ReachNetwork => "reach a network",
            Attack::ReachHostSocket => "reach a Unix socket of the host",
            Attack::Remount => "remount",
            Attack::NestNamespace => "make a namespace",
            Attack::KillHostProcess => "kill a process of the host",
            Attack::ExceedPids => "have too many processes",
            Attack::ExceedMemory => "use too much memory",
        })
    }
}

/// How one attack went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// What was tried.
    pub attack: Attack,
    /// Whether the box held.
    pub held: bool,
    /// Ways that worked; where the box held, ways that could not be tried for lack of a program.
    pub told: Vec<String>,
}

impl fmt::Display for Trial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.attack, if self.held { "held" } else { "NOT HELD" })?;
        if self.told.is_empty() { Ok(()) } else { write!(out, " ({})", self.told.join("; ")) }
    }
}

/// What a box found when it attacked itself: one [`Trial`] for each [`Attack`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SelfAttack {
    /// In the order of [`Attack::ALL`].
    pub trials: Vec<Trial>,
    /// Wall-clock time of all of them, making the box included.
    pub milliseconds: u64,
}

impl SelfAttack {
    /// Whether nothing worked.
    pub fn held(&self) -> bool {
        self.trials.iter().all(|trial| trial.held)
    }
}

/// Has the attacks run in a box whose own directory on the host is `dir`; the error says which one worked, or why the box did
/// not even start.
pub(crate) fn attack(
    dir: &Path,
    tier: &Tier,
    run: impl FnOnce(&Job, &Limits) -> Result<Outcome, RunError>,
) -> Result<SelfAttack, String> {
    // Nobody in a box reaches it.
    let sink = TcpListener::bind("127.0.0.1:0").and_then(|sink| sink.set_nonblocking(true).map(|()| sink)).ok();
    let port = sink.as_ref().and_then(|sink| sink.local_addr().ok()).map_or(9, |address| address.port());
    let argv = [
        "/bin/sh".to_owned(),
        "-s".to_owned(),
        dir.display().to_string(),
        std::process::id().to_string(),
        port.to_string(),
        LIMITS.pids_max.to_string(),
        MEMORY_MIB_TRIED.to_string(),
    ];
    let job = Job { stdin: Some(SCRIPT.into()), ..Job::new(argv) };
    let outcome = run(&job, &LIMITS).map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&outcome.stdout);
    if outcome.ending != Ending::Exited(0) {
        let tail: String = told.lines().rev().take(3).collect::<Vec<_>>().join(" / ");
        return Err(format!("the self-check ended with {:?}: {tail}", outcome.ending));
    }
    let mut findings = judge(&told, tier, &host_namespace)?;
    if sink.is_some_and(|sink| !matches!(sink.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)) {
        findings.worked.push((Attack::ReachNetwork, "a call arrived on the host".into()));
    }
    for place in [Path::new("/"), Path::new("/usr"), Path::new("/etc"), Path::new("/run"), dir] {
        if fs::symlink_metadata(place.join(".cloister-attack")).is_ok() {
            findings.worked.push((Attack::WriteOutside, format!("a file appeared in {}", place.display())));
        }
    }
    findings.report((outcome.seconds * 1e3) as u64)
}

fn host_namespace(kind: &str) -> Option<String> {
    Some(fs::read_link(format!("/proc/self/ns/{kind}")).ok()?.display().to_string())
}

/// What was found, before it is put in order.
#[derive(Debug, Default, PartialEq)]
struct Findings {
    worked: Vec<(Attack, String)>,
    untried: Vec<(Attack, String)>,
}

impl Findings {
    fn report(self, milliseconds: u64) -> Result<SelfAttack, String> {
        let words = |list: &[(Attack, String)], attack| -> Vec<String> {
            list.iter().filter(|(which, _)| *which == attack).map(|(_, words)| words.clone()).collect()
        };
        let trials = Attack::ALL.map(|attack| {
            let worked = words(&self.worked, attack);
            let held = worked.is_empty();
            Trial { attack, held, told: if held { words(&self.untried, attack) } else { worked } }
        });
        let report = SelfAttack { trials: trials.into(), milliseconds };
        if report.held() {
            return Ok(report);
        }
        let broken = report.trials.iter().filter(|trial| !trial.held).map(ToString::to_string).collect::<Vec<_>>();
        Err(format!("an attack from inside succeeded: {}", broken.join("; ")))
    }
}

/// Judges what the box said; `host` tells this process's own namespaces.
fn judge(told: &str, tier: &Tier, host: &dyn Fn(&str) -> Option<String>) -> Result<Findings, String> {
    let section = |name: &str| {
        let start = told.split_once(&format!("== {name}\n")).map(|(_, rest)| rest);
        // A section without a line is followed by the next one at once.
        let text =
            start.map(|rest| if rest.starts_with("== ") { "" } else { rest.split("\n== ").next().unwrap_or(rest) });
        text.ok_or_else(|| format!("the box does not say its {name}"))
    };
    section("done")?;
    let is_docker = matches!(tier, Tier::Docker(_));
    let mut findings = Findings::default();
    for line in section("attacks")?.lines() {
        let mut words = line.splitn(3, ' ');
        let (kind, name, rest) = (words.next(), words.next(), words.next().unwrap_or_default().to_owned());
        let attack = Attack::ALL.into_iter().find(|attack| Some(attack.name()) == name);
        match (kind, attack) {
            (Some("worked"), Some(attack)) => findings.worked.push((attack, rest)),
            (Some("untried"), Some(attack)) => findings.untried.push((attack, rest)),
            // Programs that are refused may say so.
            _ => {}
        }
    }
    let status = section("self/status")?;
    for (name, expected) in
        [("CapInh", 0), ("CapPrm", 0), ("CapEff", 0), ("CapBnd", 0), ("CapAmb", 0), ("NoNewPrivs", 1), ("Seccomp", 2)]
    {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = line.ok_or_else(|| format!("the box does not say its {name}"))?.trim();
        if u64::from_str_radix(value, 16).ok() != Some(expected) {
            findings.worked.push((Attack::GainPrivilege, format!("{name} is {value}, not {expected}")));
        }
    }
    let interfaces = section("net/dev")?.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    for name in interfaces.filter(|name| *name != "lo") {
        findings.worked.push((Attack::ReachNetwork, format!("the interface {name}")));
    }
    for route in section("net/route")?.lines().skip(1) {
        findings.worked.push((Attack::ReachNetwork, format!("the route {route}")));
    }
    for socket in section("net/unix")?.lines().skip(1).filter_map(|line| line.split_whitespace().nth(7)) {
        findings.worked.push((Attack::ReachHostSocket, format!("seeing {socket}")));
    }
    for mount in section("self/mountinfo")?.lines().filter_map(|line| writable_mount(line, tier)) {
        findings.worked.push((Attack::Remount, format!("{mount} is writable")));
    }
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let inside = section(&format!("ns/{kind}"))?.trim();
        if kind == "user" && is_docker {
            // Nobody in the box has a capability in it, and nobody can make another; the job's user owns nothing.
            let words = "an engine gives boxes no user namespace of their own";
            findings.untried.push((Attack::NestNamespace, words.into()));
        } else if inside.is_empty() || host(kind).as_deref() == Some(inside) {
            findings.worked.push((Attack::NestNamespace, format!("being in the host's {kind} namespace")));
        }
    }
    Ok(findings)
}

/// Where a job may write; what is written there is its own, or goes with it.
const WRITABLE: [&str; 5] = [crate::policy::WORKSPACE, "/tmp", "/home/agent", "/dev/shm", "/dev/pts"];

/// The mount point of a line of mountinfo (proc(5)) whose mount can be written although it must not be.
fn writable_mount<'a>(line: &'a str, tier: &Tier) -> Option<&'a str> {
    let mut fields = line.split(' ');
    let (root, point, options) = (fields.nth(3)?, fields.next()?, fields.next()?);
    // In /proc the kernel asks for capabilities that no job has; what anybody could write there is mounted over, read-only.
    let own = WRITABLE.contains(&point) || point == "/proc" || is_engines(root, point, tier);
    (!own && !options.split(',').any(|option| option == "ro")).then_some(point)
}

/// Mounts that an engine makes writable whatever it is told: the directory of devices, which is root's, whom no job in an engine
/// may be; its /dev/null, which covers what is masked; and that of message queues, which are the box's own like those made by
/// the system call.
fn is_engines(root: &str, point: &str, tier: &Tier) -> bool {
    matches!(tier, Tier::Docker(_)) && (["/dev", "/dev/mqueue"].contains(&point) || root == "/null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;

    const GOOD: &str = "== self/status\nCapInh:\t0000\nCapPrm:\t0000\nCapEff:\t0000\nCapBnd:\t0000\nCapAmb:\t0000\nNoNewPrivs:\t1\n\
        Seccomp:\t2\n== self/mountinfo\n1 2 0:1 / / ro,relatime - ext4 x ro\n3 1 0:1 / /tmp rw - tmpfs t rw\n\
        == net/dev\nInter-|\n face |bytes\n    lo:       0\n== net/route\nIface\n== net/unix\nNum\n\
        == ns/user\nuser:[9]\n== ns/mnt\nmnt:[9]\n== ns/pid\npid:[9]\n== ns/net\nnet:[9]\n== ns/ipc\nipc:[9]\n== ns/uts\nuts:[9]\n\
        == ns/cgroup\ncgroup:[9]\n== attacks\nuntried remount there is no mount in the box\nnoise\n== done\n";

    fn oci() -> Tier {
        Tier::Oci(Runtime { path: "/usr/sbin/runc".into() })
    }

    fn report(told: &str) -> Result<SelfAttack, String> {
        judge(told, &oci(), &|kind| Some(format!("{kind}:[1]"))).and_then(|findings| findings.report(1))
    }

    #[test]
    fn a_box_without_powers_passes_and_what_was_not_tried_is_told() {
        let report = report(GOOD).expect("held");
        assert_eq!(report.trials.len(), Attack::ALL.len());
        let told: Vec<_> =
            report.trials.iter().filter(|trial| !trial.told.is_empty()).map(ToString::to_string).collect();
        assert_eq!(told, ["remount: held (there is no mount in the box)"]);
    }

    #[track_caller]
    fn check(from: &str, to: &str, expected: &str) {
        assert!(GOOD.contains(from), "{from:?}");
        let error = report(&GOOD.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }

    #[test]
    fn every_single_power_is_found() {
        check("CapBnd:\t0000", "CapBnd:\t0400", "gain a privilege: NOT HELD (CapBnd is 0400");
        check("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs is 0");
        check("Seccomp:\t2", "Seccomp:\t0", "Seccomp is 0");
        check(
            "    lo:       0\n",
            "    lo:       0\n  eth0:       0\n",
            "reach a network: NOT HELD (the interface eth0)",
        );
        check("Iface\n", "Iface\neth0\t00000000\n", "the route eth0");
        check("Num\n", "Num\n0: 2 0 0 1 1 7 /run/docker.sock\n", "seeing /run/docker.sock");
        check("/ ro,relatime", "/ rw,relatime", "remount: NOT HELD (/ is writable)");
        check("pid:[9]", "pid:[1]", "the host's pid namespace");
        check("noise", "worked exceed-pids 48 processes", "have too many processes: NOT HELD (48 processes)");
    }

    #[test]
    fn a_fact_that_is_not_told_is_no_pass() {
        check("CapAmb:\t0000\n", "", "does not say its CapAmb");
        check("== net/dev", "== net", "does not say its net/dev");
        check("== done\n", "", "does not say its done");
        check("ns/mnt\nmnt:[9]\n", "ns/mnt\n", "the host's mnt namespace");
    }
}
