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
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tools::Desk;

/// A longer message is refused.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// How often a stop is listened for.
const PATIENCE: Duration = Duration::from_millis(50);

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
    let (sender, messages) = sync_channel(1);
    // A thread of its own, so that Ctrl-C is heard while nobody asks.
    std::thread::spawn(move || read_lines(&sender));
    let mut out = std::io::stdout().lock();
    while !cancel.load(Ordering::Relaxed) {
        let line = match messages.recv_timeout(PATIENCE) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Done),
        };
        if line.len() > MESSAGE_BYTES_MAX {
            let error = anyhow::anyhow!("a message is longer than {MESSAGE_BYTES_MAX} bytes");
            return Err(Fatal { exit: Exit::Failed, error, hint: "send one JSON object a line".to_owned() });
        }
        if let Some(answer) = mcp::answer(&line, &desk) {
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
    }
    Ok(Exit::Cancelled)
}

/// Sends every line that is not empty; of one that is too long, more than is allowed.
fn read_lines(sender: &SyncSender<std::io::Result<Vec<u8>>>) {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(MESSAGE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line);
        let message = match read {
            Ok(0) => return,
            Ok(_) if line.trim_ascii().is_empty() => continue,
            Ok(_) => Ok(line),
            Err(error) => Err(error),
        };
        if sender.send(message).is_err() {
            return;
        }
    }
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
