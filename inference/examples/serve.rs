//! Serves one model file: `cargo run --example serve -- MODEL.gguf [ADDRESS]`. For trying clients against the server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use inference::api::{Limits, Served, Slot, serve_blocking};
use inference::{Engine, EngineSettings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("which model file?")?);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8091".into()).parse()?;
    let slot = Slot::loading();
    let place = slot.clone();
    std::thread::spawn(move || {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let loaded = Engine::load(&path, EngineSettings::default());
        place.fill(loaded.map(|engine| Served { name, engine }).map_err(|error| error.to_string()));
    });
    let never = Arc::new(AtomicBool::new(false));
    serve_blocking(address, slot, Limits::default(), never, |address| eprintln!("listening on http://{address}"))?;
    Ok(())
}
