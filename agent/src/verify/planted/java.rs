//! In every class of tests, as its first methods: one that throws, and those that assert what is false.

use super::{FILES_MAX, Nothing, Plants, Test, random, text};
use crate::test_files::is_collected;
use crate::verify::channel::java_class;
use crate::workspace::{Workspace, WorkspaceError};

/// How a framework marks a test, where its asserts are, and what of it a file names.
const FRAMEWORKS: &[(&str, &str, &str)] = &[
    ("org.junit.jupiter", "@org.junit.jupiter.api.Test", "org.junit.jupiter.api.Assertions"),
    ("org.junit", "@org.junit.Test", "org.junit.Assert"),
    ("org.testng", "@org.testng.annotations.Test", "org.testng.Assert"),
    ("junit.framework", "", "junit.framework.TestCase"),
];

/// Chooses the places.
pub fn choose(view: &dyn Workspace, asked: &[String]) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let named =
        |word: &String| ["-Dtest=", "-Dit.test=", "--tests", "-Dgroups"].iter().any(|flag| word.starts_with(flag));
    if asked.iter().any(named) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let mut tests = Vec::new();
    for path in view.walk()?.into_iter().filter(|path| path.ends_with(".java") && is_collected(path)) {
        let Some(file) = text(view, &path).filter(|_| tests.len() < FILES_MAX) else { continue };
        let place = format!("{} > ", java_class(&path, &file));
        let stem = path.rsplit('/').next().unwrap_or(&path).trim_end_matches(".java");
        let framework = FRAMEWORKS
            .iter()
            .find(|(names, mark, _)| file.contains(names) && (mark.is_empty() || file.contains("@Test")));
        let body = file.find(&format!("class {stem}")).and_then(|at| Some(at + file[at..].find('{')? + 1));
        let (Some((_, mark, asserts)), Some(at)) = (framework, body) else { continue };
        for (what, asserts, fails) in [
            ("throw", "throw new AssertionError()", ""),
            ("assertEquals", asserts, ".assertEquals(1, 2)"),
            ("assertTrue", asserts, ".assertTrue(false)"),
        ] {
            let name = format!("testPlanted{}", random()?);
            let text = format!(" {mark} public void {name}() {{ {asserts}{fails}; }}");
            tests.push(Test {
                path: path.clone(),
                at: Some(at),
                name,
                text,
                what,
                place: place.clone(),
                beside: None,
                closing: None,
            });
        }
    }
    Ok(Ok(Plants { tests, argv: asked.to_vec(), all_run: false, compiled: None }))
}
