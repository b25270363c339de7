//! Does the process that made this still live?

use std::fs;

use serde::{Deserialize, Serialize};

/// A process, told apart from a later one that got the same number by when it started and since which boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Clock ticks from boot to its start: field 22 of /proc/PID/stat.
    pub(crate) start_ticks: u64,
    pub(crate) boot_id: String,
}

impl Owner {
    pub(crate) fn me() -> Owner {
        let pid = std::process::id();
        Owner { pid, start_ticks: start_ticks(pid).unwrap_or(0), boot_id: boot_id() }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.boot_id == boot_id() && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// `None` when there is no such process, or only its zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may hold spaces and parentheses itself.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_earlier_one_with_its_number_does_not() {
        let me = Owner::me();
        assert!(me.is_alive());
        assert!(!Owner { start_ticks: me.start_ticks + 1, ..me.clone() }.is_alive());
        assert!(!Owner { boot_id: "another".into(), ..me }.is_alive());
    }
}
