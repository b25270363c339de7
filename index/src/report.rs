//! What did a refresh do, and what did it leave out?

use std::collections::BTreeMap;
use std::fmt;

/// Why a path is not in the index: not searched by words, names or meaning. Paths that a .gitignore or .ignore file excludes are not skips: they were never
/// part of what the person asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// A NUL byte in the first 8 KiB.
    Binary,
    /// More than 2 MiB.
    TooLarge,
    /// A line of more than 5000 bytes: generated or minified.
    Minified,
    /// A name or a first line that says credentials. Such a file is never opened, or is dropped once seen.
    Secret,
    /// A hidden file or directory that is not one of the useful ones (.github and the like).
    Hidden,
    /// A symbolic link; links are not followed.
    Symlink,
    /// A socket, a pipe or a device.
    Special,
    /// The path is not UTF-8.
    PathNotUtf8,
    /// The file or directory could not be read.
    Unreadable,
    /// The tree has more files than the index takes.
    TooMany,
    /// A lock file of a package manager: long, generated, and about no code of this tree.
    LockFile,
}

impl SkipReason {
    /// Whether lines can be searched all the same in what is left out for this reason, up to 64 MiB.
    pub fn is_text(self) -> bool {
        matches!(self, Self::TooLarge | Self::Minified | Self::LockFile | Self::TooMany)
    }

    const ALL: [SkipReason; 11] = [
        SkipReason::Binary,
        SkipReason::TooLarge,
        SkipReason::Minified,
        SkipReason::Secret,
        SkipReason::Hidden,
        SkipReason::Symlink,
        SkipReason::Special,
        SkipReason::PathNotUtf8,
        SkipReason::Unreadable,
        SkipReason::TooMany,
        SkipReason::LockFile,
    ];

    /// As the manifest writes it.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// What [`SkipReason::number`] wrote.
    pub(crate) fn of_number(number: u8) -> Option<SkipReason> {
        SkipReason::ALL.get(usize::from(number)).copied()
    }

    /// The reason in a few words, for people.
    pub fn words(self) -> &'static str {
        match self {
            SkipReason::Binary => "binary",
            SkipReason::TooLarge => "larger than 2 MiB",
            SkipReason::Minified => "minified or generated (a line of more than 5000 bytes)",
            SkipReason::Secret => "may hold a secret",
            SkipReason::Hidden => "hidden",
            SkipReason::Symlink => "symbolic link",
            SkipReason::Special => "not a regular file",
            SkipReason::PathNotUtf8 => "path is not UTF-8",
            SkipReason::Unreadable => "cannot be read",
            SkipReason::TooMany => "beyond the limit on files",
            SkipReason::LockFile => "lock file",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// One path that is not in the index, relative to the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Relative to the root, `/` between components.
    pub path: String,
    /// Why.
    pub reason: SkipReason,
}

/// How many paths were skipped for each reason.
pub(crate) fn skip_counts(reasons: impl IntoIterator<Item = SkipReason>) -> BTreeMap<SkipReason, usize> {
    let mut counts = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_insert(0) += 1;
    }
    counts
}

/// A step of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Listing the tree.
    Walk,
    /// Reading files and cutting them into chunks.
    Chunk,
    /// Asking the embedder for vectors.
    Embed,
    /// Writing the stores.
    Commit,
}

/// How far a refresh is. Sent at most a few times a second and at the end of each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is going on.
    pub stage: Stage,
    /// Files (walk, chunk) or chunks (embed) done.
    pub done: usize,
    /// Out of how many; 0 where that is not known yet.
    pub total: usize,
    /// Files read so far.
    pub files: usize,
    /// Lines in them.
    pub lines: usize,
    /// Lines a second since the reading began.
    pub lines_per_second: usize,
}

/// Wall time per stage, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageSeconds {
    /// Listing the tree.
    pub walk: f64,
    /// Reading, hashing, parsing, chunking, feeding the text lane.
    pub chunk: f64,
    /// Embedding and storing vectors after the reading has ended; most of it happens beside.
    pub embed: f64,
    /// Committing.
    pub commit: f64,
}

/// What a refresh did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Files whose content was new or changed and is now indexed.
    pub files_indexed: usize,
    /// Files that were already indexed with the same content.
    pub files_unchanged: usize,
    /// Files that were indexed and are gone (or are skipped now).
    pub files_removed: usize,
    /// Everything left out, with its reason, sorted by path.
    pub files_skipped: Vec<Skipped>,
    /// Files that are not UTF-8 and were indexed with replacement characters.
    pub files_decoded_lossily: Vec<String>,
    /// Chunks in the index now.
    pub chunks: usize,
    /// Definitions in the index now.
    pub definitions: usize,
    /// Lines in the index now.
    pub lines: usize,
    /// Vectors computed by this refresh.
    pub vectors_embedded: usize,
    /// Wall time per stage.
    pub seconds: StageSeconds,
    /// The generation that searches see now. It grows only when the content of the index changed.
    pub generation: u64,
    /// Why the text lane was rebuilt from nothing, where it was.
    pub rebuilt: Option<String>,
    /// Anything else worth saying to a person.
    pub notes: Vec<String>,
}
