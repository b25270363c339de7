//! Does the harness see the workspace as the box does, from two plain directories and without a runtime?

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sandbox::{ChangeKind, FILE_BYTES_MAX, Kind, Node, RelPath, View, ViewError};
use tempfile::TempDir;

use crate::harness::{Yard, snapshot};

fn view(yard: &Yard) -> (View, TempDir) {
    let layers = TempDir::new().expect("layers");
    (View::open(&yard.repo(), layers.path()).expect("view"), layers)
}

#[test]
fn reading_falls_through_to_the_repository_and_writing_stays_above() {
    let yard = Yard::new();
    let before = snapshot(&yard.repo());
    let (view, _layers) = view(&yard);
    assert_eq!(view.read("src/main.py").expect("read"), b"print('one')\n");
    view.write("src/main.py", b"two").expect("write");
    view.write("./src//new.py", b"new").expect("write");
    assert_eq!(view.read("src/main.py").expect("read"), b"two");
    let names: Vec<PathBuf> = view.walk(|_| true).expect("walk").into_iter().map(|entry| entry.path).collect();
    assert_eq!(names, ["README.md", "src", "src/main.py", "src/new.py", "src/util.py"].map(PathBuf::from));
    let mut touched = view.touched(|_| true).expect("touched");
    touched.sort();
    assert_eq!(touched, ["src/main.py", "src/new.py"].map(PathBuf::from));
    assert!(
        view.touched(|at| at.as_path() != Path::new("src")).expect("touched").is_empty(),
        "what is not kept is not entered"
    );
    assert_eq!(snapshot(&yard.repo()), before);
}

#[test]
fn a_removed_file_is_gone_comes_back_when_written_and_is_told_as_deleted_between() {
    let yard = Yard::new();
    let (view, _layers) = view(&yard);
    view.remove("README.md").expect("remove");
    assert!(matches!(view.read("README.md"), Err(ViewError::NotFound(_))));
    assert!(matches!(view.remove("README.md"), Err(ViewError::NotFound(_))));
    let changes = view.changes(|_| true).expect("changes");
    assert_eq!((changes.len(), changes[0].kind), (1, ChangeKind::Deleted));
    assert_eq!(changes[0].before.as_deref(), Some(&b"read me\n"[..]));
    assert_eq!(view.touched(|_| true).expect("touched"), [PathBuf::from("README.md")]);
    view.write("README.md", b"read me\n").expect("write");
    assert!(view.changes(|_| true).expect("changes").is_empty(), "the same bytes are no change");
    view.write("only-above", b"x").expect("write");
    view.remove("only-above").expect("remove");
    assert!(view.changes(|_| true).expect("changes").is_empty());
}

#[test]
fn links_and_special_files_are_reported_and_not_followed() {
    let yard = Yard::new();
    symlink("/etc/passwd", yard.repo().join("link")).expect("link");
    symlink("src", yard.repo().join("dirlink")).expect("link");
    symlink("loop", yard.repo().join("loop")).expect("link");
    let (view, layers) = view(&yard);
    assert!(matches!(view.read("link"), Err(ViewError::Symlink(_))));
    assert!(matches!(view.read("dirlink/main.py"), Err(ViewError::Symlink(_))));
    assert!(matches!(view.read("loop"), Err(ViewError::Symlink(_))));
    assert!(matches!(view.write("dirlink/x", b""), Err(ViewError::Symlink(_))));
    assert!(matches!(view.write("link", b""), Err(ViewError::Symlink(_))));
    assert!(matches!(view.read("src"), Err(ViewError::IsDirectory(_))));
    assert!(matches!(view.read("README.md/x"), Err(ViewError::NotDirectory(_))));
    assert_eq!(view.metadata("link").expect("metadata").kind, Kind::Symlink);
    symlink("/etc", layers.path().join("upper/etc")).expect("link");
    assert!(matches!(view.read("etc/passwd"), Err(ViewError::Symlink(_))));
    let changes = view.changes(|_| true).expect("changes");
    assert_eq!((changes[0].node, changes[0].after.as_deref()), (Node::Symlink, Some(&b"/etc"[..])));
}

#[test]
fn a_file_that_is_too_large_is_refused_with_its_size() {
    let yard = Yard::new();
    let file = fs::File::create(yard.repo().join("large")).expect("file");
    file.set_len(200 << 20).expect("size");
    let (view, layers) = view(&yard);
    match view.read("large") {
        Err(ViewError::TooLarge { bytes, bytes_max, .. }) => {
            assert_eq!((bytes, bytes_max), (200 << 20, FILE_BYTES_MAX))
        }
        other => panic!("{other:?}"),
    }
    fs::File::create(layers.path().join("upper/huge")).expect("file").set_len(20 << 20).expect("size");
    let changes = view.changes(|_| true).expect("changes");
    assert_eq!((changes[0].node, &changes[0].after), (Node::Large { bytes: 20 << 20 }, &None));
}

#[test]
fn text_and_binary_are_told_apart_and_paths_can_be_left_out() {
    let yard = Yard::new();
    let (view, _layers) = view(&yard);
    view.write("a.bin", b"\0\x01").expect("write");
    view.write("b.txt", "ä".as_bytes()).expect("write");
    view.write("src/__pycache__/c.pyc", b"x").expect("write");
    let changes = view.changes(|path| !path.as_path().ends_with("__pycache__")).expect("changes");
    let told: Vec<_> = changes.iter().map(|change| (change.path.as_path(), change.binary)).collect();
    assert_eq!(told, [(Path::new("a.bin"), true), (Path::new("b.txt"), false)]);
}

#[test]
fn a_directory_in_place_of_a_file_and_a_file_in_place_of_a_directory_are_told_file_by_file() {
    let yard = Yard::new();
    let (view, layers) = view(&yard);
    fs::create_dir(layers.path().join("upper/README.md")).expect("dir");
    fs::write(layers.path().join("upper/README.md/x"), "x").expect("file");
    fs::write(layers.path().join("upper/src"), "now a file").expect("file");
    let changes = view.changes(|_| true).expect("changes");
    let told: Vec<_> = changes.iter().map(|change| (change.path.to_str().unwrap_or(""), change.kind)).collect();
    assert_eq!(
        told,
        [
            ("README.md", ChangeKind::Deleted),
            ("README.md/x", ChangeKind::Created),
            ("src", ChangeKind::Created),
            ("src/main.py", ChangeKind::Deleted),
            ("src/util.py", ChangeKind::Deleted),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_accepted_path_never_leaves_the_workspace(parts in prop::collection::vec("[a-z]{0,3}|\\.|\\.\\.|/|\\.git|a b|\u{e4}", 0..12)) {
        let text = parts.join("/");
        match RelPath::parse(&text) {
            Ok(path) => {
                prop_assert!(!text.starts_with('/'));
                prop_assert!(!parts.iter().any(|part| part == ".."));
                prop_assert!(path.as_path().components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(RelPath::parse(path.as_path()).expect("stable"), path.clone());
                prop_assert_eq!(path.touches_git(), parts.iter().any(|part| part == ".git"));
            }
            Err(_) => prop_assert!(text.starts_with('/') || parts.iter().any(|part| part == "..")),
        }
    }

    #[test]
    fn a_view_agrees_with_a_simple_model(steps in prop::collection::vec((0..3u8, 0..6usize, 0..3u8), 1..40)) {
        const PATHS: [&str; 6] = ["README.md", "src/main.py", "src/util.py", "src/new.py", "deep/er/x", "top"];
        let yard = Yard::new();
        let (view, _layers) = view(&yard);
        let base = |path: &str| fs::read(yard.repo().join(path)).ok();
        let mut model: Vec<Option<Vec<u8>>> = PATHS.iter().map(|path| base(path)).collect();
        for (action, which, byte) in steps {
            let path = PATHS[which];
            if action == 0 {
                prop_assert_eq!(view.remove(path).is_ok(), model[which].take().is_some());
            } else {
                view.write(path, &[byte]).expect("write");
                model[which] = Some(vec![byte]);
            }
        }
        let mut expected = 0;
        for (path, bytes) in PATHS.iter().zip(&model) {
            prop_assert_eq!(&view.read(path).ok(), bytes);
            expected += usize::from(&base(path) != bytes);
        }
        prop_assert_eq!(view.changes(|_| true).expect("changes").len(), expected);
    }
}
