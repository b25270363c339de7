//! How does a box become two, and how does it go back?
//!
//! By layers, without copying a byte: what a box has written is frozen, and it goes on with an empty layer above. A fork goes
//! on above the same frozen layers, and to go back is to throw away what lies above them. Legal between jobs, when no overlay
//! is mounted: hence `&mut`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::beneath;
use crate::container::layers_dir;
use crate::lineage::{Frozen, Lineage};
use crate::open::OpenError;
use crate::remove::remove_tree;
use crate::sandbox::Sandbox;
use crate::view::View;
use crate::wire;

/// Most frozen layers under one box. Each costs every look at a file that is not in a layer above it.
pub const LAYERS_MAX: usize = wire::LAYERS_MAX;

/// What a box held at one moment. It keeps its layers, and so the directory of the box that its lineage began with.
#[derive(Debug, Clone)]
pub struct Snapshot {
    lineage: Arc<Lineage>,
    stack: Vec<Arc<Frozen>>,
}

/// Why there is no snapshot; the box is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There are too many layers already.
    #[error(
        "the box stands on {layers_max} layers, which is the most: go back to an older snapshot, or open a fresh box and apply the changes there"
    )]
    TooDeep {
        /// The limit.
        layers_max: usize,
    },
    /// The operating system refused.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// Why there is no fork.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The box could not be frozen.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// There is no box over what was frozen.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a box did not go back; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// The snapshot is of a box that this one does not come from.
    #[error("the snapshot is of another box: only a box and its forks share snapshots")]
    Foreign,
    /// The operating system refused.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl Sandbox {
    /// Remembers what the workspace holds now. Without a change since the last one it costs no layer.
    pub fn snapshot(&mut self) -> Result<Snapshot, SnapshotError> {
        if is_written(&self.view).map_err(failed("look at the layer"))? {
            if self.frame.stack.len() >= LAYERS_MAX {
                return Err(SnapshotError::TooDeep { layers_max: LAYERS_MAX });
            }
            self.freeze().map_err(failed("freeze the layer"))?;
        }
        Ok(Snapshot { lineage: Arc::clone(&self.frame.lineage), stack: self.frame.stack.clone() })
    }

    /// A second box that holds what this one does; what either changes from now on the other does not see. It stands on the
    /// same footing, with ids of its own, and its changes are told against the repository, those before the fork among them.
    pub fn fork(&mut self) -> Result<Sandbox, ForkError> {
        let snapshot = self.snapshot()?;
        Ok(self.open_over(snapshot.lineage, snapshot.stack)?)
    }

    /// Makes the workspace hold again what it held when the snapshot was made, of this box or of one of its lineage.
    pub fn rollback(&mut self, to: &Snapshot) -> Result<(), RollbackError> {
        if !Arc::ptr_eq(&to.lineage, &self.frame.lineage) {
            return Err(RollbackError::Foreign);
        }
        let failed = |what| move |source| RollbackError::Io { what, source };
        let layers = layers_dir(&self.frame.dir);
        let (upper, undone) = (layers.join("upper"), self.frame.dir.join("undone"));
        remove_tree(&undone).map_err(failed("remove what was undone before"))?;
        rename(&upper, |upper| fs::rename(upper, &undone)).map_err(failed("set the layer aside"))?;
        match View::over(&self.frame.repo, &layers, &to.stack) {
            Ok(view) => self.view = view,
            Err(source) => {
                let _ = fs::rename(&undone, &upper);
                return Err(RollbackError::Io { what: "make a new layer", source });
            }
        }
        self.frame.stack.clone_from(&to.stack);
        remove_tree(&undone).map_err(failed("remove what was undone"))
    }

    fn freeze(&mut self) -> io::Result<()> {
        let layers = layers_dir(&self.frame.dir);
        let upper = layers.join("upper");
        let frozen = rename(&upper, |upper| Frozen::of(upper, &self.frame.lineage))?;
        let frozen = Arc::new(frozen);
        let stack: Vec<_> = [Arc::clone(&frozen)].into_iter().chain(self.frame.stack.iter().cloned()).collect();
        match View::over(&self.frame.repo, &layers, &stack) {
            Ok(view) => self.view = view,
            Err(error) => {
                drop(stack);
                return Err(Arc::into_inner(frozen)
                    .map_or(Ok(()), |frozen| frozen.thaw(&upper))
                    .err()
                    .unwrap_or(error));
            }
        }
        self.frame.stack = stack;
        Ok(())
    }
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> SnapshotError {
    move |source| SnapshotError::Io { what, source }
}

/// Whether a box over the layers below would differ from the view.
fn is_written(view: &View) -> io::Result<bool> {
    let mode = |dir| Ok::<_, io::Error>(rustix::fs::fstat(dir)?.st_mode);
    let below = view.lowers.first().unwrap_or(&view.base);
    Ok(!beneath::first_names(&view.upper, 1)?.is_empty() || mode(&view.upper)? != mode(below)? | 0o700)
}

/// Moves a directory to another parent, for which its owner needs to write in it, whatever mode a job gave it.
fn rename<T>(dir: &Path, to: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let held = File::from(rustix::fs::open(
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let mode = held.metadata()?.permissions();
    let through = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    fs::set_permissions(&through, Permissions::from_mode(mode.mode() | 0o700))?;
    let moved = to(dir);
    fs::set_permissions(&through, mode)?;
    moved
}
