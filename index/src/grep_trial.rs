//! How well does the trigram lane do on a directory, by itself?
//!
//! The lane without the store around it: for tests, and for measuring it against other tools. Not part of the API.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::file_no::FileNo;
use crate::grep::{GrepError, GrepOptions, Matches};
use crate::grep_files::{grep_paths, read};
use crate::grep_indexed::grep_indexed;
use crate::trigram::{TrigramLane, TrigramWriter};

/// A directory with a lane over it.
pub struct Trial {
    root: PathBuf,
    pub(crate) lane: TrigramLane,
    pub(crate) files: Vec<(String, Option<FileNo>)>,
}

/// What the building took.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrialCost {
    /// Bytes of all files.
    pub source_bytes: u64,
    /// Lines of all files.
    pub lines: u64,
    /// Bytes of the lane.
    pub lane_bytes: u64,
    /// Seconds in the writer alone.
    pub writer_seconds: f64,
    /// Seconds in all, with walking and reading.
    pub seconds: f64,
}

impl Trial {
    /// Builds a lane over `root` in the empty directory `work`, with about `memory_bytes_max` for sorting.
    pub fn build(root: &Path, work: &Path, memory_bytes_max: usize) -> Result<(Trial, TrialCost), String> {
        let start = Instant::now();
        let mut cost = TrialCost::default();
        let mut writer = TrigramWriter::new(work, memory_bytes_max);
        let mut files = Vec::new();
        for (at, path) in grep_paths(root).into_iter().enumerate() {
            let Some(bytes) = read(&root.join(&path)) else { continue };
            cost.source_bytes += bytes.len() as u64;
            cost.lines += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
            let adding = Instant::now();
            let file = FileNo(at as u32);
            writer.add(file, &bytes).map_err(|error| error.to_string())?;
            cost.writer_seconds += adding.elapsed().as_secs_f64();
            files.push((path, Some(file)));
        }
        let finishing = Instant::now();
        let segment = work.join("trigram-1");
        cost.lane_bytes = writer.finish(&segment).map_err(|error| error.to_string())?;
        cost.writer_seconds += finishing.elapsed().as_secs_f64();
        let lane = TrigramLane::open(&[segment]).map_err(|error| error.to_string())?;
        cost.seconds = start.elapsed().as_secs_f64();
        Ok((Trial { root: root.to_path_buf(), lane, files }, cost))
    }

    /// The paths in the lane, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(path, _)| path.as_str())
    }

    /// The matches, and how many files could not be ruled out.
    pub fn grep(&self, pattern: &str, options: &GrepOptions) -> Result<(Matches, usize), GrepError> {
        let files = self.files.iter().map(|(path, file)| (path.as_str(), *file));
        let answer = grep_indexed(&self.root, Ok(&self.lane), files, pattern, options)?;
        Ok((answer.found, answer.candidates))
    }
}
