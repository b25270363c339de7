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
mod rerank;
mod reviewer;
mod run;
mod serve;
mod sessions;
mod show;
mod shown;
mod state;
mod terminal;
mod weights;

use args::{Cli, Command};
use clap::Parser;
use exit::{Exit, Fatal};
use std::process::ExitCode;

fn main() -> ExitCode {
    end_with_the_reader();
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
    eprintln!("error: {}", whole(&fatal.error));
    if !fatal.hint.is_empty() {
        eprintln!("  what to do: {}", fatal.hint);
    }
    fatal.exit
}

/// An error with its causes, each said once.
fn whole(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    })
}

/// A reader that has seen enough closes the pipe: no failure, and nothing to tell anybody.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to stdout") {
            std::process::exit(141);
        }
        usual(panic);
    }));
}
