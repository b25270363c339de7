//! What does a job that wants to do harm reach? The attacks of the shared list, one test each, on every footing of this host.

mod back;
mod kernel;
mod load;
mod names;
mod network;
mod planted;
mod recorded;

use std::fs;
use std::path::Path;

use sandbox::{Job, Mapping, Sandbox};

use crate::harness::{Yard, as_nobody, everywhere, run, sh, text};

/// Runs `script` on every footing and expects exactly this output.
#[track_caller]
fn check(script: &str, expected: &str) {
    everywhere(|_, sandbox| assert_eq!(text(&sh(sandbox, script)), expected, "{}", sandbox.footing()));
}

/// What the attacks in Python share: a system call by its number, and how it was answered.
const PRELUDE: &str = "
import array, ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    answer = libc.syscall(ctypes.c_long(number), *[a if isinstance(a, bytes) else ctypes.c_long(a) for a in args])
    return 'DONE' if answer >= 0 else errno.errorcode.get(ctypes.get_errno(), '?')
def told(attempt):
    try: return attempt() or 'DONE'
    except OSError as e: return errno.errorcode.get(e.errno, '?')
";

/// Runs a program in Python in the box, with [`PRELUDE`] before it.
fn py(sandbox: &Sandbox, program: &str) -> String {
    let job = Job { stdin: Some(format!("{PRELUDE}{program}").into()), ..Job::new(["/usr/bin/python3", "-I", "-"]) };
    text(&run(sandbox, &job))
}

/// False, with a line that says so, where a program that attacks are written in is missing.
fn has(program: &str) -> bool {
    let here = Path::new(program).exists();
    if !here {
        eprintln!("SKIPPED: there is no {program} on this host to attack with");
    }
    here
}

/// Runs a program in Python on every footing and expects exactly this output.
#[track_caller]
fn check_py(program: &str, expected: &str) {
    if has("/usr/bin/python3") {
        everywhere(|_, sandbox| assert_eq!(py(sandbox, program), expected, "{}", sandbox.footing()));
    }
}

#[test]
fn an_ordinary_users_box_holds_against_every_attack_too() {
    let Some(told) = as_nobody(&["escapes::", "--skip", "ordinary_users"]) else { return };
    let ran = told.lines().filter(|line| line.contains("on ") && line.contains("the caller's id")).count();
    eprintln!("{ran} attacks ran as an ordinary user");
    if ran == 0 {
        eprintln!("SKIPPED: an ordinary user gets no box here");
    }
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
    everywhere(|_, sandbox| {
        let script = "cp /usr/bin/id . && chmod 6755 id && ./id -u; id -u; su -c id 2>/dev/null </dev/null || echo no";
        let told = text(&sh(sandbox, script));
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[0], lines[1]);
        assert_eq!(lines[2], "no");
    });
}
