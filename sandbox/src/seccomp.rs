//! Which system calls may a job make?
//!
//! `seccomp.json` is the `linux.seccomp` object of the OCI runtime specification, as it is handed to the runtime: everything
//! is refused with EPERM but the calls that ordinary programs make (Python, node, cargo, gcc, git, java). Three groups need
//! their arguments looked at: `clone` without any namespace flag, `socket` for UNIX, IPv4 and IPv6 only (so no netlink, packet,
//! vsock or crypto sockets), `personality` only to ask or to set the default. `clone3` and io_uring answer ENOSYS, because
//! a filter cannot look into their arguments and the C library then falls back to `clone` and to ordinary I/O.

use serde_json::Value;

const PROFILE: &str = include_str!("seccomp.json");

/// The profile as JSON.
pub(crate) fn profile() -> Value {
    serde_json::from_str(PROFILE).expect("seccomp.json is checked by a test")
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
    fn no_call_is_named_twice() {
        let mut allowed = names("SCMP_ACT_ALLOW");
        let count = allowed.len();
        allowed.sort();
        allowed.dedup();
        assert_eq!(allowed.len(), count);
    }
}
