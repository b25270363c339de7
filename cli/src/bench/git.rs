//! What does a git repository say about its past? Read-only, and nothing that the repository configures is started.
//!
//! Git is asked for lists and for raw objects alone, and starts nothing of the repository's ([`index::inert_git`]):
//! `git archive` and a checkout would run filters, and are not used. A tree is
//! written as plain files; links and submodules are left out, and a path that could lead elsewhere is refused.

use super::process::run;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const SECONDS_MAX: u64 = 300;
const LIST_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Larger files are not written: the index would not take them.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
const FILES_MAX: usize = 200_000;
const TREE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// A repository.
pub struct Git {
    dir: PathBuf,
}

/// A commit with one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub id: String,
    /// Its parent's name.
    pub parent: String,
    /// The first line of its message.
    pub subject: String,
}

/// What a commit did to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whether the parent has the path.
    pub is_old: bool,
    /// The path.
    pub path: String,
}

impl Git {
    /// Opens the repository in `dir`, which must be one itself and not only lie in one.
    pub fn open(dir: &Path) -> Result<Git> {
        let git = Git { dir: dir.canonicalize().with_context(|| format!("no directory {}", dir.display()))? };
        ensure!(
            git.dir.join(".git").exists() || git.dir.join("objects").is_dir(),
            "{} is no git repository",
            dir.display()
        );
        git.ask(&["rev-parse", "--git-dir"]).with_context(|| format!("git does not open {}", dir.display()))?;
        Ok(git)
    }

    /// Whether the repository has this commit.
    pub fn has_commit(&self, id: &str) -> bool {
        self.ask(&["cat-file", "-e", &format!("{id}^{{commit}}")]).is_ok()
    }

    /// The newest commits of HEAD with exactly one parent, newest first.
    pub fn history(&self, count_max: usize) -> Result<Vec<Commit>> {
        let count = format!("--max-count={count_max}");
        let list = self.ask(&["log", "--no-merges", "--no-show-signature", "-z", &count, "--format=%H%x09%P%x09%s"])?;
        let commits = records(&list).filter_map(|line| {
            let mut parts = line.splitn(3, '\t');
            let (id, parent, subject) = (parts.next()?, parts.next()?, parts.next()?);
            let is_one = !parent.is_empty() && !parent.contains(' ');
            is_one.then(|| Commit { id: id.to_owned(), parent: parent.to_owned(), subject: subject.to_owned() })
        });
        Ok(commits.collect())
    }

    /// What a commit changed. A renamed file is one that is gone and one that is new.
    pub fn changes(&self, commit: &Commit) -> Result<Vec<Change>> {
        let list = self.ask(&[
            "diff-tree",
            "-r",
            "-z",
            "--no-commit-id",
            "--name-status",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            &commit.parent,
            &commit.id,
        ])?;
        let fields: Vec<String> = records(&list).collect();
        let change = |pair: &[String]| Change { is_old: pair[0] != "A", path: pair[1].clone() };
        Ok(fields.chunks_exact(2).map(change).collect())
    }

    fn tree(&self, commit: &str) -> Result<BTreeMap<String, String>> {
        let list = self.ask(&["ls-tree", "-r", "-z", "--long", commit])?;
        let mut files = BTreeMap::new();
        let mut bytes = 0;
        for record in records(&list) {
            let Some((told, path)) = record.split_once('\t') else { continue };
            let told: Vec<&str> = told.split_whitespace().collect();
            let [mode, "blob", id, size] = told[..] else { continue };
            let size: u64 = size.parse().unwrap_or(u64::MAX);
            if !mode.starts_with("100") || size > FILE_BYTES_MAX || !is_plain(path) {
                continue;
            }
            bytes += size;
            files.insert(path.to_owned(), id.to_owned());
        }
        ensure!(files.len() <= FILES_MAX, "the tree has more than {FILES_MAX} files");
        ensure!(bytes <= TREE_BYTES_MAX, "the tree has more than 4 GiB");
        Ok(files)
    }

    /// Gives the bytes of blobs, in their order, to `each`.
    fn blobs(&self, ids: &[&str], each: &mut dyn FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let mut child = self.command(&["cat-file", "--batch"])?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().expect("piped");
        let lines: String = ids.iter().flat_map(|id| [*id, "\n"]).collect();
        // Written beside the reading: neither side waits for the other with a full pipe.
        let writing = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let done = ids.iter().enumerate().try_for_each(|(at, _)| each(at, &next_blob(&mut stdout)?));
        if done.is_err() {
            let _ = child.kill();
        }
        drop(stdout);
        let _ = writing.join();
        child.wait()?;
        done
    }

    fn ask(&self, args: &[&str]) -> Result<Vec<u8>> {
        let ran = run(&mut self.command(args)?, Duration::from_secs(SECONDS_MAX), LIST_BYTES_MAX, &[])?;
        Ok(ran.stdout)
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = index::inert_git(&self.dir).context("git is not installed")?;
        command.args(args);
        Ok(command)
    }
}

/// Zero-ended records. What is not UTF-8 is left out.
fn records(list: &[u8]) -> impl Iterator<Item = String> {
    let parts = list.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.filter_map(|part| String::from_utf8(part.to_vec()).ok())
}

fn next_blob(stdout: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut head = String::new();
    stdout.by_ref().take(200).read_line(&mut head)?;
    let size = head.trim_end().rsplit_once(" blob ").and(head.trim_end().rsplit(' ').next());
    let Some(size) = size.and_then(|size| size.parse::<u64>().ok()).filter(|size| *size <= FILE_BYTES_MAX) else {
        bail!("git gave no blob but {:?}", head.trim_end());
    };
    let mut bytes = vec![0; size as usize + 1];
    stdout.read_exact(&mut bytes)?;
    bytes.pop();
    Ok(bytes)
}

/// Whether a path of a tree stays inside of it and is nothing of git's own.
fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git"))
}

/// A directory that shows the files of one commit, and then of another.
pub struct GitTree {
    dir: PathBuf,
    files: BTreeMap<String, String>,
}

impl GitTree {
    /// Over an empty directory.
    pub fn new(dir: &Path) -> GitTree {
        GitTree { dir: dir.to_path_buf(), files: BTreeMap::new() }
    }

    /// Writes what is other in `commit`, and removes what it does not have.
    pub fn switch_to(&mut self, git: &Git, commit: &str) -> Result<()> {
        let wanted = git.tree(commit)?;
        for path in self.files.keys().filter(|path| !wanted.contains_key(*path)) {
            let _ = std::fs::remove_file(self.dir.join(path));
            // Directories that are empty now make room for a file of their name.
            let above = Path::new(path).ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty());
            for directory in above {
                if std::fs::remove_dir(self.dir.join(directory)).is_err() {
                    break;
                }
            }
        }
        let is_new = |(path, id): &(&String, &String)| self.files.get(*path) != Some(*id);
        let (paths, ids): (Vec<&str>, Vec<&str>) =
            wanted.iter().filter(is_new).map(|(path, id)| (path.as_str(), id.as_str())).unzip();
        git.blobs(&ids, &mut |at, bytes| {
            let path = self.dir.join(paths[at]);
            std::fs::create_dir_all(path.parent().expect("below the directory"))?;
            Ok(std::fs::write(path, bytes)?)
        })?;
        self.files = wanted;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A repository made by running git in `dir`.
    pub fn commit(dir: &Path, files: &[(&str, &str)], subject: &str) {
        if !dir.join(".git").exists() {
            made(dir, &["init", "-q"]);
        }
        for (path, text) in files {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        made(dir, &["add", "-A"]);
        made(dir, &["-c", "user.name=n", "-c", "user.email=e@example.invalid", "commit", "-q", "-m", subject]);
    }

    pub fn made(dir: &Path, args: &[&str]) {
        assert!(Command::new("git").arg("-C").arg(dir).args(args).status().unwrap().success());
    }

    #[test]
    fn a_tree_is_switched_from_commit_to_commit() {
        let (repo, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        commit(repo.path(), &[("a.rs", "one"), ("b/c.rs", "two")], "first");
        std::fs::remove_dir_all(repo.path().join("b")).unwrap();
        commit(repo.path(), &[("b", "a file now"), ("a.rs", "three")], "second");
        let git = Git::open(repo.path()).unwrap();
        let history = git.history(10).unwrap();
        assert_eq!(history.len(), 1, "the first commit has no parent");
        assert_eq!(history[0].subject, "second");
        let mut shown = GitTree::new(tree.path());
        shown.switch_to(&git, &history[0].parent).unwrap();
        assert_eq!(std::fs::read_to_string(tree.path().join("b/c.rs")).unwrap(), "two");
        shown.switch_to(&git, &history[0].id).unwrap();
        assert_eq!(std::fs::read_to_string(tree.path().join("b")).unwrap(), "a file now");
        assert_eq!(std::fs::read_to_string(tree.path().join("a.rs")).unwrap(), "three");
        let changes = git.changes(&history[0]).unwrap();
        let changed: Vec<(&str, bool)> = changes.iter().map(|change| (change.path.as_str(), change.is_old)).collect();
        assert_eq!(changed, [("a.rs", true), ("b", false), ("b/c.rs", true)]);
        assert!(git.has_commit(&history[0].id) && !git.has_commit("0123456789"));
    }

    #[test]
    fn nothing_that_a_repository_configures_is_started() {
        let (repo, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        commit(repo.path(), &[("a.txt", "one"), (".gitattributes", "*.txt filter=evil diff=evil\n")], "first");
        commit(repo.path(), &[("a.txt", "two")], "second");
        let mark = repo.path().join("started");
        let evil = format!("touch {}; cat", mark.display());
        for key in [
            "core.fsmonitor",
            "core.pager",
            "filter.evil.smudge",
            "diff.evil.textconv",
            "diff.evil.command",
            "diff.external",
            "gpg.program",
        ] {
            made(repo.path(), &["config", key, &evil]);
        }
        made(repo.path(), &["config", "log.showSignature", "true"]);
        let git = Git::open(repo.path()).unwrap();
        let history = git.history(10).unwrap();
        git.changes(&history[0]).unwrap();
        GitTree::new(tree.path()).switch_to(&git, &history[0].id).unwrap();
        assert_eq!(std::fs::read_to_string(tree.path().join("a.txt")).unwrap(), "two");
        assert!(!mark.exists());
    }

    #[test]
    fn links_are_not_written_and_paths_stay_inside() {
        let (repo, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink("/etc", repo.path().join("link")).unwrap();
        commit(repo.path(), &[("a.rs", "one")], "first");
        let git = Git::open(repo.path()).unwrap();
        GitTree::new(tree.path()).switch_to(&git, "HEAD").unwrap();
        assert!(tree.path().join("a.rs").is_file() && !tree.path().join("link").exists());
        assert!(
            ["../a", "a/../b", "/a", "a//b", ".git/hooks/x", "a/.GIT/config", "."].iter().all(|path| !is_plain(path))
        );
    }
}
