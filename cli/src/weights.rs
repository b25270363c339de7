//! Which weights are on this host? `cloister models`, and the pull that `run` and `serve` point to.

use crate::args::Models;
use crate::embedder::TokenTable;
use crate::exit::{Exit, Fatal};
use crate::state::{State, cancel_on_ctrl_c};
use indicatif::{ProgressBar, ProgressStyle};
use models::{Model, Origin, Progress, PullError, PullOptions, Role, Store, Weights};
use std::sync::atomic::AtomicBool;

/// `cloister models …`
pub fn models(command: Models) -> Result<Exit, Fatal> {
    let store = State::open()?.store()?;
    match command {
        Models::List => list(&store),
        Models::Pull { names } => pull(&store, &names),
        Models::Verify { name } => verify(&store, name.as_deref()),
        Models::Import { path, name } => import(&store, &path, &name),
        Models::Rm { name } => remove(&store, &name),
    }
}

/// The weights that a person named, or the default of a role.
pub fn resolve(store: &Store, asked: Option<&str>, role: Role) -> Result<Weights, Fatal> {
    let name = asked.unwrap_or(&store.catalogue().default_for(role).name);
    store.resolve(name).map_err(|error| Fatal::missing(error, "`cloister models list` shows what there is"))
}

fn list(store: &Store) -> Result<Exit, Fatal> {
    println!("{:<30} {:<6} {:>9}  {:<12} on this host", "name", "role", "MB", "licence");
    for entry in store.list()? {
        let here = match (entry.present, entry.partial_bytes) {
            (true, _) => "yes".into(),
            (false, 0) => format!("no; cloister models pull {}", entry.name),
            (false, bytes) => format!("{} MB of it; the next pull goes on from there", bytes / 1_000_000),
        };
        let role = if entry.role == Role::Chat { "chat" } else { "embed" };
        let licence = entry.licence.as_deref().unwrap_or("-");
        println!("{:<30} {role:<6} {:>9}  {licence:<12} {here}", entry.name, entry.bytes / 1_000_000);
    }
    Ok(Exit::Done)
}

fn pull(store: &Store, names: &[String]) -> Result<Exit, Fatal> {
    let catalogue = store.catalogue();
    let mut wanted: Vec<Model> = Vec::new();
    for name in names {
        let known = || catalogue.models().iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", ");
        let model = catalogue.get(name).ok_or_else(|| {
            Fatal::missing(anyhow::anyhow!("the catalogue has no model `{name}`"), format!("it has {}", known()))
        })?;
        wanted.push(model.clone());
    }
    if wanted.is_empty() {
        wanted = [Role::Chat, Role::Embed].map(|role| catalogue.default_for(role).clone()).into();
    }
    let cancel = cancel_on_ctrl_c()?;
    for model in &wanted {
        if let Some(exit) = pull_one(store, model, &cancel)? {
            return Ok(exit);
        }
        if model.role == Role::Embed {
            let weights = store.weights(model).map_err(|error| Fatal::missing(error, ""))?;
            TokenTable::load(store, &weights, &cancel)?;
            println!("{}: its token table is here", model.name);
        }
    }
    Ok(Exit::Done)
}

fn pull_one(store: &Store, model: &Model, cancel: &AtomicBool) -> Result<Option<Exit>, Fatal> {
    let bar = bar(&model.name);
    let pulled = store.pull(model, &PullOptions::from_env(), &mut |progress| show(&bar, progress), cancel);
    bar.finish_and_clear();
    match pulled {
        Ok(pulled) => {
            for attempt in &pulled.attempts {
                println!("{}: {attempt}", model.name);
            }
            let mb = model.bytes() / 1_000_000;
            match pulled.source {
                Some(source) => println!("{}: {mb} MB from {source}, sha256 checked", model.name),
                None => println!("{}: already here, {mb} MB", model.name),
            }
            Ok(None)
        }
        Err(PullError::Cancelled) => {
            println!("{}: stopped; the next pull goes on from here", model.name);
            Ok(Some(Exit::Cancelled))
        }
        Err(error) => Err(Fatal::missing(error, "")),
    }
}

fn verify(store: &Store, name: Option<&str>) -> Result<Exit, Fatal> {
    let names: Vec<String> = match name {
        Some(name) => vec![name.to_owned()],
        None => store.list()?.into_iter().filter(|entry| entry.present).map(|entry| entry.name).collect(),
    };
    if names.is_empty() {
        println!("no model is on this host; `cloister models pull` fetches the default ones");
    }
    let cancel = cancel_on_ctrl_c()?;
    let mut good = true;
    for name in names {
        let bar = bar(&name);
        let checks = store.verify(&name, &mut |progress| show(&bar, progress), &cancel);
        bar.finish_and_clear();
        for check in checks.map_err(|error| Fatal::missing(error, ""))? {
            println!("{name}: {} {}", check.file, check.verdict);
            good &= check.is_good();
        }
    }
    if !good {
        let hint = "`cloister models rm NAME`, then `cloister models pull NAME` or import it again";
        return Err(Fatal::missing(anyhow::anyhow!("some weights are not what they must be"), hint));
    }
    Ok(Exit::Done)
}

fn import(store: &Store, path: &std::path::Path, name: &str) -> Result<Exit, Fatal> {
    let cancel = cancel_on_ctrl_c()?;
    let bar = bar(name);
    let imported = store.import(path, name, &mut |progress| show(&bar, progress), &cancel);
    bar.finish_and_clear();
    let imported = imported.map_err(|error| Fatal::missing(error, ""))?;
    for file in &imported.files {
        println!("{}: {} sha256 {}", imported.name, file.name, file.sha256);
    }
    if !imported.in_catalogue {
        println!("{}: not in the catalogue; its hash was recorded, not compared", imported.name);
    }
    Ok(Exit::Done)
}

fn remove(store: &Store, name: &str) -> Result<Exit, Fatal> {
    let removed = store.remove(name)?;
    if !removed.was_here {
        let error = anyhow::anyhow!("there is no model `{name}` on this host");
        return Err(Fatal::missing(error, "`cloister models list` shows what there is"));
    }
    println!("{name}: removed, {} MB freed", removed.bytes_freed / 1_000_000);
    Ok(Exit::Done)
}

fn bar(name: &str) -> ProgressBar {
    const SHAPE: &str = "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    let bar =
        ProgressBar::new(0).with_style(ProgressStyle::with_template(SHAPE).expect("constant").progress_chars("=> "));
    bar.with_prefix(name.to_owned())
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    bar.set_length(progress.bytes_total);
    bar.set_position(progress.bytes_done);
    bar.set_message(match progress.origin {
        Origin::Hf => "from the hub",
        Origin::Wheels => "from wheels",
        Origin::Path => "from disk",
        Origin::Store => "checking",
        Origin::OtherProcess => "another process fetches it",
    });
}
