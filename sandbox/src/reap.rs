//! Which boxes did an earlier, killed process leave behind?

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::container::runtime_root;
use crate::docker;
use crate::open::{NOTE, Note, UNFINISHED};
use crate::remove::{remove_box, remove_tree};
use crate::runtime::Runtime;

/// A box that nobody owned any more.
#[derive(Debug)]
pub struct Leftover {
    /// Its name.
    pub id: String,
    /// What its owner called it.
    pub label: String,
    /// The repository that it was over.
    pub repo: String,
    /// Containers that were killed or forgotten.
    pub containers: Vec<String>,
    /// Why it is still there; `None` when it is gone.
    pub failure: Option<io::Error>,
}

/// A directory that is being made or removed changes all the time; after this it was abandoned.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(60);

/// Removes the boxes below `state` whose owner is dead, their containers first. Boxes of living processes and whatever else
/// lies there are left alone.
pub fn reap(state: &Path) -> io::Result<Vec<Leftover>> {
    let entries = match fs::read_dir(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut dead = Vec::new();
    for entry in entries {
        let entry = entry?;
        let (dir, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if name.starts_with(UNFINISHED) {
            let age = entry.metadata()?.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            if age.is_some_and(|age| age > UNFINISHED_AGE_MAX) {
                remove_tree(&dir)?;
            }
            continue;
        }
        let note = fs::read(dir.join(NOTE)).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        if let Some(note) = note.filter(|note| !note.owner.is_alive()) {
            dead.push((dir, name, note));
        }
    }
    // A box that has layers for others goes when these are gone, and not while one of them cannot be killed.
    dead.sort_by_key(|(.., note)| note.over.is_none());
    let (mut found, mut needed) = (Vec::new(), HashSet::new());
    for (dir, id, note) in dead {
        let over = note.over.clone();
        let left = bury(&dir, id, note, &needed);
        needed.extend(over.filter(|_| left.failure.is_some()));
        found.push(left);
    }
    Ok(found)
}

/// Boxes in `needed` are emptied of processes but stay.
fn bury(dir: &Path, id: String, note: Note, needed: &HashSet<String>) -> Leftover {
    let remove = || match needed.contains(&id) {
        true => Err(io::Error::other("a fork that could not be removed needs its layers")),
        false => remove_box(dir),
    };
    if let Some(socket) = &note.docker {
        // Without the engine its containers cannot be killed; the box stays until they can be.
        let (containers, failure) = match docker::bury(socket, dir, &id, &note.owner) {
            Ok(containers) => (containers, remove().err()),
            Err(error) => (Vec::new(), Some(io::Error::other(error))),
        };
        return Leftover { id, label: note.label, repo: note.repo, containers, failure };
    }
    let root = runtime_root(dir);
    let containers = containers(&root, &id);
    let mut failure = None;
    for container in &containers {
        let runtime = note.runtime.clone().map(|path| Runtime { path });
        let deleted =
            runtime.ok_or_else(|| io::Error::other("no runtime is noted")).and_then(|it| it.delete(&root, container));
        // Forgetting the container would leave its processes; the box stays until they can be killed.
        failure = failure.or(deleted.err());
    }
    if failure.is_none() {
        failure = remove().err();
    }
    Leftover { id, label: note.label, repo: note.repo, containers, failure }
}

/// Runtimes keep one directory per container; only names that we gave are ours.
fn containers(root: &Path, id: &str) -> Vec<String> {
    let names = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    names.filter(|name| name.starts_with(&format!("cloister-{id}-"))).collect()
}
