//! Do the walls of ARCHITECTURE.md stand, and is every file as the house wants it?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;
const ROOMS: [&str; 7] = ["agent", "benches", "cli", "index", "inference", "models", "sandbox"];
/// Which of our own crates a room may name, for itself or for its tests.
const KNOWS: [(&str, &[&str]); 5] =
    [("agent", &[]), ("index", &[]), ("inference", &["models"]), ("models", &[]), ("sandbox", &[])];
/// Where a third-party crate may be named: everywhere below these paths.
const PLACES: [(&str, &[&str]); 6] = [
    (
        "candle_core|candle_nn|candle_transformers",
        &["inference/src/model", "inference/src/embed", "inference/tests", "inference/examples"],
    ),
    ("bollard", &["sandbox/src/docker"]),
    ("axum", &["inference/src/api", "inference/tests", "cli/src/lookup"]),
    ("llguidance", &["inference/src/grammar"]),
    ("tantivy", &["index/src/lexical.rs"]),
    ("lancedb|arrow_array|arrow_schema", &["index/src/vector.rs"]),
];

#[test]
fn the_walls_between_the_rooms_hold() {
    let mut broken = Vec::new();
    for (room, may_know) in KNOWS {
        for name in dependencies(room).iter().filter(|name| ROOMS.contains(&name.as_str())) {
            if !may_know.contains(&name.as_str()) {
                broken.push(format!("{room}/Cargo.toml knows {name}"));
            }
        }
    }
    for (crates, places) in PLACES {
        for (path, text) in sources() {
            let named = crates.split('|').find(|name| code(&text).any(|line| is_path(line, name)));
            if let Some(name) = named.filter(|_| !places.iter().any(|place| path.starts_with(place))) {
                broken.push(format!("{} names {name}, which belongs in {}", path.display(), places.join(", ")));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn every_source_file_says_what_it_answers_and_is_short() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if !text.starts_with("//!") {
            broken.push(format!("{} does not open with `//!`", path.display()));
        }
        if lines > LINES_MAX {
            broken.push(format!("{} has {lines} lines, more than {LINES_MAX}", path.display()));
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn nothing_is_left_to_be_done_in_the_sources() {
    // Put together here, so that this file is not found.
    let marks = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let mut broken = Vec::new();
    for (path, text) in
        sources().into_iter().filter(|(path, _)| path.components().any(|part| part.as_os_str() == "src"))
    {
        for mark in marks.iter().filter(|mark| code(&text).any(|line| line.contains(mark.as_str()))) {
            broken.push(format!("{} holds {mark}", path.display()));
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn no_file_names_a_host_outside_of_the_building() {
    let hosts = [
        ("huggingface", "co"),
        ("hf", "co"),
        ("crates", "io"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("github", "com"),
        ("githubusercontent", "com"),
        ("gitlab", "com"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("openai", "com"),
        ("anthropic", "com"),
        ("modelscope", "cn"),
        ("golang", "org"),
        ("debian", "org"),
        ("rust-lang", "org"),
        ("googleapis", "com"),
        ("amazonaws", "com"),
    ];
    let mut broken = Vec::new();
    for path in files().into_iter().filter(|path| path.file_name().is_some_and(|name| name != "Cargo.lock")) {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (name, end) in hosts {
            let host = format!("{name}.{end}");
            for (at, line) in text.lines().enumerate().filter(|(_, line)| is_word(line, &host)) {
                broken.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// What a room's Cargo.toml names, in every table of dependencies.
fn dependencies(room: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(room).join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = text.parse().expect("TOML");
    let mut found = BTreeSet::new();
    collect(&manifest, &mut found);
    found
}

/// `target.'cfg(…)'.dependencies` too, and a crate under another name by its `package`.
fn collect(table: &toml::Table, found: &mut BTreeSet<String>) {
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if !key.ends_with("dependencies") {
            collect(inner, found);
            continue;
        }
        for (name, wanted) in inner {
            let package = wanted.as_table().and_then(|wanted| wanted.get("package")?.as_str());
            found.insert(package.unwrap_or(name).to_owned());
        }
    }
}

/// Every Rust file of ours, relative to the workspace.
fn sources() -> Vec<(PathBuf, String)> {
    let rust = files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let sources: Vec<_> =
        rust.map(|path| (path.clone(), std::fs::read_to_string(root().join(path)).expect("UTF-8"))).collect();
    assert!(sources.len() > 100, "the walk found only {} files", sources.len());
    sources
}

/// The files of the repository, without what is built and what git keeps.
fn files() -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![root()]);
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(&dir).expect("read").map(|entry| entry.expect("entry")) {
            let kind = entry.file_type().expect("kind");
            if entry.file_name() == ".git" {
                continue;
            }
            // CACHEDIR.TAG: cargo writes it into every target directory, whatever its name is.
            if kind.is_dir() && entry.file_name() != "target" && !entry.path().join("CACHEDIR.TAG").exists() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(root()).expect("below").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Lines that are no comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Does the line use something of a crate?
fn is_path(line: &str, name: &str) -> bool {
    [format!("{name}::"), format!("use {name};"), format!("use {name} as ")].iter().any(|path| {
        line.match_indices(path.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    })
}

/// Is `word` in the line, and not as a part of a longer name?
fn is_word(line: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        !before.is_some_and(joins) && !after.is_some_and(joins)
    })
}
