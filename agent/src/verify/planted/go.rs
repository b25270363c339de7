//! In every test of every package that go says it tests: a line that tells how the test ended, signed.
//!
//! Each test of the files of the base is made to register, as its first act, what tells how it ended; go runs that as the
//! last act of the test, whatever the test did. A planted test beside them has to be told as failed. The programs of tests
//! are built, the word that signs is taken out of the files, and the programs are started in their packages. A test counts
//! when it told exactly once that it passed, or that it was skipped, as before the change. What is closed by that: a process
//! that ends early, whatever it printed; exit statuses that are replaced; a `TestMain` that runs nothing; tests that are
//! skipped by the code that they test.
//!
//! What is not closed: code that searches its own memory or program for the word, or that replaces `testing` inside the
//! process. The lints of [`super::super::review`] stop the plain ways. Examples and the seeds of fuzz tests, and tests whose
//! first line is not `func TestName(t *testing.T) {`, are judged by the whole run alone.

use super::programs::{PROGRAMS_MAX, Program, Runs, shown};
use super::{Compiled, Nothing, Plants, inside, listing, random, text};
use crate::plan::Plan;
use crate::tests_run::TestRun;
use crate::workspace::{Ended, Workspace, WorkspaceError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// Options of `go test` that the build of its programs takes too, and whether they take the next word.
const BUILD_OPTIONS: &[(&str, bool)] = &[
    ("-race", false),
    ("-msan", false),
    ("-asan", false),
    ("-trimpath", false),
    ("-tags", true),
    ("-mod", true),
    ("-modfile", true),
    ("-ldflags", true),
    ("-gcflags", true),
];
/// The only option that programs of tests are given: it decides what tests do.
const SHORT: &str = "-short";

/// What is planted in the packages of a module.
#[derive(Debug)]
pub struct Packages {
    /// The word that signs, and ends every planted name.
    word: String,
    /// Options of the build.
    options: Vec<String>,
    short: bool,
    each: Vec<Package>,
}

/// What is planted in one package.
#[derive(Debug)]
struct Package {
    import: String,
    /// Absolute in the box, and the root of the view.
    directory: String,
    root: String,
    /// The files of tests as they are with plants, and those that are new.
    files: BTreeMap<String, String>,
    /// The tests that tell.
    tests: BTreeSet<String>,
    /// Planted tests.
    planted: Vec<String>,
}

/// Chooses the places.
pub fn choose(
    view: &mut dyn Workspace,
    plan: &Plan,
    asked: &[String],
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let named = |word: &String| ["-run", "-skip", "-list", "--run", "--skip"].iter().any(|flag| word.starts_with(flag));
    if plan.argv.iter().any(named) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let options = options(&plan.argv[2..]);
    let format = "{{.ImportPath}}|{{.Dir}}|{{range .TestGoFiles}}{{.}}|{{end}}{{range .XTestGoFiles}}{{.}}|{{end}}";
    let packages = plan.argv[2..].iter().filter(|word| word.starts_with('.') || word.contains('/'));
    let list = ["go", "list"].map(str::to_owned).into_iter().chain(options.clone());
    let list = list.chain(["-f", format].map(str::to_owned)).chain(packages.cloned()).collect();
    let Some(said) = listing(view, list, plan, cancel)? else { return Ok(Err("go does not say what it tests")) };
    let files = view.walk()?;
    let mut packages = Packages {
        word: random()? + &random()?,
        options,
        short: plan.argv.iter().any(|word| word == SHORT),
        each: Vec::new(),
    };
    for line in said.lines() {
        let mut parts = line.split('|').filter(|part| !part.is_empty());
        let (Some(import), Some(directory)) = (parts.next(), parts.next()) else { continue };
        let found = parts.filter_map(|name| {
            let path = inside(&files, &format!("{directory}/{name}"))?;
            Some((path.clone(), text(view, path)?))
        });
        packages.each.extend(packages.package((import, directory), &found.collect::<Vec<_>>()));
    }
    Ok(Ok(Plants { tests: Vec::new(), argv: asked.to_vec(), all_run: true, compiled: Some(Compiled::Go(packages)) }))
}

/// The options of the build among these words.
fn options(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (name, valued) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        let Some((_, takes)) = BUILD_OPTIONS.iter().find(|(option, _)| name.replacen("--", "-", 1) == *option) else {
            continue;
        };
        kept.push(word.clone());
        kept.extend(words.get(at + 1).filter(|_| *takes && !valued).cloned());
    }
    kept
}

/// The test that this line begins, and the name of what it is given.
fn test(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("func ")?.split_once('(')?;
    let after = name.strip_prefix("Test")?;
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c == '_' || c.is_alphanumeric());
    let given = rest.strip_suffix('{')?.trim_end().strip_suffix(" *testing.T)")?;
    // `TestMain` is given something else; `Testing` is no test.
    (!after.starts_with(char::is_lowercase) && plain(name) && plain(given) && given != "_").then_some((name, given))
}

impl Packages {
    /// Is anything planted?
    pub fn any(&self) -> bool {
        !self.each.is_empty()
    }

    /// The files with plants.
    pub fn files(&self) -> impl Iterator<Item = (&String, &String)> {
        self.each.iter().flat_map(|package| &package.files)
    }

    /// Plants in one package, whose files of tests these are.
    fn package(&self, (import, directory): (&str, &str), found: &[(String, String)]) -> Option<Package> {
        let word = &self.word;
        let (mut files, mut tests, mut clauses) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for (path, text) in found {
            let clause = text.lines().find_map(|line| line.strip_prefix("package "))?.split(' ').next()?;
            let (mut planted, mut quotes, mut any) = (String::new(), 0, false);
            for line in text.split_inclusive('\n') {
                // A text in backquotes may hold what looks like a test.
                let found = test(line.trim_end()).filter(|_| quotes % 2 == 0);
                quotes += line.matches('`').count();
                planted += line.trim_end_matches(['\n', '\r']);
                if let Some((name, given)) = found {
                    planted += &format!(" told{word}({given});");
                    any |= tests.insert(name.to_owned());
                }
                planted += if line.ends_with('\n') { "\n" } else { "" };
            }
            if any {
                clauses.insert(clause);
                files.insert(path.clone(), planted);
            }
        }
        let (first, _) = found.first()?;
        let folder = first.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let root = directory.strip_suffix(folder.trim_end_matches('/'))?.trim_end_matches('/').to_owned();
        let mut planted = Vec::new();
        for (at, clause) in clauses.iter().enumerate() {
            let name = format!("TestPlanted{at}x{word}");
            files.insert(format!("{folder}zz_planted{at}x{word}_test.go"), self.teller(clause, &name));
            planted.push(name);
        }
        let (import, directory) = (import.to_owned(), directory.to_owned());
        (!tests.is_empty()).then_some(Package { import, directory, root, files, tests, planted })
    }

    /// The file that tells. Its names end in the word, so that they are nobody else's.
    fn teller(&self, clause: &str, planted: &str) -> String {
        let word = &self.word;
        format!(
            r#"package {clause}

import (
	os{word} "os"
	testing{word} "testing"
)

var out{word} = os{word}.Stdout

func told{word}(t *testing{word}.T) {{
	t.Cleanup(func() {{
		end := "pass"
		if t.Failed() {{
			end = "fail"
		}} else if t.Skipped() {{
			end = "skip"
		}}
		out{word}.WriteString("\n{word} " + end + " " + t.Name() + "\n")
	}})
}}

func {planted}(t *testing{word}.T) {{
	told{word}(t)
	t.Fatal("planted")
}}
"#
        )
    }

    /// Starts the programs of a view in which this is planted. What holds, in words; the inner error is what does not.
    pub fn answers(&self, runs: &mut Runs<'_>, base: &TestRun) -> Result<Result<String, String>, WorkspaceError> {
        if self.each.len() > PROGRAMS_MAX {
            let what = "more packages with tests than are started: name fewer in `test` of .cloister/verify.toml";
            return Ok(Err(format!("{}, {what}", self.each.len())));
        }
        let mut programs = Vec::new();
        for (at, package) in self.each.iter().enumerate() {
            let executable = format!("{}/.cloister-{}-{at}.test", package.root, &self.word[..16]);
            let own = ["go", "test", "-c", "-o", &executable].map(str::to_owned);
            let build: Vec<String> =
                own.into_iter().chain(self.options.clone()).chain([package.import.clone()]).collect();
            let ran = runs.build(&build)?;
            if ran.ended != Ended::Exited(0) {
                return Ok(Err(format!("with planted tests it does not build: {}", shown(&ran))));
            }
            programs.push(Program { executable, directory: package.directory.clone(), env: Vec::new() });
        }
        runs.begin()?;
        let mut count = 0;
        for (package, program) in self.each.iter().zip(&programs) {
            let words = self.short.then(|| "-test.short".to_owned());
            let ran = match runs.start(program, words, &[])? {
                Ok(ran) => ran,
                Err(why) => return Ok(Err(why)),
            };
            let said = String::from_utf8_lossy(&ran.output);
            if let Err(why) = package.judge(&self.word, &said, base) {
                return Ok(Err(format!("the tests of {}: {why}: {}", package.import, shown(&ran))));
            }
            if ran.ended == Ended::Exited(0) {
                return Ok(Err(format!(
                    "the tests of {}: a planted test that must fail did not: exit status 0",
                    package.import
                )));
            }
            count += package.tests.len();
        }
        Ok(Ok(format!(
            "{count} told once each how they ended, and planted tests failed as they must: {}",
            programs.len()
        )))
    }
}

impl Package {
    /// Judges what the tests told, signed with the word, on what they did before the change.
    fn judge(&self, word: &str, said: &str, base: &TestRun) -> Result<(), String> {
        let mut told: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let signed = said.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.split_once(' '));
        signed.for_each(|(end, name)| told.entry(name).or_default().push(end));
        let ends = |name: &String| told.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        if let Some(planted) = self.planted.iter().find(|name| ends(name) != ["fail"]) {
            let end = if ends(planted).is_empty() { "did not come to its end" } else { "did not fail" };
            return Err(format!("a planted test that must fail {end}"));
        }
        let skipped = |name: &String| {
            base.cases.is_empty() || base.cases.iter().any(|case| case.name == *name && case.passed.is_none())
        };
        match self.tests.iter().find(|name| !(ends(name) == ["pass"] || (ends(name) == ["skip"] && skipped(name)))) {
            None => Ok(()),
            Some(name) if ends(name).is_empty() => Err(format!("{name} did not come to its end")),
            Some(name) => Err(format!("{name} ended as: {}", ends(name).join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_test_is_known() {
        assert_eq!(test("func TestAdd(t *testing.T) {"), Some(("TestAdd", "t")));
        assert_eq!(test("func Test_add(tt *testing.T) {"), Some(("Test_add", "tt")));
        for other in [
            "func TestMain(m *testing.M) {",
            "func Testing(t *testing.T) {",
            "func TestA(_ *testing.T) {",
            "\tfunc TestA(t *testing.T) {",
            "func TestA[T any](t *testing.T) {",
            "func (s *S) TestA(t *testing.T) {",
        ] {
            assert_eq!(test(other), None, "{other}");
        }
    }

    #[test]
    fn what_decides_how_a_program_is_built_is_kept_of_the_options() {
        let kept = |text: &str| options(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        assert_eq!(kept("-v -tags a,b --race -mod=vendor -count 1 ./..."), "-tags a,b --race -mod=vendor");
        assert_eq!(kept("-timeout 30s -short ./a"), "");
    }
}
