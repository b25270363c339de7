//! How does a workspace get into a box that runs already, and out again?
//!
//! An overlay that is mounted while the harness writes into its layers is undefined, so each job gets one of its own. The
//! box's processes may not mount. The keeper may, in the box's user namespace and nowhere else: it is not in the box's
//! process-id namespace, starts no program and opens no file that a job can make. It makes the mounts in a mount namespace in
//! which the layers have names, then moves them into the box's.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::sys;
use crate::wire::{LINE_BYTES_MAX, NO_LAYER, Request, WELL};

const WORKSPACE: &CStr = c"/workspace";
/// What a job gets empty.
const EMPTY: [&CStr; 3] = [c"/tmp", c"/dev/shm", c"/home/agent"];
/// What `fsconfig` takes of one value.
const VALUE_BYTES_MAX: usize = 255;
/// One line per object after the headings.
const OBJECTS: [&str; 3] = ["/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"];

/// Does what it is asked for over standard input until that is closed. Standard output stands for process 1 of the box.
/// It knows where the repository, the layers of the box and the frozen layers of its lineage are.
pub fn serve(places: [&str; 3], id: &str) -> i32 {
    let mut harness = File::from(match io::stdin().as_fd().try_clone_to_owned() {
        Ok(fd) => fd,
        Err(_) => return 1,
    });
    let mut keeper = Keeper::enter(places, id);
    let mut request = [0; Request::BYTES];
    while harness.read_exact(&mut request).is_ok() {
        let answer = match (&mut keeper, Request::decode(request)) {
            (Ok(keeper), Some(Request::Mount { tmp_bytes_max, stack })) => keeper.mount(tmp_bytes_max, &stack),
            (Ok(keeper), Some(Request::Unmount)) => keeper.unmount(),
            (Err(reason), _) => Err(std::mem::take(reason)),
            (_, None) => Err("an unknown request".into()),
        };
        let mut line = answer.err().unwrap_or_else(|| WELL.to_owned()).replace('\n', " ").into_bytes();
        line.truncate(LINE_BYTES_MAX - 1);
        line.push(b'\n');
        if harness.write_all(&line).is_err() {
            break;
        }
        if let Ok(keeper) = &mut keeper {
            keeper.renew_used();
        }
    }
    0
}

struct Keeper {
    /// Process 1 of the box.
    process_one: OwnedFd,
    /// The mount namespace in which the layers have names.
    outside: File,
    lower: String,
    frozen: String,
    upper: CString,
    work: CString,
    id: CString,
    /// The POSIX message queues of the box.
    queues: OwnedFd,
    empty: Empty,
}

/// How it stands with the directories that a job gets empty.
enum Empty {
    NotMounted,
    /// Mounted with this size, for the next job.
    Fresh(u64),
    /// A job has them.
    InUse(u64),
    /// A job had them.
    Used(u64),
    /// They could not be renewed, for this reason.
    Broken(String),
}

fn failed(what: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("could not {what}: {error}")
}

fn c(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a NUL byte in a path".to_owned())
}

impl Keeper {
    fn enter([lower, layers, frozen]: [&str; 3], id: &str) -> Result<Keeper, String> {
        let process_one = io::stdout().as_fd().try_clone_to_owned().map_err(failed("keep a descriptor"))?;
        let namespaces = sys::CLONE_NEWUSER | sys::CLONE_NEWIPC;
        sys::enter(process_one.as_fd(), namespaces).map_err(failed("enter the box's user namespace"))?;
        sys::be_its_root().map_err(failed("take the box's user 0"))?;
        sys::own_mounts().map_err(failed("make a mount namespace"))?;
        let outside = File::open("/proc/self/ns/mnt").map_err(failed("open the mount namespace"))?;
        let queues = sys::file_system(c"mqueue", &[], 0).map_err(failed("look at message queues"))?;
        let (upper, work) = (c(&format!("{layers}/upper"))?, c(&format!("{layers}/work"))?);
        let (lower, frozen) = (lower.to_owned(), frozen.to_owned());
        Ok(Keeper { process_one, outside, lower, frozen, upper, work, id: c(id)?, queues, empty: Empty::NotMounted })
    }

    fn mount(&mut self, tmp_bytes_max: u64, stack: &[u32]) -> Result<(), String> {
        let is_fresh = matches!(self.empty, Empty::Fresh(bytes) if bytes == tmp_bytes_max);
        if !is_fresh {
            self.renew(tmp_bytes_max)?;
        }
        sys::enter(self.outside.as_fd(), sys::CLONE_NEWNS).map_err(failed("come back outside"))?;
        let lowers = self.lowers(stack)?;
        let mut options: Vec<(&CStr, &CStr)> = lowers.iter().map(|(name, value)| (*name, value.as_c_str())).collect();
        options.extend([(c"upperdir", self.upper.as_c_str()), (c"workdir", self.work.as_c_str())]);
        options.extend([(c"userxattr", c""), (c"volatile", c"")]);
        let overlay = sys::file_system(c"overlay", &options, 0).map_err(failed("make the overlay"))?;
        self.enter_box()?;
        sys::attach(&overlay, WORKSPACE).map_err(failed("mount the overlay"))?;
        self.empty = Empty::InUse(tmp_bytes_max);
        Ok(())
    }

    /// The options that say what lies under the layer that is written: one where its value is short enough, else one for
    /// each layer, which Linux knows since 6.8.
    fn lowers(&self, stack: &[u32]) -> Result<Vec<(&'static CStr, CString)>, String> {
        let frozen = stack.iter().take_while(|number| **number != NO_LAYER);
        let paths = frozen.map(|number| format!("{}/{number}", self.frozen));
        let paths: Vec<String> = paths.chain([self.lower.clone()]).collect();
        let joined = paths.join(":");
        if joined.len() <= VALUE_BYTES_MAX {
            return Ok(vec![(c"lowerdir", c(&joined)?)]);
        }
        paths.iter().map(|path| Ok((c"lowerdir+", c(path)?))).collect()
    }

    fn enter_box(&self) -> Result<(), String> {
        sys::enter(self.process_one.as_fd(), sys::CLONE_NEWNS).map_err(failed("enter the box's mount namespace"))
    }

    /// Puts new file systems in memory where a job has or may have written.
    fn renew(&mut self, bytes: u64) -> Result<(), String> {
        self.enter_box()?;
        match std::mem::replace(&mut self.empty, Empty::Broken("a file system in memory could not be renewed".into())) {
            Empty::Broken(reason) => return Err(reason),
            Empty::NotMounted => {}
            Empty::Fresh(_) | Empty::InUse(_) | Empty::Used(_) => {
                for target in EMPTY {
                    sys::detach(target).map_err(failed(&format!("unmount {target:?}")))?;
                }
            }
        }
        let size = c(&bytes.to_string())?;
        let shared: [(_, &CStr); 2] = [(c"size", &size), (c"mode", c"1777")];
        let home: [(_, &CStr); 4] = [(c"size", &size), (c"mode", c"755"), (c"uid", &self.id), (c"gid", &self.id)];
        let kinds: [(&[(&CStr, &CStr)], _); 3] = [(&shared, 0), (&shared, sys::ATTRIBUTE_NOEXEC), (&home, 0)];
        for ((options, attributes), target) in kinds.into_iter().zip(EMPTY) {
            let made =
                sys::file_system(c"tmpfs", options, attributes).map_err(failed("make a file system in memory"))?;
            sys::attach(&made, target).map_err(failed(&format!("mount {target:?}")))?;
        }
        self.empty = Empty::Fresh(bytes);
        Ok(())
    }

    /// Between jobs, while nobody waits for an answer. A failure is told when the next job comes.
    fn renew_used(&mut self) {
        let Empty::Used(bytes) = self.empty else { return };
        if let Err(reason) = self.renew(bytes) {
            self.empty = Empty::Broken(reason);
        }
    }

    fn unmount(&mut self) -> Result<(), String> {
        sys::detach(WORKSPACE).map_err(failed("unmount the overlay"))?;
        if let Empty::InUse(bytes) = self.empty {
            self.empty = Empty::Used(bytes);
        }
        sys::enter(self.outside.as_fd(), sys::CLONE_NEWNS).map_err(failed("come back outside"))?;
        for objects in OBJECTS {
            match fs::read_to_string(objects) {
                Ok(text) if text.lines().count() > 1 => return Err(format!("the job left an entry in {objects}")),
                // A kernel without them.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                answer => drop(answer.map_err(failed("look at IPC objects"))?),
            }
        }
        let queues = format!("/proc/self/fd/{}", self.queues.as_raw_fd());
        match fs::read_dir(queues).map_err(failed("look at message queues"))?.next() {
            Some(_) => Err("the job left a message queue".into()),
            None => Ok(()),
        }
    }
}
