//! What do the tests share?

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use sandbox::{BoxSpec, Footing, Job, OpenError, Outcome, Sandbox, Socket, docker_footings, footings};
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

/// Gives `check` a box over a fresh yard on the best footing of this host, with `CLOISTER_SLOW` on every one; prints which
/// there are not, and why.
pub fn everywhere(check: impl Fn(&Yard, &Sandbox)) {
    let all = std::env::var_os("CLOISTER_SLOW").is_some();
    let mut worked = 0;
    for footing in footings(None) {
        if worked > 0 && !all {
            eprintln!("SKIPPED: {footing}; set CLOISTER_SLOW to try every footing");
            continue;
        }
        worked += usize::from(on(&footing, &check));
    }
    let on_engine = engine().map(|socket| docker_footings(&socket)).unwrap_or_default();
    for footing in on_engine.into_iter().take(if all { usize::MAX } else { 1 }) {
        worked += usize::from(on(&footing, &check));
    }
    assert!(worked > 0 || Yard::new().open().is_none(), "boxes can be made here, but on no footing");
}

/// The engine to test with; `None`, with a line that says so, where none is named.
pub fn engine() -> Option<Socket> {
    let Ok(address) = std::env::var(ENGINE) else {
        eprintln!("SKIPPED: no engine; name its socket with {ENGINE}=unix:///path (deploy/test-docker.sh starts one)");
        return None;
    };
    Some(address.parse().expect("the address of an engine"))
}

const ENGINE: &str = "CLOISTER_TEST_DOCKER";

fn on(footing: &Footing, check: &impl Fn(&Yard, &Sandbox)) -> bool {
    let yard = Yard::new();
    match Sandbox::open_on_footing(&yard.spec(), footing.clone()) {
        Ok(sandbox) => {
            eprintln!("on {footing}");
            check(&yard, &sandbox);
            true
        }
        Err(OpenError::Refused(attempts)) => {
            attempts.iter().for_each(|attempt| eprintln!("SKIPPED: {attempt}"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Starts tests of this binary again as an ordinary user, who gets boxes on other footings; gives what they printed. `None`,
/// with a line that says so, where there is no other user to be.
pub fn as_nobody(tests: &[&str]) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65_534;
    let home = tempfile::tempdir().expect("home");
    let own = home.path().join("it");
    fs::copy(std::env::current_exe().expect("own path"), &own).expect("copy");
    for path in [home.path(), &own] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("mode");
    }
    let tmp = home.path().join("tmp");
    fs::create_dir(&tmp).expect("tmp");
    if std::os::unix::fs::chown(&tmp, Some(NOBODY), Some(NOBODY)).is_err() {
        eprintln!("SKIPPED: only root can become another user");
        return None;
    }
    let told = std::process::Command::new(&own)
        .args(tests)
        .arg("--nocapture")
        .env("TMPDIR", &tmp)
        // Who may speak to an engine is root.
        .env_remove(ENGINE)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    let told = match told {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("SKIPPED: another user cannot reach {}", home.path().display());
            return None;
        }
        told => told.expect("start"),
    };
    let text = String::from_utf8_lossy(&told.stdout) + String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{text}");
    text.lines().filter(|line| line.contains("SKIPPED")).for_each(|line| eprintln!("as nobody: {line}"));
    Some(text.into_owned())
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

/// The name of the box, other than `ours`, whose job or harness has made the file `started`.
pub fn wait_for_start(yard: &Yard, ours: &str) -> String {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(30) {
        for entry in fs::read_dir(yard.state()).expect("state").flatten() {
            let name = entry.file_name().into_string().expect("name");
            if name != ours && entry.path().join("layers/upper/started").exists() {
                return name;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("the child did not start its job");
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
