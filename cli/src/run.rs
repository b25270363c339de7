//! How is a task run? The rooms are composed here, once: model, index, box, gate and log around the agent's loop.

use crate::args::Run;
use crate::boxed::Boxed;
use crate::events::{self, Stream};
use crate::exit::{Exit, Fatal};
use crate::finder::IndexedCode;
use crate::local::{self, LocalModel};
use crate::program::Program;
use crate::reviewer::{self, Reviewer, Wanted};
use crate::show::Screen;
use crate::shown::Shown;
use crate::state::{State, cancel_on_ctrl_c, repository};
use crate::terminal::Terminal;
use crate::weights;
use agent::ask::{Asking, Person, QUESTION_SECONDS_MAX};
use agent::audit::{self, Durability, Key, Log};
use agent::budget::Budget;
use agent::drive::{Event, Finished, Loop};
use agent::gate::{Grants, Policy, SHIPPED_POLICY};
use agent::hooks::{Facts, Hooks};
use agent::http::HttpModel;
use agent::monitor::Monitor;
use agent::plan::Plan;
use agent::profile::Profile;
use agent::session::{Ending, Record};
use agent::subagent::Agents;
use agent::{Model, Session, Workspace};
use models::{Role, Weights};
use sandbox::BoxSpec;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HTTP_CONTEXT_TOKENS: usize = 32_768;
const VECTORS_FILES_MAX: usize = 100;
const TASK_BYTES_MAX: u64 = 64 * 1024;

/// `cloister run TASK`
pub fn run(args: Run) -> Result<Exit, Fatal> {
    let task = read_task(&args.task)?;
    let job = Job { args, task, earlier: None };
    let cancel = cancel_on_ctrl_c()?;
    let state = State::open()?;
    job.run(&state, &cancel)
}

/// A run to be done: a new one, or one that goes on from an earlier session.
pub struct Job {
    /// As typed.
    pub args: Run,
    /// The task in words.
    pub task: String,
    /// The records of the session that this one continues, and its name.
    pub earlier: Option<(String, Vec<Record>)>,
}

enum Watcher {
    Screen(Screen),
    Stream(Stream),
}

impl Watcher {
    fn watch(&mut self, event: &Event<'_>) {
        match self {
            Self::Screen(screen) => screen.watch(event),
            Self::Stream(stream) => stream.watch(event),
        }
    }
}

impl Job {
    /// Runs it to its end.
    pub fn run(self, state: &State, cancel: &AtomicBool) -> Result<Exit, Fatal> {
        let repo = repository(&self.args.repo)?;
        // Whatever must refuse refuses before anything is loaded or started.
        let policy = Arc::new(Policy::load(self.args.policy.as_deref(), &repo).map_err(|error| {
            Fatal::config(error, "no session starts with a policy that does not load; correct the file")
        })?);
        let plan = self.args.verify.as_deref().map(read_plan).transpose()?;
        let mut hooks = self.hooks(state)?;
        let hint = "set CLOISTER_HOME to a directory outside of the repository";
        let key = Key::outside(&repo, state.home.path()).map_err(|error| Fatal::config(error, hint))?;
        let weights = self.weights(state)?;
        let reviewer = self.args.review_by.as_deref().map(|named| Wanted::find(named, state)).transpose()?;
        for left in sandbox::reap(&state.boxes())? {
            eprintln!("note: buried box {} that an earlier run left behind", left.id);
        }
        for recovered in sandbox::recover(&state.journals())? {
            let how = if recovered.finished { "finished" } else { "rolled back" };
            eprintln!("note: {how} a change to {} that an earlier run was applying", recovered.repo.display());
        }
        let id = session_id()?;
        let shown = Shown::load(state)?;
        for program in shown.lacking(&repo) {
            eprintln!(
                "note: this project needs {program}, which boxes do not have; `cloister doctor` says how to show it"
            );
        }
        let (tools, mirrors) = (shown.toolchains.clone(), shown.mirrors.clone());
        let docker = self.args.docker.clone().map_or_else(State::engine, |socket| Ok(Some(socket)))?;
        let spec = BoxSpec { label: id.clone(), docker, tools, mirrors, ..BoxSpec::new(&repo, state.boxes()) };
        let hint = "`cloister doctor` says what is missing on this host";
        let opened = SystemTime::now();
        let mut boxed = Boxed::open(spec, policy.clone()).map_err(|error| Fatal::missing(error, hint))?;
        let plan = match plan {
            Some(plan) => Some(plan),
            None => find_plan(&boxed)?,
        };
        hooks.add_repository(&|path| boxed.read(path).ok());
        hooks.facts = facts(state, &id);
        tell_inert(&hooks);
        let model_sha256 = weights.as_ref().and_then(|weights| weights.gguf()?.sha256);
        let working = weights.as_ref().map(|weights| weights.name.clone());
        let mut model = self.model(state, weights)?;
        let mut reviewer: Option<Reviewer> =
            reviewer.map(|wanted| wanted.open(state, working.as_deref())).transpose()?;
        let (code, indexed) = IndexedCode::open(state, &repo, vectors_wanted(state, &repo, &boxed)?, cancel)?;
        let made_of = json!({
            "model_sha256": model_sha256.map(|digest| digest.to_string()),
            "policy_sha256": policy_sha256(self.args.policy.as_deref(), &repo), "index_generation": indexed.generation,
            "box": boxed.footing(), "shown": shown.tell(), "self_attack": boxed.self_attack(),
        });
        let mut log = begin_log(state, &id, key, self.header(&id, &repo, model.name(), made_of))?;
        let mut watcher = self.watcher(&id, model.name(), &boxed);
        let profile = Profile::for_model(model.name());
        let mut session = Session::new(if self.args.subagents { profile.with_subagents() } else { profile });
        let budget = Budget {
            calls_max: self.args.actions,
            seconds_max: self.args.seconds,
            model_tokens_max: self.args.tokens,
            commands_max: self.args.actions,
            ..Budget::default()
        };
        let mut person = self.person(&watcher, cancel);
        let finished = {
            let mut on_event = |event: Event<'_>| watcher.watch(&event);
            let mut driver = Loop {
                model: model.as_mut(),
                workspace: &mut boxed,
                code: &code,
                policy: &policy,
                mode: self.args.mode,
                asking: self.asking(&mut person),
                grants: Grants::default(),
                agents: Agents::offered(self.args.subagents),
                hooks: &hooks,
                log: &mut log,
                monitor: Monitor::default(),
                budget,
                plan,
                review: reviewer::review(&mut reviewer),
                cancel,
                on_event: &mut on_event,
            };
            self.begin(&mut driver, &mut session)?;
            driver.run(&mut session)?
        };
        self.finish(state, &id, &repo, Over { finished, session, boxed, log, watcher, opened })
    }

    fn begin(&self, driver: &mut Loop<'_>, session: &mut Session) -> Result<(), Fatal> {
        let Some((_, records)) = &self.earlier else {
            return Ok(driver.open(session, &self.task)?);
        };
        Ok(driver.resume(session, records)?)
    }

    /// Whoever can be asked: a program behind standard input, or a person at the terminal.
    fn person<'p>(&self, watcher: &Watcher, cancel: &'p AtomicBool) -> Option<Box<dyn Person + 'p>> {
        match watcher {
            Watcher::Stream(stream) if self.args.answers => Some(Box::new(Program::open(*stream, cancel))),
            _ => Terminal::open(cancel).map(|terminal| Box::new(terminal) as Box<dyn Person>),
        }
    }

    fn asking<'a>(&self, person: &'a mut Option<Box<dyn Person + '_>>) -> Asking<'a> {
        match person {
            _ if self.args.park => Asking::Later,
            Some(person) => {
                Asking::Person { person: person.as_mut(), seconds_max: Duration::from_secs(QUESTION_SECONDS_MAX) }
            }
            None => Asking::Nobody,
        }
    }

    /// The administrator's hooks. A file that is there and does not load starts no session.
    fn hooks(&self, state: &State) -> Result<Hooks, Fatal> {
        let usual = state.home.join("hooks.toml");
        let file = match &self.args.hooks {
            Some(file) => file,
            None => match usual.symlink_metadata() {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Hooks::default()),
                _ => &usual,
            },
        };
        Hooks::load(file)
            .map_err(|error| Fatal::config(error, "no session starts with hooks that do not load; correct the file"))
    }

    /// Where the model's files are; `None` when it is behind a URL.
    fn weights(&self, state: &State) -> Result<Option<Weights>, Fatal> {
        let here = self.args.url.is_none();
        here.then(|| weights::resolve(&state.store()?, self.args.model.as_deref(), Role::Chat)).transpose()
    }

    fn model(&self, state: &State, weights: Option<Weights>) -> Result<Box<dyn Model>, Fatal> {
        if let Some(url) = &self.args.url {
            let hint = "start the server, or leave --url out to use the model on this host";
            let name = HttpModel::first_model(url).map_err(|error| Fatal::missing(error, hint))?;
            return Ok(Box::new(HttpModel::new(url, &name, HTTP_CONTEXT_TOKENS)));
        }
        let weights = weights.ok_or_else(|| anyhow::anyhow!("neither a model nor a URL is given"))?;
        Ok(Box::new(LocalModel { engine: local::load(state, &weights, self.args.kv_disk)?, name: weights.name }))
    }

    /// The first record. `made_of`: digests of what decides how the session goes.
    fn header(&self, id: &str, repo: &Path, model: &str, made_of: Value) -> Value {
        let mut header = json!({
            "v": 1, "session": id, "task": agent::text::redact_secrets(&self.task).0, "repo": repo, "model": model, "url": self.args.url,
            "named_model": self.args.model, "policy": absolute(self.args.policy.as_deref()), "verify": absolute(self.args.verify.as_deref()),
            "mode": self.args.mode, "subagents": self.args.subagents, "review_by": self.args.review_by,
            "docker": self.args.docker.as_ref().map(ToString::to_string), "hooks": absolute(self.args.hooks.as_deref()),
            "continues": self.earlier.as_ref().map(|(id, _)| id), "version": env!("CARGO_PKG_VERSION"),
        });
        if let (Some(header), Value::Object(made_of)) = (header.as_object_mut(), made_of) {
            header.extend(made_of);
        }
        header
    }

    fn watcher(&self, id: &str, model: &str, boxed: &Boxed) -> Watcher {
        if self.args.json {
            let stream = Stream::new();
            stream.emit("session", json!({ "session": id, "task": self.task, "model": model, "box": boxed.footing() }));
            return Watcher::Stream(stream);
        }
        println!("session {id}: {model}, box {}", boxed.footing());
        Watcher::Screen(Screen::new())
    }

    fn finish(&self, state: &State, id: &str, repo: &Path, over: Over) -> Result<Exit, Fatal> {
        let Over { finished, session, boxed, mut log, watcher, opened } = over;
        let directory = state.sessions().join(id);
        let diff = finished.report.as_ref().map(|report| report.diff.as_str()).unwrap_or_default();
        std::fs::write(directory.join("change.diff"), diff)?;
        tell_protected(&finished.changes);
        let exit = Exit::from(&finished.ending);
        let kept = format!("the change is in {}", directory.join("change.diff").display());
        let applied = match finished.ending {
            Ending::Verified if self.args.apply => apply(&boxed, &finished, repo, state, opened, &mut log)
                .map(|()| format!("applied to {}", repo.display()))
                .map_err(|error| Fatal { exit: Exit::Failed, error, hint: kept }),
            Ending::Verified => Ok(format!("not applied; {kept}")),
            _ => Ok("the repository is untouched".into()),
        };
        if let Err(fatal) = &applied {
            log.append("apply_failed", json!({ "why": format!("{:#}", fatal.error) }), None, Durability::Buffered)?;
        }
        // A parked session takes one more record, the answer, which seals it.
        let parked = matches!(finished.ending, Ending::Parked { .. });
        let head = if parked { log.head() } else { log.seal()? };
        match &watcher {
            Watcher::Screen(screen) => screen.close(&finished, session.costs()),
            Watcher::Stream(stream) => stream.emit(
                "ended",
                json!({ "ending": finished.ending, "exit": exit as u8, "diff": diff, "costs": events::costs(session.costs()),
                        "attempts": session.attempts(), "head": head.to_string() }),
            ),
        }
        match &watcher {
            Watcher::Screen(_) => {
                let applied = applied.as_deref().unwrap_or("not applied");
                println!("{applied}\nlog: {} records, head {head}", head.count);
            }
            Watcher::Stream(stream) => {
                stream.emit("closed", json!({ "applied": self.args.apply && exit == Exit::Done && applied.is_ok() }));
            }
        }
        applied?;
        Ok(exit)
    }
}

struct Over {
    finished: Finished,
    session: Session,
    boxed: Boxed,
    log: Log,
    watcher: Watcher,
    opened: SystemTime,
}

/// Carries a verified change into the working tree, where what it replaces is still what the model read.
/// The log says so before and after, hunk by hunk.
fn apply(
    boxed: &Boxed,
    finished: &Finished,
    repo: &Path,
    state: &State,
    opened: SystemTime,
    log: &mut Log,
) -> anyhow::Result<()> {
    let changes = boxed.typed_changes(&finished.changes)?;
    anyhow::ensure!(changes.len() == finished.changes.len(), "the box no longer holds the change that was verified");
    // The box compares with the working tree as it is now, so it cannot know what a person did while it was open.
    let overtaken = |change: &&sandbox::Change| changed_at(&repo.join(&change.path)).is_some_and(|at| at > opened);
    if let Some(change) = changes.iter().find(overtaken) {
        anyhow::bail!("{} was changed in the working tree while the session ran", change.path.display());
    }
    let cause = log.append("applying", audit::applying(&finished.changes), None, Durability::Synced)?;
    sandbox::apply(&changes, repo, &state.journals())?;
    for hunk in finished.changes.iter().flat_map(audit::applied) {
        log.append("applied", hunk, Some(cause), Durability::Buffered)
            .map_err(|error| anyhow::anyhow!("the change was applied, but the log cannot be written: {error}"))?;
    }
    Ok(())
}

/// Names what something acts on later, whether or not it was there before.
fn tell_protected(changes: &[agent::workspace::Change]) {
    for change in changes {
        if let Some(why) = sandbox::Protected::of(Path::new(&change.path)) {
            eprintln!("note: look at {:?} in this change: {why}", change.path);
        }
    }
}

/// What every hook of a session is told.
fn facts(state: &State, id: &str) -> Facts {
    let transcript_path = directory(state, id).join("log.jsonl").display().to_string();
    Facts { session_id: id.to_owned(), transcript_path, ..Facts::default() }
}

/// Says which hooks of the repository do not run. An administrator who trusts one is shown its pin.
fn tell_inert(hooks: &Hooks) {
    for inert in &hooks.inert {
        eprintln!("note: hook {} of this repository does not run: {}", inert.id, inert.why);
        if !inert.pin.is_empty() {
            eprintln!("  to let it run, read it and add to hooks.toml:\n{}", inert.pin);
        }
    }
}

fn begin_log(state: &State, id: &str, key: Key, header: Value) -> Result<Log, Fatal> {
    let directory = directory(state, id);
    std::fs::create_dir_all(&directory)?;
    Ok(Log::create(&directory.join("log.jsonl"), key, header)?)
}

/// What the policy was made of: the administrator's text and the project's. Both were just read and hold.
fn policy_sha256(administrator: Option<&Path>, repo: &Path) -> String {
    let read = |path: &Path| std::fs::read(path).unwrap_or_default();
    let administrator = administrator.map_or_else(|| SHIPPED_POLICY.as_bytes().to_vec(), read);
    let project = read(&repo.join(".cloister/policy.toml"));
    audit::sha256_of(&[audit::sha256(&administrator), audit::sha256(&project)])
}

/// When a file was last changed, by the time that nobody can set.
fn changed_at(path: &Path) -> Option<SystemTime> {
    let meta = path.symlink_metadata().ok()?;
    Some(UNIX_EPOCH + Duration::new(meta.ctime().try_into().ok()?, meta.ctime_nsec().try_into().ok()?))
}

/// So that `sessions resume` finds a file from wherever it is called.
fn absolute(path: Option<&Path>) -> Option<PathBuf> {
    path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Vectors take a second for a few dozen pieces of code: a task does not wait for those of a large repository, unless
/// `cloister index` has made them already.
fn vectors_wanted(state: &State, repo: &Path, boxed: &Boxed) -> Result<bool, Fatal> {
    let is_vector = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("vector");
    let made = std::fs::read_dir(state.index(repo)).is_ok_and(|entries| entries.flatten().any(is_vector));
    let wanted = made || boxed.walk()?.len() <= VECTORS_FILES_MAX;
    if !wanted {
        eprintln!(
            "note: searching by words and names only; `cloister index {}` adds search by meaning",
            repo.display()
        );
    }
    Ok(wanted)
}

fn read_task(typed: &str) -> Result<String, Fatal> {
    let task = if typed == "-" {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(std::io::stdin(), TASK_BYTES_MAX), &mut text)?;
        text
    } else {
        typed.to_owned()
    };
    if task.trim().is_empty() {
        let error = anyhow::anyhow!("the task is empty");
        return Err(Fatal::config(error, "say what to do: cloister run \"make the failing test pass\""));
    }
    Ok(task)
}

fn read_plan(path: &Path) -> Result<Plan, Fatal> {
    let hint = "it needs `test = [\"program\", \"argument\"]` and may have `seconds`, `build`, `lint` and `protected`";
    Plan::parse(&path.display().to_string(), &read(path)?).map_err(|error| Fatal::config(error, hint))
}

fn find_plan(boxed: &Boxed) -> Result<Option<Plan>, Fatal> {
    let files = boxed.walk()?;
    Plan::find(boxed, &files)
        .map_err(|error| Fatal::config(error, "correct the file, or name another with --verify FILE"))
}

fn read(path: &Path) -> Result<String, Fatal> {
    std::fs::read_to_string(path)
        .map_err(|error| Fatal::config(anyhow::anyhow!("{}: {error}", path.display()), "name a file that can be read"))
}

/// Sorts by time, and two in one second differ.
fn session_id() -> Result<String, Fatal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut random = [0u8; 2];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(format!("{}-{:02x}{:02x}", crate::sessions::stamp(now), random[0], random[1]))
}

/// A session's directory.
pub fn directory(state: &State, id: &str) -> PathBuf {
    state.sessions().join(id)
}
