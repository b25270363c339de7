//! What every test needs: a home of its own, a store with a small catalogue, and bytes that are not all the same.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use models::{Catalogue, Digest, Home, Model, ModelFile, Origin, PullError, PullOptions, Pulled, Role, Source, Store};
use tempfile::TempDir;

pub struct World {
    pub dir: TempDir,
    pub store: Store,
    /// Lives in the catalogue, role chat, one GGUF file.
    pub model: Model,
    pub bytes: Vec<u8>,
}

/// A file that begins as GGUF does and then never repeats for long.
pub fn gguf(bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    });
    b"GGUF".iter().copied().chain(noise).take(bytes).collect()
}

pub fn model_file(name: &str, bytes: &[u8]) -> ModelFile {
    ModelFile { name: name.to_string(), bytes: bytes.len() as u64, sha256: Digest::of(bytes) }
}

pub fn hf() -> Source {
    Source::Hf { repo: "owner/tiny".into(), revision: "a".repeat(40) }
}

impl World {
    pub fn new(sources: Vec<Source>) -> World {
        World::with_bytes(gguf(3_000_000, 1), sources)
    }

    pub fn with_bytes(bytes: Vec<u8>, sources: Vec<Source>) -> World {
        let dir = tempfile::tempdir().unwrap();
        let file = model_file("tiny.gguf", &bytes);
        let store = Store::open(&Home::at(dir.path().join("home"))).unwrap();
        let store = store.with_catalogue(catalogue(&file));
        let model =
            Model { name: "tiny".into(), role: Role::Chat, licence: "Apache-2.0".into(), files: vec![file], sources };
        World { dir, store, model, bytes }
    }

    pub fn pull(&self, options: &PullOptions) -> Result<Pulled, PullError> {
        self.store.pull(&self.model, options, &mut |_| {}, &AtomicBool::new(false))
    }

    /// Pulls and says stop as soon as `bytes` bytes have come from `origin`.
    pub fn pull_until(&self, options: &PullOptions, origin: Origin, bytes: u64) -> Result<Pulled, PullError> {
        let cancel = AtomicBool::new(false);
        let mut progress = |p: models::Progress<'_>| {
            cancel.fetch_or(p.origin == origin && p.bytes_done >= bytes, std::sync::atomic::Ordering::Relaxed);
        };
        self.store.pull(&self.model, options, &mut progress, &cancel)
    }

    pub fn store_dir(&self) -> PathBuf {
        self.dir.path().join("home/store")
    }

    pub fn part(&self) -> PathBuf {
        self.store_dir().join(format!("partial/{}.part", self.model.files[0].sha256))
    }

    /// Everything below `store/<dir>`, sorted.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.store_dir().join(dir)).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[track_caller]
    pub fn assert_whole(&self) {
        let path = self.store.path(&self.model, "tiny.gguf").unwrap();
        assert!(std::fs::read(path).unwrap() == self.bytes, "the bytes in the store differ");
        assert_eq!(self.names("partial"), Vec::<String>::new());
    }

    #[track_caller]
    pub fn assert_nothing_visible(&self) {
        assert_eq!(self.names("models"), Vec::<String>::new());
        assert_eq!(self.names("blobs"), Vec::<String>::new());
        assert!(self.store.path(&self.model, "tiny.gguf").is_err());
    }
}

/// A catalogue with `tiny` (one file, a path source that does not exist) and a default for embedding.
fn catalogue(file: &ModelFile) -> Catalogue {
    let ModelFile { name, bytes, sha256 } = file;
    let other = Digest::of(b"vectors");
    let text = format!(
        r#"
default_chat = "tiny"
default_embed = "vectors"
[[model]]
name = "tiny"
role = "chat"
licence = "Apache-2.0"
file = [{{ name = "{name}", bytes = {bytes}, sha256 = "{sha256}" }}]
source = [{{ kind = "path", path = "/nonexistent" }}]
[[model]]
name = "vectors"
role = "embed"
licence = "Apache-2.0"
file = [
  {{ name = "config.json", bytes = 2, sha256 = "{}" }},
  {{ name = "model.safetensors", bytes = 7, sha256 = "{other}" }},
]
source = [{{ kind = "path", path = "/nonexistent" }}]
"#,
        Digest::of(b"{}")
    );
    Catalogue::parse(&text).unwrap()
}
