//! Who owns the model, and how does the rest of the program speak to it?
//!
//! One thread owns the weights, the KV and the samplers; an [`Engine`] is a handle to it. Requests come through a bounded
//! queue and run together: read `worker` for what a step is, and `schedule` for who is in it. Each accepted request ends in
//! exactly one [`Event::Done`].

mod held;
mod keeper;
mod request;
mod run;
mod sampler;
mod schedule;
mod steer;
mod stream;
mod worker;

pub use request::{Canceller, Event, Finish, FinishReason, GenerateRequest, Generation, Sampling, SubmitError, Usage};
pub use steer::{Score, Steer};

use crate::chat::{Chat, Template};
use crate::grammar::{Grammar, GrammarError, Grammars, Shape};
use crate::kv::{Arena, BLOCK_TOKENS, DiskCache, PrefixCache};
use crate::model::{Header, LoadError, Model, ModelShape, threads};
use crate::tokenizer::Tokenizer;
use keeper::Keeper;
use request::Job;
use schedule::Schedule;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use worker::Worker;

/// A handle to the engine thread. Cloning it makes another handle to the same thread; the thread ends with the last one.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    info: ModelInfo,
    chat: Arc<Chat>,
    grammars: Grammars,
    /// None once the engine is shut down.
    queue: Mutex<Option<Sender<Job>>>,
    /// Requests in the queue and those that the thread has taken and not begun.
    queued: Arc<AtomicUsize>,
    queue_max: usize,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the engine may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// The longest sequence, prompt and answer together, in tokens. The model's own limit and the KV memory may lower it.
    pub context_tokens_max: usize,
    /// Memory for KV, in bytes. Cached prefixes live in what running requests leave of it.
    pub kv_bytes_max: usize,
    /// Compute threads. The pool belongs to the process, so this can only confirm what it has: see [`threads`].
    pub threads: Option<usize>,
    /// Prompt tokens computed between two looks at the cancel flag; fewer while others wait for their next token.
    pub chunk_tokens: usize,
    /// Requests that run at once.
    pub running_max: usize,
    /// Requests that may wait besides.
    pub queue_max: usize,
    /// Whether to repair the doubled braces in the tool instruction of templates that have them.
    pub template_normalised: bool,
}

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ModelInfo {
    /// The name that the file gives itself, else the name of the file.
    pub name: String,
    /// The family, such as `qwen2`.
    pub architecture: String,
    /// The longest sequence that this engine accepts, in tokens.
    pub context_tokens: usize,
    /// The longest sequence that the model was made for, in tokens.
    pub context_tokens_model: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Token ids.
    pub vocabulary: usize,
    /// Bytes of weights.
    pub weights_bytes: u64,
    /// The types of the matrices with their shares.
    pub quantization: String,
    /// Bytes that the KV of one token takes.
    pub kv_bytes_per_token: usize,
    /// Compute threads.
    pub threads: usize,
}

impl Default for EngineSettings {
    fn default() -> Self {
        EngineSettings {
            context_tokens_max: 16384,
            kv_bytes_max: 1 << 30,
            threads: None,
            chunk_tokens: 128,
            running_max: 16,
            queue_max: 16,
            template_normalised: true,
        }
    }
}

impl Engine {
    /// Loads the GGUF file at `path` and starts the thread. Takes seconds for a file of a gigabyte.
    pub fn load(path: &Path, settings: EngineSettings) -> Result<Engine, LoadError> {
        Engine::load_over(path, settings, None)
    }

    /// The same, and what is computed outlives the process in `disk`.
    pub fn load_over(path: &Path, settings: EngineSettings, disk: Option<DiskCache>) -> Result<Engine, LoadError> {
        if let Some(asked) = settings.threads
            && asked != threads()
        {
            return Err(LoadError::Threads { asked, running: threads() });
        }
        let header = Header::read(path)?;
        let shape = ModelShape::read(&header)?;
        let template = template(&header, settings.template_normalised)?;
        let block_bytes = shape.kv().block_bytes();
        let context_wanted = settings.context_tokens_max.min(shape.context_tokens).max(BLOCK_TOKENS);
        let blocks_max = settings.kv_bytes_max / block_bytes;
        if blocks_max == 0 {
            return Err(LoadError::KvTooSmall { kv_bytes_max: settings.kv_bytes_max, block_bytes });
        }
        let tokenizer = Arc::new(Tokenizer::load(&header)?);
        let model = Model::load(&header)?;
        let context_tokens = context_wanted.min(blocks_max * BLOCK_TOKENS);
        let info = ModelInfo {
            name: name(&header),
            architecture: shape.architecture.clone(),
            context_tokens,
            context_tokens_model: shape.context_tokens,
            layers: shape.layers,
            vocabulary: shape.vocabulary,
            weights_bytes: model.weights_bytes(),
            quantization: model.quantization().to_owned(),
            kv_bytes_per_token: block_bytes / BLOCK_TOKENS,
            threads: threads(),
        };
        let grammars = Grammars::new(tokenizer.clone());
        let chat = Arc::new(Chat::new(template, tokenizer));
        let stop = Arc::new(AtomicBool::new(false));
        let (queue, jobs) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            model,
            arena: Arena::new(shape.kv(), blocks_max),
            cache: PrefixCache::new(blocks_max),
            chat: chat.clone(),
            context_tokens,
            blocks_max,
            schedule: Schedule::new(settings.running_max, settings.chunk_tokens),
            queued: queued.clone(),
            runs: Vec::new(),
            tickets: 0,
            masker: held::Masker::default(),
            stop: stop.clone(),
            keeper: disk.map(|mut disk| {
                disk.bind(&stored(&shape), block_bytes);
                Keeper::new(disk)
            }),
        };
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || worker.run(&jobs));
        let thread = Mutex::new(Some(thread.map_err(|source| LoadError::Thread { source })?));
        let (queue, queue_max) = (Mutex::new(Some(queue)), settings.queue_max.max(1));
        Ok(Engine { inner: Arc::new(Inner { info, chat, grammars, queue, queued, queue_max, stop, thread }) })
    }

    /// What was loaded.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// From messages to ids, for this model.
    pub fn chat(&self) -> &Chat {
        &self.inner.chat
    }

    /// Compiles what an answer shall be held to, for [`Steer::grammar`]. Takes up to seconds.
    pub fn grammar(&self, shape: Shape) -> Result<Grammar, GrammarError> {
        self.inner.grammars.compile(shape)
    }

    /// Hands a request to the engine thread. The events of an accepted request end with one [`Event::Done`].
    pub fn submit(&self, request: GenerateRequest) -> Result<Generation, SubmitError> {
        let context_tokens_max = self.inner.info.context_tokens;
        request.check(context_tokens_max, self.inner.info.vocabulary)?;
        let (job, generation) = Job::new(request);
        let queue = self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or(SubmitError::Stopped)?;
        // Only this function adds, under the lock; the thread takes away.
        if self.inner.queued.load(Ordering::Relaxed) >= self.inner.queue_max {
            return Err(SubmitError::QueueFull);
        }
        self.inner.queued.fetch_add(1, Ordering::Relaxed);
        queue.send(job).map_err(|_| SubmitError::Stopped)?;
        Ok(generation)
    }

    /// Cancels what runs and what waits, and returns when the thread has ended. Other handles then refuse requests.
    pub fn shutdown(self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.inner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in the thread was already reported to the request that met it.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// All that the KV of a token depends on besides the file and the tokens.
fn stored(shape: &ModelShape) -> String {
    let ModelShape { layers, kv_heads, head_dim, rope_base, norm_epsilon, .. } = shape;
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{version} f16 {layers}x{kv_heads}x{head_dim} rope {rope_base} norm {norm_epsilon} blocks of {BLOCK_TOKENS}"
    )
}

fn template(header: &Header, normalised: bool) -> Result<Template, LoadError> {
    let source = header.text("tokenizer.chat_template")?;
    let template = if normalised { Template::normalised(source) } else { Template::new(source) };
    template.map_err(|error| LoadError::Corrupted { path: header.path.clone(), reason: error.to_string() })
}

fn name(header: &Header) -> String {
    match header.text("general.name") {
        Ok(name) => name.to_owned(),
        Err(_) => header.path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    }
}
