//! Does a project with dependencies build and pass its tests in a box without a network?

use crate::home::{Home, boxes_work};
use crate::model_server::ModelServer;
use crate::session::FINISH;
use std::path::{Path, PathBuf};
use std::process::Command;

const FIX: &str = "The sign is wrong.\nedit_file src/lib.rs\n```rust\npub fn more(a: u32) -> u32 {\n    a + tiny_step::STEP\n}\n```\n";
const READ: &str = "{\"name\": \"read_file\", \"arguments\": {\"path\": \"src/lib.rs\"}}\n";
const BUILD: &str = "{\"name\": \"run_command\", \"arguments\": {\"command\": \"cargo build\"}}\n";

/// The toolchain that compiles this test, where it is not below /usr.
fn toolchain() -> Option<PathBuf> {
    let told = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let dir = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim());
    dir.join("bin/cargo").is_file().then_some(dir)
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
    std::fs::write(path, text).expect("write");
}

fn project() -> Option<Home> {
    let Some(toolchain) = toolchain().filter(|_| std::env::var_os("CLOISTER_SLOW").is_some()) else {
        eprintln!("skipped: it needs CLOISTER_SLOW and a toolchain of Rust");
        return None;
    };
    if !boxes_work() {
        return None;
    }
    let home = Home::new();
    home.put(
        "Cargo.toml",
        "[package]\nname = \"steps\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ntiny_step = \"1\"\n",
    );
    home.put("src/lib.rs", "pub fn more(a: u32) -> u32 {\n    a - tiny_step::STEP\n}\n");
    home.put("tests/steps.rs", "#[test]\nfn one_more() {\n    assert_eq!(steps::more(2), 5);\n}\n");
    let vendor = home.beside("vendor/tiny_step");
    write(&vendor.join("Cargo.toml"), "[package]\nname = \"tiny_step\"\nversion = \"1.2.3\"\nedition = \"2021\"\n");
    write(&vendor.join("src/lib.rs"), "pub const STEP: u32 = 3;\n");
    write(&vendor.join(".cargo-checksum.json"), "{\"files\":{},\"package\":null}");
    let shown = format!("toolchains = [{toolchain:?}]\n[mirrors]\ncargo = {:?}\n", home.beside("vendor"));
    write(&home.path().join("box.toml"), &shown);
    Some(home)
}

#[test]
fn a_crate_out_of_a_mirror_is_built_with_a_toolchain_that_the_host_shows() {
    let Some(home) = project() else { return };
    let server = ModelServer::start([READ, BUILD, FIX, FINISH]);
    let told = home.run(&server.url, &["--apply"]).expect(0);
    told.says("ending: verified");
    assert!(!told.out.contains("target/"), "what a build makes is nobody's change: {}", told.out);
    assert!(!home.repo().join("target").exists());
    assert!(home.text("src/lib.rs").contains("a + tiny_step::STEP"));
    home.assert_no_box();
}

#[test]
fn the_model_is_told_what_the_mirror_does_not_have() {
    let Some(home) = project() else { return };
    let manifest = home.text("Cargo.toml");
    home.put("Cargo.toml", format!("{manifest}serde_yaml = \"0.9\"\n"));
    let server = ModelServer::start([BUILD, FIX, FINISH]);
    home.run(&server.url, &[]);
    let asked = server.calls().iter().map(ToString::to_string).collect::<String>();
    assert!(asked.contains("not available offline: serde_yaml; available: nothing like it in the mirror"), "{asked}");
}

#[test]
fn a_project_whose_program_no_box_has_is_told_so_before_it_is_worked_on() {
    if !boxes_work() || Path::new("/usr/bin/mvn").exists() || Path::new("/usr/local/bin/mvn").exists() {
        return;
    }
    let home = Home::with_bug();
    home.put("pom.xml", "<project/>");
    let server = ModelServer::start([FINISH]);
    let told = home.run(&server.url, &[]);
    assert!(
        told.err.contains("note: this project needs mvn, which boxes do not have; `cloister doctor` says how"),
        "{}",
        told.err
    );
}

#[test]
fn a_file_that_shows_what_is_not_there_starts_no_session() {
    let home = Home::with_bug();
    write(&home.path().join("box.toml"), "toolchains = [\"/none\"]\n");
    let server = ModelServer::start([FINISH]);
    let told = home.run(&server.url, &[]).expect(4);
    assert!(told.err.contains("box.toml: \"/none\" is no toolchain: it must be an absolute path"), "{}", told.err);
    assert!(server.calls().is_empty());
}
