//! How does a file on this host get into the store? By the same road as one from the network: copied and hashed.

use std::fs::File;
use std::path::Path;

use super::{FetchError, Stop, Transfer};
use crate::partial::Partial;
use crate::pull::Origin;

/// Copies every part from `root`: a directory that holds the files by name, or the file of a model of one file.
pub(crate) fn fetch(
    transfer: &mut Transfer<'_, '_>,
    parts: &mut [Partial],
    root: &Path,
    files_in_model: usize,
) -> Result<(), Stop> {
    transfer.origin = Origin::Path;
    if !root.is_dir() && files_in_model > 1 && root.exists() {
        return Err(FetchError::NotADirectory { path: root.to_path_buf(), files: files_in_model }.into());
    }
    for part in parts {
        let path = if root.is_dir() { root.join(&part.want().name) } else { root.to_path_buf() };
        let broken = |source| FetchError::Local { path: path.clone(), source };
        let mut file = File::open(&path).map_err(broken)?;
        let bytes = file.metadata().map_err(broken)?.len();
        if bytes != part.want().bytes {
            return Err(FetchError::wrong_size(part.want(), bytes).into());
        }
        // A disk is quick: what an interrupted pull left is not worth a resume here.
        part.restart()?;
        transfer.copy(&mut file, part, &broken)?;
        part.commit(&transfer.store.blob_dir())?;
    }
    Ok(())
}
