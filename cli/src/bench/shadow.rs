//! How is a tree measured without touching it? By a copy of hard links, in which a file is only ever replaced.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const FILES_MAX: usize = 2_000_000;
/// Where links cannot be made, at most this much is copied.
const COPIED_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// A copy of a tree. Hidden directories and symbolic links are left out: the index takes neither.
pub struct Shadow {
    dir: TempDir,
    /// The files, relative to the tree, sorted.
    pub paths: Vec<String>,
    /// Their bytes, together.
    pub bytes: u64,
}

impl Shadow {
    /// Links every file of `tree` into a new directory in `scratch`.
    pub fn of(tree: &Path, scratch: &Path) -> Result<Shadow> {
        let dir = tempfile::Builder::new().prefix("tree").tempdir_in(scratch)?;
        let mut shadow = Shadow { dir, paths: Vec::new(), bytes: 0 };
        let mut copied = 0;
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            std::fs::create_dir_all(shadow.root().join(&below))?;
            let list = std::fs::read_dir(tree.join(&below));
            for entry in list.with_context(|| format!("cannot list {}", tree.join(&below).display()))? {
                let entry = entry?;
                let (kind, name) = (entry.file_type()?, entry.file_name());
                let path = below.join(&name);
                let is_hidden = name.as_encoded_bytes().starts_with(b".");
                if kind.is_dir() && !is_hidden {
                    waiting.push(path);
                } else if kind.is_file() {
                    shadow.take(tree, path, entry.metadata()?.len(), &mut copied)?;
                }
            }
        }
        shadow.paths.sort();
        Ok(shadow)
    }

    fn take(&mut self, tree: &Path, path: PathBuf, bytes: u64, copied: &mut u64) -> Result<()> {
        ensure!(self.paths.len() < FILES_MAX, "the tree has more than {FILES_MAX} files");
        let (from, to) = (tree.join(&path), self.root().join(&path));
        if std::fs::hard_link(&from, &to).is_err() {
            *copied += bytes;
            ensure!(*copied <= COPIED_BYTES_MAX, "{} is on another file system and too large to copy", tree.display());
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        if let Ok(path) = path.into_os_string().into_string() {
            self.bytes += bytes;
            self.paths.push(path);
        }
        Ok(())
    }

    /// The directory of the copy.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Puts `line` at the end of a file, in a new file under its name: what the link points to stays as it is.
    pub fn add_line(&self, path: &str, line: &str) -> Result<()> {
        let path = self.root().join(path);
        let mut text = std::fs::read(&path)?;
        text.extend_from_slice(format!("\n{line}\n").as_bytes());
        let mut new = tempfile::NamedTempFile::new_in(path.parent().expect("below the root"))?;
        new.write_all(&text)?;
        new.persist(&path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_in_the_copy_leaves_the_tree_as_it_was() {
        let (tree, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(tree.path().join("a/b")).unwrap();
        std::fs::create_dir_all(tree.path().join(".git")).unwrap();
        std::fs::write(tree.path().join("a/b/c.rs"), "one").unwrap();
        std::fs::write(tree.path().join(".git/config"), "no").unwrap();
        std::os::unix::fs::symlink("/etc", tree.path().join("link")).unwrap();
        let shadow = Shadow::of(tree.path(), scratch.path()).unwrap();
        assert_eq!(shadow.paths, ["a/b/c.rs"]);
        assert_eq!(shadow.bytes, 3);
        shadow.add_line("a/b/c.rs", "two").unwrap();
        assert_eq!(std::fs::read_to_string(shadow.root().join("a/b/c.rs")).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(tree.path().join("a/b/c.rs")).unwrap(), "one");
        let root = shadow.root().to_path_buf();
        drop(shadow);
        assert!(!root.exists() && tree.path().join("a/b/c.rs").exists());
    }
}
