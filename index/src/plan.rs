//! What of the store can a refresh build on, and what must it build anew?

use std::path::Path;

use crate::embed::Embedder;
use crate::lexical::{Lexical, LexicalError};
use crate::manifest::{Manifest, VectorRecord, Versions};
use crate::store::{LEXICAL_PREFIX, VECTOR_PREFIX, clean, fresh, numbered};
use crate::vector::{VectorError, Vectors};

/// The state from which a refresh starts. Made with the writer's lock held.
pub(crate) struct Plan {
    /// What the text lane holds already; nothing where it starts empty.
    pub old: Option<Manifest>,
    /// The last generation that was committed.
    pub generation: u64,
    pub lexical: Lexical,
    pub lexical_directory: String,
    /// Where vectors were, for a refresh without an embedder to pass on.
    pub vector: Option<VectorRecord>,
    /// Why the text lane starts empty although there was one.
    pub rebuilt: Option<String>,
}

impl Plan {
    pub(crate) fn make(store: &Path, root: &Path) -> Result<Plan, LexicalError> {
        let (manifest, mut reason) = match Manifest::read(store) {
            Ok(manifest) => (manifest, None),
            Err(error) => (None, Some(error.to_string())),
        };
        keep_only_what_is_named(store, manifest.as_ref());
        let generation = manifest.as_ref().map_or(0, |manifest| manifest.generation);
        let vector = manifest.as_ref().and_then(|manifest| manifest.vector.clone());
        if let Some(manifest) = manifest {
            match sound_lexical(store, root, &manifest) {
                Ok(lexical) => {
                    let lexical_directory = manifest.lexical_directory.clone();
                    return Ok(Plan {
                        old: Some(manifest),
                        generation,
                        lexical,
                        lexical_directory,
                        vector,
                        rebuilt: None,
                    });
                }
                Err(why) => reason = Some(why),
            }
        }
        let lexical_directory = fresh(store, LEXICAL_PREFIX);
        let lexical = Lexical::create(&store.join(&lexical_directory))?;
        Ok(Plan { old: None, generation, lexical, lexical_directory, vector, rebuilt: reason })
    }
}

/// The newest vector directory stays even when no manifest names it: a refresh that was stopped left its work there.
fn keep_only_what_is_named(store: &Path, manifest: Option<&Manifest>) {
    let newest = numbered(store, VECTOR_PREFIX).into_iter().next();
    let mut keep: Vec<&str> = newest.iter().map(String::as_str).collect();
    if let Some(manifest) = manifest {
        keep.push(&manifest.lexical_directory);
        keep.extend(manifest.vector.as_ref().map(|vector| vector.directory.as_str()));
    }
    clean(store, &keep);
}

/// The text lane of this manifest, or why it cannot be built on.
fn sound_lexical(store: &Path, root: &Path, manifest: &Manifest) -> Result<Lexical, String> {
    if manifest.versions != Versions::current(root) {
        return Err("another version of the indexer, or another tree".to_owned());
    }
    let lexical = Lexical::open(&store.join(&manifest.lexical_directory)).map_err(|error| error.to_string())?;
    if lexical.generation() != Some(manifest.generation) {
        return Err("the text lane and the manifest are of different generations".to_owned());
    }
    match lexical.damaged_files() {
        Ok(damaged) if damaged.is_empty() => Ok(lexical),
        Ok(damaged) => Err(format!("damaged file {}", damaged[0])),
        Err(error) => Err(error.to_string()),
    }
}

/// A table to write vectors to, with the hashes that it holds. Takes the newest sound one, or makes a new one.
/// The last element says why an existing one was passed over.
pub(crate) fn writable_vectors(
    store: &Path,
    embedder: &dyn Embedder,
) -> Result<(String, Vectors, std::collections::HashSet<String>, Option<String>), VectorError> {
    let mut damage = None;
    for directory in numbered(store, VECTOR_PREFIX) {
        let opened = Vectors::open(&store.join(&directory), embedder.name(), embedder.dimension());
        let sound = opened.and_then(|vectors| {
            let hashes = vectors.hashes()?;
            vectors.probe()?;
            Ok((vectors, hashes))
        });
        match sound {
            Ok((vectors, hashes)) => return Ok((directory, vectors, hashes, None)),
            Err(error) => damage = Some(error.to_string()),
        }
    }
    let directory = fresh(store, VECTOR_PREFIX);
    let vectors = Vectors::create(&store.join(&directory), embedder.name(), embedder.dimension())?;
    Ok((directory, vectors, Default::default(), damage))
}
