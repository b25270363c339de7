//! What would a repository's own history ask? The subject of a commit is the question, the code files that it changed are
//! the answer, and the tree of its parent is what is searched.

use super::git::{Change, Commit, Git, GitTree};
use anyhow::{Result, ensure};
use std::path::Path;
use tempfile::TempDir;

/// The newest commits that are looked through.
const HISTORY_MAX: usize = 5_000;
/// A commit that changes more code files than this is about no one place.
const GOLD_FILES_MAX: usize = 5;
/// A commit that changes more files of any sort is a sweep.
const CHANGED_FILES_MAX: usize = 15;
const SUBJECT_WORDS_MIN: usize = 3;
const SUBJECT_BYTES_MAX: usize = 300;

/// A question that a commit asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mined {
    /// The commit.
    pub commit: Commit,
    /// Its subject, without the number of a merge request.
    pub query: String,
    /// The code files that it changed and that its parent has.
    pub gold_files: Vec<String>,
}

/// A repository with the questions of its history, and a directory that shows one tree of it after the other.
pub struct Mine {
    git: Git,
    tree: GitTree,
    dir: TempDir,
    /// Oldest first, so that from one tree to the next little changes.
    pub cases: Vec<Mined>,
}

impl Mine {
    /// Takes the newest `count` commits that ask something.
    pub fn open(repo: &Path, scratch: &Path, count: usize) -> Result<Mine> {
        let git = Git::open(repo)?;
        let mut cases = Vec::new();
        for commit in git.history(HISTORY_MAX)? {
            if cases.len() == count {
                break;
            }
            let Some(query) = question(&commit.subject) else { continue };
            let Some(gold_files) = answer(git.changes(&commit)?) else { continue };
            cases.push(Mined { commit, query, gold_files });
        }
        ensure!(!cases.is_empty(), "no commit of {} says in its subject what it changes", repo.display());
        cases.reverse();
        let dir = tempfile::Builder::new().prefix("mine").tempdir_in(scratch)?;
        Ok(Mine { git, tree: GitTree::new(dir.path()), dir, cases })
    }

    /// The directory that shows a tree.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Shows the tree that the question number `at` is about.
    pub fn show(&mut self, at: usize) -> Result<()> {
        self.tree.switch_to(&self.git, &self.cases[at].commit.parent)
    }
}

/// The question in a subject; none where it only names a release, a revert or a merge, or says next to nothing.
fn question(subject: &str) -> Option<String> {
    let subject = subject.trim();
    let plain = match subject.rsplit_once(" (#") {
        Some((before, number)) if number.trim_end_matches(')').bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => subject,
    };
    let first = plain.split(|sign: char| !sign.is_alphanumeric()).next().unwrap_or("").to_lowercase();
    let is_chore =
        matches!(first.as_str(), "merge" | "revert" | "release" | "bump" | "wip" | "fixup" | "squash" | "version");
    let words = plain.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    (!is_chore && words >= SUBJECT_WORDS_MIN && plain.len() <= SUBJECT_BYTES_MAX).then(|| plain.to_owned())
}

/// The code files among what was changed; none where there are none, or too many to be about one thing.
fn answer(changes: Vec<Change>) -> Option<Vec<String>> {
    if changes.len() > CHANGED_FILES_MAX {
        return None;
    }
    let gold: Vec<String> =
        changes.into_iter().filter(|change| change.is_old && is_code(&change.path)).map(|change| change.path).collect();
    (!gold.is_empty() && gold.len() <= GOLD_FILES_MAX).then_some(gold)
}

/// Whether a path is a program's own source, and neither a test, documentation, a lock file nor configuration.
fn is_code(path: &str) -> bool {
    const CODE: [&str; 34] = [
        "rs", "py", "js", "jsx", "mjs", "cjs", "ts", "tsx", "go", "java", "c", "h", "cc", "cpp", "cxx", "hh", "hpp",
        "cs", "rb", "php", "kt", "kts", "scala", "swift", "sh", "bash", "sql", "lua", "m", "mm", "vue", "svelte", "ex",
        "zig",
    ];
    let path = path.to_lowercase();
    let (dirs, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
    let is_aside = |part: &str| {
        matches!(part, "test" | "tests" | "testing" | "spec" | "__tests__" | "testdata" | "fixtures" | "docs" | "doc")
    };
    let is_test = stem.starts_with("test_")
        || ["_test", "_tests", "_spec", ".test", ".spec"].iter().any(|end| stem.ends_with(end))
        || matches!(stem, "test" | "tests" | "conftest");
    CODE.contains(&extension) && !is_test && !dirs.split('/').any(is_aside)
}

#[cfg(test)]
mod tests {
    use super::super::git::tests::commit;
    use super::*;

    #[test]
    fn a_subject_is_a_question_unless_it_is_a_chore() {
        assert_eq!(question("parse headers without a value (#123)").as_deref(), Some("parse headers without a value"));
        let chores =
            ["Merge branch 'x' into y", "Release 1.2.3 of it", "Revert \"a b c\"", "fix typo", "v1.2.3", "Bump a to b"];
        assert!(chores.iter().all(|subject| question(subject).is_none()));
        assert!(question(&"long ".repeat(100)).is_none());
    }

    #[test]
    fn only_old_code_files_answer_and_only_a_few() {
        let change = |path: &str, is_old| Change { is_old, path: path.to_owned() };
        let mixed = vec![
            change("src/a.rs", true),
            change("src/new.rs", false),
            change("tests/b.rs", true),
            change("R.md", true),
        ];
        assert_eq!(answer(mixed), Some(vec!["src/a.rs".to_owned()]));
        assert_eq!(answer(vec![change("docs/a.md", true), change("a_test.go", true)]), None);
        assert_eq!(answer((0..6).map(|at| change(&format!("{at}.rs"), true)).collect()), None);
        assert_eq!(answer((0..16).map(|at| change(&format!("{at}.md"), true)).collect()), None);
    }

    #[test]
    fn a_history_is_mined_oldest_first_and_each_question_sees_the_tree_before_it() {
        let (repo, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        commit(repo.path(), &[("a.rs", "one")], "the first of all");
        commit(repo.path(), &[("a.rs", "two")], "make one a two");
        commit(repo.path(), &[("README.md", "words")], "write down some words");
        commit(repo.path(), &[("a.rs", "three")], "make two a three");
        let mut mine = Mine::open(repo.path(), scratch.path(), 10).unwrap();
        let queries: Vec<&str> = mine.cases.iter().map(|case| case.query.as_str()).collect();
        assert_eq!(queries, ["make one a two", "make two a three"]);
        mine.show(1).unwrap();
        assert_eq!(std::fs::read_to_string(mine.dir().join("a.rs")).unwrap(), "two");
        mine.show(0).unwrap();
        assert_eq!(std::fs::read_to_string(mine.dir().join("a.rs")).unwrap(), "one");
    }
}
