//! Which questions are asked, about which tree, and what is a right answer?
//!
//! A case names a repository and a commit. Its tree is, in this order: a directory of the commit's name inside of the
//! directory that was given for the repository; the commit itself, where that directory is a git repository that has
//! it; the directory as it is. Published package sources are laid out otherwise than the repository, so paths are
//! matched by suffix.

use super::git::{Git, GitTree};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CASES_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CASES_MAX: usize = 100_000;
/// Signs of a commit's name that make it one.
const COMMIT_CHARS_MIN: usize = 7;

/// A question with its answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// Names the case.
    pub id: String,
    /// `owner/name`.
    pub repo: String,
    /// The commit that the question is about.
    pub commit: String,
    /// Only this directory is searched.
    #[serde(default)]
    pub root: Option<String>,
    /// The question.
    pub query: String,
    /// The files that answer it.
    pub gold_files: Vec<String>,
    /// What kind of question it is.
    pub category: String,
}

/// The cases of one file.
pub struct Set {
    /// The name of the file.
    pub name: String,
    /// In its order.
    pub cases: Vec<Case>,
}

/// Reads a file of cases, one JSON object a line.
pub fn load(path: &Path) -> Result<Set> {
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read the cases {}", path.display()))?;
    file.take(CASES_BYTES_MAX + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= CASES_BYTES_MAX, "{} is larger than 64 MiB", path.display());
    let mut cases = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let case: Case =
            serde_json::from_str(line).with_context(|| format!("{} line {} is no case", path.display(), at + 1))?;
        ensure!(!case.gold_files.is_empty(), "{} line {} names no gold file", path.display(), at + 1);
        cases.push(case);
        ensure!(cases.len() <= CASES_MAX, "{} has more than {CASES_MAX} cases", path.display());
    }
    Ok(Set { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), cases })
}

/// A tree that cases are asked about.
pub struct Source {
    /// The directory that is indexed.
    pub dir: PathBuf,
    /// Stands before every path of it, where the directory is a part of the source.
    pub prefix: String,
    /// What it is, for people.
    pub told: String,
    _temporary: Option<TempDir>,
}

/// The directories that were given for repositories.
pub struct Repositories {
    given: BTreeMap<String, PathBuf>,
}

impl Repositories {
    /// From `owner/name=DIR` or `name=DIR`, as typed.
    pub fn new(typed: &[String]) -> Result<Repositories> {
        let mut given = BTreeMap::new();
        for text in typed {
            let (name, dir) = text.split_once('=').with_context(|| format!("{text:?} is not NAME=DIR"))?;
            let dir = Path::new(dir).canonicalize().with_context(|| format!("{dir} is the directory of {name}"))?;
            ensure!(dir.is_dir(), "{} is not a directory", dir.display());
            given.insert(name.to_owned(), dir);
        }
        Ok(Repositories { given })
    }

    fn of(&self, repo: &str) -> Option<&Path> {
        let short = repo.rsplit('/').next().unwrap_or(repo);
        self.given.get(repo).or_else(|| self.given.get(short)).map(PathBuf::as_path)
    }

    /// The tree of a case; none where no directory was given for its repository.
    pub fn source(&self, case: &Case, scratch: &Path) -> Result<Option<Source>> {
        let Some(given) = self.of(&case.repo) else { return Ok(None) };
        let commit = is_commit(&case.commit).then_some(case.commit.as_str());
        let named = commit.map(|commit| given.join(commit)).filter(|dir| dir.is_dir());
        let (base, told, temporary) = if let Some(dir) = named {
            let dir = dir.canonicalize()?;
            let told = format!("package source {}", name_of(&dir));
            (dir, told, None)
        } else if let Some(temporary) = commit.map(|commit| checked_out(given, commit, scratch)).transpose()?.flatten()
        {
            (temporary.path().to_path_buf(), "the commit itself".to_owned(), Some(temporary))
        } else {
            (given.to_path_buf(), format!("{} as it is", name_of(given)), None)
        };
        let (dir, prefix) = below(&base, case.root.as_deref().unwrap_or(""));
        Ok(Some(Source { dir, prefix, told, _temporary: temporary }))
    }
}

fn is_commit(text: &str) -> bool {
    text.len() >= COMMIT_CHARS_MIN && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
}

fn checked_out(repo: &Path, commit: &str, scratch: &Path) -> Result<Option<TempDir>> {
    if !repo.join(".git").exists() && !repo.join("objects").is_dir() {
        return Ok(None);
    }
    let git = Git::open(repo)?;
    if !git.has_commit(commit) {
        return Ok(None);
    }
    let temporary = tempfile::Builder::new().prefix("commit").tempdir_in(scratch)?;
    GitTree::new(temporary.path()).switch_to(&git, commit)?;
    Ok(Some(temporary))
}

/// The directory below `base` that `root` means. A package often begins some components further down than its
/// repository: `axum/src` of the repository is `src` of the package.
fn below(base: &Path, root: &str) -> (PathBuf, String) {
    let parts: Vec<&str> = root.split('/').filter(|part| !part.is_empty()).collect();
    if parts.contains(&"..") {
        return (base.to_path_buf(), String::new());
    }
    let tails = (0..parts.len()).map(|skip| parts[skip..].join("/"));
    let found = tails.map(|tail| (base.join(&tail), tail)).find(|(dir, _)| dir.is_dir());
    found.unwrap_or_else(|| (base.to_path_buf(), String::new()))
}

/// Whether a path that was found is the gold file: the same, or one is the other's end and is more than a file name.
pub fn is_same(path: &str, gold: &str) -> bool {
    let ends = |long: &str, short: &str| {
        short.contains('/') && long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'))
    };
    path == gold || ends(path, gold) || ends(gold, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_same_by_whole_components_from_the_end() {
        let same = [("src/json.rs", "axum/src/json.rs"), ("a/lib/view.js", "lib/view.js"), ("x.py", "x.py")];
        let other = [("src/json.rs", "axum/xsrc/json.rs"), ("utils.py", "requests/utils.py"), ("a/b.py", "c/b.py")];
        assert!(same.iter().all(|(path, gold)| is_same(path, gold)));
        assert!(!other.iter().any(|(path, gold)| is_same(path, gold)));
    }

    #[test]
    fn a_case_gets_the_directory_of_its_commit_and_of_its_root() {
        let given = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(given.path().join("309d1bd9/src/extract")).unwrap();
        let typed = format!("axum={}", given.path().display());
        let repositories = Repositories::new(&[typed]).unwrap();
        let case = Case {
            id: "one".to_owned(),
            repo: "tokio-rs/axum".to_owned(),
            commit: "309d1bd9".to_owned(),
            root: Some("axum/src".to_owned()),
            query: "extract".to_owned(),
            gold_files: vec!["axum/src/extract/mod.rs".to_owned()],
            category: "semantic".to_owned(),
        };
        let source = repositories.source(&case, given.path()).unwrap().unwrap();
        assert!(source.dir.ends_with("309d1bd9/src"));
        assert_eq!(source.prefix, "src");
        let unknown = Case { repo: "other/thing".to_owned(), ..case };
        assert!(repositories.source(&unknown, given.path()).unwrap().is_none());
    }

    #[test]
    fn a_root_cannot_lead_out_of_the_source() {
        let base = tempfile::tempdir().unwrap();
        assert_eq!(below(base.path(), "../..").0, base.path());
        assert_eq!(below(base.path(), "/etc").0, base.path());
    }

    #[test]
    fn a_line_that_is_no_case_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.jsonl");
        std::fs::write(&path, "\n{\"id\": 3}\n").unwrap();
        let error = format!("{:#}", load(&path).err().unwrap());
        assert!(error.contains("line 2 is no case"), "{error}");
    }
}
