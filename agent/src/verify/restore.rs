//! Which parts of a project file decide what the tests mean? They are put back; the rest of the change stays.

use crate::workspace::Change;
use serde_json::Value;

/// Tables of a pyproject.toml, and sections of a setup.cfg, that a test runner or an import reads.
const PYTHON_SECTIONS: &[&str] = &[
    "tool.pytest",
    "tool.tox",
    "tool.coverage",
    "tool.nox",
    "tool.hatch.envs",
    "tool.poe",
    "tool:pytest",
    "pytest",
    "tox",
    "coverage",
    "aliases",
    "options.entry_points",
    "project.entry-points",
    "project.entry_points",
];
/// Keys of a package.json that a test runner reads.
const PACKAGE_KEYS: &[&str] = &["scripts", "jest", "vitest", "mocha", "ava", "nyc", "c8"];
/// Tables of a Cargo.toml that decide what is built and run as a test.
const CARGO_TABLES: &[&str] = &["test", "bench", "lib", "bin", "example", "profile", "patch", "replace", "workspace"];
/// Keys of its `[package]` that do.
const CARGO_KEYS: &[&str] = &["build", "autotests", "autobins", "autobenches", "autoexamples", "links", "edition"];

/// The change with those parts as in the base, and what was put back, in words.
pub fn sections(change: Change) -> (Change, Option<String>) {
    let name = change.path.rsplit('/').next().unwrap_or(&change.path).to_owned();
    if !matches!(name.as_str(), "pyproject.toml" | "setup.cfg" | "package.json" | "Cargo.toml" | "pom.xml") {
        return (change, None);
    }
    let text = |side: &Option<Vec<u8>>| side.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let before = text(&change.before).unwrap_or_default();
    // A file of the project that is gone would take its test sections with it.
    let Some(after) = text(&change.after) else { return whole(change) };
    let kept = match name.as_str() {
        "package.json" => package(&before, &after),
        "Cargo.toml" => cargo(&before, &after).then(|| after.clone()),
        "pom.xml" => (without_dependencies(&before) == without_dependencies(&after)).then(|| after.clone()),
        _ => Some(python(&before, &after)),
    };
    match kept {
        Some(kept) if kept == after => (change, None),
        Some(kept) => {
            let note = format!("{} (its test sections)", change.path);
            let before = change.before;
            (Change { path: change.path, before, after: Some(kept.into_bytes()) }, Some(note))
        }
        None => whole(change),
    }
}

fn whole(change: Change) -> (Change, Option<String>) {
    let note = change.path.clone();
    (Change { after: change.before.clone(), ..change }, Some(note))
}

/// Sections are told apart by their header lines: what follows one up to the next belongs to it.
fn parts(text: &str) -> Vec<(String, String)> {
    let mut parts = vec![(String::new(), String::new())];
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with('[') && line.starts_with('[') && trimmed.contains(']') {
            let name = trimmed.split(']').next().unwrap_or_default().trim_start_matches('[').trim();
            parts.push((name.replace(['"', '\'', ' '], ""), String::new()));
        }
        parts.last_mut().expect("never empty").1.push_str(line);
    }
    parts
}

fn decides(section: &str) -> bool {
    PYTHON_SECTIONS
        .iter()
        .any(|name| section.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', '_'])))
}

fn python(before: &str, after: &str) -> String {
    let ours: Vec<_> = parts(before).into_iter().filter(|(name, _)| decides(name)).collect();
    let theirs = parts(after);
    // Written as one line (`tool.pytest.ini_options = {...}`) it is no section; then nothing of the change is kept.
    let loose = |parts: &[(String, String)]| -> String {
        parts.iter().filter(|(name, _)| name.is_empty() || name == "tool").map(|(_, text)| text.as_str()).collect()
    };
    if loose(&theirs).contains("pytest") && loose(&theirs) != loose(&parts(before)) {
        return before.to_owned();
    }
    let same = theirs.iter().filter(|(name, _)| decides(name)).map(|(_, text)| text.trim()).collect::<Vec<_>>()
        == ours.iter().map(|(_, text)| text.trim()).collect::<Vec<_>>();
    if same {
        return after.to_owned();
    }
    let mut kept: String = theirs.into_iter().filter(|(name, _)| !decides(name)).map(|(_, text)| text).collect();
    for (_, text) in ours {
        if !kept.is_empty() && !kept.ends_with('\n') {
            kept.push('\n');
        }
        kept += &text;
    }
    kept
}

fn package(before: &str, after: &str) -> Option<String> {
    let mut theirs: Value = serde_json::from_str(after).ok()?;
    let ours: Value =
        if before.is_empty() { Value::Object(Default::default()) } else { serde_json::from_str(before).ok()? };
    let (map, ours) = (theirs.as_object_mut()?, ours.as_object()?);
    if PACKAGE_KEYS.iter().all(|key| map.get(*key) == ours.get(*key)) {
        return Some(after.to_owned());
    }
    for key in PACKAGE_KEYS {
        match ours.get(*key) {
            Some(value) => map.insert((*key).to_owned(), value.clone()),
            None => map.remove(*key),
        };
    }
    serde_json::to_string_pretty(&theirs).ok().map(|text| text + "\n")
}

/// Does a Cargo.toml build and run the same tests as before?
fn cargo(before: &str, after: &str) -> bool {
    let (Ok(ours), Ok(theirs)) = (before.parse::<toml::Table>(), after.parse::<toml::Table>()) else { return false };
    let key = |table: &toml::Table, key: &str| table.get("package").and_then(|package| package.get(key)).cloned();
    CARGO_TABLES.iter().all(|name| ours.get(*name) == theirs.get(*name))
        && CARGO_KEYS.iter().all(|name| key(&ours, name) == key(&theirs, name))
}

/// A pom.xml without what it depends on: all else decides what is built and how it is tested.
fn without_dependencies(pom: &str) -> String {
    let (start, end) = ("<dependencies>", "</dependencies>");
    let (mut kept, mut rest) = (String::new(), pom);
    while let Some((before, inner)) = rest.split_once(start) {
        // Those of a plugin are the plugin's.
        let builds = before.rfind("<plugin>") > before.rfind("</plugin>");
        let Some((inside, after)) = inner.split_once(end) else { break };
        kept += before;
        if builds || inside.contains("<!") || inside.contains("<build") {
            kept += inside;
        }
        rest = after;
    }
    (kept + rest).split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, before: &str, after: &str, expected: &str) {
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        let change = Change { path: path.into(), before: bytes(before), after: bytes(after) };
        let (kept, note) = sections(change);
        assert_eq!(String::from_utf8(kept.after.unwrap()).unwrap(), expected);
        assert_eq!(note.is_some(), after != expected);
    }

    #[test]
    fn test_sections_are_put_back_and_the_rest_stays() {
        let base = "[project]\nname = 'a'\n[tool.pytest.ini_options]\naddopts = '-q'\n";
        check("pyproject.toml", base, &base.replace("'a'", "'b'"), &base.replace("'a'", "'b'"));
        check("pyproject.toml", base, &base.replace("-q", "-k nothing"), base);
        check(
            "pyproject.toml",
            "[project]\n",
            "[project]\n[tool.pytest.ini_options]\naddopts = '--co'\n",
            "[project]\n",
        );
        check("pyproject.toml", "", "tool.pytest.ini_options = { addopts = '--co' }\n", "");
        check(
            "setup.cfg",
            "[metadata]\n",
            "[metadata]\nname = x\n[tool:pytest]\naddopts = --co\n",
            "[metadata]\nname = x\n",
        );
    }

    #[test]
    fn the_scripts_of_a_package_are_put_back() {
        let base = "{\n  \"scripts\": {\n    \"test\": \"jest\"\n  }\n}\n";
        check("package.json", base, "{\"scripts\": {\"test\": \"true\"}}", base);
        check("package.json", base, "not json", base);
    }

    #[test]
    fn a_pom_may_change_what_it_depends_on_and_nothing_else() {
        let base = "<project><dependencies><dependency>a</dependency></dependencies><build><plugins><plugin><dependencies></dependencies></plugin></plugins></build></project>\n";
        let with = |from: &str, to: &str| base.replacen(from, to, 1);
        let more = with("</dependency>", "</dependency>\n<dependency>b</dependency>");
        check("pom.xml", base, &more, &more);
        check("pom.xml", base, &with("<build>", "<properties><skipTests>true</skipTests></properties><build>"), base);
        check(
            "pom.xml",
            base,
            &with("<plugin><dependencies>", "<plugin><dependencies><dependency>b</dependency>"),
            base,
        );
        check("pom.xml", "", base, "");
    }

    #[test]
    fn a_cargo_file_that_turns_tests_off_is_put_back_whole() {
        let base = "[package]\nname = 'a'\n[dependencies]\n";
        check(
            "Cargo.toml",
            base,
            "[package]\nname = 'a'\n[dependencies]\nb = '1'\n",
            "[package]\nname = 'a'\n[dependencies]\nb = '1'\n",
        );
        check("Cargo.toml", base, "[package]\nname = 'a'\nautotests = false\n[dependencies]\n", base);
        check(
            "Cargo.toml",
            base,
            "[package]\nname = 'a'\n[dependencies]\n[[test]]\nname = 't'\nharness = false\n",
            base,
        );
    }
}
