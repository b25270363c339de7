//! In what order does a change become durable?
//!
//! Segments first, the text lane second, the manifest last. Each step leaves everything that the old manifest names as
//! it was: segments are new files, and a commit of the text lane still holds the files that this change removes, see
//! [`crate::lexical::Commit`].

use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

use crate::admit::Stamp;
use crate::files::Files;
use crate::files_segment;
use crate::lane::LANES;
use crate::lexical::{self, LexicalWriter};
use crate::manifest::{DAMAGED_MANIFEST, MANIFEST_NAME, Manifest, VectorRecord, Versions};
use crate::pace::Steps;
use crate::plan::Plan;
use crate::refresh::{RefreshError, now_nanos};
use crate::report::Skipped;
use crate::store::{FILES_PREFIX, fresh, quarantine};

/// With more segments of one lane the small ones are merged into one.
const SEGMENTS_MAX: usize = 8;
/// A segment stays out of a merge that is so many times smaller than it: an edit must not cost a copy of everything.
const SEGMENT_GROWTH: u64 = 4;
/// No larger segment is merged: a merge holds in memory what it writes.
const MERGED_BYTES_MAX: u64 = 24 << 20;
/// With more dead files than this, and more than one in so many, the text lane is cleaned at once.
const DEAD_FILES_MAX: usize = 256;
const DEAD_SHARE: usize = 20;

/// What a refresh found, and wrote so far.
#[derive(Default)]
pub(crate) struct Change {
    /// Rows that are new, or have a new stamp.
    pub files: Files,
    /// Numbers of the files that are gone or have changed.
    pub dead: Vec<u32>,
    pub skipped: Vec<Skipped>,
    pub vector: Option<VectorRecord>,
    /// New segments of our own lanes.
    pub segments: Vec<String>,
    /// Where documents were added; there also where all of them are bare.
    pub writer: Option<LexicalWriter>,
}

impl Change {
    /// A file whose content is the same under another stamp.
    pub(crate) fn restamp(&mut self, files: &Files, row: usize, stamp: Stamp, read_at: i64) {
        let settled = stamp.settled_before(read_at);
        let head = files.head(row);
        if head.stamp == stamp && head.settled == settled {
            return;
        }
        self.files.add_row(files, row);
        let head = self.files.head_mut(self.files.len() - 1);
        (head.stamp, head.settled) = (stamp, settled);
    }

    /// The whole table after this change.
    pub(crate) fn applied_to(&mut self, mut all: Files) -> Files {
        self.dead.sort_unstable();
        self.dead.dedup();
        self.files.settle(&FxHashSet::default());
        (0..self.files.len()).for_each(|row| all.add_row(&self.files, row));
        all.settle(&self.dead.iter().copied().collect());
        all
    }
}

/// Makes a change durable.
pub(crate) struct Commit<'a> {
    pub store: &'a Path,
    pub root: &'a Path,
    pub steps: &'a Steps,
}

impl Commit<'_> {
    /// `all` is the table with the change applied, `old` what the change starts from.
    pub(crate) fn write(
        &self,
        plan: &mut Plan,
        old: Option<&Manifest>,
        mut change: Change,
        all: &Files,
    ) -> Result<Manifest, RefreshError> {
        let mut manifest = self.next_manifest(plan, old, &mut change);
        self.write_table(&mut manifest, &change, all)?;
        self.merge_lanes(&mut manifest, all)?;
        let is_text_changed = old.is_none() || !change.dead.is_empty() || change.writer.is_some();
        if is_text_changed {
            manifest.unpurged = change.dead;
            self.write_text(plan, old, change.writer.take(), &mut manifest)?;
        }
        self.steps.next("replacing the manifest")?;
        if plan.broken.iter().any(|name| name == DAMAGED_MANIFEST) {
            // A second name for the old file; without it there is only less to look at.
            let _ = std::fs::hard_link(self.store.join(MANIFEST_NAME), self.store.join(DAMAGED_MANIFEST));
        }
        manifest.write(self.store).map_err(|source| self.store_error(source))?;
        if manifest.unpurged.len() > DEAD_FILES_MAX.max(all.len() / DEAD_SHARE) {
            self.purge(plan, &manifest)?;
        }
        quarantine(self.store, &plan.broken).map_err(|source| self.store_error(source))?;
        Ok(manifest)
    }

    fn store_error(&self, source: io::Error) -> RefreshError {
        RefreshError::Store { path: self.store.to_path_buf(), source }
    }

    fn next_manifest(&self, plan: &Plan, old: Option<&Manifest>, change: &mut Change) -> Manifest {
        let has_rows = change.writer.is_some() || !change.dead.is_empty();
        let is_same = |old: &Manifest| !has_rows && old.skipped == change.skipped && old.vector == change.vector;
        let mut segments = old.map(|old| old.segments.clone()).unwrap_or_default();
        segments.append(&mut change.segments);
        Manifest {
            versions: Versions::current(self.root),
            generation: plan.generation + u64::from(!old.is_some_and(is_same)),
            refreshed_at: now_nanos() as u64 / 1_000_000_000,
            next_file: plan.next_file,
            lexical_directory: plan.lexical_directory.clone(),
            lexical_generation: old.map_or(0, |old| old.lexical_generation),
            vector: change.vector.take(),
            segments,
            dead: old.map(|old| old.dead.clone()).unwrap_or_default(),
            unpurged: old.map(|old| old.unpurged.clone()).unwrap_or_default(),
            skipped: std::mem::take(&mut change.skipped),
        }
    }

    /// Writes the rows that changed, or the whole table once its parts are many or mostly changes.
    fn write_table(&self, manifest: &mut Manifest, change: &Change, all: &Files) -> Result<(), RefreshError> {
        if change.files.len() == 0 && change.dead.is_empty() {
            return Ok(());
        }
        let name = fresh(self.store, FILES_PREFIX);
        let path = self.store.join(&name);
        self.steps.next("writing the table of files")?;
        let parts = manifest.segments_of(FILES_PREFIX).count();
        let dead = manifest.dead.len() + change.dead.len();
        let written = if parts >= SEGMENTS_MAX || (change.files.len() + dead) * 2 > all.len() {
            manifest.segments.retain(|name| !name.starts_with(FILES_PREFIX));
            manifest.dead.clear();
            files_segment::write(&path, all, &(0..all.len()).collect::<Vec<_>>())
        } else {
            manifest.dead.extend(&change.dead);
            manifest.dead.sort_unstable();
            files_segment::write(&path, &change.files, &(0..change.files.len()).collect::<Vec<_>>())
        };
        written.map_err(|source| self.store_error(source))?;
        manifest.segments.push(name);
        Ok(())
    }

    /// Merges the small segments of those lanes that have too many.
    fn merge_lanes(&self, manifest: &mut Manifest, all: &Files) -> Result<(), RefreshError> {
        for lane in LANES {
            let names: Vec<String> = manifest.segments_of(lane.prefix()).map(str::to_owned).collect();
            if names.len() <= SEGMENTS_MAX {
                continue;
            }
            let size = |name: &String| std::fs::metadata(self.store.join(name)).map_or(0, |found| found.len());
            let names = small(names.into_iter().map(|name| (size(&name), name)).collect());
            if names.len() < 2 {
                continue;
            }
            self.steps.next("merging segments")?;
            let name = fresh(self.store, lane.prefix());
            let paths: Vec<PathBuf> = names.iter().map(|name| self.store.join(name)).collect();
            lane.merge(&paths, &|file| all.row_of(file).is_some(), &self.store.join(&name))?;
            manifest.segments.retain(|segment| !names.contains(segment));
            manifest.segments.push(name);
        }
        Ok(())
    }

    /// Drops from the text lane what was gone before this change, and commits what this change added.
    fn write_text(
        &self,
        plan: &mut Plan,
        old: Option<&Manifest>,
        writer: Option<LexicalWriter>,
        manifest: &mut Manifest,
    ) -> Result<(), RefreshError> {
        let mut writer = match writer {
            Some(writer) => writer,
            None => {
                self.steps.next("opening the writer of the text lane")?;
                plan.lexical.writer()?
            }
        };
        old.iter().flat_map(|old| &old.unpurged).for_each(|number| writer.remove(crate::file_no::FileNo(*number)));
        self.steps.next("committing the text lane")?;
        writer.commit(lexical::Commit {
            generation: manifest.generation,
            purged: old.map_or(0, |old| old.lexical_generation),
            next_file: manifest.next_file,
        })?;
        writer.finish()?;
        manifest.lexical_generation = manifest.generation;
        Ok(())
    }

    /// After the manifest: nobody needs the dead any more.
    fn purge(&self, plan: &Plan, manifest: &Manifest) -> Result<(), RefreshError> {
        self.steps.next("purging the text lane")?;
        let mut writer = plan.lexical.writer()?;
        manifest.unpurged.iter().for_each(|number| writer.remove(crate::file_no::FileNo(*number)));
        let generation = manifest.lexical_generation;
        writer.commit(lexical::Commit { generation, purged: generation, next_file: manifest.next_file })?;
        Ok(writer.finish()?)
    }
}

/// Those of the segments, by size, that are worth a merge, in their order: the smallest ones, up to the first that is
/// much larger than all before it together.
fn small(segments: Vec<(u64, String)>) -> Vec<String> {
    let mut by_size: Vec<usize> = (0..segments.len()).collect();
    by_size.sort_by_key(|at| segments[*at].0);
    let mut sum = 0;
    let mut is_taken = |at: &usize| {
        let size = segments[*at].0;
        let fits = sum + size <= MERGED_BYTES_MAX && (sum == 0 || size <= sum * SEGMENT_GROWTH);
        sum += size;
        fits
    };
    let mut taken: Vec<usize> = by_size.into_iter().take_while(|at| is_taken(at)).collect();
    taken.sort_unstable();
    taken.into_iter().map(|at| segments[at].1.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(sizes: &[u64]) -> Vec<String> {
        small(sizes.iter().enumerate().map(|(at, size)| (*size, at.to_string())).collect())
    }

    #[test]
    fn an_edit_does_not_merge_what_is_much_larger_and_small_ones_do_not_pile_up() {
        assert_eq!(merged(&[1_000_000, 10, 10, 10, 10, 10, 10, 10, 10]), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        assert_eq!(merged(&[100, 90, 80, 10, 10, 10, 10, 10, 10]), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
        assert_eq!(merged(&[MERGED_BYTES_MAX, MERGED_BYTES_MAX]).len(), 1, "which is none to merge");
    }
}
