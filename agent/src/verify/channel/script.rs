//! How do tests in JavaScript report? Through the process that starts the processes of the tests, where the runner has one.
//!
//! jest, vitest and `node --test` run tests in processes of their own (jest is always asked for one, from version 29 on);
//! what reports lives in the process that starts them, has read its word before they start, and is no file of the
//! repository. Mocha runs tests in its own process: there the word is in a closure, what writes it was taken before any
//! file was loaded, and mocha and `node:assert` are compared before and after each test. What is closed beyond what
//! [`super`] closes: `process.exit`, handlers of `exit` and `process.exitCode`, lines of the console, a runner replaced in
//! node_modules/.bin (the runner is loaded from its package, and changes there are put back), a test that is gone or skipped.
//!
//! What is not closed: a process of tests tells the runner how they ended in the runner's own words, and code that speaks
//! these words can lie about the tests that it knows; [`super::super::planted`] makes such a lie miss the tests that nobody
//! knows. Code in mocha's process, in threads (`vitest --pool=threads`) or in the process of jest before 29 can search the
//! memory for the word; so can any code where the kernel lets it read the memory of its parent. Configuration of the base
//! that loads code of the change runs in the runner's process too.

use super::{PLACE, Start, Told};
use crate::test_files::{is_script, is_test};
use crate::verify::tests_diff;
use crate::workspace::Workspace;
use serde_json::Value;
use std::collections::BTreeMap;

const LAUNCHER: &str = include_str!("launcher.cjs");
const REPORTER: &str = include_str!("reporter.mjs");
/// Options of node that take the next word.
const NODE_VALUES: &[&str] =
    &["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"];
/// Words with which a runner does something else than to run its tests once.
const OTHERWISE: &[&str] = &[
    "--watch",
    "--watchAll",
    "-w",
    "--listTests",
    "--version",
    "--help",
    "list",
    "bench",
    "related",
    "watch",
    "dev",
    "init",
];

/// A test command of JavaScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tests {
    /// `env` and what is set, and node with its options.
    node: Vec<String>,
    /// `jest`, `vitest`, `mocha` or `node`.
    name: &'static str,
    args: Vec<String>,
}

impl Tests {
    /// Understands `[env A=B] RUNNER …`, `npx RUNNER …`, `node --test …`, `node node_modules/RUNNER/… …`, and `npm test` and
    /// its like where the script in package.json is one of these.
    pub fn of(argv: &[String], view: &dyn Workspace) -> Option<Self> {
        let package = || -> Option<Value> { serde_json::from_slice(&view.read("package.json").ok()?).ok() };
        Self::read(argv).or_else(|| Self::read(&script(argv, &package()?)?))
    }

    fn read(argv: &[String]) -> Option<Self> {
        let set = |word: &String| word.contains('=') && !word.starts_with(['-', '=']);
        let mut words: &[String] = argv;
        let mut node: Vec<String> = Vec::new();
        if words.first().is_some_and(|word| ["env", "cross-env"].contains(&word.as_str()))
            || words.first().is_some_and(set)
        {
            let from = usize::from(!set(&words[0]));
            let count = words[from..].iter().take_while(|word| set(word)).count();
            node = [vec!["env".to_owned()], words[from..from + count].to_vec()].concat();
            words = &words[from + count..];
        }
        if ["npx", "pnpm", "yarn"].contains(&words.first()?.as_str()) {
            let count = words[1..].iter().take_while(|word| *word == "exec" || word.starts_with("--no")).count();
            words = &words[1 + count..];
        }
        node.push("node".into());
        let mut name = runner(words.first()?);
        let mut at = 1;
        if words[0].rsplit('/').next() == Some("node") {
            while name.is_none() {
                let word = words.get(at)?;
                if word == "--test" {
                    name = Some("node");
                } else if word.starts_with('-') {
                    let count = 1 + usize::from(NODE_VALUES.contains(&word.as_str()));
                    node.extend(words.get(at..at + count)?.iter().cloned());
                    at += count - 1;
                } else {
                    name = Some(runner(word)?);
                }
                at += 1;
            }
        }
        let args = words[at..].to_vec();
        let other = ["--test-reporter", "--test-isolation", "--experimental-test-isolation"];
        let reports =
            |word: &String| OTHERWISE.contains(&word.as_str()) || other.iter().any(|start| word.starts_with(start));
        (!args.iter().any(reports)).then_some(Self { node, name: name?, args })
    }

    /// The child that runs them.
    pub(super) fn start(&self) -> Start<'_> {
        let (file, text) = if self.name == "node" { ("reporter.mjs", REPORTER) } else { ("launcher.cjs", LAUNCHER) };
        let mut argv = self.node.clone();
        let place = format!("{PLACE}/{file}");
        if self.name == "node" {
            let both = ["--test", "--test-reporter=tap", "--test-reporter-destination=stdout"].map(str::to_owned);
            argv.extend(both);
            argv.extend([format!("--test-reporter={place}"), "--test-reporter-destination=stderr".into()]);
            argv.extend(self.args.iter().cloned());
        } else {
            argv.push(place);
        }
        let files = BTreeMap::from([(file, text)]);
        Start { python: vec!["python3".into()], argv, files, runner: self.name, args: &self.args }
    }
}

/// The runner that this word starts.
fn runner(word: &str) -> Option<&'static str> {
    let own = |name: &&&str| {
        let bin = format!("node_modules/.bin/{name}");
        let package = format!("node_modules/{name}/");
        let word = word.trim_start_matches("./");
        word == **name
            || word == bin
            || word.starts_with(&package) && word.rsplit('/').next().is_some_and(|file| file.contains(**name))
    };
    ["jest", "vitest", "mocha"].iter().find(own).copied()
}

/// The words of the script that `npm test` runs, where a shell would do nothing but to cut it into words.
fn script(argv: &[String], package: &Value) -> Option<Vec<String>> {
    let mut words =
        argv.iter().map(String::as_str).filter(|word| !["--silent", "-s", "run", "run-script"].contains(word));
    if !["npm", "pnpm", "yarn"].contains(&words.next()?) {
        return None;
    }
    let name = words.next().map(|name| if name == "t" { "test" } else { name })?;
    let scripts = &package["scripts"];
    let around = |start: &str| scripts.get(format!("{start}{name}")).is_some();
    if around("pre") || around("post") {
        return None;
    }
    let mut found = plain(scripts[name].as_str()?)?;
    let rest: Vec<&str> = words.collect();
    match rest.split_first() {
        None => {}
        Some((&"--", more)) => found.extend(more.iter().map(|word| (*word).to_owned())),
        Some(_) => return None,
    }
    // Words that a shell would look up among the files are left to mocha, which does the same.
    let looks_up = found.iter().any(|word| word.contains(['*', '?', '[']));
    (!looks_up || found.iter().any(|word| word.ends_with("mocha"))).then_some(found)
}

/// The words of a line that asks nothing of a shell.
fn plain(line: &str) -> Option<Vec<String>> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.trim().chars() {
        let word = words.last_mut()?;
        match (c, quote) {
            ('$' | '`' | '\\', _) => return None,
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => quote = Some(c),
            ('&' | '|' | ';' | '<' | '>' | '(' | ')' | '{' | '}' | '~' | '#' | '\n', None) => return None,
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(String::new());
                }
            }
            (c, None) => word.push(c),
        }
    }
    (quote.is_none() && words.last().is_some_and(|word| !word.is_empty())).then_some(words)
}

/// Expects the tests of files that the base could not load, by reading them: each under the name that it has now, or under
/// one that nothing reports.
pub fn complete(was: &mut Told, told: &Told, view: &dyn Workspace) {
    let Ok(files) = view.walk() else { return };
    for file in files.iter().filter(|file| is_script(file) && is_test(file)) {
        let inside = format!("{file} > ");
        let speaks = |told: &Told| told.outcomes.keys().any(|id| id.starts_with(&inside));
        let broken = was.broken.contains(file) || (!was.ended && (speaks(told) || told.outcomes.contains_key(file)));
        if !broken || speaks(was) {
            continue;
        }
        let text = view.read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let names = tests_diff::names(file, &text);
        if names.is_empty() {
            continue;
        }
        // What node says of the file as a whole it says of no file that declares tests.
        was.expected.remove(file);
        for name in names {
            let ends = format!(" > {name}");
            let same: Vec<&String> =
                told.outcomes.keys().filter(|id| id.starts_with(&inside) && id.ends_with(&ends)).collect();
            for id in &same {
                was.expected.insert((*id).clone(), told.outcomes[*id].len());
            }
            if same.is_empty() {
                was.expected.insert(format!("{file}{ends}"), 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, script: &str, expected: Option<&str>) {
        let package = serde_json::json!({ "scripts": { "test": script, "unit": "vitest run", "postunit": "true" } });
        let argv: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let found = Tests::read(&argv).or_else(|| super::script(&argv, &package).and_then(|words| Tests::read(&words)));
        let shown = found.map(|tests| format!("{}: {}: {}", tests.node.join(" "), tests.name, tests.args.join(" ")));
        assert_eq!(shown.as_deref(), expected, "{command} with {script}");
    }

    #[test]
    fn a_test_command_of_javascript_is_understood() {
        check("jest --ci", "", Some("node: jest: --ci"));
        check("npx --no-install vitest run src", "", Some("node: vitest: run src"));
        check("node --test test/a.mjs", "", Some("node: node: test/a.mjs"));
        check("node -r ./a.js --test", "", Some("node -r ./a.js: node: "));
        check(
            "env A=b node --no-warnings node_modules/jest/bin/jest.js -i",
            "",
            Some("env A=b node --no-warnings: jest: -i"),
        );
        check("npm test --silent", "jest", Some("node: jest: "));
        check(
            "yarn test",
            "NODE_ENV=test mocha 'test/**/*.js' -R dot",
            Some("env NODE_ENV=test node: mocha: test/**/*.js -R dot"),
        );
        check("npm run test -- --ci", "cross-env TZ=UTC jest", Some("env TZ=UTC node: jest: --ci"));
        check("npm t", "./node_modules/.bin/mocha", Some("node: mocha: "));
    }

    #[test]
    fn a_command_that_does_more_or_something_else_is_left_to_what_it_prints() {
        for script in [
            "tsc && jest",
            "jest; true",
            "jest --watch",
            "react-scripts test",
            "jest $FILES",
            "",
            "node --test *.js",
            "node test.js",
        ] {
            check("npm test", script, None);
        }
        check("npm run unit", "", None);
        for other in [
            "node test.js",
            "node --test --test-reporter=dot",
            "node --test --test-isolation=none",
            "deno test",
            "make test",
            "npm install",
            "npm test jest",
        ] {
            check(other, "jest", None);
        }
    }
}
