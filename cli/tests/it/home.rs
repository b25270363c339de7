//! What do the tests share? A home of their own, a small repository, and the binary with its whole answer.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WAIT_SECONDS_MAX: u64 = 60;

/// A temporary $CLOISTER_HOME with a repository beside it.
pub struct Home {
    dir: TempDir,
}

/// Everything that the binary told.
#[derive(Debug)]
pub struct Told {
    /// The exit code; 128 and the signal's number after a signal, as a shell says it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Self {
        let home = Self { dir: TempDir::new().expect("temporary directory") };
        std::fs::create_dir_all(home.repo()).expect("repository");
        home
    }

    /// A repository whose one test fails until `add` adds.
    pub fn with_bug() -> Self {
        let home = Self::new();
        home.put("calc.py", BUG);
        home.put("test_calc.py", TEST);
        home
    }

    /// The repository's directory.
    pub fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// $CLOISTER_HOME.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A place for files that belong to neither.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of the repository, readable by everybody whatever the umask is.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.repo().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
        std::fs::write(&path, bytes).expect("write");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
    }

    /// A file of the repository as text.
    pub fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.repo().join(path)).expect("read")
    }

    /// The binary with these arguments, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloister"));
        command.args(args).env("CLOISTER_HOME", self.path()).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The binary, run to its end.
    pub fn cloister(&self, args: &[&str]) -> Told {
        self.command(args).output().expect("the binary starts").into()
    }

    /// `cloister run` on the repository with a model behind `url`.
    pub fn run(&self, url: &str, more: &[&str]) -> Told {
        self.run_command(url, more).output().expect("the binary starts").into()
    }

    /// As [`Home::run`], not yet started.
    pub fn run_command(&self, url: &str, more: &[&str]) -> Command {
        let repo = self.repo();
        let mut args = vec!["run", "make the failing test pass", "--url", url, "--repo", repo.to_str().expect("UTF-8")];
        args.extend(more);
        self.command(&args)
    }

    /// Names below $CLOISTER_HOME/`dir`; none where the directory is missing.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path().join(dir)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The newest session: of two in one second the names do not say which.
    #[track_caller]
    pub fn session(&self) -> String {
        let made = |id: &String| self.log(id).parent().and_then(|dir| dir.metadata().ok()?.created().ok());
        self.names("sessions").into_iter().max_by_key(made).expect("a session directory")
    }

    /// The log of a session.
    pub fn log(&self, id: &str) -> PathBuf {
        self.path().join("sessions").join(id).join("log.jsonl")
    }

    /// The records of one kind in the newest session's log.
    #[track_caller]
    pub fn records(&self, kind: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log(&self.session())).expect("a log");
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a record"));
        records.filter(|record| record["kind"] == kind).map(|record| record["body"].clone()).collect()
    }

    /// Nothing of a box is left: no directory, no mount.
    #[track_caller]
    pub fn assert_no_box(&self) {
        assert_eq!(self.names("boxes"), Vec::<String>::new(), "a box directory is left");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let here = self.path();
        assert!(!mounts.contains(here.to_str().expect("UTF-8")), "a mount is left:\n{mounts}");
    }

    /// Every path of the repository with its mode and bytes.
    pub fn snapshot(&self) -> Vec<(PathBuf, u32, Vec<u8>)> {
        snapshot(&self.repo())
    }
}

/// The failing program and its test.
pub const BUG: &str = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return add(a, a)\n";
/// The program as it should be.
pub const FIXED: &str = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return add(a, a)\n";
const TEST: &str = "import unittest\n\nfrom calc import add, double\n\n\nclass Calc(unittest.TestCase):\n    \
    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n\n    \
    def test_double(self):\n        self.assertEqual(double(4), 8)\n\n\nif __name__ == '__main__':\n    unittest.main()\n";

impl From<Output> for Told {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what the binary tells is UTF-8");
        let code = output.status.code().or_else(|| Some(128 + output.status.signal()?)).expect("it ended");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Told {
    /// Fails with everything that was told when the code is another.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }

    /// The events of a `--json` run: every line parses, is versioned and named.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let event = |line: &str| -> Value {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(event["v"], 1, "{line}");
            assert!(event["event"].is_string() && event["at_ms"].is_u64(), "{line}");
            event
        };
        self.out.lines().map(event).collect()
    }

    /// The one event of that name that a run has.
    #[track_caller]
    pub fn event(&self, name: &str) -> Value {
        let mut found: Vec<Value> = self.events().into_iter().filter(|event| event["event"] == name).collect();
        assert_eq!(found.len(), 1, "events named {name} in\n{}", self.out);
        found.remove(0)
    }

    /// Fails unless standard output holds `text`.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.out.contains(text), "`{text}` is not in\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }
}

/// Every path below `dir` with its mode and bytes; files above 1 MB by their length.
pub fn snapshot(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let (mut found, mut waiting) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let meta = entry.path().symlink_metadata().expect("stat");
            if meta.is_dir() {
                waiting.push(entry.path());
            }
            let small = meta.is_file() && meta.len() < 1 << 20;
            let bytes =
                if small { std::fs::read(entry.path()).unwrap_or_default() } else { meta.len().to_le_bytes().into() };
            found.push((entry.path(), meta.permissions().mode(), if meta.is_dir() { Vec::new() } else { bytes }));
        }
    }
    found.sort();
    found
}

/// False, with a line that says so, where no box can be made: the reason is this host's, not the code's.
pub fn boxes_work() -> bool {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    let why_not = WHY_NOT.get_or_init(|| {
        let home = Home::new();
        let told = home.cloister(&["doctor"]);
        (told.code != 0).then_some(told.out)
    });
    match why_not {
        None => true,
        Some(why) => {
            eprintln!("SKIPPED: no box can be made on this host:\n{why}");
            false
        }
    }
}

/// Waits until `done`; fails after a minute, with the name of what was awaited.
#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(WAIT_SECONDS_MAX), "waited {WAIT_SECONDS_MAX} s for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the end of a child, at most `seconds`; kills it and fails after that.
#[track_caller]
pub fn end_of(mut child: Child, seconds: u64) -> Told {
    let start = Instant::now();
    while child.try_wait().expect("wait").is_none() {
        if start.elapsed() > Duration::from_secs(seconds) {
            let _ = child.kill();
            let told = Told::from(child.wait_with_output().expect("output"));
            panic!("still running after {seconds} s\n--- out\n{}\n--- err\n{}", told.out, told.err);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("output").into()
}

/// Processes of this host, boxes included, whose command line holds `word`.
pub fn processes_with(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()));
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(word)).collect()
}
