//! Who turns text into vectors? Somebody else, behind this trait.

/// A model that maps texts to vectors of one fixed length. Two texts of like meaning get vectors with a small cosine
/// distance. The same text must always give the same vector under the same name.
pub trait Embedder: Send + Sync {
    /// Names the model and everything that changes its vectors (pooling, truncation). Vectors of two names are never
    /// compared.
    fn name(&self) -> &str;

    /// How many numbers one vector has.
    fn dimension(&self) -> usize;

    /// Whether pieces of fewer than 200 bytes need no vector: of so few words there is nothing to learn but the words,
    /// which the text lane has.
    fn skips_small(&self) -> bool {
        false
    }

    /// How many texts a call may bring. A cancel is noticed between two calls, so one should take seconds at most.
    fn texts_max(&self) -> usize {
        32
    }

    /// One vector per text, in order. Called with at most [`Embedder::texts_max`] texts at a time.
    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why no vectors came back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The model ran and failed, or could not run.
    #[error("the embedding model failed: {0}")]
    Failed(String),
    /// The model answered with the wrong number of vectors.
    #[error("the embedding model gave {got} vectors for {wanted} texts")]
    Count {
        /// How many texts were sent.
        wanted: usize,
        /// How many vectors came back.
        got: usize,
    },
    /// A vector has the wrong length, or holds a number that is not finite.
    #[error("the embedding model gave an unusable vector: wanted {wanted} finite numbers, got {got} numbers")]
    Shape {
        /// The length that [`Embedder::dimension`] promised.
        wanted: usize,
        /// The length of the vector that came back.
        got: usize,
    },
}

/// Asks the embedder and checks its answer, so that nothing malformed reaches the store.
pub(crate) fn embed_checked(embedder: &dyn Embedder, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
    let vectors = embedder.embed(texts)?;
    if vectors.len() != texts.len() {
        return Err(EmbedError::Count { wanted: texts.len(), got: vectors.len() });
    }
    let wanted = embedder.dimension();
    for vector in &vectors {
        if vector.len() != wanted || vector.iter().any(|number| !number.is_finite()) {
            return Err(EmbedError::Shape { wanted, got: vector.len() });
        }
    }
    Ok(vectors)
}
