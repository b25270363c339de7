//! What does this host show to its boxes, beside /usr? `$CLOISTER_HOME/box.toml`: toolchains and mirrors of packages.
//!
//! The file belongs to the host. A repository cannot name a directory: it would name one with secrets.

use crate::exit::Fatal;
use crate::state::State;
use sandbox::{Ecosystem, Mirror};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FORM: &str =
    "it has lines such as: toolchains = [\"/opt/node\"], and below [mirrors]: cargo, pip, npm, go = \"/a/directory\"";

/// What a project is told by, and the program that its tests need.
const NEEDED: [(&str, &str); 5] = [
    ("Cargo.toml", "cargo"),
    ("go.mod", "go"),
    ("package.json", "node"),
    ("pom.xml", "mvn"),
    ("build.gradle", "gradle"),
];

/// Directories that every box shows read-only, at the same paths.
#[derive(Debug, Default)]
pub struct Shown {
    /// What they have in `bin` is found first.
    pub toolchains: Vec<PathBuf>,
    /// Where package managers look.
    pub mirrors: Vec<Mirror>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    toolchains: Vec<PathBuf>,
    #[serde(default)]
    mirrors: BTreeMap<Ecosystem, PathBuf>,
}

impl Shown {
    /// Reads the file; where there is none, nothing is shown.
    pub fn load(state: &State) -> Result<Self, Fatal> {
        let path = path(state);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Fatal::config(anyhow::anyhow!("{}: {error}", path.display()), FORM)),
        };
        Self::parse(&text).map_err(|error| Fatal::config(error.context(path.display().to_string()), FORM))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        if let Some(dir) = file.toolchains.iter().find(|dir| !dir.is_absolute() || !dir.join("bin").is_dir()) {
            anyhow::bail!("{dir:?} is no toolchain: it must be an absolute path to a directory that has a `bin`");
        }
        let mirrors =
            file.mirrors.into_iter().map(|(whose, dir)| Mirror::open(whose, dir)).collect::<Result<_, _>>()?;
        Ok(Self { toolchains: file.toolchains, mirrors })
    }

    /// For each project file in `root`: the program that it needs and no box has.
    pub fn lacking(&self, root: &Path) -> Vec<&'static str> {
        let there = |(file, _): &&(&str, &str)| root.join(file).is_file();
        NEEDED.iter().filter(there).map(|(_, program)| *program).filter(|program| !self.has(program)).collect()
    }

    fn has(&self, program: &str) -> bool {
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let own = self.toolchains.iter().map(|dir| dir.join("bin"));
        usual.into_iter().chain(own).any(|dir| dir.join(program).is_file())
    }

    /// What is shown, in lines.
    pub fn tell(&self) -> Vec<String> {
        let mut told: Vec<String> = self.toolchains.iter().map(|dir| format!("toolchain {}", dir.display())).collect();
        told.extend(
            self.mirrors.iter().map(|mirror| format!("mirror    {}: {}", mirror.ecosystem(), mirror.dir().display())),
        );
        told
    }

    /// Lines for `cloister doctor`: which toolchains of this host are not shown, and how they would be. It starts a program.
    pub fn tell_what_is_not(&self, state: &State) -> Vec<String> {
        let mut told = Vec::new();
        for program in NEEDED.map(|(_, program)| program) {
            if self.has(program) {
                continue;
            }
            if let Some(dir) = found(program) {
                let line = format!("toolchains = [{:?}]", dir.display().to_string());
                told.push(format!("toolchain {program}: in {}, which boxes do not show", dir.display()));
                told.push(format!("          what to do: put {line} into {}", path(state).display()));
            }
        }
        told
    }
}

fn path(state: &State) -> PathBuf {
    state.home.join("box.toml")
}

/// The toolchain that has `program`, found by this process' PATH.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let file = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())?;
    let file = file.canonicalize().ok()?;
    // rustup's programs stand for those of a toolchain elsewhere.
    let dir = if file.file_name()? == "rustup" { sysroot()? } else { file.parent()?.parent()?.to_owned() };
    dir.join("bin").join(program).is_file().then_some(dir)
}

fn sysroot() -> Option<PathBuf> {
    let told = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let dir = String::from_utf8(told.stdout).ok()?;
    told.status.success().then(|| PathBuf::from(dir.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_names_what_is_not_there_or_nobody_knows_is_refused() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let error = Shown::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        check("toolchain = []", "unknown field `toolchain`");
        check("toolchains = ['/none']", "\"/none\" is no toolchain");
        check("toolchains = ['usr']", "\"usr\" is no toolchain");
        check("[mirrors]\nmaven = '/usr'", "unknown variant `maven`");
        check("[mirrors]\npip = '/none'", "\"/none\" is no mirror for pip");
        assert!(Shown::parse("").unwrap().mirrors.is_empty());
        assert_eq!(Shown::parse("toolchains = ['/usr']").unwrap().toolchains, [Path::new("/usr")]);
    }

    #[test]
    fn a_project_is_told_which_program_no_box_has() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(dir.path().join("bin/cargo"), "").unwrap();
        let shown = Shown { toolchains: vec![dir.path().to_owned()], mirrors: Vec::new() };
        assert_eq!(shown.lacking(dir.path()), [""; 0]);
        let usual = Path::new("/usr/bin/cargo").exists() || Path::new("/usr/local/bin/cargo").exists();
        assert_eq!(Shown::default().lacking(dir.path()).is_empty(), usual);
    }
}
