//! Which system calls may a job make?
//!
//! `seccomp.json` is the `linux.seccomp` object of the OCI runtime specification, as it is handed to the runtime: everything
//! is refused with EPERM but the calls that ordinary programs make (Python, node, cargo, gcc, git, java). Three groups need
//! their arguments looked at: `clone` without any namespace flag, `socket` for UNIX, IPv4 and IPv6 only (so no netlink, packet,
//! vsock or crypto sockets), `personality` only to ask or to set the default, `ioctl` without what types into a terminal or
//! changes how it reads. `clone3` and io_uring answer ENOSYS, because
//! a filter cannot look into their arguments and the C library then falls back to `clone` and to ordinary I/O.

use serde_json::{Value, json};

const PROFILE: &str = include_str!("seccomp.json");

/// Requests of ioctl_tty(2) that reach whoever sits at a terminal: TIOCSTI and TIOCLINUX type into it, TIOCCONS takes the
/// console's output, TIOCSETD loads line disciplines. In order.
const IOCTLS_REFUSED: [u32; 4] = [0x5412, 0x541c, 0x541d, 0x5423];

/// The profile as JSON.
pub(crate) fn profile() -> Value {
    let mut profile: Value = serde_json::from_str(PROFILE).expect("seccomp.json is checked by a test");
    let rules = profile["syscalls"].as_array_mut().expect("seccomp.json is checked by a test");
    for (mask, value) in all_but(&IOCTLS_REFUSED) {
        let arg = json!({ "index": 1, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" });
        rules.push(json!({ "names": ["ioctl"], "action": "SCMP_ACT_ALLOW", "args": [arg] }));
    }
    profile
}

/// Masks and values that together match every 32-bit number but `refused` (sorted). The kernel looks at 32 bits of a request,
/// a comparison in a filter at 64: "not equal" lets a refused number pass with a bit set above them, a mask does not.
fn all_but(refused: &[u32]) -> Vec<(u32, u32)> {
    fn below(refused: &[u32], bit: u32, prefix: u32, rules: &mut Vec<(u32, u32)>) {
        if refused.is_empty() {
            // The upper `bit` bits.
            rules.push((!u32::MAX.checked_shr(bit).unwrap_or(0), prefix));
        } else if bit < 32 {
            let one = 1 << (31 - bit);
            let split = refused.partition_point(|number| number & one == 0);
            below(&refused[..split], bit + 1, prefix, rules);
            below(&refused[split..], bit + 1, prefix | one, rules);
        }
    }
    let mut rules = Vec::new();
    below(refused, 0, 0, &mut rules);
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(action: &str) -> Vec<String> {
        let profile = profile();
        let groups = profile["syscalls"].as_array().expect("array").clone();
        groups
            .iter()
            .filter(|group| group["action"] == action && group["args"].is_null())
            .flat_map(|group| group["names"].as_array().expect("names").clone())
            .map(|name| name.as_str().expect("string").to_owned())
            .collect()
    }

    #[test]
    fn everything_not_named_is_refused() {
        assert_eq!(profile()["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(profile()["architectures"], serde_json::json!(["SCMP_ARCH_X86_64"]));
    }

    #[test]
    fn no_call_that_makes_namespaces_mounts_keys_or_kernel_code_is_allowed() {
        let allowed = names("SCMP_ACT_ALLOW");
        for call in [
            "unshare",
            "setns",
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "move_mount",
            "fsopen",
            "fsmount",
            "open_tree",
            "mount_setattr",
            "bpf",
            "keyctl",
            "add_key",
            "request_key",
            "io_uring_setup",
            "userfaultfd",
            "perf_event_open",
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "kexec_load",
            "init_module",
            "finit_module",
            "delete_module",
            "open_by_handle_at",
            "name_to_handle_at",
            "clone",
            "clone3",
            "ioctl",
            "socket",
            "personality",
            "reboot",
            "swapon",
            "settimeofday",
            "clock_settime",
            "sethostname",
            "acct",
            "quotactl",
            "syslog",
            "iopl",
            "ioperm",
            "vhangup",
            "pidfd_getfd",
            "kcmp",
            "lookup_dcookie",
            "nfsservctl",
            "modify_ldt",
            "vmsplice",
            "move_pages",
            "mbind",
        ] {
            assert!(!allowed.iter().any(|name| name == call), "{call} is allowed");
        }
    }

    #[test]
    fn every_request_passes_but_the_refused_ones_whatever_their_upper_half() {
        let rules = all_but(&IOCTLS_REFUSED);
        let passes = |number: u64| rules.iter().any(|(mask, value)| number & u64::from(*mask) == u64::from(*value));
        for refused in IOCTLS_REFUSED.map(u64::from) {
            assert!(!passes(refused) && !passes(refused | 1 << 32) && !passes(refused | 1 << 63), "{refused:#x}");
            for bit in 0..32 {
                let near = refused ^ 1 << bit;
                assert_eq!(passes(near), !IOCTLS_REFUSED.map(u64::from).contains(&near), "{near:#x}");
            }
        }
        assert!([0, 0x5401, 0x5413, u64::from(u32::MAX)].into_iter().all(passes));
        assert!(IOCTLS_REFUSED.is_sorted() && rules.len() < 64, "{}", rules.len());
    }

    #[test]
    fn no_call_is_named_twice() {
        let mut allowed = names("SCMP_ACT_ALLOW");
        let count = allowed.len();
        allowed.sort();
        allowed.dedup();
        assert_eq!(allowed.len(), count);
    }
}
