//! Who makes the vectors of an index? The token table, MiniLM, the model in a GGUF file, or a server that was named; each
//! behind the index's trait.

use crate::exit::{Exit, Fatal};
use crate::http_embedder::HttpEmbedder;
use crate::state::State;
use inference::LoadError;
use models::{Digest, Role, Store, Weights};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// In the directory of an index: the choice that was made for it.
const CHOICE_FILE: &str = "embedder";
/// Texts that the model of a GGUF file is given at a time: a decoder takes some seconds for them, as long as a cancel may take.
const GGUF_TEXTS_MAX: usize = 4;
const CHOICES: &str = "give static, minilm, the path of a .gguf file, the name of a model in the store (`cloister models list` \
                       shows them), or the URL of an embeddings server such as http://127.0.0.1:8080/v1";

/// What `--embedder` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A table with one vector per token, made from MiniLM: thousands of chunks a second.
    Static,
    /// MiniLM itself: better at prose, some tens of chunks a second.
    MiniLm,
    /// The OpenAI embeddings API behind this base URL.
    Http(String),
    /// The GGUF file at this absolute path, run by our own engine.
    Gguf(PathBuf),
    /// The GGUF file of the model that has this name in the store.
    Stored(String),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "static" => Ok(Self::Static),
            "minilm" => Ok(Self::MiniLm),
            url if url.starts_with("http://") || url.starts_with("https://") => Ok(Self::Http(url.to_owned())),
            path if path.ends_with(".gguf") => absolute(path).map(Self::Gguf),
            name if models::is_plain_name(name) => Ok(Self::Stored(name.to_owned())),
            _ => Err(CHOICES.into()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("static"),
            Self::MiniLm => f.write_str("minilm"),
            Self::Http(text) | Self::Stored(text) => f.write_str(text),
            Self::Gguf(path) => write!(f, "{}", path.display()),
        }
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

    /// Whether a search goes on without it where it cannot be had: what a person named outside of the catalogue's defaults
    /// may have gone since.
    pub fn may_be_gone(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Gguf(_) | Self::Stored(_))
    }

    /// Loads it. `None`, and a note for the person, where its model is not on this host.
    pub fn load(&self, state: &State, cancel: &AtomicBool) -> Result<Option<Arc<dyn index::Embedder>>, Fatal> {
        match self {
            Self::Http(url) => {
                let hint = "start the server, or give --embedder static";
                let embedder = HttpEmbedder::connect(url).map_err(|error| Fatal::missing(error, hint))?;
                return Ok(Some(Arc::new(embedder)));
            }
            Self::Gguf(path) => return Ok(Some(Arc::new(Gguf::load(path, None)?))),
            Self::Stored(name) => return Ok(Some(Arc::new(Gguf::stored(&state.store()?, name)?))),
            Self::Static | Self::MiniLm => {}
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

/// The decoder or the encoder in a GGUF file.
struct Gguf {
    embedder: inference::GgufEmbedder,
    name: String,
}

impl Gguf {
    /// Loads the file at `path`. Its name is made of its digest, so that the same file has the same vectors wherever it
    /// lies and another in its place has others; `digest` where it is known already.
    fn load(path: &Path, digest: Option<Digest>) -> Result<Self, Fatal> {
        let embedder = inference::GgufEmbedder::load(path).map_err(|error| {
            let hint = match &error {
                LoadError::UnknownArchitecture { .. } | LoadError::Unsupported { .. } => {
                    "have a program that knows this model serve it, and give that server's URL"
                }
                LoadError::VocabularyOnly { .. } => "take the file that holds the weights as well",
                LoadError::NotFound { .. } | LoadError::NotGguf { .. } => CHOICES,
                _ => "fetch the file again",
            };
            Fatal::missing(error, hint)
        })?;
        let hashed = digest.map_or_else(|| Digest::of_file(path), Ok);
        let digest = hashed.map_err(|error| Fatal::missing(error, format!("{} must be readable", path.display())))?;
        let name = format!("gguf-{}-{}", &digest.to_string()[..16], embedder.method());
        Ok(Self { embedder, name })
    }

    fn stored(store: &Store, name: &str) -> Result<Self, Fatal> {
        let weights = store.resolve(name).map_err(|error| Fatal::missing(error, CHOICES))?;
        // A file of this name in the working directory would not be found from another one.
        match weights.gguf() {
            Some(file) if file.sha256.is_some() => Self::load(&file.path, file.sha256),
            _ => Err(Fatal::missing(anyhow::anyhow!("`{name}` is no model with a .gguf file in the store"), CHOICES)),
        }
    }
}

impl index::Embedder for Gguf {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn texts_max(&self) -> usize {
        GGUF_TEXTS_MAX
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

/// Kept as text, so it must be text.
fn absolute(path: &str) -> Result<PathBuf, String> {
    let absolute = std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?;
    absolute.to_str().ok_or("the working directory's name is not UTF-8; give an absolute path")?;
    Ok(absolute)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: Choice) {
        let choice: Choice = typed.parse().expect("a choice");
        assert_eq!(choice, expected);
        // What is kept for an index is read again as the same choice, from wherever it is read.
        assert_eq!(choice.to_string().parse(), Ok(expected));
    }

    #[test]
    fn what_is_typed_names_one_embedder_and_is_kept_as_it_was_meant() {
        check("static", Choice::Static);
        check("minilm", Choice::MiniLm);
        check("http://127.0.0.1:8080/v1#a.gguf", Choice::Http("http://127.0.0.1:8080/v1#a.gguf".into()));
        check("/models/a b.gguf", Choice::Gguf("/models/a b.gguf".into()));
        check("qwen2.5-coder-0.5b-instruct", Choice::Stored("qwen2.5-coder-0.5b-instruct".into()));
        let here = std::env::current_dir().unwrap();
        check("a.gguf", Choice::Gguf(here.join("a.gguf")));
        check("models/a.gguf", Choice::Gguf(here.join("models/a.gguf")));
    }

    #[test]
    fn what_names_no_embedder_is_told_what_does() {
        for text in ["", "a model", "models/a.bin", "../minilm", "-v", "ftp://host/v1", "a\nb"] {
            let error = text.parse::<Choice>().expect_err(text);
            assert!(error.contains("static, minilm"), "{text}: {error}");
        }
    }
}
