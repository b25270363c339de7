//! What does a job that wants to do harm reach?

use std::fs;
use std::net::TcpListener;

use sandbox::{Ending, Mapping};

use crate::harness::{Yard, sh, snapshot, text};

/// Runs `script` and expects exactly this output.
#[track_caller]
fn check(script: &str, expected: &str) {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    assert_eq!(text(&sh(&sandbox, script)), expected);
}

#[test]
fn the_network_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("address").port();
    let script = format!(
        "/usr/bin/python3 - <<'E'
import socket
for where in [('127.0.0.1', {port}), ('1.1.1.1', 53), ('8.8.8.8', 80)]:
    try:
        socket.create_connection(where, timeout=2); print('connected', where)
    except OSError as e: print(e.strerror)
E"
    );
    check(&script, "Connection refused\nNetwork is unreachable\nNetwork is unreachable\n");
}

#[test]
fn nothing_of_the_host_is_visible_but_usr_and_parts_of_etc() {
    let secret = tempfile::NamedTempFile::new().expect("file");
    fs::write(secret.path(), "secret").expect("write");
    check(&format!("cat {} 2>/dev/null || echo no", secret.path().display()), "no\n");
    check("ls /root /var /etc/shadow /sys/kernel /boot /mnt 2>/dev/null | wc -l; ls /home", "0\nagent\n");
    check("cut -d: -f1 /etc/passwd | grep -v '^root$'", "agent\nnobody\n");
}

#[test]
fn there_is_no_capability_no_new_privilege_and_a_filter() {
    check(
        "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\\t'",
        "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\n\
         CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n",
    );
}

#[test]
fn no_system_call_that_could_loosen_the_box_works() {
    check(
        "/usr/bin/python3 - <<'E'
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
calls = dict(unshare=272, setns=308, mount=165, umount2=166, pivot_root=155, chroot=161, bpf=321, keyctl=250, add_key=248,
    request_key=249, userfaultfd=323, perf_event_open=298, ptrace=101, process_vm_readv=310, kexec_load=246, init_module=175,
    open_by_handle_at=304, fsopen=430, open_tree=428, mount_setattr=442, io_uring_setup=425, clone3=435, pidfd_getfd=438)
for name, number in calls.items():
    answer = libc.syscall(number, 0x10000000, 0, 0, 0, 0, 0)
    told = errno.errorcode.get(ctypes.get_errno(), '?') if answer < 0 else 'DONE'
    if told not in ('EPERM', 'ENOSYS'): print(name, told)
for family in (16, 17, 38, 40):
    fd = libc.socket(family, 3, 0)
    if fd >= 0: print('socket family', family)
for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
    pid = libc.syscall(56, flag | 17, 0, 0, 0, 0)
    if pid == 0: libc._exit(0)
    if pid > 0: print('clone', hex(flag))
print('end')
E",
        "end\n",
    );
}

#[test]
fn what_comes_from_the_host_cannot_be_changed_even_by_its_owner() {
    let before = fs::metadata("/dev/null").expect("stat").permissions();
    check(
        "for f in /dev/null /usr/bin/env /etc/passwd /usr /proc/sys/kernel/core_pattern /; do chmod 0700 $f 2>/dev/null && echo changed $f; done
         for f in /usr/x /etc/x /x /dev/x /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do (: > $f) 2>/dev/null && echo wrote $f; done
         mknod /tmp/sda b 8 0 2>/dev/null && echo made a device; echo x > /dev/null && echo end",
        "end\n",
    );
    assert_eq!(fs::metadata("/dev/null").expect("stat").permissions(), before);
}

#[test]
fn the_box_sees_only_its_own_processes() {
    check("ls /proc | grep -c '^[0-9]*$' | { read n; test $n -lt 8 && echo few; }; hostname", "few\nbox\n");
}

#[test]
fn as_root_the_boxs_user_is_nobody_on_the_host() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    if sandbox.footing().mapping != Mapping::Idmapped {
        eprintln!("SKIPPED: no id-mapped mounts on this host");
        return;
    }
    let told = text(&sh(&sandbox, "id -u; cat /proc/self/uid_map"));
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("1000"));
    for line in lines {
        let outside = line.split_whitespace().nth(1).and_then(|id| id.parse::<u32>().ok());
        assert!(outside.is_some_and(|id| id >= 1_900_000_000), "{line}");
    }
}

#[test]
fn a_set_id_program_gives_nothing() {
    let yard = Yard::new();
    let Some(sandbox) = yard.open() else { return };
    let told =
        text(&sh(&sandbox, "cp /usr/bin/id . && chmod 6755 id && ./id -u; id -u; su -c id 2>/dev/null || echo no"));
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[2], "no");
}

#[test]
fn a_symlink_made_in_the_box_leads_the_harness_nowhere() {
    let yard = Yard::new();
    let before = snapshot(&yard.repo());
    let Some(sandbox) = yard.open() else { return };
    let made = sh(
        &sandbox,
        "ln -s /etc/passwd file; ln -s /etc dir; ln -s ../../../../etc up; rm -r src; ln -s /tmp src; mkfifo pipe",
    );
    assert_eq!(made.ending, Ending::Exited(0));
    let view = sandbox.view();
    for path in ["file", "dir/passwd", "up/passwd", "src/x", "pipe"] {
        assert!(view.read(path).is_err(), "read {path}");
        assert!(view.write(path, b"x").is_err(), "write {path}");
    }
    let changes = view.changes(|_| true).expect("changes");
    for path in ["file", "dir", "up", "src", "pipe"] {
        let change = changes.iter().find(|change| change.path.to_str() == Some(path)).expect("told").clone();
        let journals = yard.state().join("journals");
        assert!(sandbox::apply(&[change], &yard.repo(), &journals).is_err(), "apply {path}");
    }
    assert_eq!(snapshot(&yard.repo()), before);
}
