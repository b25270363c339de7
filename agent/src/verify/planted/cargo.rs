//! At the end of the root of every program of tests that cargo says it runs: a last test, which answers for all before it.
//!
//! The programs are built by cargo and started without it, each twice, with every test that it lists, one after the other.
//! The last of them is ours: it is asked with one of two words that nobody can know, and answers with another, if asserts
//! still assert; after one of the words it fails. So a run is believed when the answer is there, which shows that every test
//! before it came to its end, and when the exit status is the one that the question called for, both times, in an order that
//! is drawn. What is closed by that: a process that ends early, whatever it printed; exit statuses that are replaced; a list
//! with names that are not in the program; tests that are gone, or marked to be left out; `assert_eq` replaced for all of a
//! program. When the programs start, the files do not hold the words any more.
//!
//! What is not closed: code that reads its own program to learn the words, that runs before `main` and is the harness
//! itself, or that remembers its first run on the disk and guesses which of the two it was; proc-macros of the project, which
//! run while the files hold the words. The lints of [`super::super::review`] stop the plain ways. Examples of the
//! documentation and targets with a harness of their own are judged by the whole run alone.

use super::programs::{PROGRAMS_MAX, Program, Runs, shown};
use super::{Compiled, FILES_MAX, Nothing, Plants, Test, inside, listing, random, text};
use crate::plan::Plan;
use crate::tests_run::TestRun;
use crate::workspace::{Ended, Ran, Workspace, WorkspaceError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// How planted modules begin: tests run in the order of their names.
const LAST: &str = "zzzzzzzz_planted_";
/// Where the last test finds its question.
const ASKED: &str = "CLOISTER_ASKED";
/// The exit status of a program of which a test failed.
const FAILED: i32 = 101;
/// Options of cargo that take the next word.
const CARGO_VALUES: &[&str] = &[
    "-p",
    "--package",
    "--exclude",
    "-F",
    "--features",
    "--target",
    "--manifest-path",
    "--test",
    "--bin",
    "--example",
    "--profile",
    "-j",
    "--jobs",
];

/// What is planted in the programs of one build.
#[derive(Debug)]
pub struct Programs {
    lasts: Vec<Last>,
    /// Roots of programs that report in a way of their own: the manifest says so, which is that of the base.
    own: BTreeSet<String>,
    /// The others, planted or not.
    count: usize,
}

impl Programs {
    /// Is there a program that has to answer?
    pub fn any(&self) -> bool {
        self.count > 0
    }
}

/// The last test of one program.
#[derive(Debug)]
struct Last {
    /// The root of the program, in the view.
    path: String,
    /// The test, as the program lists it.
    name: String,
    /// The program may hold no test at all.
    may_be_left_out: bool,
    /// After this question it passes.
    holds: Exchange,
    /// After this it fails.
    fails: Exchange,
}

#[derive(Debug)]
struct Exchange {
    asked: String,
    answer: String,
}

impl Exchange {
    fn new() -> Result<Self, WorkspaceError> {
        Ok(Self { asked: random()? + &random()?, answer: random()? + &random()? })
    }
}

impl Last {
    /// For the root of one program.
    fn new(path: &str, root: &str) -> Result<Self, WorkspaceError> {
        Ok(Self {
            path: path.to_owned(),
            name: format!("{LAST}{}::ends", random()?),
            // A file that is left out under this configuration runs nothing.
            may_be_left_out: root.contains("#![cfg("),
            holds: Exchange::new()?,
            fails: Exchange::new()?,
        })
    }

    /// The module. It writes past what the harness catches, and knows `std` in programs that do without.
    fn text(&self) -> String {
        let Self { holds, fails, .. } = self;
        let module = self.name.trim_end_matches("::ends");
        format!(
            r#"
#[cfg(test)]
mod {module} {{
    #[allow(unused_extern_crates)]
    extern crate std as outside;
    fn fails(what: fn()) -> bool {{
        outside::panic::catch_unwind(what).is_err()
    }}
    #[test]
    fn ends() {{
        let asserts = fails(|| assert!(false)) && fails(|| assert_eq!(1, 2)) && fails(|| assert_ne!(1, 1));
        let asked = outside::env::var("{ASKED}").unwrap_or_default();
        let answer = match asked.as_str() {{
            "{}" => "\n{}\n",
            "{}" => "\n{}\n",
            _ => "",
        }};
        let answer = if asserts {{ answer }} else {{ "" }};
        outside::io::Write::write_all(&mut outside::io::stdout(), answer.as_bytes()).unwrap();
        assert!(asked == "{}");
    }}
}}
"#,
            holds.asked, holds.answer, fails.asked, fails.answer, holds.asked
        )
    }
}

/// Chooses the places.
pub fn choose(
    view: &mut dyn Workspace,
    plan: &Plan,
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    if filters(&plan.argv[2..]) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let Some(said) = listing(view, build(plan), plan, cancel)? else {
        return Ok(Err("cargo does not say what it runs"));
    };
    let files = view.walk()?;
    let (mut tests, mut lasts, mut own) = (Vec::new(), Vec::<Last>::new(), BTreeSet::new());
    let mut count = 0;
    for built in built(&said, &files) {
        let manifest = built.manifest.as_ref().and_then(|path| text(view, path)).unwrap_or_default();
        if has_own_harness(&manifest, &built.name) {
            own.insert(built.path);
            continue;
        }
        count += 1;
        let known = lasts.iter().any(|last| last.path == built.path);
        let Some(root) = text(view, &built.path).filter(|_| !known && tests.len() < FILES_MAX) else { continue };
        let last = Last::new(&built.path, &root)?;
        tests.push(Test {
            place: String::new(),
            at: None,
            what: "panic",
            path: built.path,
            name: last.name.clone(),
            text: last.text(),
            beside: None,
            closing: None,
        });
        lasts.push(last);
    }
    Ok(Ok(Plants {
        tests,
        argv: plan.argv.clone(),
        all_run: true,
        compiled: Some(Compiled::Cargo(Programs { lasts, own, count })),
    }))
}

/// The command that builds the programs of tests and says where they are.
fn build(plan: &Plan) -> Vec<String> {
    let own = plan.argv.iter().take_while(|word| *word != "--").cloned();
    own.chain(["--no-run", "--message-format=json-render-diagnostics"].map(str::to_owned)).collect()
}

/// A program of tests that cargo built.
struct Built {
    /// Its root, in the view.
    path: String,
    /// The Cargo.toml, in the view.
    manifest: Option<String>,
    name: String,
    program: Program,
}

fn built(said: &str, files: &[String]) -> Vec<Built> {
    let artifacts = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = artifacts.filter(|artifact| artifact["profile"]["test"] == true);
    let built = tests.filter_map(|artifact| {
        let of = |value: &Value| value.as_str().map(str::to_owned);
        let manifest = of(&artifact["manifest_path"])?;
        let directory = manifest.rsplit_once('/')?.0.to_owned();
        let id = of(&artifact["package_id"]).unwrap_or_default();
        let (source, version) = id.rsplit_once('#').unwrap_or(("", &id));
        let own = source.rsplit('/').next().unwrap_or_default();
        let (package, version) = version.split_once('@').unwrap_or((own, version));
        let env = [("DIR", directory.as_str()), ("PATH", manifest.as_str())]
            .map(|(name, value)| (format!("CARGO_MANIFEST_{name}"), value.to_owned()));
        let package = [("NAME", package), ("VERSION", version)]
            .map(|(name, value)| (format!("CARGO_PKG_{name}"), value.to_owned()));
        Some(Built {
            path: inside(files, artifact["target"]["src_path"].as_str()?)?.clone(),
            manifest: inside(files, &manifest).cloned(),
            name: of(&artifact["target"]["name"])?,
            program: Program { executable: of(&artifact["executable"])?, directory, env: [env, package].concat() },
        })
    });
    built.collect()
}

/// Starts every program of a view in which these stand. What holds, in words; the inner error is what does not.
pub fn answers(
    programs: &Programs,
    runs: &mut Runs<'_>,
    base: &TestRun,
) -> Result<Result<String, String>, WorkspaceError> {
    let ran = runs.build(&build(runs.plan))?;
    if ran.ended != Ended::Exited(0) {
        return Ok(Err(format!("with planted tests it does not build: {}", shown(&ran))));
    }
    let all = built(&String::from_utf8_lossy(&ran.output), &runs.files()?);
    if all.len() > PROGRAMS_MAX {
        let what = "more programs of tests than are started: name fewer in `test` of .cloister/verify.toml";
        return Ok(Err(format!("{}, {what}", all.len())));
    }
    let env = environment(&all, runs)?;
    // Examples of the documentation are in no program.
    let named = |case: &&crate::verify::Case| case.passed.is_some() && !case.name.contains(".rs - ");
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for case in base.cases.iter().filter(named) {
        *wanted.entry(&case.name).or_default() += 1;
    }
    runs.begin()?;
    let (mut ran, mut unheard) = (BTreeMap::<String, usize>::new(), 0);
    for mut built in all {
        if programs.own.contains(&built.path) {
            unheard += 1;
            continue;
        }
        let Some(last) = programs.lasts.iter().find(|last| last.path == built.path) else {
            return Ok(Err(format!(
                "no test can be planted in {}, which has to be a text of at most 1 MiB",
                built.path
            )));
        };
        built.program.env.extend(env.iter().cloned());
        match answer(last, &built.program, runs, &wanted)? {
            Ok(names) => names.into_iter().for_each(|name| *ran.entry(name).or_default() += 1),
            Err(why) => return Ok(Err(format!("the tests of {}: {why}", built.path))),
        }
    }
    let gone = wanted.iter().find(|(name, count)| ran.get(**name).is_none_or(|now| now < *count));
    if let Some((name, _)) = gone.filter(|_| unheard == 0) {
        let name = crate::text::quote(name, 200);
        return Ok(Err(format!("{name} ran before the change and is in no program of tests now")));
    }
    let count: usize = ran.values().sum();
    let others = if unheard == 0 { String::new() } else { format!("; {unheard} programs have a harness of their own") };
    Ok(Ok(format!("{count} ran once each, one after the other, and a planted last test answered for them{others}")))
}

/// What cargo sets for programs that it starts.
fn environment(all: &[Built], runs: &mut Runs<'_>) -> Result<Vec<(String, String)>, WorkspaceError> {
    let asked = ["sh", "-c", "command -v cargo; rustc --print target-libdir"].map(str::to_owned);
    let said = String::from_utf8_lossy(&runs.build(&asked)?.output).into_owned();
    let mut lines = said.lines().filter(|line| line.starts_with('/'));
    let cargo = lines.next().unwrap_or("cargo").to_owned();
    let own = all.first().and_then(|built| built.program.executable.rsplit_once('/')).map_or("", |(dir, _)| dir);
    let libraries = lines.next().map_or(own.to_owned(), |lib| format!("{own}:{lib}"));
    Ok(vec![("CARGO".into(), cargo), ("LD_LIBRARY_PATH".into(), libraries)])
}

/// Asks one program twice; the names of the tests that ran. The inner error is what does not hold.
fn answer(
    last: &Last,
    program: &Program,
    runs: &mut Runs<'_>,
    wanted: &BTreeMap<&str, usize>,
) -> Result<Result<Vec<String>, String>, WorkspaceError> {
    let mut lists = Vec::new();
    for words in [&["--list"][..], &["--list", "--ignored"]] {
        let ran = match runs.start(program, words.iter().map(|word| (*word).to_owned()), &[])? {
            Ok(ran) => ran,
            Err(why) => return Ok(Err(why)),
        };
        let names = (ran.ended == Ended::Exited(0)).then(|| listed(&String::from_utf8_lossy(&ran.output))).flatten();
        let Some(names) = names else {
            return Ok(Err(format!("the program does not list its tests: {}", shown(&ran))));
        };
        lists.push(names);
    }
    let (ignored, names) = (lists.pop().unwrap_or_default(), lists.pop().unwrap_or_default());
    if !names.contains(&last.name) {
        let nothing = last.may_be_left_out && names.is_empty();
        return Ok(if nothing { Ok(Vec::new()) } else { Err("the planted test is not in the program's list".into()) });
    }
    // What the base leaves out stays so; what only the change marks does not.
    let left_out = |name: &&String| {
        name.contains(LAST) && **name != last.name || ignored.contains(*name) && !wanted.contains_key(name.as_str())
    };
    let (left_out, mut tests): (Vec<&String>, Vec<&String>) = names.iter().partition(left_out);
    tests.retain(|name| **name != last.name);
    if let Some(name) = tests.iter().find(|name| ***name > last.name) {
        return Ok(Err(format!("{name} would run after the planted test, which has to be the last: rename it")));
    }
    let mut questions = [(&last.holds, &last.fails, 0), (&last.fails, &last.holds, FAILED)];
    if random()? < random()? {
        questions.reverse();
    }
    let options = ["--include-ignored", "--test-threads=1", "--exact"].map(str::to_owned);
    for (question, other, status) in questions {
        let skips = left_out.iter().flat_map(|name| ["--skip".to_owned(), (*name).clone()]);
        let words = options.iter().cloned().chain(skips);
        let ran = match runs.start(program, words, &[(ASKED, &question.asked)])? {
            Ok(ran) => ran,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(why) = wrong(&ran, question, other, status) {
            return Ok(Err(why));
        }
    }
    Ok(Ok(tests.into_iter().cloned().collect()))
}

/// What is wrong with a run that had to answer this, not that, and to end with this status?
fn wrong(ran: &Ran, question: &Exchange, other: &Exchange, status: i32) -> Option<String> {
    let said = String::from_utf8_lossy(&ran.output);
    if !said.contains(&question.answer) || said.contains(&other.answer) {
        let what = "the planted last test has not answered: the process ended before, or asserts do not assert";
        return Some(format!("{what}: {}", shown(ran)));
    }
    if ran.ended == Ended::Exited(status) {
        return None;
    }
    Some(if status == 0 {
        format!("one after the other they do not pass: {}", shown(ran))
    } else {
        format!("a planted test that must fail did not: {}", super::super::sealed::ended(&ran.ended))
    })
}

/// The names in a list of tests, where the list is one: as many lines as it says, each name once.
fn listed(said: &str) -> Option<BTreeSet<String>> {
    let closing =
        |line: &str| line.split_once(" test").filter(|(_, rest)| rest.contains(" benchmark"))?.0.parse::<usize>().ok();
    let names: Vec<&str> = said.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let counts: Vec<usize> = said.lines().filter_map(closing).collect();
    let once: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    (counts == [names.len()] && once.len() == names.len()).then_some(once)
}

/// Do these arguments of `cargo test` name tests?
fn filters(args: &[String]) -> bool {
    let mut value = false;
    args.iter().any(|word| {
        let named = !value && (!word.starts_with('-') || word == "--skip" || word == "--exact" || word == "--ignored");
        value = CARGO_VALUES.contains(&word.as_str()) || word == "--test-threads";
        named
    })
}

/// Says the manifest that this target reports in its own way?
fn has_own_harness(manifest: &str, target: &str) -> bool {
    let Ok(manifest) = manifest.parse::<toml::Table>() else { return false };
    let tables = ["lib", "bin", "test", "bench", "example"].into_iter().filter_map(|kind| manifest.get(kind));
    let mut each = tables.flat_map(|value| value.as_array().map_or(vec![value], |list| list.iter().collect()));
    each.any(|table| {
        let named = table
            .get("name")
            .and_then(toml::Value::as_str)
            .is_none_or(|name| name.replace('-', "_") == target.replace('-', "_"));
        named && table.get("harness").and_then(toml::Value::as_bool) == Some(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_names_tests_is_known() {
        let filters = |text: &str| filters(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for text in ["--offline", "--offline -p agent --features a", "-q -- --nocapture", "-- --test-threads 1"] {
            assert!(!filters(text), "{text}");
        }
        for text in ["gate", "--offline gate", "-p agent verify", "-- --skip slow", "-- --ignored"] {
            assert!(filters(text), "{text}");
        }
    }

    #[test]
    fn a_list_with_lines_that_are_not_the_programs_is_none() {
        let list = "a: test\nb::c: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(listed(list).map(|names| names.len()), Some(2));
        assert_eq!(listed(&format!("a message\n{list}")).map(|names| names.len()), Some(2));
        assert_eq!(listed("\n0 tests, 0 benchmarks\n").map(|names| names.len()), Some(0));
        for forged in [
            format!("gone: test\n{list}"),
            format!("{list}gone: test\n3 tests, 0 benchmarks\n"),
            list.replace("b::c", "a"),
            "a: test\n".into(),
        ] {
            assert_eq!(listed(&forged), None, "{forged}");
        }
    }

    #[test]
    fn a_target_with_a_harness_of_its_own_is_known() {
        let manifest = "[package]\nname = 'a'\n[[test]]\nname = 'own-one'\nharness = false\n[[test]]\nname = 'it'\n";
        assert!(has_own_harness(manifest, "own-one") && !has_own_harness(manifest, "it"));
    }
}
