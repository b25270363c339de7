//! A view in a temporary directory whose commands run on this host: for tests of the verifier, with code of our own.

use crate::workspace::{Change, Command, Ended, Entry, Ran, Workspace, WorkspaceError};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Path to text.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Files of a base, and a directory that holds them as they are now.
pub struct Directory {
    base: Files,
    root: tempfile::TempDir,
    home: tempfile::TempDir,
}

/// The directory of a `python3` that is no shim; `None` without Python.
pub fn python() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let asked =
            std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
        PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim()).parent().map(Path::to_owned)
    };
    FOUND.get_or_init(find).as_deref()
}

/// The directory of the cargo that runs these tests, which is no shim.
pub fn cargo() -> Option<PathBuf> {
    PathBuf::from(std::env::var_os("CARGO")?).parent().map(Path::to_owned)
}

/// The packages of JavaScript that tests may use: a `node_modules` that lies elsewhere.
pub fn modules() -> Option<PathBuf> {
    std::env::var_os("CLOISTER_TEST_JS_MODULES").map(PathBuf::from)
}

/// Says so and gives false where there are none.
pub fn modules_work() -> bool {
    modules().is_some() || lacks("CLOISTER_TEST_JS_MODULES names no node_modules with jest, vitest and mocha")
}

/// Says what is not there; a run that asked for the slow tests has to have it.
pub fn lacks(what: &str) -> bool {
    assert!(std::env::var_os("CLOISTER_SLOW").is_none(), "{what}: run deploy/test.sh, which installs it");
    eprintln!("skipped: {what}");
    false
}

/// Says so and gives false where only what is quick is to run.
pub fn slow() -> bool {
    let slow = std::env::var_os("CLOISTER_SLOW").is_some();
    if !slow {
        eprintln!("skipped: it takes a minute; CLOISTER_SLOW=1 runs it");
    }
    slow
}

/// Says so and gives false where a program is not there.
pub fn works(program: &str, argument: &str) -> bool {
    let asked = std::process::Command::new(program).arg(argument).env("PATH", "/usr/bin:/bin").output();
    let there = asked.is_ok_and(|asked| asked.status.success());
    if !there {
        eprintln!("skipped: there is no {program} in /usr/bin of this host");
    }
    there
}

/// Says so and gives false where there is no Python.
pub fn python_works() -> bool {
    if python().is_none() {
        eprintln!("skipped: there is no python3 on this host");
    }
    python().is_some()
}

impl Directory {
    /// A repository with these files.
    pub fn with(base: Files) -> Self {
        let [root, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut view = Self { base: Files::new(), root, home };
        for (path, bytes) in &base {
            view.write(path, bytes).unwrap();
        }
        if base.contains_key("package.json") {
            view.install();
        }
        view.base = base;
        view
    }

    /// Installs the packages, each as a link.
    fn install(&self) {
        let Some(modules) = modules() else { return };
        for dir in ["", ".bin"] {
            std::fs::create_dir(self.at("node_modules").join(dir)).unwrap();
            for package in std::fs::read_dir(modules.join(dir)).unwrap().flatten() {
                let name = package.file_name().into_string().unwrap();
                if !name.starts_with('.') {
                    std::os::unix::fs::symlink(package.path(), self.at("node_modules").join(dir).join(name)).unwrap();
                }
            }
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn all(&self) -> Files {
        let mut files = Files::new();
        let mut dirs = vec![self.root.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    dirs.push(entry.path());
                } else if let Ok(bytes) = std::fs::read(entry.path())
                    && kind.is_file()
                {
                    let path = entry.path().strip_prefix(self.root.path()).unwrap().to_str().unwrap().to_owned();
                    files.insert(path, bytes);
                }
            }
        }
        files
    }
}

impl Workspace for Directory {
    fn read(&self, path: &str) -> Result<Vec<u8>, WorkspaceError> {
        std::fs::read(self.at(path)).map_err(|_| WorkspaceError::NotFound { path: path.into() })
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
        let at = self.at(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        if at.is_symlink() {
            std::fs::remove_file(&at).unwrap();
        }
        std::fs::write(&at, bytes).unwrap();
        if bytes.starts_with(b"#!") {
            std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), WorkspaceError> {
        std::fs::remove_file(self.at(path)).map_err(|_| WorkspaceError::NotFound { path: path.into() })
    }

    fn revert(&mut self, path: &str) -> Result<(), WorkspaceError> {
        match self.base.get(path).cloned() {
            Some(bytes) => self.write(path, &bytes),
            None => self.remove(path),
        }
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>, WorkspaceError> {
        let entries = std::fs::read_dir(self.at(dir)).map_err(|_| WorkspaceError::NotFound { path: dir.into() })?;
        let entry = |entry: std::fs::DirEntry| Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            directory: entry.path().is_dir(),
        };
        Ok(entries.flatten().map(entry).collect())
    }

    fn walk(&self) -> Result<Vec<String>, WorkspaceError> {
        Ok(self
            .all()
            .into_keys()
            .filter(|path| !path.contains("__pycache__") && !path.starts_with("target/"))
            .collect())
    }

    fn run(&mut self, command: &Command, _: &AtomicBool) -> Result<Ran, WorkspaceError> {
        let own = python().map(Path::to_owned).into_iter().chain(cargo());
        let own: String = own.map(|dir| format!("{}:", dir.display())).collect();
        let output = tempfile::tempfile().unwrap();
        let started = Instant::now();
        let child = std::process::Command::new(&command.argv[0])
            .args(&command.argv[1..])
            .current_dir(self.root.path())
            .env_clear()
            .env("PATH", format!("{own}/usr/bin:/bin"))
            .env("LANG", "C.UTF-8")
            .env("HOME", self.home.path())
            .env("GOCACHE", std::env::temp_dir().join("cloister-go-cache"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(command.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output.try_clone().unwrap())
            .spawn();
        let Ok(mut child) = child else {
            let output = b"no such program".to_vec();
            return Ok(Ran { ended: Ended::Exited(127), output, errors: Vec::new(), seconds: 0.0 });
        };
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if started.elapsed() > command.seconds_max => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(3)),
            }
        };
        let ended = match status.map(|status| status.code()) {
            Some(Some(code)) => Ended::Exited(code),
            Some(None) => Ended::Stopped("killed by a signal".into()),
            None => Ended::Stopped(format!("killed: still running after {} s", command.seconds_max.as_secs())),
        };
        let mut bytes = Vec::new();
        let mut output = output;
        std::io::Seek::rewind(&mut output).unwrap();
        std::io::Read::read_to_end(&mut output, &mut bytes).unwrap();
        Ok(Ran { ended, output: bytes, errors: Vec::new(), seconds: started.elapsed().as_secs_f64() })
    }

    fn changes(&self) -> Result<Vec<Change>, WorkspaceError> {
        let now = self.all();
        let paths: std::collections::BTreeSet<&String> = self.base.keys().chain(now.keys()).collect();
        let change = |path: &String| Change {
            path: path.clone(),
            before: self.base.get(path).cloned(),
            after: now.get(path).cloned(),
        };
        Ok(paths.into_iter().map(change).filter(|change| change.before != change.after).collect())
    }

    fn fresh(&self) -> Result<Box<dyn Workspace>, WorkspaceError> {
        Ok(Box::new(Self::with(self.base.clone())))
    }
}
