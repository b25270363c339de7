//! What do the commands and scripts do that others recorded, if nobody judges them before?

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use sandbox::{Job, Limits};

use crate::harness::{everywhere, snapshot};

/// Where the scripts of the shared list send what they find.
const SINK_PORT: u16 = 5758;
/// What a script that wants to stay or to rise would change.
const WATCHED: [&str; 12] = [
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/sudoers",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/crontab",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/ld.so.preload",
    "/etc/rc.local",
    "/usr/bin/env",
];

/// The texts of one field of a file of the shared cases; none when they are not on this machine.
fn recorded(file: &str, field: &str) -> Vec<String> {
    let fixed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let cases = std::env::var_os("CLOISTER_CASES").map_or(fixed, PathBuf::from);
    let Ok(text) = fs::read_to_string(cases.join("shell").join(file)) else {
        eprintln!("SKIPPED: no shell/{file} in CLOISTER_CASES or ../../shared/cases");
        return Vec::new();
    };
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    text.lines().map(|text| line(text)[field].as_str().expect("text").to_owned()).collect()
}

fn watched() -> Vec<(PathBuf, Option<Vec<u8>>, Option<u32>)> {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).ok().map(|meta| meta.permissions().mode());
    WATCHED.iter().map(PathBuf::from).map(|path| (path.clone(), fs::read(&path).ok(), mode(&path))).collect()
}

/// Runs each text as a script, all over one workspace, and looks at the host afterwards.
fn unleash(scripts: &[String]) {
    if scripts.is_empty() {
        return;
    }
    everywhere(|yard, sandbox| {
        let canary = tempfile::tempdir().expect("canary");
        fs::write(canary.path().join("key"), "canary").expect("file");
        yard.put(".env", "TOKEN=canary\n");
        let tcp =
            TcpListener::bind(("127.0.0.1", SINK_PORT)).or_else(|_| TcpListener::bind("127.0.0.1:0")).expect("sink");
        let udp = UdpSocket::bind(("127.0.0.1", SINK_PORT)).or_else(|_| UdpSocket::bind("127.0.0.1:0")).expect("sink");
        let mut bystander = Command::new("sleep").arg("3600").spawn().expect("a process that must live");
        let before = (snapshot(&yard.repo()), snapshot(canary.path()), watched());

        let limits = Limits { seconds_max: 5.0, memory_bytes_max: 256 << 20, pids_max: 128, ..Limits::DEFAULT };
        let mut endings = std::collections::BTreeMap::new();
        for script in scripts {
            let job = Job {
                limits: Some(limits.clone()),
                stdin: Some(script.clone().into()),
                ..Job::new(["/bin/bash", "-s"])
            };
            // A script can also take the workspace away from under the next one; that is no harm to the host.
            let ending =
                sandbox.run(&job, &AtomicBool::new(false)).map_or("refused".into(), |ran| format!("{:?}", ran.ending));
            *endings.entry(ending).or_insert(0) += 1;
        }
        eprintln!("{} scripts: {endings:?}", scripts.len());

        assert_eq!((snapshot(&yard.repo()), snapshot(canary.path()), watched()), before, "something outside changed");
        assert!(bystander.try_wait().expect("wait").is_none(), "a process of the host was killed");
        bystander.kill().and_then(|()| bystander.wait().map(drop)).expect("kill");
        tcp.set_nonblocking(true).expect("set");
        udp.set_nonblocking(true).expect("set");
        assert_eq!(tcp.accept().map(drop).expect_err("nobody calls").kind(), ErrorKind::WouldBlock);
        assert_eq!(udp.recv(&mut [0; 8]).expect_err("nothing arrives").kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn no_recorded_attack_script_changes_or_tells_anything_outside() {
    unleash(&recorded("attack_scripts.jsonl", "script"));
}

#[test]
fn no_recorded_command_changes_or_tells_anything_outside_although_nobody_judged_it() {
    if std::env::var_os("CLOISTER_SLOW").is_none() {
        eprintln!("SKIPPED: the 222 recorded commands run with CLOISTER_SLOW");
        return;
    }
    unleash(&recorded("commands.jsonl", "command"));
}
