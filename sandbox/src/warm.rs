//! How does one container serve job after job?
//!
//! A warm box is a container whose process 1 is our own init (`init/jobs.rs`) and which has no workspace between jobs. Before
//! a job the keeper (`init/keeper.rs`) gives it one, with an empty /tmp, /dev/shm and home; afterwards it takes them out
//! again. Nothing that the init says is believed but one exit code for the job that was ordered: output comes through pipes
//! of ours, a deadline kills process 1 and with it the whole process-id namespace, and the box is used again only when a look
//! from outside finds it as it was when it was born.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::bundle;
use crate::cgroup;
use crate::container::{Frame, RunError, Watch, bundle_dir, io_error, runtime_root};
use crate::job::{Ending, Job, Outcome, Usage};
use crate::limits::Limits;
use crate::path::RelPath;
use crate::policy::{self, Process};
use crate::pump::Pump;
use crate::remove::remove_tree;
use crate::runtime::{self, Runtime};
use crate::stage;
use crate::wire::{Answer, LAYERS_MAX, LINE_BYTES_MAX, NO_LAYER, Order, Request, STREAMS, WELL};

/// How long the runtime may take to start the init.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long the init may take to read an order, and the keeper for one request.
const TALK_PATIENCE: Duration = Duration::from_secs(5);
/// How long the dying of a whole box may take.
const DEATH_PATIENCE: Duration = Duration::from_secs(2);

/// A container that waits for a job. Dropping it kills all that is in it and makes the runtime forget it.
pub(crate) struct Warm {
    container: Container,
    /// Process 1 of the box.
    init: OwnedFd,
    pid: u32,
    jobs: UnixStream,
    keeper: Keeper,
    /// What the kernel says about process 1 before its first job.
    birth: String,
    /// The limits that the container was made with.
    limits: Limits,
    /// Sockets of the host that the container does not show.
    covered: Vec<PathBuf>,
    is_paused: bool,
    /// Work directories of overlays that are gone.
    spent: PathBuf,
}

/// How a job went, and whether the box may have another one.
pub(crate) struct Ran {
    pub(crate) outcome: Result<Outcome, RunError>,
    /// Why not.
    pub(crate) unfit: Option<String>,
}

impl Warm {
    /// Starts a container with the init in it, and its keeper.
    pub(crate) fn start(frame: &Frame, runtime: &Runtime, limits: &Limits, number: u64) -> Result<Warm, RunError> {
        frame.renew_work(None)?;
        let place = frame.stage_place(runtime)?;
        let places = frame.places(place.as_deref());
        if let Some(reason) = bundle::unkeepable(&places) {
            return Err(RunError::Runtime { reason });
        }
        let name = frame.container(number);
        let program = bundle::add_init(&bundle_dir(&frame.dir)).map_err(io_error("write the init"))?;
        // Listed before the configuration lists them: one that comes in between makes the box unsuitable, no worse.
        let covered = frame.host_sockets();
        frame.write_config(&name, Process::Init, limits, &places)?;
        let (jobs, theirs) = UnixStream::pair().map_err(io_error("make a socket"))?;
        let (requests, keepers) = UnixStream::pair().map_err(io_error("make a socket"))?;
        for socket in [&jobs, &requests] {
            let set = socket.set_read_timeout(Some(TALK_PATIENCE));
            set.and_then(|()| socket.set_write_timeout(Some(TALK_PATIENCE))).map_err(io_error("set up a socket"))?;
        }
        let (log, pid_file) = (frame.dir.join("runtime.log"), frame.dir.join("init.pid"));
        let _ = fs::remove_file(&log);
        let mut command = frame.run_command(runtime, &log);
        command.arg("--detach").arg("--pid-file").arg(&pid_file).arg("--bundle").arg(&places.bundle).arg(&name);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        let mut keeper = Command::new(program);
        keeper.arg("keeper").args([&places.lower, &places.layers, &places.frozen]).arg(frame.ids.inside().to_string());
        keeper.env_clear().current_dir("/").stdin(Stdio::from(OwnedFd::from(keepers))).stderr(Stdio::null());

        let runtime = runtime.clone();
        let container = Container { runtime, root: runtime_root(&frame.dir), name, cgroups: frame.footing.cgroups };
        let act = move || {
            let mut keeper = keeper;
            run_to_end(command)?;
            let (pid, init) = process_one(&pid_file)?;
            keeper.stdout(Stdio::from(init.try_clone()?));
            std::os::unix::process::CommandExt::process_group(&mut keeper, 0);
            Ok((pid, init, keeper.spawn()?))
        };
        let started: io::Result<_> = match &place {
            Some(place) => stage::within(place, &frame.parts(), frame.ids.idmap.as_ref(), act).and_then(|it| it),
            None => act(),
        };
        let (pid, init, process) = started.map_err(|error| {
            let reason = runtime::logged_errors(&log).pop();
            reason.map_or_else(|| io_error("start a warm box")(error), |reason| RunError::Runtime { reason })
        })?;
        let keeper = Keeper { requests, process };
        let (limits, spent) = (limits.clone(), frame.dir.join("spent"));
        let mut warm =
            Warm { container, init, pid, jobs, keeper, birth: String::new(), limits, covered, is_paused: false, spent };
        let mut ready = [0; Answer::BYTES];
        warm.jobs.read_exact(&mut ready).map_err(io_error("hear from the init"))?;
        if Answer::decode(ready) != Answer::READY {
            return Err(RunError::Init);
        }
        warm.birth = warm.condition().map_err(io_error("look at the init"))?;
        Ok(warm)
    }

    /// Whether a job with these limits may run here: those that the container and its processes were born with are the same,
    /// and so are the sockets of the host that had to be covered.
    pub(crate) fn suits(&self, frame: &Frame, limits: &Limits) -> bool {
        let born = |limits: &Limits| {
            let Limits { memory_bytes_max, pids_max, cpu_milli_max, open_files_max, file_bytes_max, .. } = *limits;
            [memory_bytes_max, pids_max, cpu_milli_max, open_files_max, file_bytes_max]
        };
        born(limits) == born(&self.limits) && frame.host_sockets() == self.covered
    }

    /// Mounts a workspace. After an error no job has run here and none may.
    pub(crate) fn prepare(&mut self, frame: &Frame, limits: &Limits) -> Result<(), String> {
        frame.renew_work(Some(&self.spent)).map_err(|error| error.to_string())?;
        self.resume().map_err(|error| format!("could not resume the box: {error}"))?;
        let mut stack = [NO_LAYER; LAYERS_MAX];
        for (place, frozen) in stack.iter_mut().zip(&frame.stack) {
            *place = frozen.number();
        }
        self.keeper.ask(Request::Mount { tmp_bytes_max: limits.tmp_bytes_max, stack })
    }

    /// Runs one job on the workspace that [`Warm::prepare`] mounted.
    pub(crate) fn run(&mut self, frame: &Frame, job: (&Job, &RelPath), number: u32, mut watch: Watch<'_>) -> Ran {
        let counted = frame.footing.cgroups.then(|| {
            let peak_was_reset = cgroup::reset_peak(&self.container.name);
            (peak_was_reset, cgroup::usage(&self.container.name))
        });
        let order = order(job, number, watch.limits, frame);
        let told =
            self.order(&order, job.0, frame, &watch).and_then(|pumps| Ok((self.wait(number, &mut watch)?, pumps)));
        let usage = counted.map_or_else(Usage::default, |(peak_was_reset, before)| {
            cgroup::since(&before, &cgroup::usage(&self.container.name), peak_was_reset)
        });
        let (told, pumps) = match told {
            Ok(told) => told,
            Err(error) => return Ran { outcome: Err(error), unfit: Some("the init did not answer".into()) },
        };
        let mut streams = pumps.into_iter().map(Pump::finish);
        let (stdout, stdout_truncated) = streams.next().unwrap_or_default();
        let (stderr, stderr_truncated) = streams.next().unwrap_or_default();
        let stopped = matches!(told, Told::Stopped(_));
        let out_of_memory = usage.memory_kills.is_some_and(|kills| kills > 0);
        let ending = match (told, watch.verdict_after()) {
            (Told::Stopped(ending), _) | (_, Some(ending)) => Ok(ending),
            (Told::Code(0), None) => Ok(Ending::Exited(0)),
            (_, None) if out_of_memory => Ok(Ending::OutOfMemory),
            (Told::Code(code), None) => Ok(Ending::from_code(code)),
            (Told::Nothing, None) => Err(RunError::Init),
        };
        let unfit = match (&ending, stopped) {
            (Err(error), _) => Some(error.to_string()),
            (_, true) => Some("the box was killed".into()),
            (Ok(_), false) => self.unfit(),
        };
        let seconds = watch.started.elapsed().as_secs_f64();
        let outcome =
            ending.map(|ending| Outcome { ending, stdout, stderr, stdout_truncated, stderr_truncated, seconds, usage });
        Ran { outcome, unfit }
    }

    /// Gives the init a job with its streams.
    fn order(&mut self, order: &Order, job: &Job, frame: &Frame, watch: &Watch<'_>) -> Result<Vec<Pump>, RunError> {
        let (stdin, feed) = io::pipe().map_err(io_error("make pipes"))?;
        let (stdout_end, stdout) = io::pipe().map_err(io_error("make pipes"))?;
        let (mut ends, mut stderr) = (vec![stdout_end], stdout.try_clone().map_err(io_error("make pipes"))?);
        if !job.merged {
            let (end, own) = io::pipe().map_err(io_error("make pipes"))?;
            (ends, stderr) = (ends.into_iter().chain([end]).collect(), own);
        }
        let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        for stream in streams {
            // Else a job could not open its own /dev/stderr.
            frame.ids.give(stream).map_err(io_error("give the pipes to the box"))?;
        }
        let bytes = order.encode();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        send(&self.jobs, &length, streams).map_err(|_| RunError::Init)?;
        self.jobs.write_all(&bytes).map_err(|_| RunError::Init)?;
        if let Some(bytes) = job.stdin.clone() {
            let mut feed = feed;
            thread::spawn(move || feed.write_all(&bytes));
        }
        Ok(ends.into_iter().map(|end| Pump::start(end, watch.budget.clone())).collect())
    }

    /// Waits for the answer; kills the whole box when the watch says so.
    fn wait(&mut self, number: u32, watch: &mut Watch<'_>) -> Result<Told, RunError> {
        loop {
            if is_readable(self.jobs.as_fd(), watch.pause()).map_err(io_error("wait for the init"))? {
                let mut bytes = [0; Answer::BYTES];
                let answer = self.jobs.read_exact(&mut bytes).map(|()| Answer::decode(bytes));
                return Ok(match answer {
                    Ok(answer) if answer.number == number => Told::Code(answer.code),
                    _ => {
                        self.kill();
                        Told::Nothing
                    }
                });
            }
            if let Some(ending) = watch.verdict() {
                self.kill();
                return Ok(Told::Stopped(ending));
            }
        }
    }

    /// Why this box may not have another job; takes the workspace out of it and looks at it meanwhile.
    fn unfit(&mut self) -> Option<String> {
        if let Err(reason) = self.keeper.tell(Request::Unmount) {
            return Some(reason);
        }
        let left = self.left_behind();
        self.keeper.hear().err().or(left)
    }

    /// What a job has left of itself in the box, as the host's kernel tells it.
    fn left_behind(&self) -> Option<String> {
        let file = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.pid));
        // All processes of the namespace descend from its process 1.
        match file(&format!("task/{}/children", self.pid)) {
            Ok(children) if children.is_empty() => {}
            Ok(_) => return Some("the job left a process".into()),
            Err(_) => return Some("this kernel does not tell the children of a process".into()),
        }
        // A connection that lingers keeps its port. (`net/tcp` would have the kernel walk through its whole table.)
        let counted = |name: &str, what: &str| file(name).is_ok_and(|text| !counts_no_tcp(&text, what));
        if counted("net/sockstat", "TCP:") || counted("net/sockstat6", "TCP6:") {
            return Some("the job left a connection".into());
        }
        match self.condition() {
            Ok(condition) if condition == self.birth => None,
            Ok(_) => Some("the job changed limits, priority or processors of the init".into()),
            Err(error) => Some(format!("the init cannot be looked at: {error}")),
        }
    }

    /// Everything about process 1 that another process of the same user can change and a job inherits.
    fn condition(&self) -> io::Result<String> {
        let file = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.pid));
        let status = file("status")?;
        let kept = ["State:", "Tgid:", "Cap", "NoNewPrivs:", "Seccomp", "Cpus_allowed:", "Mems_allowed:", "Threads:"];
        let kept = |line: &&str| kept[1..].iter().any(|name| line.starts_with(name));
        let status: Vec<&str> = status.lines().filter(kept).collect();
        let stat = file("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_ascii_whitespace().collect();
        // Numbered as in proc_pid_stat(5), where the field after the name is the third: pgrp, session, priority, nice, start,
        // real-time priority and policy.
        let fields: Vec<&str> = [5, 6, 18, 19, 22, 40, 41].iter().filter_map(|n| fields.get(n - 3).copied()).collect();
        // SAFETY: the call takes plain numbers.
        let io_priority = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, self.pid) };
        Ok(format!("{}\n{fields:?}\n{io_priority}\n{}", status.join("\n"), file("limits")?))
    }

    /// Stops the box where it is; only between jobs. `false`: without control groups it cannot be, and an idle box sleeps.
    pub(crate) fn pause(&mut self) -> io::Result<bool> {
        if self.container.cgroups && !self.is_paused {
            cgroup::freeze(&self.container.name, true)?;
            self.is_paused = true;
        }
        Ok(self.is_paused)
    }

    /// Removes what is easier removed while nobody waits.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        remove_tree(&self.spent)
    }

    /// Lets a paused box go on.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        if self.is_paused {
            cgroup::freeze(&self.container.name, false)?;
            self.is_paused = false;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Process 1 of the box, as the host numbers it.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills process 1 and so the whole process-id namespace: the kernel lets it go only when everybody else is gone.
    fn kill(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.init, Signal::KILL);
        // A frozen process does not die.
        let _ = self.resume();
        let _ = is_readable(self.init.as_fd(), DEATH_PATIENCE);
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.kill();
    }
}

const IOPRIO_WHO_PROCESS: i32 = 1;

/// What became of an order.
enum Told {
    Code(u8),
    Stopped(Ending),
    /// The init is gone, or said something else.
    Nothing,
}

fn order((job, cwd): (&Job, &RelPath), number: u32, limits: &Limits, frame: &Frame) -> Order {
    let cwd = policy::workspace(cwd).to_string_lossy().into_owned();
    let mut env = policy::env(&frame.env, job);
    // As the shell that is process 1 of other boxes does.
    env.insert(0, format!("PWD={cwd}"));
    Order { number, cwd, argv: policy::bare_args(job, limits, &frame.footing), env }
}

fn run_to_end(mut command: Command) -> io::Result<()> {
    let mut child = command.spawn()?;
    let started = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("the OCI runtime ended with {status}"))),
            None if started.elapsed() > START_PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Whether a line of `/proc/net/sockstat` counts no socket of its network namespace; the fields `orphan` and `alloc` count
/// those of the whole machine.
fn counts_no_tcp(sockstat: &str, what: &str) -> bool {
    let Some(line) = sockstat.lines().find_map(|line| line.strip_prefix(what)) else { return true };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.chunks(2).filter(|pair| ["inuse", "tw"].contains(&pair[0])).all(|pair| pair.get(1) == Some(&"0"))
}

/// The process whose number the runtime wrote down, held so that the number cannot come to mean another one.
fn process_one(pid_file: &Path) -> io::Result<(u32, OwnedFd)> {
    let wrong = || io::Error::other("the runtime did not tell process 1 of the box");
    let pid: u32 = fs::read_to_string(pid_file)?.trim().parse().map_err(|_| wrong())?;
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(wrong)?;
    let init = rustix::process::pidfd_open(raw, PidfdFlags::empty())?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).ok_or_else(wrong)?;
    let mut numbers = numbers.split_ascii_whitespace();
    let is_first_of_its_own = numbers.next_back() == Some("1") && numbers.next().is_some();
    if is_first_of_its_own { Ok((pid, init)) } else { Err(wrong()) }
}

/// Whether there is something to read, an end included, within this time.
fn is_readable(fd: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&patience)) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        answer => Ok(answer? > 0),
    }
}

/// Sends bytes with descriptors beside them, as unix(7) says. (By hand: the feature of rustix that can do it would have everything
/// above rustix in this workspace built a second time.)
fn send(socket: &UnixStream, bytes: &[u8], streams: [BorrowedFd<'_>; STREAMS]) -> io::Result<()> {
    let descriptors = streams.map(|stream| stream.as_raw_fd());
    let descriptors_bytes = size_of_val(&descriptors) as u32;
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // Aligned as a header must be, and larger than one header with the descriptors.
    let mut control = [0_u64; 8];
    // SAFETY: all fields of the structure may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the macros only compute; the header and the descriptors lie within `control`, which the assertion has seen.
    // What the message points to lives until the call has returned, and the kernel only reads it.
    let sent = unsafe {
        let space = libc::CMSG_SPACE(descriptors_bytes) as usize;
        assert!(space <= size_of_val(&control), "no room for the descriptors");
        message.msg_controllen = space as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(descriptors_bytes) as _;
        libc::CMSG_DATA(header).cast::<i32>().copy_from_nonoverlapping(descriptors.as_ptr(), STREAMS);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The process beside the box that mounts.
struct Keeper {
    requests: UnixStream,
    process: Child,
}

impl Keeper {
    fn ask(&mut self, request: Request) -> Result<(), String> {
        self.tell(request)?;
        self.hear()
    }

    fn tell(&mut self, request: Request) -> Result<(), String> {
        self.requests.write_all(&request.encode()).map_err(|error| format!("the keeper does not listen: {error}"))
    }

    fn hear(&mut self) -> Result<(), String> {
        match self.line() {
            Ok(line) if line == WELL => Ok(()),
            Ok(line) => Err(line),
            Err(error) => Err(format!("the keeper does not answer: {error}")),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.len() < LINE_BYTES_MAX {
            self.requests.read_exact(&mut byte)?;
            if byte == *b"\n" {
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            line.extend(byte);
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the runtime knows about the box.
struct Container {
    runtime: Runtime,
    root: PathBuf,
    name: String,
    cgroups: bool,
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.runtime.delete(&self.root, &self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_this_network_counts_and_one_of_another_does_not() {
        for (line, none) in [
            ("TCP: inuse 0 orphan 3 tw 0 alloc 9 mem 4", true),
            ("TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 0", false),
            ("TCP: inuse 0 orphan 0 tw 1 alloc 1 mem 0", false),
            ("TCP6: inuse 1", true),
            ("", true),
        ] {
            assert_eq!(counts_no_tcp(&format!("sockets: used 4\n{line}\n"), "TCP:"), none, "{line}");
        }
        assert!(!counts_no_tcp("TCP6: inuse 1", "TCP6:"));
    }
}
