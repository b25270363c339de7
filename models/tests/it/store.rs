//! Does the store keep, check, take in and give away what it should?

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use models::{Digest, FetchError, ImportError, PathError, ResolveError, Role, Store, Verdict, VerifyError};

use crate::world::{World, gguf};

/// A world whose model was imported from a file.
fn stocked() -> World {
    let world = World::new(Vec::new());
    import(&world.store, &write(&world, "tiny.gguf", &world.bytes), "tiny").unwrap();
    world
}

fn write(world: &World, name: &str, bytes: &[u8]) -> PathBuf {
    let path = world.dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn import(store: &Store, path: &Path, name: &str) -> Result<models::Imported, ImportError> {
    store.import(path, name, &mut |_| {}, &Default::default())
}

fn verify(store: &Store, name: &str) -> Result<Vec<models::FileCheck>, VerifyError> {
    store.verify(name, &mut |_| {}, &Default::default())
}

fn change(world: &World, change: impl FnOnce(&mut Vec<u8>)) {
    let path = world.store.path(&world.model, "tiny.gguf").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_model_of_the_catalogue_is_imported_from_a_file_or_from_a_directory() {
    let world = stocked();
    world.assert_whole();
    assert_eq!(world.store.remove("tiny").unwrap().bytes_freed, 3_000_000);
    let imported = import(&world.store, world.dir.path(), "tiny").unwrap();
    assert!(imported.in_catalogue);
    world.assert_whole();
}

#[test]
fn a_directory_model_needs_a_directory() {
    let world = World::new(Vec::new());
    write(&world, "model.safetensors", b"vectors");
    let config = write(&world, "config.json", b"{}");
    let error = import(&world.store, &config, "vectors").unwrap_err();
    assert!(
        matches!(&error, ImportError::Rejected { error, .. }
        if matches!(**error, FetchError::NotADirectory { files: 2, .. })),
        "{error}"
    );
    import(&world.store, world.dir.path(), "vectors").unwrap();
    let weights = world.store.resolve("vectors").unwrap();
    assert_eq!(weights.role, Role::Embed);
    assert_eq!(std::fs::read(&weights.file("config.json").unwrap().path).unwrap(), b"{}");
}

#[test]
fn bytes_that_are_not_the_catalogues_are_rejected_and_nothing_is_kept() {
    let world = World::new(Vec::new());
    let path = write(&world, "other.gguf", &gguf(3_000_000, 9));
    let error = import(&world.store, &path, "tiny").unwrap_err();
    assert!(
        matches!(&error, ImportError::Rejected { error, .. }
        if matches!(**error, FetchError::HashMismatch { .. })),
        "{error}"
    );
    let error = import(&world.store, &write(&world, "short.gguf", b"GGUF"), "tiny").unwrap_err();
    assert!(
        matches!(&error, ImportError::Rejected { error, .. }
        if matches!(**error, FetchError::WrongSize { found: 4, .. })),
        "{error}"
    );
    world.assert_nothing_visible();
    assert_eq!(world.names("partial"), Vec::<String>::new());
}

#[test]
fn a_foreign_gguf_is_taken_under_a_new_name_with_its_hash() {
    let world = World::new(Vec::new());
    let bytes = gguf(10_000, 5);
    let path = write(&world, "mine.gguf", &bytes);
    let imported = import(&world.store, &path, "my-model").unwrap();
    assert_eq!((imported.in_catalogue, imported.files[0].sha256), (false, Digest::of(&bytes)));
    std::fs::remove_file(&path).unwrap();
    let weights = world.store.resolve("my-model").unwrap();
    let file = weights.gguf().unwrap();
    assert_eq!(std::fs::read(&file.path).unwrap(), bytes);
    assert_eq!(file.sha256, Some(Digest::of(&bytes)));
    assert!(verify(&world.store, "my-model").unwrap()[0].is_good());
    let listed = world.store.list().unwrap().pop().unwrap();
    assert_eq!((listed.name.as_str(), listed.present, listed.bytes), ("my-model", true, 10_000));
}

#[test]
fn a_name_that_is_taken_or_bad_and_a_file_that_is_no_gguf_are_refused() {
    let world = World::new(Vec::new());
    let path = write(&world, "a.gguf", &gguf(1_000, 1));
    import(&world.store, &path, "mine").unwrap();
    import(&world.store, &path, "mine").unwrap();
    let other = write(&world, "b.gguf", &gguf(1_000, 2));
    assert!(matches!(import(&world.store, &other, "mine"), Err(ImportError::NameTaken { .. })));
    for name in ["", "../x", "a/b", ".hidden", "-x", "ä"] {
        assert!(matches!(import(&world.store, &path, name), Err(ImportError::BadName { .. })), "{name}");
    }
    let text = write(&world, "text.gguf", b"GG");
    assert!(matches!(import(&world.store, &text, "t"), Err(ImportError::NotGguf { .. })));
    assert!(matches!(import(&world.store, world.dir.path(), "t"), Err(ImportError::ForeignDirectory { .. })));
    assert!(matches!(import(&world.store, Path::new("/nonexistent"), "t"), Err(ImportError::Io { .. })));
}

#[test]
fn verification_tells_a_changed_byte_from_a_missing_one() {
    let world = stocked();
    assert!(verify(&world.store, "tiny").unwrap()[0].is_good());
    change(&world, |bytes| bytes[2_999_999] ^= 1);
    let checks = verify(&world.store, "tiny").unwrap();
    assert!(matches!(checks[0].verdict, Verdict::WrongHash { expected, .. } if expected == Digest::of(&world.bytes)));
    change(&world, |bytes| bytes.truncate(5));
    let checks = verify(&world.store, "tiny").unwrap();
    assert!(matches!(checks[0].verdict, Verdict::WrongSize { expected: 3_000_000, found: 5 }));
    let damaged = world.store.path(&world.model, "tiny.gguf");
    assert!(matches!(damaged, Err(PathError::Damaged { .. })), "{damaged:?}");
    std::fs::remove_file(world.store_dir().join("blobs").join(&world.names("blobs")[0])).unwrap();
    assert!(matches!(verify(&world.store, "tiny").unwrap()[0].verdict, Verdict::Missing));
}

#[test]
fn a_damaged_file_is_mended_by_bringing_the_model_in_again() {
    let world = stocked();
    change(&world, |bytes| bytes.truncate(5));
    import(&world.store, world.dir.path(), "tiny").unwrap();
    world.assert_whole();
}

#[test]
fn what_is_not_here_cannot_be_verified_and_a_cancel_is_obeyed() {
    let world = World::new(Vec::new());
    for name in ["tiny", "nobody", "../blobs"] {
        assert!(matches!(verify(&world.store, name), Err(VerifyError::NotHere { .. })), "{name}");
    }
    let world = stocked();
    let verified = world.store.verify("tiny", &mut |_| {}, &true.into());
    assert!(matches!(verified, Err(VerifyError::Cancelled)));
}

#[test]
fn removing_a_model_keeps_what_another_model_refers_to() {
    let world = stocked();
    import(&world.store, &world.dir.path().join("tiny.gguf"), "twin").unwrap();
    assert_eq!(world.names("blobs").len(), 1);
    let removed = world.store.remove("tiny").unwrap();
    assert_eq!((removed.bytes_freed, removed.was_here), (0, true));
    assert!(verify(&world.store, "twin").unwrap()[0].is_good());
    assert_eq!(world.store.remove("twin").unwrap().bytes_freed, 3_000_000);
    assert_eq!(world.names("blobs"), Vec::<String>::new());
    assert!(!world.store.remove("twin").unwrap().was_here);
    assert!(!world.store.remove("../blobs").unwrap().was_here);
}

#[test]
fn removing_a_model_removes_its_half_done_pull() {
    let world = World::new(Vec::new());
    std::fs::write(world.part(), b"half").unwrap();
    assert_eq!(world.store.remove("tiny").unwrap().bytes_freed, 4);
    assert_eq!(world.names("partial"), Vec::<String>::new());
}

#[test]
fn a_name_resolves_before_a_path_and_an_unknown_one_names_the_known() {
    let world = World::new(Vec::new());
    let path = write(&world, "loose.gguf", &gguf(100, 3));
    let weights = world.store.resolve(path.to_str().unwrap()).unwrap();
    assert_eq!((weights.name.as_str(), &weights.gguf().unwrap().path), ("loose", &path));
    let text = write(&world, "notes.txt", b"hello");
    assert!(matches!(world.store.resolve(text.to_str().unwrap()), Err(ResolveError::NotGguf { .. })));
    let error = world.store.resolve("tiny").unwrap_err().to_string();
    assert!(error.contains("cloister models pull tiny"), "{error}");
    let error = world.store.resolve("nobody").unwrap_err().to_string();
    assert!(error.contains("tiny, vectors"), "{error}");
}
