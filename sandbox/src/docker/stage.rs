//! How do the layers of a box get the box's ids where the engine can see them?
//!
//! The engine is another process in the host's mount namespace, so for the moment in which it mounts the workspace the layers
//! are mounted there, id-mapped, in the box's own directory, which nobody else may enter. An overlay keeps what it was made
//! of: they are unmounted as soon as it is there. After a kill in that moment the reaper unmounts them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::bundle::Places;
use crate::container::{Frame, layers_dir};
use crate::stage::{How, Part, mount_part};

/// The mounts; dropping it unmounts them.
pub(super) struct Stage {
    dir: PathBuf,
}

const NAMES: [&str; 3] = ["lower", "layers", "frozen"];

fn stage_dir(dir: &Path) -> PathBuf {
    dir.join("stage")
}

impl Stage {
    /// Mounts the layers of a box whose ids are mapped; gives the stage with where they are for the engine.
    pub(super) fn set(frame: &Frame) -> io::Result<(Option<Stage>, Places)> {
        let layers = layers_dir(&frame.dir);
        let Some(idmap) = &frame.ids.idmap else { return Ok((None, frame.places(None))) };
        let stage = Stage { dir: stage_dir(&frame.dir) };
        for (name, source) in NAMES.into_iter().zip([&frame.repo, &layers, &frame.lineage.place()]) {
            let target = stage.dir.join(name);
            fs::create_dir_all(&target)?;
            let part = Part { source: source.clone(), name: name.to_owned(), how: How::Idmapped };
            mount_part(&part, Some(idmap), &target)?;
        }
        let places = frame.places(Some(&stage.dir));
        Ok((Some(stage), places))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        strike(&self.dir);
    }
}

fn strike(stage: &Path) {
    for name in NAMES {
        // What is not mounted cannot be unmounted.
        let _ = unmount(stage.join(name), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

/// Unmounts what a killed process left in the directory of a box.
pub(super) fn clear(dir: &Path) {
    strike(&stage_dir(dir));
}
