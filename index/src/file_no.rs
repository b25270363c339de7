//! By what number do the lanes know a file?

use serde::{Deserialize, Serialize};

/// A file with one content, within one store. Numbers only grow and are never used again: a file that changes gets a
/// new one, so a lane forgets the old content by nothing more than the number's absence from the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct FileNo(pub u32);
