//! What of the store can a refresh build on, and what must it build anew?

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::embed::Embedder;
use crate::files::Files;
use crate::hash::PieceHash;
use crate::lane::LANES;
use crate::lexical::{Lexical, LexicalError};
use crate::manifest::{DAMAGED_MANIFEST, Manifest, ManifestError, VectorRecord, Versions};
use crate::store::{LEXICAL_PREFIX, VECTOR_PREFIX, clean, fresh, lane_names, numbered};
use crate::vector::{VectorError, Vectors};

/// The state from which a refresh starts. Made with the writer's lock held.
pub(crate) struct Plan {
    /// What the lanes hold already; nothing where they start empty.
    pub old: Option<Old>,
    /// The last generation that was committed.
    pub generation: u64,
    /// The number of the next new file.
    pub next_file: u32,
    pub lexical: Lexical,
    pub lexical_directory: String,
    /// Where vectors were, for a refresh without an embedder to pass on.
    pub vector: Option<VectorRecord>,
    /// Why the lanes start empty although there was something.
    pub rebuilt: Option<String>,
    /// What was found damaged, to be put aside once something sound has taken its place.
    pub broken: Vec<String>,
}

/// A sound manifest and its table.
pub(crate) struct Old {
    pub manifest: Manifest,
    pub files: Files,
}

impl Plan {
    /// `verified` says that the checksums were compared by this process before; only headers are looked at then.
    pub(crate) fn make(store: &Path, root: &Path, verified: bool) -> Result<Plan, LexicalError> {
        let read = Manifest::read(store);
        let mut broken = Vec::new();
        let (manifest, mut rebuilt) = match read {
            Ok(manifest) => (manifest, None),
            // Nothing says what belongs together: all of it is put aside, but for the vectors, which say it themselves.
            Err(error) => {
                if !matches!(error, ManifestError::Version) {
                    broken = lane_names(store);
                    broken.retain(|name| !name.starts_with(VECTOR_PREFIX));
                    broken.push(DAMAGED_MANIFEST.to_owned());
                }
                (None, Some(error.to_string()))
            }
        };
        if rebuilt.is_none() {
            keep_only_what_is_named(store, manifest.as_ref());
        }
        let generation = manifest.as_ref().map_or(0, |manifest| manifest.generation);
        let vector = manifest.as_ref().and_then(|manifest| manifest.vector.clone());
        let next_file = manifest.as_ref().map_or(0, |manifest| manifest.next_file);
        if let Some(mut manifest) = manifest {
            match sound(store, root, &manifest, verified) {
                Ok((lexical, files)) => {
                    // A refresh that died after its text lane left files there that nobody named.
                    let next_file = next_file.max(lexical.commit().map_or(0, |commit| commit.next_file));
                    manifest.unpurged.extend(manifest.next_file..next_file);
                    let lexical_directory = manifest.lexical_directory.clone();
                    let old = Some(Old { manifest, files });
                    return Ok(Plan {
                        old,
                        generation,
                        next_file,
                        lexical,
                        lexical_directory,
                        vector,
                        rebuilt,
                        broken,
                    });
                }
                Err(Unsound::Version) => rebuilt = Some("another version of the indexer, or another tree".to_owned()),
                Err(Unsound::Damaged(why)) => {
                    broken.extend(manifest.segments.clone());
                    broken.push(manifest.lexical_directory.clone());
                    rebuilt = Some(why);
                }
            }
        }
        // What is not there cannot be put aside, and its name may be taken again.
        broken.retain(|name| name == DAMAGED_MANIFEST || store.join(name).exists());
        let lexical_directory = fresh(store, LEXICAL_PREFIX);
        let lexical = Lexical::create(&store.join(&lexical_directory))?;
        Ok(Plan { old: None, generation, next_file, lexical, lexical_directory, vector, rebuilt, broken })
    }
}

/// The newest vector directory stays even when no manifest names it: a refresh that was stopped left its work there.
fn keep_only_what_is_named(store: &Path, manifest: Option<&Manifest>) {
    let newest = numbered(store, VECTOR_PREFIX).into_iter().next();
    let mut keep = manifest.map(Manifest::names).unwrap_or_default();
    keep.extend(newest.as_deref());
    clean(store, &keep);
}

/// Why the lanes of a manifest cannot be built on.
enum Unsound {
    Version,
    Damaged(String),
}

fn sound(store: &Path, root: &Path, manifest: &Manifest, verified: bool) -> Result<(Lexical, Files), Unsound> {
    if manifest.versions != Versions::current(root) {
        return Err(Unsound::Version);
    }
    let damaged = |why: &dyn ToString| Unsound::Damaged(why.to_string());
    let files = manifest.files(store).map_err(|error| damaged(&format!("the table of files: {error}")))?;
    for lane in LANES.iter().filter(|_| !verified) {
        for name in manifest.segments_of(lane.prefix()) {
            lane.check(&store.join(name)).map_err(|error| damaged(&format!("{name}: {error}")))?;
        }
    }
    let lexical = Lexical::open(&store.join(&manifest.lexical_directory)).map_err(|error| damaged(&error))?;
    if !lexical.commit().is_some_and(|commit| commit.serves(manifest.lexical_generation)) {
        return Err(damaged(&"the text lane and the manifest are of different generations"));
    }
    if verified {
        return Ok((lexical, files));
    }
    match lexical.damaged_files() {
        Ok(names) if names.is_empty() => Ok((lexical, files)),
        Ok(names) => Err(damaged(&format!("damaged file {}", names[0]))),
        Err(error) => Err(damaged(&error)),
    }
}

/// A table to write vectors to.
pub(crate) struct Writable {
    pub directory: String,
    pub vectors: Arc<Vectors>,
    pub present: FxHashSet<PieceHash>,
    /// Why existing tables were passed over, and which.
    pub damage: Option<String>,
    pub broken: Vec<String>,
}

/// Takes the newest sound table, or makes a new one.
pub(crate) fn writable_vectors(store: &Path, embedder: &dyn Embedder) -> Result<Writable, VectorError> {
    let (mut damage, mut broken) = (None, Vec::new());
    for directory in numbered(store, VECTOR_PREFIX) {
        let opened = Vectors::open(&store.join(&directory), embedder.name(), embedder.dimension());
        let sound = opened.and_then(|vectors| {
            let present = vectors.hashes()?;
            vectors.probe()?;
            Ok((Arc::new(vectors), present))
        });
        match sound {
            Ok((vectors, present)) => {
                return Ok(Writable { directory, vectors, present, damage: None, broken });
            }
            Err(error) => {
                damage = Some(error.to_string());
                broken.push(directory);
            }
        }
    }
    let directory = fresh(store, VECTOR_PREFIX);
    let vectors = Vectors::create(&store.join(&directory), embedder.name(), embedder.dimension())?;
    Ok(Writable { directory, vectors: Arc::new(vectors), present: FxHashSet::default(), damage, broken })
}
