//! How do other programs speak to the model? `cloister serve`: the OpenAI chat API on a loopback address.

use crate::args::Serve;
use crate::exit::{Exit, Fatal};
use crate::local;
use crate::state::{State, cancel_on_ctrl_c};
use crate::weights;
use inference::api;
use models::Role;

/// `cloister serve`
pub fn serve(args: Serve) -> Result<Exit, Fatal> {
    let hint = "choose another loopback address with --listen 127.0.0.1:PORT";
    // Before a model is loaded for nothing.
    if !args.listen.ip().to_canonical().is_loopback() {
        return Err(Fatal::missing(api::ServeError::NotLoopback(args.listen), hint));
    }
    let state = State::open()?;
    let weights = weights::resolve(&state.store()?, args.model.as_deref(), Role::Chat)?;
    let stop = cancel_on_ctrl_c()?;
    eprintln!("loading {}", weights.name);
    let engine = local::load(&state, &weights, args.kv_disk)?;
    let backend = api::Served { name: weights.name.clone(), engine };
    let name = weights.name.clone();
    let limits = api::Limits { steady: api::steady::Rules::without(&args.as_sent), ..api::Limits::default() };
    let ready = move |address| eprintln!("serving {name} on http://{address}/v1; Ctrl-C stops");
    api::serve_blocking(args.listen, backend, limits, stop, ready).map_err(|error| Fatal::missing(error, hint))?;
    Ok(Exit::Done)
}
