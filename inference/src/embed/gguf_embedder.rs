//! Which texts mean something similar, by the model in a GGUF file?
//!
//! A decoder of a family that the engine runs, or an encoder of the BERT family. How the states of the tokens become one
//! vector is said in the file.

use super::EmbedError;
use super::gguf_decoder::Decoder;
use super::gguf_encoder::Encoder;
use crate::model::{Header, LoadError};
use std::path::Path;

/// Tokens of a text that count, where the model was not made for fewer: a piece of an index is seldom longer, and time
/// grows with them.
pub const GGUF_TOKENS_MAX: usize = 512;
/// What makes vectors here: the decoders that the engine runs, and BERT.
const KNOWN: &str = "bert, qwen2";

/// Turns texts into vectors. Calls may come from several threads.
pub struct GgufEmbedder {
    model: Kind,
}

enum Kind {
    Decoder(Box<Decoder>),
    Encoder(Box<Encoder>),
}

impl GgufEmbedder {
    /// Loads the GGUF file at `path`. What this build cannot run is refused before memory is taken for its weights.
    pub fn load(path: &Path) -> Result<GgufEmbedder, LoadError> {
        let header = Header::read(path)?;
        let model = match header.text("general.architecture")? {
            "bert" => Kind::Encoder(Box::new(Encoder::load(&header)?)),
            _ => Kind::Decoder(Box::new(Decoder::load(&header).map_err(|error| match error {
                LoadError::UnknownArchitecture { name, .. } => LoadError::UnknownArchitecture { name, known: KNOWN },
                error => error,
            })?)),
        };
        Ok(GgufEmbedder { model })
    }

    /// Numbers in a vector.
    pub fn dimension(&self) -> usize {
        match &self.model {
            Kind::Decoder(decoder) => decoder.dimension(),
            Kind::Encoder(encoder) => encoder.dimension(),
        }
    }

    /// Names what changes the vectors of one and the same file, such as `mean-512`: the pooling and the tokens that count.
    pub fn method(&self) -> String {
        let (pooling, tokens_max) = match &self.model {
            Kind::Decoder(decoder) => (decoder.pooling(), decoder.tokens_max()),
            Kind::Encoder(encoder) => (encoder.pooling(), encoder.tokens_max()),
        };
        format!("{}-{tokens_max}", pooling.name())
    }

    /// One vector of length 1 for each text, in the order of the texts; zeros for a text in which a decoder finds no token.
    pub fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        match &self.model {
            Kind::Decoder(decoder) => decoder.embed(texts),
            Kind::Encoder(encoder) => encoder.embed(texts),
        }
    }
}
