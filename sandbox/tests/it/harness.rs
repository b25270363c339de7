//! What do the tests share?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sandbox::{BoxSpec, Job, OpenError, Outcome, Sandbox};
use tempfile::TempDir;

/// A small repository and a place for boxes.
pub struct Yard {
    dir: TempDir,
}

impl Yard {
    pub fn new() -> Yard {
        let dir = TempDir::new().expect("temporary directory");
        let yard = Yard { dir };
        fs::create_dir_all(yard.repo().join("src")).expect("repository");
        yard.put("README.md", "read me\n");
        yard.put("src/main.py", "print('one')\n");
        yard.put("src/util.py", "x = 1\n");
        yard
    }

    pub fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("boxes")
    }

    pub fn put(&self, path: &str, text: &str) {
        write_for_all(&self.repo().join(path), text);
    }

    pub fn spec(&self) -> BoxSpec {
        BoxSpec { label: "test".into(), ..BoxSpec::new(self.repo(), self.state()) }
    }

    /// `None`, with a line that says so, where no box can be made: the reason is this host's, not the code's.
    pub fn open(&self) -> Option<Sandbox> {
        open(self.spec())
    }
}

/// Whatever the umask is.
pub fn write_for_all(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("mode");
}

pub fn open(spec: BoxSpec) -> Option<Sandbox> {
    match Sandbox::open(spec) {
        Ok(sandbox) => Some(sandbox),
        Err(error @ (OpenError::NoRuntime { .. } | OpenError::NoNamespaces { .. })) => {
            eprintln!("SKIPPED: no box can be made on this host: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a shell script to its end.
#[track_caller]
pub fn sh(sandbox: &Sandbox, script: &str) -> Outcome {
    run(sandbox, &Job::new(["/bin/sh", "-c", script]))
}

#[track_caller]
pub fn run(sandbox: &Sandbox, job: &Job) -> Outcome {
    sandbox.run(job, &AtomicBool::new(false)).expect("the job runs")
}

pub fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// Every file below `dir` with its bytes and mode, for before-and-after comparisons.
pub fn snapshot(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    use std::os::unix::fs::PermissionsExt;
    let mut files = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("read").flatten() {
            let meta = fs::symlink_metadata(entry.path()).expect("stat");
            if meta.is_dir() {
                waiting.push(entry.path());
            }
            let bytes = if meta.is_file() { fs::read(entry.path()).expect("read") } else { Vec::new() };
            files.push((entry.path(), meta.permissions().mode(), bytes));
        }
    }
    files.sort();
    files
}
