//! How do other programs ask the index? `cloister index serve` (HTTP, with MCP at `/mcp`) and `cloister index mcp` (MCP
//! over standard input and output).
//!
//! - `tools`: what can be asked, and the answers. `mcp`: JSON-RPC around them. `http`: both over HTTP, on loopback.

mod http;
mod mcp;
mod tools;

use crate::args::{IndexMcp, IndexServe};
use crate::exit::{Exit, Fatal};
use crate::finder::open_index;
use crate::state::{State, cancel_on_ctrl_c, repository};
use models::Role;
use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tools::Desk;

/// A longer message is refused.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// `cloister index serve`
pub fn serve(args: IndexServe) -> Result<Exit, Fatal> {
    let hint = "choose another loopback address with --listen 127.0.0.1:PORT";
    let cancel = cancel_on_ctrl_c()?;
    let desk = desk(&args.dir, args.no_vectors, &cancel)?;
    let name = desk.root().display().to_string();
    let ready = move |address| eprintln!("answering for {name} on http://{address} (MCP at /mcp); Ctrl-C stops");
    let served = inference::api::serve_routes_blocking(args.listen, http::routes(desk), cancel, ready);
    served.map_err(|error| Fatal::missing(error, hint))?;
    Ok(Exit::Done)
}

/// `cloister index mcp`
pub fn mcp(args: IndexMcp) -> Result<Exit, Fatal> {
    let cancel = cancel_on_ctrl_c()?;
    let desk = desk(&args.dir, args.no_vectors, &cancel)?;
    let mut lines = std::io::stdin().lock();
    let mut out = std::io::stdout().lock();
    let mut line = Vec::new();
    while !cancel.load(Ordering::Relaxed) {
        line.clear();
        if (&mut lines).take(MESSAGE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() > MESSAGE_BYTES_MAX {
            let error = anyhow::anyhow!("a message is longer than {MESSAGE_BYTES_MAX} bytes");
            return Err(Fatal { exit: Exit::Failed, error, hint: "send one JSON object a line".to_owned() });
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = mcp::answer(&line, &desk) {
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
    }
    Ok(Exit::Done)
}

fn desk(dir: &Path, no_vectors: bool, cancel: &Arc<AtomicBool>) -> Result<Desk, Fatal> {
    let state = State::open()?;
    let repo = repository(dir)?;
    let (index, report) = open_index(&state, &repo, !no_vectors, cancel)?;
    let files = report.files_indexed + report.files_unchanged;
    eprintln!("{files} files, {} lines, generation {}", report.lines, report.generation);
    let store = state.store()?;
    let model = store.weights(store.catalogue().default_for(Role::Chat)).ok();
    let gguf = model.and_then(|weights| Some((weights.name.clone(), weights.gguf()?.path.clone())));
    Ok(Desk::new(index, gguf, cancel.clone()))
}
