//! Which file does a test test?
//!
//! A report of a fault often says what the tests say, in their words: a test that fits a question speaks for the
//! source that it tests. Known by the customs of names alone: `test_cli.py`, `cli_test.go`, `cli.spec.ts` and
//! `CliTest.java` test `cli`, as does anything in `tests/cli/`.

use std::collections::HashMap;

use crate::classify::Class;

/// A name that more files bear says nothing.
const TESTED_MAX: usize = 3;
/// Marks of a test at the beginning of the name, lower case.
const HEADS: &[&str] = &["test_", "tests_", "test-"];
/// And at its end.
const TAILS: &[&str] = &["_tests", "_test", "_spec", "-test", "-spec", "tests", "test", "spec"];

/// What each of the tests among `files` tests, of the sources among them: pairs of a test and a source. Files come with
/// their path and class.
pub(crate) fn tested<'a>(files: impl Iterator<Item = (u32, &'a str, Class)>) -> Vec<(u32, u32)> {
    let mut sources: HashMap<String, Vec<(u32, &str)>> = HashMap::new();
    let mut tests = Vec::new();
    for (file, path, class) in files {
        match class {
            Class::Test => tests.push((file, path)),
            Class::Source | Class::Barrel => sources.entry(stem(path)).or_default().push((file, path)),
            _ => {}
        }
    }
    let mut pairs = Vec::new();
    for (test, path) in tests {
        let own = sources.get(&tested_stem(path)).into_iter();
        let above = path.rsplit('/').nth(1).and_then(|directory| sources.get(&directory.to_lowercase()));
        if let Some(meant) = own.chain(above).map(|named| nearest(path, named)).find(|meant| !meant.is_empty()) {
            pairs.extend(meant.into_iter().map(|source| (test, source)));
        }
    }
    pairs
}

/// Those of `named` that share most of the directories above them with `test`; none where that leaves too many.
fn nearest(test: &str, named: &[(u32, &str)]) -> Vec<u32> {
    let shared = |path: &str| test.split('/').zip(path.split('/')).take_while(|(left, right)| left == right).count();
    let most = named.iter().map(|(_, path)| shared(path)).max().unwrap_or(0);
    let meant: Vec<u32> =
        named.iter().filter(|(_, path)| shared(path) == most).map(|(file, _)| *file).take(TESTED_MAX + 1).collect();
    if meant.len() > TESTED_MAX { Vec::new() } else { meant }
}

/// The name of a source without its endings and the `_` before it, lower case.
fn stem(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or(name);
    stem.trim_start_matches('_').to_lowercase()
}

fn tested_stem(path: &str) -> String {
    let stem = stem(path);
    let bare = HEADS.iter().find_map(|head| stem.strip_prefix(head)).unwrap_or(&stem);
    let bare = TAILS.iter().find_map(|tail| bare.strip_suffix(tail)).filter(|bare| !bare.is_empty()).unwrap_or(bare);
    bare.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::classify;

    /// The sources that the tests among `paths` speak for.
    fn spoken_for<'a>(paths: &[&'a str]) -> Vec<(&'a str, &'a str)> {
        let files = paths.iter().enumerate().map(|(at, path)| (at as u32, *path, classify(path, b"")));
        tested(files).into_iter().map(|(test, source)| (paths[test as usize], paths[source as usize])).collect()
    }

    #[test]
    fn a_test_is_known_by_the_name_of_what_it_tests() {
        for (test, source) in [
            ("tests/test_cli.py", "src/cli.py"),
            ("pkg/cli_test.go", "pkg/cli.go"),
            ("web/cli.spec.ts", "web/cli.ts"),
            ("src/test/CliTest.java", "src/main/Cli.java"),
            ("tests/cli.rs", "src/cli.rs"),
            ("testing/cli/test_colours.py", "src/_cli.py"),
        ] {
            assert_eq!(spoken_for(&[test, source, "src/other.py"]), [(test, source)]);
        }
    }

    #[test]
    fn the_nearest_of_several_is_meant_and_none_of_too_many() {
        let near = ["a/tests/test_utils.py", "b/utils.py", "a/utils.py"];
        assert_eq!(spoken_for(&near), [(near[0], near[2])]);
        assert!(
            spoken_for(&["tests/test_utils.py", "a/utils.py", "b/utils.py", "c/utils.py", "d/utils.py"]).is_empty()
        );
        assert!(spoken_for(&["tests/test_utils.py", "tests/test_other.py", "src/cli.py"]).is_empty());
    }
}
