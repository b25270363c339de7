//! What runs in a warm box, or beside it, that is ours?
//!
//! One static program with three parts to play. `init` is process 1 of a warm box: it starts the jobs, as powerless as they
//! are. `shut` becomes the one job of another box, behind the same [`wall`].
//! `keeper` stays outside, in the box's user namespace: it puts a workspace into the box before a job and takes it out
//! afterwards. There is no Rust `main`: its runtime would ignore SIGPIPE, which jobs would inherit, and catch signals, which
//! process 1 must not do: a process-id namespace shields it only from signals that it does not catch.

#![no_main]

mod jobs;
mod keeper;
mod sys;
mod wall;
#[allow(dead_code, reason = "the harness encodes what is decoded here, and the other way round")]
mod wire;

/// What the command line must have been; nobody but the harness starts this.
const USAGE_ERROR: i32 = 64;

#[unsafe(no_mangle)]
extern "C" fn main(_count: i32, _words: *const *const u8) -> i32 {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["init"] => jobs::serve(),
        ["shut", ref job @ ..] => jobs::become_one(job),
        ["keeper", lower, layers, frozen, id] => keeper::serve([lower, layers, frozen], id),
        _ => USAGE_ERROR,
    }
}
