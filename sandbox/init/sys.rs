//! Which system calls do the two programs make that the standard library does not know?
//!
//! The C library is linked in anyway; these are its names, each behind a function that is safe to call.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::wire::STREAMS;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn prctl(option: c_int, ...) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const SignalSet, flags: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn setsid() -> c_int;
    fn recvmsg(socket: c_int, message: *mut MessageHeader, flags: c_int) -> isize;
    fn setns(fd: c_int, kind: c_int) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn umount2(target: *const c_char, flags: c_int) -> c_int;
}

const PR_SET_DUMPABLE: c_int = 4;
const SIGKILL: c_int = 9;
const SIGCHLD: c_int = 17;
const WNOHANG: c_int = 1;
const WALL: c_int = 0x4000_0000;
const SIG_SETMASK: c_int = 2;
const CLOEXEC: c_int = 0o2_000_000;
const NONBLOCK: c_int = 0o4_000;
const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
const POLLIN: i16 = 1;
pub const CLONE_NEWNS: c_int = 0x0002_0000;
pub const CLONE_NEWIPC: c_int = 0x0800_0000;
pub const CLONE_NEWUSER: c_int = 0x1000_0000;
// Numbers of the generic table; x86_64 and aarch64 have the same ones from 424 on.
const SYS_MOVE_MOUNT: c_long = 429;
const SYS_FSOPEN: c_long = 430;
const SYS_FSCONFIG: c_long = 431;
const SYS_FSMOUNT: c_long = 432;
const SYS_LANDLOCK_CREATE_RULESET: c_long = 444;
const SYS_LANDLOCK_ADD_RULE: c_long = 445;
const SYS_LANDLOCK_RESTRICT_SELF: c_long = 446;
#[cfg(target_arch = "x86_64")]
const SYS_SETUID_GROUPS: [c_long; 3] = [117, 119, 116];
#[cfg(target_arch = "aarch64")]
const SYS_SETUID_GROUPS: [c_long; 3] = [147, 149, 159];

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

/// `sigset_t` of glibc and musl: 1024 bits.
#[repr(C)]
struct SignalSet([u64; 16]);

/// `struct msghdr` of 64-bit Linux.
#[repr(C)]
struct MessageHeader {
    name: *mut c_void,
    name_bytes: c_uint,
    parts: *mut Part,
    part_count: usize,
    control: *mut Control,
    control_bytes: usize,
    flags: c_int,
}

#[repr(C)]
struct Part {
    base: *mut u8,
    bytes: usize,
}

/// `struct cmsghdr` with room for one message of as many descriptors as a job has streams.
#[repr(C)]
struct Control {
    bytes: usize,
    level: c_int,
    kind: c_int,
    fds: [c_int; STREAMS + 1],
}

fn answer(value: c_long) -> io::Result<c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Shuts this process's memory, descriptors and limits against other processes of the same user.
pub fn be_undumpable() -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    answer(unsafe { prctl(PR_SET_DUMPABLE, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) }.into()).map(drop)
}

/// Kills every process that this one may kill, itself excepted.
pub fn kill_all() {
    // SAFETY: the call takes plain numbers. In a process-id namespace it reaches nobody outside.
    unsafe { kill(-1, SIGKILL) };
}

/// Takes one ended child: its number and its exit code as a shell tells it. `None`: none has ended yet, or there is none.
pub fn reap(wait: bool) -> Option<(u32, u8)> {
    let mut status = 0;
    // SAFETY: `status` is a writable integer during the call.
    let pid = unsafe { waitpid(-1, &raw mut status, WALL | if wait { 0 } else { WNOHANG }) };
    let signal = status & 0x7f;
    let code = if signal == 0 { status >> 8 & 0xff } else { 128 + signal };
    u32::try_from(pid).ok().filter(|pid| *pid > 0).map(|pid| (pid, u8::try_from(code).unwrap_or(u8::MAX)))
}

fn children_only() -> SignalSet {
    let mut set = SignalSet([0; 16]);
    set.0[0] = 1 << (SIGCHLD - 1);
    set
}

/// A descriptor that can be read when a child has ended; until then this process does not hear of it otherwise.
pub fn children_ended() -> io::Result<OwnedFd> {
    let set = children_only();
    // SAFETY: `set` is a whole signal set and outlives both calls; the kernel gives a descriptor that nobody else owns.
    unsafe {
        answer(sigprocmask(SIG_SETMASK, &raw const set, std::ptr::null_mut()).into())?;
        let fd = answer(signalfd(-1, &raw const set, CLOEXEC | NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// A session of its own and no blocked signal: for a job, between fork and exec.
pub fn begin_job() -> io::Result<()> {
    let none = SignalSet([0; 16]);
    // SAFETY: `none` is a whole signal set and outlives the call.
    unsafe {
        answer(setsid().into())?;
        answer(sigprocmask(SIG_SETMASK, &raw const none, std::ptr::null_mut()).into()).map(drop)
    }
}

/// Waits until one of the two can be read (or its other end is closed) and says which.
pub fn either_readable(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> (bool, bool) {
    let watch = |fd: BorrowedFd<'_>| PollFd { fd: fd.as_raw_fd(), events: POLLIN, revents: 0 };
    let mut fds = [watch(one), watch(other)];
    // SAFETY: the array is writable during the call and its length is passed along.
    unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, -1) };
    (fds[0].revents != 0, fds[1].revents != 0)
}

/// Reads into `bytes`, and takes the descriptors that came along.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = Part { base: bytes.as_mut_ptr(), bytes: bytes.len() };
    let mut control = Control { bytes: 0, level: 0, kind: 0, fds: [-1; STREAMS + 1] };
    let header_bytes = std::mem::offset_of!(Control, fds);
    let mut message = MessageHeader {
        name: std::ptr::null_mut(),
        name_bytes: 0,
        parts: &raw mut part,
        part_count: 1,
        control: &raw mut control,
        control_bytes: header_bytes + STREAMS * size_of::<c_int>(),
        flags: 0,
    };
    // SAFETY: all pointers in `message` are to live, writable memory whose sizes it states.
    let count = answer(unsafe { recvmsg(socket.as_raw_fd(), &raw mut message, MSG_CMSG_CLOEXEC) } as c_long)?;
    let is_rights = control.level == SOL_SOCKET && control.kind == SCM_RIGHTS && message.control_bytes >= header_bytes;
    let room = if is_rights { control.bytes.saturating_sub(header_bytes) / size_of::<c_int>() } else { 0 };
    let fds = control.fds.iter().take(room.min(STREAMS)).filter(|fd| **fd >= 0);
    // SAFETY: the kernel has just made these descriptors for this process, and nobody else owns them.
    Ok((count as usize, fds.map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }).collect()))
}

/// The version of Landlock that the kernel has.
pub fn landlock_version() -> Option<c_long> {
    const VERSION: c_long = 1;
    // SAFETY: for this question the kernel takes a null pointer and no size.
    let version = unsafe { syscall(SYS_LANDLOCK_CREATE_RULESET, std::ptr::null::<u64>(), 0 as c_long, VERSION) };
    (version > 0).then_some(version)
}

/// A set of rules without a rule yet: `struct landlock_ruleset_attr`, as much of it as the kernel knows.
pub fn landlock_rules(attributes: &[u64]) -> io::Result<OwnedFd> {
    let bytes = size_of_val(attributes);
    // SAFETY: the slice is live and its size is passed along; the descriptor is owned at once.
    unsafe {
        let fd = answer(syscall(SYS_LANDLOCK_CREATE_RULESET, attributes.as_ptr(), bytes, 0 as c_long))?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Allows `rights` below a directory.
pub fn landlock_allow(rules: BorrowedFd<'_>, dir: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct Beneath {
        rights: u64,
        dir: c_int,
    }
    const PATH_BENEATH: c_long = 1;
    let beneath = Beneath { rights, dir: dir.as_raw_fd() };
    // SAFETY: both descriptors are open, and `beneath` is the kernel's layout and outlives the call.
    let done = unsafe {
        syscall(SYS_LANDLOCK_ADD_RULE, c_long::from(rules.as_raw_fd()), PATH_BENEATH, &raw const beneath, 0 as c_long)
    };
    answer(done).map(drop)
}

/// Shuts this process in by these rules.
pub fn landlock_shut(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open; the rest are plain numbers.
    answer(unsafe { syscall(SYS_LANDLOCK_RESTRICT_SELF, c_long::from(rules.as_raw_fd()), 0 as c_long) }).map(drop)
}

/// Enters the namespaces of these kinds that `fd` stands for.
pub fn enter(fd: BorrowedFd<'_>, kinds: c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open; this process has one thread.
    answer(unsafe { setns(fd.as_raw_fd(), kinds) }.into()).map(drop)
}

/// A mount namespace of its own, a copy of the one before.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: the call takes a plain number; this process has one thread.
    answer(unsafe { unshare(CLONE_NEWNS) }.into()).map(drop)
}

/// User and group 0 of the user namespace that this process is in, and no further group where that may be said.
pub fn be_its_root() -> io::Result<()> {
    let [set_user, set_group, set_groups] = SYS_SETUID_GROUPS;
    // SAFETY: the calls take plain numbers and, for no groups at all, a null pointer.
    unsafe {
        // An ordinary user's namespace does not allow this one; then the groups are the user's own.
        syscall(set_groups, 0 as c_long, std::ptr::null::<c_uint>());
        answer(syscall(set_group, 0 as c_long, 0 as c_long, 0 as c_long))?;
        answer(syscall(set_user, 0 as c_long, 0 as c_long, 0 as c_long)).map(drop)
    }
}

/// Makes a file system of a kind with these options, mounted nowhere yet; set-id bits and devices mean nothing on it.
pub fn file_system(kind: &CStr, options: &[(&CStr, &CStr)], attributes: c_ulong) -> io::Result<OwnedFd> {
    const SET_STRING: c_long = 1;
    const SET_FLAG: c_long = 0;
    const CREATE: c_long = 6;
    const FSOPEN_CLOEXEC: c_long = 1;
    const FSMOUNT_CLOEXEC: c_long = 1;
    const NOSUID_NODEV: c_ulong = 2 | 4;
    let null = std::ptr::null::<c_char>;
    // SAFETY: all strings are NUL-terminated and outlive the calls; descriptors that the kernel gives are owned at once.
    unsafe {
        let context = answer(syscall(SYS_FSOPEN, kind.as_ptr(), FSOPEN_CLOEXEC))?;
        let context = OwnedFd::from_raw_fd(context as RawFd);
        for (name, value) in options {
            let (how, value) = if value.is_empty() { (SET_FLAG, null()) } else { (SET_STRING, value.as_ptr()) };
            answer(syscall(SYS_FSCONFIG, context.as_raw_fd(), how, name.as_ptr(), value, 0 as c_long))?;
        }
        answer(syscall(SYS_FSCONFIG, context.as_raw_fd(), CREATE, null(), null(), 0 as c_long))?;
        let mount = syscall(SYS_FSMOUNT, context.as_raw_fd(), FSMOUNT_CLOEXEC, NOSUID_NODEV | attributes);
        Ok(OwnedFd::from_raw_fd(answer(mount)? as RawFd))
    }
}

pub const ATTRIBUTE_NOEXEC: c_ulong = 8;

/// Mounts what [`file_system`] made.
pub fn attach(mount: &OwnedFd, target: &CStr) -> io::Result<()> {
    const FROM_DESCRIPTOR: c_long = 4;
    const AT_FDCWD: c_long = -100;
    // SAFETY: the descriptor is open and both strings are NUL-terminated.
    answer(unsafe {
        syscall(SYS_MOVE_MOUNT, mount.as_raw_fd(), c"".as_ptr(), AT_FDCWD, target.as_ptr(), FROM_DESCRIPTOR)
    })
    .map(drop)
}

/// Unmounts; refuses while anybody uses what is mounted.
pub fn detach(target: &CStr) -> io::Result<()> {
    const NOFOLLOW: c_int = 8;
    // SAFETY: the string is NUL-terminated.
    answer(unsafe { umount2(target.as_ptr(), NOFOLLOW) }.into()).map(drop)
}
