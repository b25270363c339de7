//! At the end of the root of every program of tests that cargo says it runs.

use super::{FILES_MAX, Nothing, Plants, Test, inside, listing, random, text};
use crate::plan::Plan;
use crate::workspace::{Workspace, WorkspaceError};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

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

/// Chooses the places.
pub fn choose(
    view: &mut dyn Workspace,
    plan: &Plan,
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    if filters(&plan.argv[2..]) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let own = plan.argv.iter().take_while(|word| *word != "--").cloned();
    let list = own.chain(["--no-run", "--message-format=json-render-diagnostics"].map(str::to_owned)).collect();
    let Some(said) = listing(view, list, plan, cancel)? else { return Ok(Err("cargo does not say what it runs")) };
    let files = view.walk()?;
    let mut tests = Vec::new();
    let artifacts = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for artifact in
        artifacts.filter(|artifact| artifact["profile"]["test"] == true && artifact["executable"].is_string())
    {
        let path = artifact["target"]["src_path"].as_str().and_then(|path| inside(&files, path));
        let manifest = artifact["manifest_path"].as_str().and_then(|path| inside(&files, path));
        let Some((path, root)) = path.and_then(|path| Some((path.clone(), text(view, path)?))) else { continue };
        let manifest = manifest.and_then(|path| text(view, path)).unwrap_or_default();
        if has_own_harness(&manifest, artifact["target"]["name"].as_str().unwrap_or_default())
            || tests.len() >= FILES_MAX
        {
            continue;
        }
        let name = format!("zz_planted_{}", random()?);
        let text =
            format!("\n#[cfg(test)]\nmod {name} {{\n    #[test]\n    fn fails() {{\n        panic!();\n    }}\n}}\n");
        // A file that is left out under this configuration runs nothing.
        let beside = root.contains("#![cfg(").then(BTreeSet::new);
        tests.push(Test {
            place: String::new(),
            at: None,
            what: "panic",
            path,
            name,
            text,
            beside,
            closing: Some("test result: FAILED".into()),
        });
    }
    let mut argv = plan.argv.clone();
    if !argv.iter().any(|word| word == "--no-fail-fast") {
        argv.insert(2, "--no-fail-fast".into());
    }
    Ok(Ok(Plants { tests, argv, all_run: true }))
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
    fn a_target_with_a_harness_of_its_own_is_known() {
        let manifest = "[package]\nname = 'a'\n[[test]]\nname = 'own-one'\nharness = false\n[[test]]\nname = 'it'\n";
        assert!(has_own_harness(manifest, "own-one") && !has_own_harness(manifest, "it"));
    }
}
