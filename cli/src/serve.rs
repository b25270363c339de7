//! How do other programs speak to the model? `cloister serve`: OpenAI's chat API, on loopback or behind API keys.

use crate::args::Serve;
use crate::exit::{Exit, Fatal};
use crate::local;
use crate::state::{State, cancel_on_ctrl_c};
use crate::weights;
use inference::api;
use models::Role;
use std::sync::atomic::Ordering;

const KEY_HINT: &str = "each line is a label and the SHA-256 of a key: \
                        KEY=$(openssl rand -hex 32); echo \"alice $(printf %s $KEY | sha256sum | cut -c-64)\" >> FILE";

/// `cloister serve`
pub fn serve(args: Serve) -> Result<Exit, Fatal> {
    let keys = args.keys.as_deref().map(api::Keys::load).transpose();
    let keys = keys.map_err(|error| Fatal::config(error, KEY_HINT))?;
    let hint = "choose another address with --listen 127.0.0.1:PORT, or name those who may ask with --keys FILE";
    if keys.is_none() && !args.listen.ip().to_canonical().is_loopback() {
        return Err(Fatal::missing(api::ServeError::NotLoopback(args.listen), hint));
    }
    let state = State::open()?;
    let weights = weights::resolve(&state.store()?, args.model.as_deref(), Role::Chat)?;
    let stop = cancel_on_ctrl_c()?;
    let limits = api::Limits { steady: api::steady::Rules::without(&args.as_sent), keys, ..api::Limits::default() };
    let place = api::Slot::loading();
    let load = |address| {
        eprintln!("loading {}", weights.name);
        let loaded = local::load(&state, &weights, args.kv_disk);
        match loaded {
            Ok(engine) => {
                place.fill(Ok(api::Served { name: weights.name.clone(), engine }));
                eprintln!("serving {} on http://{address}/v1; Ctrl-C stops", weights.name);
                Ok(())
            }
            Err(fatal) => {
                stop.store(true, Ordering::SeqCst);
                Err(fatal)
            }
        }
    };
    // The port first, so that one that is taken costs no load, and so that whoever waits for the model can ask /health.
    std::thread::scope(|scope| {
        let mut loading = None;
        let ready = |address| loading = Some(scope.spawn(move || load(address)));
        let served = api::serve_blocking(args.listen, place.clone(), limits, stop.clone(), ready);
        loading.map_or(Ok(()), |thread| thread.join().expect("the loader does not panic"))?;
        served.map_err(|error| Fatal::missing(error, hint))
    })?;
    Ok(Exit::Done)
}
