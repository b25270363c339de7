//! What can a job install where there is no network?
//!
//! A directory of the host that holds packages, shown read-only, and the settings by which the package manager looks there
//! and nowhere else. Where it finds nothing it says so at once, in words from which [`missing`] reads the package; what is there
//! under a similar name is read off the directory.

use std::fs;
use std::path::{Path, PathBuf};

/// Whose packages a mirror holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecosystem {
    /// A directory that `cargo vendor` made, or the `registry` of a CARGO_HOME.
    Cargo,
    /// Wheels and source archives, as `pip download` leaves them.
    Pip,
    /// A cache that `npm ci` filled; it holds a directory `_cacache`.
    Npm,
    /// `$GOMODCACHE/cache/download`.
    Go,
}

/// Packages of one ecosystem on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    ecosystem: Ecosystem,
    dir: PathBuf,
}

/// Why a directory is no mirror.
#[derive(Debug, thiserror::Error)]
#[error("{dir:?} is no mirror for {ecosystem}: it must be an absolute path to {expected}")]
pub struct MirrorError {
    dir: PathBuf,
    ecosystem: Ecosystem,
    expected: &'static str,
}

/// Where cargo looks last for what is configured, in the root file system.
pub(crate) const CARGO_CONFIG: &str = ".cargo/config.toml";
/// Names told as similar at most.
const SIMILAR_MAX: usize = 8;
/// Names of a directory that are looked at, at most.
const NAMES_MAX: usize = 100_000;
/// Bytes of output that are searched for a missing package, from the end.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

impl std::fmt::Display for Ecosystem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Ecosystem::Cargo => "cargo",
            Ecosystem::Pip => "pip",
            Ecosystem::Npm => "npm",
            Ecosystem::Go => "go",
        })
    }
}

impl Mirror {
    /// A mirror in `dir`, which must look like one.
    pub fn open(ecosystem: Ecosystem, dir: impl Into<PathBuf>) -> Result<Mirror, MirrorError> {
        let dir = dir.into();
        let (there, expected) = match ecosystem {
            Ecosystem::Cargo => (
                is_registry(&dir) || names(&dir).any(|name| dir.join(name).join(".cargo-checksum.json").is_file()),
                "a directory that `cargo vendor` made, or to the directory `registry` of a CARGO_HOME",
            ),
            Ecosystem::Pip => (names(&dir).any(|name| is_archive(&name)), "a directory with wheels or source archives"),
            Ecosystem::Npm => (dir.join("_cacache").is_dir(), "a cache of npm, which holds a directory `_cacache`"),
            Ecosystem::Go => {
                (names(&dir).any(|name| dir.join(name).is_dir()), "the directory `cache/download` of a GOMODCACHE")
            }
        };
        if dir.is_absolute() && there {
            Ok(Mirror { ecosystem, dir })
        } else {
            Err(MirrorError { dir, ecosystem, expected })
        }
    }

    /// Whose packages it holds.
    pub fn ecosystem(&self) -> Ecosystem {
        self.ecosystem
    }

    /// Where it is, on the host and in the box.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The variables by which the package manager looks here.
    pub(crate) fn env(&self) -> Option<(&'static str, String)> {
        let dir = self.dir.to_string_lossy();
        match self.ecosystem {
            Ecosystem::Cargo if is_registry(&self.dir) => {
                Some(("CARGO_HOME", self.dir.parent().unwrap_or(&self.dir).to_string_lossy().into_owned()))
            }
            // By the file in the root; cargo reads no sources out of variables.
            Ecosystem::Cargo => None,
            Ecosystem::Pip => Some(("PIP_FIND_LINKS", dir.into_owned())),
            Ecosystem::Npm => Some(("npm_config_cache", dir.into_owned())),
            Ecosystem::Go => Some(("GOPROXY", format!("file://{dir}"))),
        }
    }

    /// A file of the root file system: cargo reads `.cargo/config.toml` in every directory up to the root.
    pub(crate) fn root_file(&self) -> Option<(&'static str, String)> {
        if self.ecosystem != Ecosystem::Cargo || is_registry(&self.dir) {
            return None;
        }
        let dir = serde_json::to_string(&self.dir.to_string_lossy()).expect("text is JSON");
        let replace = "[source.crates-io]\nreplace-with = \"mirror\"\n";
        Some((CARGO_CONFIG, format!("{replace}\n[source.mirror]\ndirectory = {dir}\n")))
    }

    /// Names in it like `package`, the likest first.
    fn similar(&self, package: &str) -> Vec<String> {
        let wanted = plain(package);
        let start = |name: &str| name.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
        let mut found: Vec<(usize, String)> = self
            .packages()
            .into_iter()
            .filter_map(|name| {
                let known = plain(&name);
                let alike =
                    if known.contains(&wanted) || wanted.contains(&known) { wanted.len() } else { start(&known) };
                (alike >= 3.min(wanted.len())).then_some((alike, name))
            })
            .collect();
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.len().cmp(&b.1.len())).then(a.1.cmp(&b.1)));
        found.dedup();
        found.into_iter().take(SIMILAR_MAX).map(|(_, name)| name).collect()
    }

    /// What is there, with versions where the names tell them.
    fn packages(&self) -> Vec<String> {
        match self.ecosystem {
            Ecosystem::Cargo if is_registry(&self.dir) => {
                let sources = self.dir.join("cache");
                let crates = names(&sources).flat_map(|host| names(&sources.join(host)).collect::<Vec<_>>());
                crates.filter_map(|name| name.strip_suffix(".crate").map(str::to_owned)).collect()
            }
            Ecosystem::Cargo => names(&self.dir).collect(),
            Ecosystem::Pip => {
                names(&self.dir).filter(|name| is_archive(name)).map(|name| name_and_version(&name)).collect()
            }
            // Both keep packages below hashes or hosts; their own words name what is missing.
            Ecosystem::Npm | Ecosystem::Go => Vec::new(),
        }
    }
}

/// What holds without any mirror: package managers do not try a network that is not there.
pub(crate) const OFFLINE: [(&str, &str); 7] = [
    ("CARGO_NET_OFFLINE", "true"),
    ("PIP_NO_INDEX", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("npm_config_offline", "true"),
    ("npm_config_update_notifier", "false"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
];

/// What a job asked for that is not on this host, in one line, when its output says so.
pub fn missing(output: &[u8], mirrors: &[Mirror]) -> Option<String> {
    let output = String::from_utf8_lossy(&output[output.len().saturating_sub(OUTPUT_BYTES_MAX)..]);
    let (ecosystem, package) = asked_for(&output)?;
    let available = match mirrors.iter().find(|mirror| mirror.ecosystem == ecosystem) {
        None => format!("nothing, because this host shows no mirror for {ecosystem}"),
        Some(mirror) => match mirror.similar(&package) {
            similar if similar.is_empty() => format!("nothing like it in the mirror {}", mirror.dir.display()),
            similar => similar.join(", "),
        },
    };
    Some(format!("not available offline: {package}; available: {available}"))
}

/// Whose package is missing, and which.
fn asked_for(output: &str) -> Option<(Ecosystem, String)> {
    /// Before the name, after it, and a word that tells this message from others.
    const SAID: [(Ecosystem, &str, &str, &str); 7] = [
        (Ecosystem::Cargo, "no matching package named `", "`", "error"),
        (Ecosystem::Cargo, "failed to select a version for the requirement `", " ", "error"),
        (Ecosystem::Cargo, "failed to download `", "`", "offline"),
        (Ecosystem::Cargo, "unable to update registry `", "`", "offline"),
        (Ecosystem::Pip, "No matching distribution found for ", "\n", "ERROR"),
        (Ecosystem::Npm, "request to ", " failed: cache mode is", "ENOTCACHED"),
        (Ecosystem::Go, "go: ", ": module lookup disabled", "GOPROXY=off"),
    ];
    SAID.into_iter().filter(|(.., sign)| output.contains(sign)).find_map(|(ecosystem, before, after, _)| {
        let package = output.match_indices(before).find_map(|(at, _)| {
            let rest = output[at + before.len()..].lines().next()?;
            rest.split_once(after.trim_end_matches('\n'))
                .map_or((after == "\n").then_some(rest), |(name, _)| Some(if after == "\n" { rest } else { name }))
        })?;
        // Of npm's address the last part.
        let package = if ecosystem == Ecosystem::Npm {
            package.rsplit('/').next()?.replace("%2f", "/")
        } else {
            package.to_owned()
        };
        let known = !package.is_empty() && package.len() <= 200 && !package.chars().any(char::is_control);
        known.then(|| (ecosystem, package.trim().to_owned()))
    })
}

fn is_registry(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == "registry") && dir.join("cache").is_dir() && dir.join("index").is_dir()
}

fn is_archive(name: &str) -> bool {
    [".whl", ".tar.gz", ".zip"].iter().any(|end| name.ends_with(end))
}

fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(NAMES_MAX);
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// `requests-2.31.0-py3-none-any.whl` is requests 2.31.0, and so is `requests-2.31.0.tar.gz`.
fn name_and_version(file: &str) -> String {
    let stem = [".whl", ".tar.gz", ".zip"].iter().find_map(|end| file.strip_suffix(end)).unwrap_or(file);
    let mut parts = stem.split('-');
    let name = parts.next().unwrap_or(stem);
    parts.next().map_or(name.to_owned(), |version| format!("{name} {version}"))
}

/// A name as package indexes compare them, without what a requirement says of versions.
fn plain(package: &str) -> String {
    let name =
        package.split([' ', '=', '<', '>', '~', '!', '[', ';', '@']).find(|part| !part.is_empty()).unwrap_or(package);
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn made(ecosystem: Ecosystem, files: &[&str]) -> (tempfile::TempDir, Result<Mirror, MirrorError>) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let root = if files.iter().any(|file| file.starts_with("registry/")) { "registry" } else { "" };
        let mirror = Mirror::open(ecosystem, dir.path().join(root).components().collect::<PathBuf>());
        (dir, mirror)
    }

    #[test]
    fn a_directory_that_does_not_look_like_a_mirror_is_refused_with_what_it_should_be() {
        for (ecosystem, word) in [
            (Ecosystem::Cargo, "cargo vendor"),
            (Ecosystem::Pip, "wheels"),
            (Ecosystem::Npm, "_cacache"),
            (Ecosystem::Go, "GOMODCACHE"),
        ] {
            let (_dir, refused) = made(ecosystem, &["a.txt"]);
            assert!(refused.unwrap_err().to_string().contains(word));
            assert!(Mirror::open(ecosystem, "none").is_err());
        }
    }

    #[test]
    fn each_package_manager_is_told_where_to_look() {
        let (dir, mirror) = made(Ecosystem::Cargo, &["serde/.cargo-checksum.json"]);
        let mirror = mirror.unwrap();
        assert_eq!(mirror.env(), None);
        let (path, text) = mirror.root_file().unwrap();
        assert_eq!(path, ".cargo/config.toml");
        assert!(text.contains(&format!("directory = \"{}\"", dir.path().display())), "{text}");

        let (dir, mirror) = made(Ecosystem::Cargo, &["registry/cache/h/serde-1.0.0.crate", "registry/index/h/x"]);
        let mirror = mirror.unwrap();
        assert_eq!(mirror.env(), Some(("CARGO_HOME", dir.path().display().to_string())));
        assert_eq!(mirror.root_file(), None);

        let (dir, mirror) = made(Ecosystem::Go, &["example.invalid/text/@v/list"]);
        assert_eq!(mirror.unwrap().env(), Some(("GOPROXY", format!("file://{}", dir.path().display()))));
    }

    #[test]
    fn what_a_package_manager_misses_is_told_with_what_is_there_instead() {
        #[track_caller]
        fn check(mirrors: &[Mirror], output: &str, expected: Option<&str>) {
            assert_eq!(missing(output.as_bytes(), mirrors).as_deref(), expected, "{output}");
        }
        let (_wheels, pip) =
            made(Ecosystem::Pip, &["requests-2.31.0-py3-none-any.whl", "flask-3.0.0.tar.gz", "readme.txt"]);
        let (_vendor, cargo) =
            made(Ecosystem::Cargo, &["serde_json/.cargo-checksum.json", "serde/.cargo-checksum.json"]);
        let mirrors = [pip.unwrap(), cargo.unwrap()];
        check(
            &mirrors,
            "ERROR: Could not find a version that satisfies the requirement requests==3 (from versions: 2.31.0)\n\
             ERROR: No matching distribution found for requests==3\n",
            Some("not available offline: requests==3; available: requests 2.31.0"),
        );
        check(
            &mirrors,
            "error: no matching package named `serde_yaml` found\nlocation searched: directory source",
            Some("not available offline: serde_yaml; available: serde, serde_json"),
        );
        check(
            &[],
            "error: failed to download `tokio v1.40.0`\n  attempting to make an HTTP request, but --offline was specified",
            Some(
                "not available offline: tokio v1.40.0; available: nothing, because this host shows no mirror for cargo",
            ),
        );
        check(
            &[],
            "npm error code ENOTCACHED\nnpm error request to https://mirror.invalid/left-pad failed: cache mode is 'only-if-cached' but",
            Some("not available offline: left-pad; available: nothing, because this host shows no mirror for npm"),
        );
        check(
            &[],
            "go: example.invalid/text@v0.3.0: module lookup disabled by GOPROXY=off",
            Some(
                "not available offline: example.invalid/text@v0.3.0; available: nothing, because this host shows no mirror for go",
            ),
        );
        check(
            &mirrors,
            "ERROR: No matching distribution found for numpy\n",
            Some(&format!(
                "not available offline: numpy; available: nothing like it in the mirror {}",
                mirrors[0].dir().display()
            )),
        );
        check(&mirrors, "FAILED test_request.py - AssertionError\n", None);
        check(&mirrors, "ERROR: No matching distribution found for \u{1b}[2J\n", None);
    }
}
