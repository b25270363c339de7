//! How long does another program take? A process without a shell, with a deadline and bounded output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Kept of what a program writes to its error stream.
const STDERR_BYTES_MAX: u64 = 16 * 1024;
/// Of /proc/*/stat. The kernel's interface fixes it at 100 wherever Linux runs.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a program did.
pub struct Ran {
    /// Its output, cut at the limit.
    pub stdout: Vec<u8>,
    /// Whether it was cut.
    pub truncated: bool,
    /// From the start to the last byte.
    pub seconds: f64,
    /// Of the program and what it waited for.
    pub cpu_seconds: f64,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// What was to be started.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It took too long and was killed.
    #[error("{program} did not end within {} s", .deadline.as_secs())]
    Deadline {
        /// What was started.
        program: String,
        /// The time it had.
        deadline: Duration,
    },
    /// It ended badly.
    #[error("{program} failed: {said}")]
    Failed {
        /// What was started.
        program: String,
        /// The end of what it wrote to its error stream.
        said: String,
    },
}

/// Whether a program of this name is on the search path.
pub fn is_installed(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    program.contains('/') && std::path::Path::new(program).is_file()
        || std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs a program to its end. Exit codes in `fine` are no failure. Its output beyond `bytes_max` is read and dropped.
pub fn run(command: &mut Command, deadline: Duration, bytes_max: u64, fine: &[i32]) -> Result<Ran, RunError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let cpu_before = children_cpu_seconds();
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| RunError::Start { program: program.clone(), source })?;
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (send, done) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        // An error here is the same as the end: what counts is how the program ends.
        let _ = stdout.by_ref().take(bytes_max).read_to_end(&mut kept);
        let dropped = std::io::copy(&mut stdout, &mut std::io::sink()).unwrap_or(0);
        let _ = send.send((kept, dropped > 0, Instant::now()));
    });
    let said = std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        kept
    });
    let ended = done.recv_timeout(deadline);
    if let Err(RecvTimeoutError::Timeout) = ended {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|source| RunError::Start { program: program.clone(), source })?;
    let Ok((stdout, truncated, end)) = ended else { return Err(RunError::Deadline { program, deadline }) };
    if !status.success() && !status.code().is_some_and(|code| fine.contains(&code)) {
        let said = said.join().unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let said = agent::text::sanitize(said.trim_end().lines().last().unwrap_or("no word").as_bytes(), 300).text;
        return Err(RunError::Failed { program, said });
    }
    let cpu_seconds = (children_cpu_seconds() - cpu_before).max(0.0);
    Ok(Ran { stdout, truncated, seconds: end.duration_since(begun).as_secs_f64(), cpu_seconds })
}

/// Processor time of the children that have ended and were waited for.
fn children_cpu_seconds() -> f64 {
    stat_seconds([15, 16])
}

/// Processor time of this process, without its children.
pub fn own_cpu_seconds() -> f64 {
    stat_seconds([13, 14])
}

/// The sum of two fields of /proc/self/stat, counted from 0, as `man 5 proc_pid_stat` names them.
fn stat_seconds(fields: [usize; 2]) -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in brackets that may hold anything.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let all: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| all.get(field - 2).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    fields.into_iter().map(ticks).sum::<f64>() / TICKS_PER_SECOND
}

/// The most memory that this process ever held, in MB of 1,000,000 bytes.
pub fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// The load of the machine: over 1, 5 and 15 minutes.
pub fn load_average() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_kept_up_to_the_limit_and_the_rest_is_counted_as_cut() {
        let ran = run(Command::new("printf").arg("abcdef"), SOON, 4, &[]).unwrap();
        assert_eq!((ran.stdout.as_slice(), ran.truncated), (b"abcd".as_slice(), true));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_at_its_deadline() {
        let begun = Instant::now();
        let ran = run(Command::new("sleep").arg("600"), Duration::from_millis(50), 10, &[]);
        assert!(matches!(ran, Err(RunError::Deadline { .. })));
        assert!(begun.elapsed() < SOON);
    }

    #[test]
    fn an_exit_code_is_a_failure_unless_it_is_named_as_fine() {
        assert!(matches!(run(&mut Command::new("false"), SOON, 10, &[]), Err(RunError::Failed { .. })));
        assert!(run(&mut Command::new("false"), SOON, 10, &[1]).is_ok());
        let absent = run(&mut Command::new("/nonexistent/program"), SOON, 10, &[]);
        assert!(matches!(absent, Err(RunError::Start { .. })));
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(peak_memory_mb().unwrap() > 1.0);
        assert!(own_cpu_seconds() >= 0.0);
    }
}
