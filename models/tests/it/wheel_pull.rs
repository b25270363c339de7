//! Do files come out of wheels that pip fetched? The wheels are built here and pip finds them in a directory.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use models::{Digest, FetchError, Origin, Pip, PullError, PullOptions, Source, Wheel};
use zip::write::SimpleFileOptions;

use crate::world::{World, gguf, model_file};

/// Writes a wheel that pip accepts and says what a catalogue says about it.
fn build(links: &Path, package: &str, members: &[(&str, &str, &[u8])]) -> Wheel {
    let module = package.replace('-', "_");
    let path = wheel_path(links, package);
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let mut write = |name: String, bytes: &[u8]| {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    };
    for (_, member, bytes) in members {
        write(format!("{module}/{member}"), bytes);
    }
    let info = format!("{module}-1.0.dist-info");
    write(format!("{info}/METADATA"), format!("Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n").as_bytes());
    write(format!("{info}/WHEEL"), b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n");
    write(format!("{info}/RECORD"), b"");
    archive.finish().unwrap();
    Wheel {
        package: package.into(),
        version: "1.0".into(),
        sha256: Digest::of(&std::fs::read(&path).unwrap()),
        members: members.iter().map(|(file, member, _)| (file.to_string(), format!("{module}/{member}"))).collect(),
    }
}

fn wheel_path(links: &Path, package: &str) -> PathBuf {
    links.join(format!("{}-1.0-py3-none-any.whl", package.replace('-', "_")))
}

/// pip that looks into one directory and nowhere else.
fn offline(links: &Path) -> PullOptions {
    let env = [("PIP_NO_INDEX", "1".into()), ("PIP_FIND_LINKS", links.as_os_str().to_owned())];
    let env = env.into_iter().map(|(name, value)| (name.into(), value)).collect();
    PullOptions { pip: Pip { env, retries_max: 0, ..Pip::default() }, ..PullOptions::default() }
}

/// A world whose model comes in two wheels, and the directory with the wheels.
fn two_wheels() -> (World, PathBuf) {
    let bytes = gguf(1_000_000, 1);
    let mut world = World::with_bytes(bytes.clone(), Vec::new());
    let links = world.dir.path().join("links");
    std::fs::create_dir(&links).unwrap();
    let (head, tail) = bytes.split_at(600_000);
    let wheels = vec![
        build(&links, "cloister-test-part1", &[("tiny.gguf", "data/part01.bin", head)]),
        build(&links, "cloister-test-part2", &[("tiny.gguf", "data/part02.bin", tail)]),
    ];
    world.model.sources = vec![Source::Wheels { wheels }];
    (world, links)
}

#[track_caller]
fn only_error(result: Result<models::Pulled, PullError>) -> FetchError {
    match result {
        Err(PullError::AllSourcesFailed { attempts, .. }) => attempts.into_iter().next().unwrap().error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_of_several_wheels_are_joined_in_order() {
    let (world, links) = two_wheels();
    let pulled = world.pull(&offline(&links)).unwrap();
    assert_eq!(pulled.source.as_deref(), Some("wheels cloister-test-part1, 2 wheels"));
    world.assert_whole();
}

#[test]
fn a_pull_goes_on_at_the_first_wheel_that_is_not_in_yet() {
    let (world, links) = two_wheels();
    let (first, second) = (wheel_path(&links, "cloister-test-part1"), wheel_path(&links, "cloister-test-part2"));
    let away = world.dir.path().join("away.whl");
    std::fs::rename(&second, &away).unwrap();
    let error = only_error(world.pull(&offline(&links)));
    assert!(
        matches!(&error, FetchError::Pip { package, stderr_tail, .. }
        if package == "cloister-test-part2" && stderr_tail.contains("No matching distribution")),
        "{error}"
    );
    world.assert_nothing_visible();
    // The first wheel is gone now, so only a resume can succeed. Bytes after it are not trusted.
    std::fs::remove_file(&first).unwrap();
    std::fs::rename(&away, &second).unwrap();
    let mut part = std::fs::OpenOptions::new().append(true).open(world.part()).unwrap();
    part.write_all(b"half a wheel").unwrap();
    world.pull(&offline(&links)).unwrap();
    world.assert_whole();
}

#[test]
fn a_cancel_stops_pip_and_keeps_the_wheels_that_are_in() {
    let (world, links) = two_wheels();
    let stopped = world.pull_until(&offline(&links), Origin::Wheels, 600_000);
    assert!(matches!(stopped, Err(PullError::Cancelled)), "{stopped:?}");
    world.assert_nothing_visible();
    world.pull(&offline(&links)).unwrap();
    world.assert_whole();
}

#[test]
fn several_files_come_out_of_one_wheel() {
    let mut world = World::with_bytes(gguf(50_000, 1), Vec::new());
    let bytes = world.bytes.clone();
    let members: [(&str, &str, &[u8]); 2] =
        [("tiny.gguf", "m/tiny.gguf", &bytes), ("config.json", "m/config.json", b"{}")];
    let wheel = build(world.dir.path(), "cloister-test-both", &members);
    world.model.files.push(model_file("config.json", b"{}"));
    world.model.sources = vec![Source::Wheels { wheels: vec![wheel] }];
    world.pull(&offline(world.dir.path())).unwrap();
    world.assert_whole();
    assert_eq!(std::fs::read(world.store.path(&world.model, "config.json").unwrap()).unwrap(), b"{}");
}

#[test]
fn another_wheel_under_the_same_name_is_refused_unread() {
    let (world, links) = two_wheels();
    build(&links, "cloister-test-part1", &[("tiny.gguf", "data/part01.bin", b"other")]);
    let error = only_error(world.pull(&offline(&links)));
    assert!(matches!(&error, FetchError::WheelMismatch { package, .. } if package == "cloister-test-part1"), "{error}");
    assert_eq!(world.names("partial"), Vec::<String>::new());
}

#[test]
fn a_member_that_is_not_in_the_wheel_is_named() {
    let (mut world, links) = two_wheels();
    let Source::Wheels { wheels } = &mut world.model.sources[0] else { panic!() };
    wheels[0].members.insert("tiny.gguf".into(), "data/none.bin".into());
    let error = only_error(world.pull(&offline(&links)));
    assert!(matches!(&error, FetchError::Member { member, .. } if member == "data/none.bin"), "{error}");
}

#[test]
fn room_for_the_wheel_itself_is_asked_for_too() {
    let (world, links) = two_wheels();
    let store = world.store.clone().with_free_bytes(|_| Ok(2_000_000));
    let error = store.pull(&world.model, &offline(&links), &mut |_| {}, &Default::default()).unwrap_err();
    assert!(matches!(error, PullError::NoSpace { needed_bytes: 2_000_001.., .. }), "{error}");
}

/// Pulls with a program in the place of Python.
fn pull_with_python(python: PathBuf, wheel_seconds_max: u64) -> FetchError {
    let (world, links) = two_wheels();
    let mut options = offline(&links);
    options.pip = Pip { python, wheel_seconds_max, ..options.pip };
    only_error(world.pull(&options))
}

fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("python3");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_missing_python_and_a_missing_pip_are_told_apart() {
    let error = pull_with_python("/nonexistent/python3".into(), 60);
    assert!(matches!(&error, FetchError::NoPython { .. }), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let error = pull_with_python(script(dir.path(), "exit 1"), 60);
    assert!(matches!(&error, FetchError::NoPip { .. }), "{error}");
}

#[test]
fn a_pip_that_takes_too_long_is_killed_with_what_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let since = Instant::now();
    let error = pull_with_python(script(dir.path(), "sleep 61 & wait"), 1);
    assert!(matches!(&error, FetchError::PipTimeout { seconds: 1, .. }), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_module_named_pip_in_the_working_directory_is_not_run() {
    let (world, links) = two_wheels();
    std::fs::write(world.dir.path().join("pip.py"), "raise SystemExit(3)").unwrap();
    std::env::set_current_dir(world.dir.path()).unwrap();
    world.pull(&offline(&links)).unwrap();
}
