//! Does the kernel grant a job what it must not?

use std::fs;
use std::process::Command;

use sandbox::Tier;

use super::{check, check_py, has, py};
use crate::harness::{everywhere, sh, text};

#[test]
fn no_system_call_that_could_loosen_the_box_works() {
    check_py(
        "
calls = dict(unshare=272, setns=308, mount=165, umount2=166, pivot_root=155, chroot=161, bpf=321, keyctl=250, add_key=248,
    request_key=249, userfaultfd=323, perf_event_open=298, ptrace=101, process_vm_readv=310, process_vm_writev=311,
    kexec_load=246, kexec_file_load=320, init_module=175, finit_module=313, delete_module=176, name_to_handle_at=303,
    open_by_handle_at=304, fsopen=430, fsconfig=431, fsmount=432, fspick=433, move_mount=429, open_tree=428,
    mount_setattr=442, io_uring_setup=425, io_uring_enter=426, io_uring_register=427, clone3=435, pidfd_getfd=438,
    process_madvise=440, quotactl_fd=443, memfd_secret=447, statmount=457, listmount=458, lsm_set_self_attr=460,
    swapon=167, swapoff=168, reboot=169, sethostname=170, setdomainname=171, iopl=172, ioperm=173, acct=163,
    settimeofday=164, adjtimex=159, clock_settime=227, clock_adjtime=305, syslog=103, vhangup=153, kcmp=312,
    fanotify_init=300, vmsplice=278, move_pages=279, migrate_pages=256, mbind=237, set_mempolicy=238, modify_ldt=154,
    uselib=134, ustat=136, sysfs=139, lookup_dcookie=212, quotactl=179, nfsservctl=180)
for name, number in calls.items():
    for args in ((0x10000000, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0), (os.getppid(), 0, 0, 0, 0, 0)):
        answer = call(number, *args)
        if answer not in ('EPERM', 'ENOSYS'): print(name, args, answer)
print('end')
",
        "end\n",
    );
}

#[test]
fn no_namespace_can_be_made_in_the_box_in_any_way() {
    check_py(
        "
flags = (0x80, 0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
for flag in flags:
    for high in (0, 1 << 32):
        if flag != 0x80:
            pid = libc.syscall(56, ctypes.c_long(flag | high | 17), 0, 0, 0, 0)
            if pid == 0: libc._exit(0)
            if pid > 0: print('clone', hex(flag))
        if call(272, flag | high) == 'DONE': print('unshare', hex(flag))
    arguments = ctypes.create_string_buffer(struct.pack('QQQQQQQQQQQ', flag, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
    pid = libc.syscall(435, arguments, ctypes.c_long(88))
    if pid == 0: libc._exit(0)
    if pid > 0: print('clone3', hex(flag))
for name in os.listdir('/proc/self/ns'):
    fd = os.open('/proc/self/ns/' + name, os.O_RDONLY)
    if call(308, fd, 0) == 'DONE': print('setns', name)
print('end')
",
        "end\n",
    );
}

#[test]
fn nothing_is_mounted_remounted_or_unmounted_whoever_the_box_runs_as() {
    check_py(
        "
REMOUNT, BIND, RDONLY = 32, 4096, 1
for at in (b'/', b'/usr', b'/etc', b'/proc/sys', b'/dev/null', b'/workspace', b'/proc/kcore'):
    print(call(165, b'none', at, b'', REMOUNT | BIND, b''), call(165, b'none', at, b'', REMOUNT, b''),
        call(166, at, 2), call(442, -100, at, 0, struct.pack('QQQQ', 0, RDONLY, 0, 0), 32))
print(call(165, b't', b'/tmp', b'tmpfs', 0, b''), call(165, b'/', b'/tmp', b'', BIND, b''), call(155, b'/tmp', b'/tmp'))
",
        &format!("{}EPERM EPERM EPERM\n", "EPERM EPERM EPERM EPERM\n".repeat(7)),
    );
}

#[test]
fn no_capability_is_kept_raised_or_stored_in_a_file() {
    check_py(
        "
header, data = struct.pack('II', 0x20080522, 0), struct.pack('IIIIII', *[0xffffffff] * 6)
print('capset', call(126, header, data))
print('ambient', call(157, 47, 2, 21, 0, 0))
print('securebits', call(157, 28, 1, 0, 0, 0))
before = open('/proc/self/status').read()
for number in (105, 106, 117, 119): call(number, 0, 0, 0)
open('tool', 'w').write('#!/bin/sh\\ngrep CapEff /proc/self/status\\n'); os.chmod('tool', 0o755)
value = struct.pack('<IIIII', 0x02000001, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff)
print('file', told(lambda: os.setxattr('tool', 'security.capability', value)))
capabilities = [line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')]
print(set(capabilities))
",
        "capset EPERM\nambient EPERM\nsecurebits EPERM\nfile EPERM\n{'0000000000000000'}\n",
    );
}

/// A program that asks for its process id through the other two doors of the kernel, and through the right one.
const FOREIGN: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void try(const char *name, int door) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        long answer = 0;
        if (door == 0) __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
        if (door == 1) __asm__ volatile("syscall" : "=a"(answer) : "a"(0x40000000L + 39) : "rcx", "r11", "memory");
        if (door == 2) __asm__ volatile("syscall" : "=a"(answer) : "a"(39L) : "rcx", "r11", "memory");
        _exit(answer > 0 ? 42 : 0);
    }
    waitpid(pid, &status, 0);
    printf("%s %s\n", name, WIFEXITED(status) && WEXITSTATUS(status) == 42 ? "answered" : "refused");
    fflush(stdout);
}
int main(void) { try("ia32", 0); try("x32", 1); try("x86_64", 2); return 0; }
"#;

#[test]
fn a_call_by_a_foreign_interface_is_not_answered() {
    if !cfg!(target_arch = "x86_64") || !has("/usr/bin/cc") {
        return;
    }
    everywhere(|yard, sandbox| {
        let dir = tempfile::tempdir().expect("directory");
        let (source, program) = (dir.path().join("foreign.c"), dir.path().join("foreign"));
        fs::write(&source, FOREIGN).expect("source");
        let built = Command::new("/usr/bin/cc").arg("-o").arg(&program).arg(&source).output().expect("cc");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::copy(&program, yard.repo().join("foreign")).expect("copy");
        assert_eq!(text(&sh(sandbox, "./foreign")), "ia32 refused\nx32 refused\nx86_64 answered\n");
    });
}

#[test]
fn nothing_can_be_typed_into_a_terminal() {
    check_py(
        "
import fcntl, pty
print([os.isatty(n) for n in (0, 1, 2)], told(lambda: os.close(os.open('/dev/tty', os.O_RDWR))))
pipe = os.pipe()[0]
# The kernel looks at 32 bits of the request only. Something that is no terminal would answer ENOTTY.
for request in (0x5412, 0x541c, 0x541d, 0x5423):
    print(call(16, pipe, request, b'x'), call(16, pipe, request | 1 << 32, b'x'), call(16, pipe, request | 1 << 63, b'x'))
print(call(16, pipe, 0x5401, b'x' * 64))
master, slave = pty.openpty()
print(call(16, slave, 0x5412, b'x'), struct.unpack('HHHH', fcntl.ioctl(slave, 0x5413, b'0' * 8)))
",
        &format!(
            "[False, False, False] ENXIO\n{}ENOTTY\nEPERM (0, 0, 0, 0)\n",
            "EPERM EPERM EPERM\n".repeat(4)
        ),
    );
}

#[test]
fn no_descriptor_and_no_program_of_the_host_is_left_in_the_box_to_overwrite() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|_, sandbox| {
        let runtime = match &sandbox.footing().tier {
            Tier::Oci(runtime) => runtime.path.clone(),
            // What engines of Debian run containers with.
            Tier::Docker(_) => "/usr/sbin/runc".into(),
        };
        let before = fs::read(&runtime).expect("the runtime");
        let program = "
for pid in [name for name in os.listdir('/proc') if name.isdigit()] + ['self']:
    for file in ('exe', 'mem'):
        path = f'/proc/{pid}/{file}'
        # The memory of one's own processes is one's own.
        if file == 'exe' and told(lambda: os.close(os.open(path, os.O_WRONLY))) == 'DONE': print('opened', path)
    for fd in os.listdir(f'/proc/{pid}/fd') if os.access(f'/proc/{pid}/fd', os.R_OK) else []:
        try: target = os.readlink(f'/proc/{pid}/fd/{fd}')
        except OSError: continue
        if not target.startswith(('pipe:', '/dev/null', f'/proc/')): print('leaked', pid, fd, target)
    for link in ('cwd', 'root'):
        try: target = os.readlink(f'/proc/{pid}/{link}')
        except OSError: continue
        if target not in ('/workspace', '/'): print('stands', pid, link, target)
open('again', 'w').write('#!/proc/self/exe\\n'); os.chmod('again', 0o755)
os.system('./again < /dev/null > /dev/null 2>&1')
print(os.getcwd())
";
        assert_eq!(py(sandbox, program), "/workspace\n");
        assert!(fs::read(&runtime).expect("the runtime") == before, "the runtime was changed");
    });
}

#[test]
fn proc_and_sys_tell_nothing_of_the_kernel_and_take_nothing() {
    check_py(
        "
for name in ('kcore', 'keys', 'key-users', 'timer_list', 'timer_stats', 'kmsg', 'kallsyms', 'sched_debug', 'modules', 'iomem',
        'ioports', 'slabinfo', 'vmallocinfo', 'kpagecount', 'kpageflags', 'pagetypeinfo', 'latency_stats', 'interrupts'):
    try: content = open('/proc/' + name, 'rb').read(64)
    except OSError: continue
    if content: print('read', name, content)
opened = []
for top in ('/proc/sys', '/proc/irq', '/proc/bus', '/proc/fs', '/proc/driver', '/proc/tty', '/proc/acpi', '/proc/scsi'):
    for dir, dirs, files in os.walk(top):
        opened += [f for f in (os.path.join(dir, file) for file in files) if told(lambda: os.close(os.open(f, os.O_WRONLY))) == 'DONE']
for name in os.listdir('/proc'):
    if name.isdigit() or name in ('self', 'thread-self') or os.path.isdir('/proc/' + name): continue
    path = '/proc/' + name
    # What is masked is /dev/null, which takes everything and keeps nothing.
    if told(lambda: os.close(os.open(path, os.O_WRONLY))) == 'DONE' and os.stat(path).st_rdev != os.makedev(1, 3): opened.append(path)
print(opened, os.listdir('/sys'), [e for e in (told(lambda: os.unlink('/dev/null')), told(lambda: os.symlink('/proc/sys', '/dev/x'))) if e not in ('EROFS', 'EACCES')])
",
        "[] [] []\n",
    );
}

#[test]
fn no_control_group_can_be_told_to_run_something_on_the_host() {
    check(
        "grep -c ' - cgroup' /proc/self/mountinfo; unshare -UrmC true 2>/dev/null && echo unshared
         for kind in cgroup cgroup2; do mkdir -p /tmp/c; mount -t $kind -o rdma none /tmp/c 2>/dev/null && echo mounted; done
         find / -xdev \\( -name release_agent -o -name notify_on_release -o -name cgroup.procs \\) 2>/dev/null; echo end",
        "0\nend\n",
    );
}

#[test]
fn no_device_can_be_made_or_opened_but_the_harmless_ones() {
    check_py(
        "
import stat
for kind, major, minor in ((stat.S_IFCHR, 1, 1), (stat.S_IFCHR, 1, 2), (stat.S_IFCHR, 10, 229), (stat.S_IFCHR, 10, 232), (stat.S_IFBLK, 8, 0),
        (stat.S_IFBLK, 7, 0), (stat.S_IFCHR, 5, 1), (stat.S_IFCHR, 4, 1), (stat.S_IFCHR, 1, 3)):
    for dir in ('/tmp', '/workspace', '/home/agent', '/dev/shm'):
        if told(lambda: os.mknod(f'{dir}/device', kind | 0o666, os.makedev(major, minor))) == 'DONE': print('made', dir, major, minor)
names = sorted(name for name in os.listdir('/dev') if stat.S_ISCHR(os.stat('/dev/' + name).st_mode) or stat.S_ISBLK(os.stat('/dev/' + name).st_mode)
    if os.path.exists('/dev/' + name) and name not in ('stdin', 'stdout', 'stderr'))
print(names)
",
        "['full', 'null', 'ptmx', 'random', 'tty', 'urandom', 'zero']\n",
    );
}

#[test]
fn an_interpreter_under_another_name_or_through_the_loader_can_do_no_more() {
    if !has("/usr/bin/python3") {
        return;
    }
    everywhere(|yard, sandbox| {
        yard.put(
            "probe.py",
            "import ctypes
libc = ctypes.CDLL(None)
powers = [line.split()[1] for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNewPrivs', 'Seccomp:'))]
print(libc.syscall(272, 0x10000000), libc.socket(16, 3, 0), set(powers[:5]), powers[5:])
",
        );
        let script = "p=$(readlink -f /usr/bin/python3); cp $p innocent; cp $p /tmp/innocent
             for run in $p ./innocent /tmp/innocent '/lib64/ld-linux-x86-64.so.2 ./innocent' /proc/self/root$p; do
                 $run probe.py || echo did not start; done";
        let told = text(&sh(sandbox, script));
        let first = told.lines().next().unwrap_or_default();
        assert_eq!(first, "-1 -1 {'0000000000000000'} ['1', '2']");
        assert_eq!(told.lines().filter(|line| *line == first).count(), 5, "{told}");
    });
}
