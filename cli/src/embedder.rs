//! Who makes the vectors of an index? The token table, MiniLM, or a server that was named; each behind the index's trait.

use crate::exit::{Exit, Fatal};
use crate::http_embedder::HttpEmbedder;
use crate::state::State;
use models::{Digest, Role, Store, Weights};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// In the directory of an index: the choice that was made for it.
const CHOICE_FILE: &str = "embedder";

/// What `--embedder` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A table with one vector per token, made from MiniLM: thousands of chunks a second.
    Static,
    /// MiniLM itself: better at prose, some tens of chunks a second.
    MiniLm,
    /// The OpenAI embeddings API behind this base URL.
    Http(String),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "static" => Ok(Self::Static),
            "minilm" => Ok(Self::MiniLm),
            url if url.starts_with("http://") || url.starts_with("https://") => Ok(Self::Http(url.to_owned())),
            gguf if gguf.ends_with(".gguf") => {
                Err("embedding with a GGUF file is not possible yet; serve it and give the server's URL".into())
            }
            _ => Err("give static, minilm, or the URL of an embeddings server such as http://127.0.0.1:8080/v1".into()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::MiniLm => "minilm",
            Self::Http(url) => url,
        })
    }
}

impl Choice {
    /// What was kept for the index in this directory, else the table.
    pub fn of_index(directory: &Path) -> Self {
        let kept = std::fs::read_to_string(directory.join(CHOICE_FILE));
        kept.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(Self::Static)
    }

    /// Keeps it for the index in this directory.
    pub fn keep(&self, directory: &Path) -> Result<(), Fatal> {
        let path = directory.join(CHOICE_FILE);
        let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, format!("{self}\n")));
        written.map_err(|error| Fatal::missing(error, format!("{} must be writable", path.display())))
    }

    /// Loads it. `None`, and a note for the person, where its model is not on this host.
    pub fn load(&self, state: &State, cancel: &AtomicBool) -> Result<Option<Arc<dyn index::Embedder>>, Fatal> {
        if let Self::Http(url) = self {
            let hint = "start the server, or give --embedder static";
            let embedder = HttpEmbedder::connect(url).map_err(|error| Fatal::missing(error, hint))?;
            return Ok(Some(Arc::new(embedder)));
        }
        let store = state.store()?;
        let weights = match store.weights(store.catalogue().default_for(Role::Embed)) {
            Ok(weights) => weights,
            Err(error) => {
                eprintln!("note: searching without meaning, by words and names only: {error}");
                return Ok(None);
            }
        };
        Ok(Some(match self {
            Self::MiniLm => Arc::new(MiniLm::load(&weights)?),
            _ => Arc::new(TokenTable::load(&store, &weights, cancel)?),
        }))
    }
}

/// The embedding model itself.
struct MiniLm {
    embedder: inference::Embedder,
    name: String,
}

impl MiniLm {
    fn load(weights: &Weights) -> Result<Self, Fatal> {
        let embedder = inference::Embedder::load(directory(weights)?)
            .map_err(|error| Fatal::missing(error, damage_hint(weights)))?;
        Ok(Self { embedder, name: weights.name.clone() })
    }
}

impl index::Embedder for MiniLm {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, index::EmbedError> {
        self.embedder.embed(texts).map_err(|error| index::EmbedError::Failed(error.to_string()))
    }
}

/// The table that was made from the embedding model.
pub struct TokenTable {
    embedder: inference::StaticEmbedder,
    name: String,
}

impl TokenTable {
    /// Reads the table of these weights, or makes it with a line of progress where there is none yet.
    pub fn load(store: &Store, weights: &Weights, cancel: &AtomicBool) -> Result<Self, Fatal> {
        let path = inference::StaticEmbedder::path(&store.tables(), &source(weights));
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let embedder = match inference::StaticEmbedder::read(&path) {
            Some(embedder) => embedder,
            None => make(weights, &path, cancel)?,
        };
        Ok(Self { embedder, name: format!("static-{name}") })
    }
}

impl index::Embedder for TokenTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn skips_small(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, index::EmbedError> {
        Ok(self.embedder.embed(texts))
    }
}

fn make(weights: &Weights, path: &Path, cancel: &AtomicBool) -> Result<inference::StaticEmbedder, Fatal> {
    let shape = indicatif::ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}").expect("constant");
    let bar = indicatif::ProgressBar::new(0).with_style(shape.progress_chars("=> "));
    bar.set_message("tokens");
    eprintln!("making the token table of {}, once for this host; about a minute", weights.name);
    let mut show = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        !cancel.load(Ordering::Relaxed)
    };
    let made = inference::StaticEmbedder::make(directory(weights)?, path, &mut show);
    bar.finish_and_clear();
    made.map_err(|error| match error {
        inference::StaticError::Cancelled => Fatal { exit: Exit::Cancelled, error: error.into(), hint: String::new() },
        error => Fatal::missing(error, damage_hint(weights)),
    })
}

/// Names everything that a table is made from.
fn source(weights: &Weights) -> String {
    let digests = weights.files.iter().map(|file| {
        let digest = file.sha256.map(|digest| digest.to_string()).unwrap_or_default();
        format!("{} {digest}\n", file.name)
    });
    Digest::of(digests.collect::<String>().as_bytes()).to_string()[..16].to_owned()
}

fn directory(weights: &Weights) -> Result<&Path, Fatal> {
    let directory = weights.files.first().and_then(|file| file.path.parent());
    Ok(directory.ok_or_else(|| anyhow::anyhow!("`{}` has no files", weights.name))?)
}

fn damage_hint(weights: &Weights) -> String {
    format!("`cloister models verify {}` says whether its files are whole", weights.name)
}
