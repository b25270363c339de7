//! What did the person ask for? The `cloister` binary: parses, composes the rooms, prints.

mod args;
mod audit;
mod bench;
mod boxed;
mod doctor;
mod embedder;
mod events;
mod exit;
mod finder;
mod http_embedder;
mod local;
mod lookup;
mod policy;
mod program;
mod run;
mod serve;
mod sessions;
mod show;
mod state;
mod terminal;
mod weights;

use args::{Cli, Command};
use clap::Parser;
use exit::{Exit, Fatal};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Serve(args) => serve::serve(args),
        Command::Index(args) => finder::index(args),
        Command::Search(args) => finder::search(args),
        Command::Bench(command) => bench::bench(command),
        Command::Models(args) => weights::models(args),
        Command::Sessions(args) => sessions::sessions(args),
        Command::Policy(command) => policy::policy(command),
        Command::Audit(args) => audit::audit(args),
        Command::Doctor => doctor::doctor(),
    };
    done.unwrap_or_else(report).into()
}

fn report(fatal: Fatal) -> Exit {
    eprintln!("error: {:#}", fatal.error);
    if !fatal.hint.is_empty() {
        eprintln!("  what to do: {}", fatal.hint);
    }
    fatal.exit
}
