//! How does process 1 of a warm box run its jobs?
//!
//! One at a time. When the job's own process has ended, everything else in the box is killed and reaped before the answer
//! goes out. When the harness is gone, so is this process, and with it, as it leads the process-id namespace, every other.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::sys;
use crate::wall::Wall;
use crate::wire::{Answer, ORDER_BYTES_MAX, Order, STREAMS};

const NOT_FOUND: u8 = 127;
const NOT_A_PROGRAM: u8 = 126;
/// The error of a file that is executable but in no format that the kernel knows.
const ENOEXEC: i32 = 8;

/// Runs jobs until the harness closes the socket, which is standard input.
pub fn serve() -> i32 {
    match try_serve() {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn try_serve() -> io::Result<()> {
    sys::be_undumpable()?;
    let mut harness = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let ended = sys::children_ended()?;
    harness.write_all(&Answer::READY.encode())?;
    while let Some((order, streams)) = next(&mut harness)? {
        let code = match start(&order, streams) {
            Err(code) => code,
            Ok(pid) => match wait(pid, harness.as_fd(), ended.as_fd()) {
                Some(code) => code,
                None => return Ok(()),
            },
        };
        bury_all();
        harness.write_all(&Answer { number: order.number, code }.encode())?;
    }
    Ok(())
}

/// Becomes the job, with the directory, the variables and the streams that this process was given.
pub fn become_one(job: &[&str]) -> i32 {
    let walled = Wall::build().and_then(|wall| wall.as_ref().map_or(Ok(()), Wall::raise));
    let error = match (walled, job) {
        (Ok(()), [program, words @ ..]) => Command::new(program).args(words).exec(),
        (Ok(()), []) => io::ErrorKind::InvalidInput.into(),
        (Err(error), _) => error,
    };
    eprintln!("box: the job could not be shut in and started: {error}");
    NOT_A_PROGRAM.into()
}

/// The next order with its streams; `None` when there will be none.
fn next(harness: &mut File) -> io::Result<Option<(Order, [OwnedFd; STREAMS])>> {
    let mut length = [0; 4];
    let (count, streams) = sys::receive(harness.as_fd(), &mut length)?;
    if count == 0 {
        return Ok(None);
    }
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let streams = streams.try_into().map_err(|_| wrong())?;
    harness.read_exact(&mut length[count..])?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > ORDER_BYTES_MAX {
        return Err(wrong());
    }
    let mut bytes = vec![0; length];
    harness.read_exact(&mut bytes)?;
    let order = Order::decode(&bytes).ok_or_else(wrong)?;
    Ok(Some((order, streams)))
}

fn start(order: &Order, streams: [OwnedFd; STREAMS]) -> Result<u32, u8> {
    let [stdin, stdout, stderr] = streams;
    let spawn = |argv: &[&str]| -> io::Result<u32> {
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).current_dir(&order.cwd).env_clear();
        command.envs(order.env.iter().filter_map(|variable| variable.split_once('=')));
        command.stdin(Stdio::from(stdin.try_clone()?)).stdout(Stdio::from(stdout.try_clone()?));
        command.stderr(Stdio::from(stderr.try_clone()?));
        let wall = Wall::build()?;
        // SAFETY: between fork and exec the closure makes three system calls; this process has one thread and so no lock.
        unsafe {
            command.pre_exec(move || {
                sys::begin_job()?;
                wall.as_ref().map_or(Ok(()), Wall::raise)
            })
        };
        Ok(command.spawn()?.id())
    };
    let argv: Vec<&str> = order.argv.iter().map(String::as_str).collect();
    let answer = match spawn(&argv) {
        // A script without an interpreter's name is the shell's, as it is everywhere.
        Err(error) if error.raw_os_error() == Some(ENOEXEC) => {
            spawn(&[&["/bin/sh", "-c", "\"$@\"; exit $?", "box"], &argv[..]].concat())
        }
        answer => answer,
    };
    answer.map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let why = if missing { "not found".to_owned() } else { error.to_string() };
        let _ = writeln!(File::from(stderr), "box: {}: {why}", argv[0]);
        if missing { NOT_FOUND } else { NOT_A_PROGRAM }
    })
}

/// The exit code of process `pid`; `None` when the harness went away or spoke out of turn.
fn wait(pid: u32, harness: BorrowedFd<'_>, ended: BorrowedFd<'_>) -> Option<u8> {
    loop {
        let (spoke, child) = sys::either_readable(harness, ended);
        if spoke {
            return None;
        }
        if !child {
            continue;
        }
        // What is read says only that somebody ended; one signal can stand for many.
        let _ = File::from(ended.try_clone_to_owned().ok()?).read(&mut [0; 128]);
        while let Some((gone, code)) = sys::reap(false) {
            if gone == pid {
                return Some(code);
            }
        }
    }
}

/// Kills and reaps until nobody is left: an orphan of an orphan becomes our child too.
fn bury_all() {
    sys::kill_all();
    while sys::reap(true).is_some() {
        sys::kill_all();
    }
}
