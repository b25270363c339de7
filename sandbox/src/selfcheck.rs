//! Does a box of this host hold what it promises?
//!
//! A footing is trusted only after a box on it was asked to do the forbidden and reported what it is: no capability, no new
//! privileges, a system-call filter, no network interface but the loopback, no host files, no way to make a namespace.

use std::sync::atomic::AtomicBool;

use crate::container::Frame;
use crate::job::{Ending, Job};
use crate::limits::Limits;
use crate::path::RelPath;
use crate::view::View;

const SCRIPT: &str = "
cat /proc/self/status /proc/net/dev || exit 3
if unshare --user true 2>/dev/null; then echo 'Attack: user namespace'; fi
if true 2>/dev/null > /usr/.cloister-attack; then echo 'Attack: write to /usr'; fi
if true 2>/dev/null > /.cloister-attack; then echo 'Attack: write to the root'; fi
if true 2>/dev/null > /proc/sys/kernel/core_pattern; then echo 'Attack: write to /proc/sys'; fi
if chmod 0666 /dev/null 2>/dev/null; then echo 'Attack: change /dev/null'; fi
true > .cloister-selfcheck && rm .cloister-selfcheck || exit 4
echo 'Done: yes'
";

/// Runs the attacks; the error says which one succeeded, or why the box did not even start.
pub(crate) fn attack(frame: &Frame, view: &View) -> Result<(), String> {
    let limits = Limits { seconds_max: 20.0, ..Limits::DEFAULT };
    let job = Job { stdin: Some(SCRIPT.into()), ..Job::new(["/bin/sh", "-s"]) };
    let outcome = frame
        .run(view, (&job, &RelPath::root()), &limits, 0, &AtomicBool::new(false))
        .map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&outcome.stdout);
    if outcome.ending != Ending::Exited(0) {
        let tail: String = told.lines().rev().take(3).collect::<Vec<_>>().join(" / ");
        return Err(format!("the self-check ended with {:?}: {tail}", outcome.ending));
    }
    judge(&told)
}

fn judge(told: &str) -> Result<(), String> {
    let value = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).ok_or_else(|| format!("the box does not say its {name}"))
    };
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        if value(capabilities)?.bytes().any(|digit| digit != b'0') {
            return Err(format!("a job has capabilities: {capabilities} {}", value(capabilities)?));
        }
    }
    for (name, expected) in [("NoNewPrivs", "1"), ("Seccomp", "2"), ("Done", "yes")] {
        if value(name)? != expected {
            return Err(format!("a job has {name} {}, not {expected}", value(name)?));
        }
    }
    if let Ok(attack) = value("Attack") {
        return Err(format!("an attack from inside succeeded: {attack}"));
    }
    let interfaces = told.lines().skip_while(|line| !line.starts_with(" face")).skip(1);
    let mut interfaces = interfaces.filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    match interfaces.find(|name| !["lo", "Done"].contains(name)) {
        Some(name) => Err(format!("a job has the network interface {name}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "CapInh:\t0000\nCapPrm:\t0000\nCapEff:\t0000\nCapBnd:\t0000\nCapAmb:\t0000\nNoNewPrivs:\t1\nSeccomp:\t2\n\
        Inter-|\n face |bytes\n    lo:       0\nDone: yes\n";

    #[test]
    fn a_box_without_powers_passes() {
        assert_eq!(judge(GOOD), Ok(()));
    }

    #[test]
    fn every_single_power_is_found() {
        for (from, to) in [
            ("CapBnd:\t0000", "CapBnd:\t0400"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("    lo:       0\n", "    lo:       0\n  eth0:       0\n"),
            ("Done: yes", "Attack: user namespace\nDone: yes"),
            ("Done: yes", ""),
            ("CapAmb:\t0000\n", ""),
        ] {
            assert!(judge(&GOOD.replace(from, to)).is_err(), "{to:?}");
        }
    }
}
