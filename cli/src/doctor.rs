//! What works on this host, what does not, and what is there to do about it?

use crate::exit::{Exit, Fatal};
use crate::shown::Shown;
use crate::state::State;
use models::Role;
use sandbox::State as Health;

/// `cloister doctor`
pub fn doctor() -> Result<Exit, Fatal> {
    let state = State::open()?;
    let mut model = false;
    println!("home      {}", state.home.path().display());
    let store = state.store()?;
    let needed = &store.catalogue().default_for(Role::Chat).name;
    for entry in store.list()? {
        let told =
            if entry.present { "here".to_owned() } else { format!("not here; `cloister models pull {}`", entry.name) };
        model |= entry.present && entry.name == *needed;
        println!("model     {}: {told}", entry.name);
    }
    println!("processor {}", processor());
    let probe = sandbox::probe(&state.boxes(), None);
    let shown = Shown::load(&state)?;
    for line in shown.tell().into_iter().chain(shown.tell_what_is_not(&state)) {
        println!("{line}");
    }
    for (runtime, version) in &probe.runtimes {
        println!("runtime   {}: {}", runtime.path.display(), version.as_deref().unwrap_or("says no version"));
    }
    for attempt in &probe.attempts {
        println!("box       does not work: {attempt}");
    }
    let docker = State::engine()?.map(|socket| sandbox::probe_docker(&state.boxes(), &socket));
    if docker.is_none() {
        println!("engine    not asked: CLOISTER_DOCKER names none");
    }
    // Jobs run in one of the two.
    let serving = docker.as_ref().map_or(&probe.findings, |docker| &docker.findings);
    let broken = serving.iter().any(|finding| finding.state == Health::Broken);
    let engine = docker.iter().flat_map(|probe| &probe.findings);
    for finding in probe.findings.iter().chain(engine) {
        let mark = match finding.state {
            Health::Good => "ok",
            Health::Weak => "weak",
            Health::Broken => "BROKEN",
        };
        println!("box       {mark}: {}: {}", finding.what, finding.told);
        if !finding.remedy.is_empty() {
            println!("          what to do: {}", finding.remedy);
        }
    }
    for trial in probe.self_attack.iter().flat_map(|report| &report.trials) {
        println!("attack    {trial}");
    }
    let in_engine = docker.iter().flat_map(|probe| &probe.self_attack).flat_map(|report| &report.trials);
    for trial in in_engine {
        println!("attack    in the engine: {trial}");
    }
    let verdict = match (broken, model) {
        (true, _) => "boxes do not work here: `cloister run` will refuse",
        (false, true) => "this host can run tasks",
        (false, false) => "this host can run tasks once the default model is here, or with --url",
    };
    println!("{verdict}");
    Ok(if broken { Exit::Missing } else { Exit::Done })
}

fn processor() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut features: Vec<&str> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        for (name, there) in [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ] {
            if there {
                features.push(name);
            }
        }
    }
    format!(
        "{cores} cores, {}",
        if features.is_empty() { "no vector extension that helps".into() } else { features.join(", ") }
    )
}
