//! How is an embedding model behind a URL spoken to? The OpenAI embeddings API, on one connection to the host that was
//! named and to no other: no proxy, no redirect.

use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

const CONNECT_SECONDS_MAX: u64 = 10;
const CALL_SECONDS_MAX: u64 = 300;
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A model behind `<base>/embeddings`.
pub struct HttpEmbedder {
    base: String,
    model: String,
    name: String,
    dimension: usize,
    agent: ureq::Agent,
}

/// Why a server gave no vectors.
#[derive(Debug)]
pub struct ServerError(String);

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerError {}

#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

#[derive(Deserialize)]
struct Embedded {
    data: Vec<EmbeddedText>,
}

#[derive(Deserialize)]
struct EmbeddedText {
    index: usize,
    embedding: Vec<f32>,
}

impl HttpEmbedder {
    /// `url` ends in `/v1`; after a `#` it may name the model, else the first that the server lists is taken. One text
    /// is embedded to learn how many numbers a vector has.
    pub fn connect(url: &str) -> Result<Self, ServerError> {
        let (base, model) = url.split_once('#').unwrap_or((url, ""));
        let base = base.trim_end_matches('/').to_owned();
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(CONNECT_SECONDS_MAX)))
            .timeout_global(Some(Duration::from_secs(CALL_SECONDS_MAX)))
            .proxy(None)
            .max_redirects(0)
            .build();
        let (name, model) = (String::new(), model.to_owned());
        let mut embedder = Self { base, model, name, dimension: 0, agent: config.into() };
        if embedder.model.is_empty() {
            embedder.model = embedder.first_model()?;
        }
        let probe = embedder.ask(&["fn main() {}".to_owned()])?;
        embedder.dimension = probe.first().map_or(0, Vec::len);
        if embedder.dimension == 0 {
            return Err(ServerError(format!("{} gave a vector without numbers", embedder.base)));
        }
        embedder.name = format!("{}#{}", embedder.base, embedder.model);
        Ok(embedder)
    }

    fn first_model(&self) -> Result<String, ServerError> {
        let url = format!("{}/models", self.base);
        let mut answer = self.agent.get(&url).call().map_err(|error| failed(&url, &error))?;
        let listed: Listed = read(&url, &mut answer)?;
        let first = listed.data.into_iter().next();
        first.map(|model| model.id).ok_or_else(|| ServerError(format!("{url} lists no model")))
    }

    fn ask(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ServerError> {
        let url = format!("{}/embeddings", self.base);
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" });
        let sent = self.agent.post(&url).header("content-type", "application/json").send(body.to_string());
        let mut answer = sent.map_err(|error| failed(&url, &error))?;
        let mut embedded: Embedded = read(&url, &mut answer)?;
        embedded.data.sort_by_key(|text| text.index);
        if !embedded.data.iter().map(|text| text.index).eq(0..texts.len()) {
            return Err(ServerError(format!("{url} gave no vector for some of {} texts", texts.len())));
        }
        Ok(embedded.data.into_iter().map(|text| text.embedding).collect())
    }
}

impl index::Embedder for HttpEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, index::EmbedError> {
        self.ask(texts).map_err(|error| index::EmbedError::Failed(error.0))
    }
}

fn read<T: for<'de> Deserialize<'de>>(
    url: &str,
    answer: &mut ureq::http::Response<ureq::Body>,
) -> Result<T, ServerError> {
    // Errors have ended the call already; a redirect has not.
    if !answer.status().is_success() {
        return Err(ServerError(format!("{url} answered {} and is not followed elsewhere", answer.status())));
    }
    let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    let text = text.map_err(|error| failed(url, &error))?;
    serde_json::from_str(&text).map_err(|error| failed(url, &error))
}

fn failed(url: &str, error: &dyn std::fmt::Display) -> ServerError {
    ServerError(format!("{url}: {error}"))
}
