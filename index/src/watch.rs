//! Which files have changed since we last looked? The kernel keeps the list, and we read it when we want to know.
//!
//! No thread: the queue of inotify fills by itself, and who searches empties it first, so that a search sees what was
//! written before it. Where the kernel has no more watches to give, or its queue ran over, everything may have
//! changed; a sweep from time to time finds what no event told (writes through a mapping, network file systems).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::diff::Scope;
use crate::walk::directories;

/// After a change we wait until nothing more has happened for this long ...
const QUIET: Duration = Duration::from_millis(50);
/// ... but no longer than this.
const QUIET_MAX: Duration = Duration::from_millis(500);
/// So often everything is looked at, whatever the events say.
const SWEEP: Duration = Duration::from_secs(60);
/// So often where there are no events.
const POLL: Duration = Duration::from_secs(2);
/// Events read at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// More changed paths than this, and the whole tree is looked at.
const PATHS_MAX: usize = 2000;

/// Watches one tree.
pub(crate) struct Watch {
    root: PathBuf,
    /// Nothing where only polling is left.
    inotify: Option<OwnedFd>,
    /// The watched directories, relative to the root; empty for the root itself.
    directories: FxHashMap<i32, String>,
    /// What changed and was not refreshed yet.
    pending: Scope,
    swept_at: Instant,
}

impl Watch {
    /// Begins to watch. Everything counts as changed at first.
    pub(crate) fn start(root: &Path) -> Watch {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let (root, directories) = (root.to_path_buf(), FxHashMap::default());
        let mut watch = Watch { root, inotify, directories, pending: Scope::Tree, swept_at: Instant::now() };
        watch.cover(&Scope::Tree);
        watch
    }

    /// Whether events tell of changes; otherwise everything is looked at from time to time.
    pub(crate) fn has_events(&self) -> bool {
        self.inotify.is_some()
    }

    /// What must be looked at now. Call [`Watch::done`] once that has happened.
    pub(crate) fn changes(&mut self) -> Scope {
        self.drain();
        let every = if self.has_events() { SWEEP } else { POLL };
        if self.swept_at.elapsed() >= every {
            self.pending = Scope::Tree;
        }
        self.pending.clone()
    }

    /// What [`Watch::changes`] told is in the index.
    pub(crate) fn done(&mut self) {
        if matches!(self.pending, Scope::Tree) {
            self.swept_at = Instant::now();
            // The rules of what is ignored may have changed, and with them what must be watched.
            self.cover(&Scope::Tree);
        }
        self.pending = Scope::Paths(BTreeSet::new());
    }

    /// Waits until something has changed and the writers have paused, or the time is over.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        let start = Instant::now();
        let Some(fd) = &self.inotify else { return std::thread::sleep(timeout.min(POLL)) };
        if !is_ready(fd, timeout) {
            return;
        }
        let changed_at = Instant::now();
        while changed_at.elapsed() < QUIET_MAX && start.elapsed() < timeout + QUIET_MAX {
            self.drain();
            let Some(fd) = &self.inotify else { return };
            if !is_ready(fd, QUIET) {
                return;
            }
        }
    }

    /// Watches the directories of a scope.
    fn cover(&mut self, scope: &Scope) {
        let Some(fd) = &self.inotify else { return };
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        for directory in directories(&self.root, scope) {
            match inotify::add_watch(fd, self.root.join(&directory), events) {
                Ok(number) => {
                    self.directories.insert(number, directory);
                }
                // Gone again, or not ours to read: the walk says so.
                Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::LOOP) => {}
                // No watches left.
                Err(_) => {
                    self.inotify = None;
                    self.directories.clear();
                    self.pending = Scope::Tree;
                    return;
                }
            }
        }
    }

    fn drain(&mut self) {
        let Some(fd) = &self.inotify else { return };
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(fd, &mut buffer);
        let mut events = Vec::new();
        let ended = loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    events.push((event.wd(), event.events(), name));
                }
                Err(Errno::INTR) => {}
                Err(error) => break error,
            }
        };
        for (number, flags, name) in events {
            self.note(number, flags, name.as_deref());
        }
        if ended != Errno::AGAIN {
            self.inotify = None;
            self.pending = Scope::Tree;
        }
    }

    fn note(&mut self, number: i32, flags: ReadFlags, name: Option<&OsStr>) {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.pending = Scope::Tree;
            return;
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.directories.remove(&number);
            return;
        }
        let (Some(directory), Some(name)) = (self.directories.get(&number), name) else { return };
        let path = Path::new(directory).join(name);
        if flags.contains(ReadFlags::ISDIR) {
            let path = path.to_string_lossy().into_owned();
            if flags.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) {
                self.forget(&path);
            } else {
                self.cover(&Scope::Paths(BTreeSet::from([path])));
            }
        }
        self.add(path);
    }

    /// A directory that was moved away takes its watches along; they must not go on under its old name.
    fn forget(&mut self, directory: &str) {
        let Some(fd) = &self.inotify else { return };
        self.directories.retain(|number, path| {
            let inside = crate::prefix::is_within(path, directory);
            if inside {
                let _ = inotify::remove_watch(fd, *number);
            }
            !inside
        });
    }

    fn add(&mut self, path: PathBuf) {
        match (&mut self.pending, Scope::of_paths(&self.root, &[path])) {
            (Scope::Tree, _) => {}
            (Scope::Paths(paths), Scope::Paths(more)) if paths.len() < PATHS_MAX => paths.extend(more),
            (pending, _) => *pending = Scope::Tree,
        }
    }
}

fn is_ready(fd: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    // An interrupted wait is as good as one that is over.
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}
