//! What is left out, and is every reason told?

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

use super::{Bench, paths};
use crate::classify::Class;
use crate::{Report, SkipReason};

#[track_caller]
fn check(report: &Report, path: &str, expected: Option<SkipReason>) {
    let found = report.files_skipped.iter().find(|skip| skip.path == path).map(|skip| skip.reason);
    assert_eq!(found, expected, "{path} in {:?}", report.files_skipped);
}

#[test]
fn every_skip_is_listed_with_its_reason() {
    let bench = Bench::new(None);
    bench.write("src/plain.rs", "fn plain() {}\n");
    bench.write("image.bin", b"PNG\0\0\0");
    bench.write("late.bin", [vec![b'a'; 100], vec![0], vec![b'b'; 100]].concat());
    bench.write("app.min.js", "x".repeat(6000));
    bench.write("big.txt", "word\n".repeat(500_000));
    bench.write(".env", "PASSWORD=1\n");
    bench.write("certs/server.pem", "-----BEGIN CERTIFICATE-----\n");
    bench.write("notes.txt", "-----BEGIN RSA PRIVATE KEY-----\nabc\n");
    bench.write("Cargo.lock", "[[package]]\n");
    bench.write("web/package-lock.json", "{}\n");
    bench.write(".hidden/secret_plan.rs", "fn plan() {}\n");
    bench.write(".github/workflows/ci.yml", "on: push\n");
    bench.write("latin.c", b"/* gr\xfc\xdfe */ int f(void) { return 1; }\n");
    symlink("plain.rs", bench.root.join("src/link.rs")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let (index, report) = bench.index();

    check(&report, "image.bin", Some(SkipReason::Binary));
    check(&report, "late.bin", Some(SkipReason::Binary));
    check(&report, "app.min.js", Some(SkipReason::Minified));
    check(&report, "big.txt", Some(SkipReason::TooLarge));
    check(&report, ".env", Some(SkipReason::Secret));
    check(&report, "certs/server.pem", Some(SkipReason::Secret));
    check(&report, "notes.txt", Some(SkipReason::Secret));
    check(&report, "Cargo.lock", Some(SkipReason::LockFile));
    check(&report, "web/package-lock.json", Some(SkipReason::LockFile));
    check(&report, ".hidden", Some(SkipReason::Hidden));
    check(&report, "src/link.rs", Some(SkipReason::Symlink));
    check(&report, "pipe", Some(SkipReason::Special));
    check(&report, "src/plain.rs", None);
    check(&report, ".github/workflows/ci.yml", None);
    assert_eq!(report.files_decoded_lossily, ["latin.c"]);
    assert_eq!(report.files_indexed, 3);
    assert_eq!(report.files_skipped.len(), 12);
    assert_eq!(paths(&index, "push"), [".github/workflows/ci.yml"]);
}

#[test]
fn ignored_files_stay_out_also_without_a_git_repository() {
    let bench = Bench::new(None);
    bench.write(".gitignore", "target/\n*.log\n");
    bench.write("target/out.rs", "fn built() {}\n");
    bench.write("a.log", "built\n");
    bench.write("a.rs", "fn written() {}\n");
    bench.write("sub/.gitignore", "b.rs\n");
    bench.write("sub/b.rs", "fn built() {}\n");
    let (index, report) = bench.index();
    assert!(paths(&index, "built").is_empty());
    assert_eq!(paths(&index, "written"), ["a.rs"]);
    assert_eq!(report.files_skipped, []);
}

#[test]
fn the_store_of_git_is_never_read() {
    let bench = Bench::new(None);
    bench.write(".git/config", "[remote]\nurl = secretword\n");
    bench.write("sub/.git/config", "secretword\n");
    bench.write("a.rs", "fn a() {}\n");
    let (index, report) = bench.index();
    assert!(paths(&index, "secretword").is_empty());
    assert_eq!(report.files_skipped, []);
}

#[test]
fn a_symlink_loop_is_listed_and_not_followed() {
    let bench = Bench::new(None);
    bench.write("a/b/file.rs", "fn inside() {}\n");
    symlink("../..", bench.root.join("a/b/loop")).unwrap();
    symlink("self", bench.root.join("self")).unwrap();
    let (_, report) = bench.index();
    check(&report, "a/b/loop", Some(SkipReason::Symlink));
    check(&report, "self", Some(SkipReason::Symlink));
    assert_eq!(report.files_indexed, 1);
}

#[test]
fn a_giant_file_costs_nothing() {
    let bench = Bench::new(None);
    File::create(bench.root.join("giant.sql")).unwrap().set_len(200 * 1024 * 1024).unwrap();
    bench.write("a.rs", "fn a() {}\n");
    let (_, report) = bench.index();
    check(&report, "giant.sql", Some(SkipReason::TooLarge));
    assert_eq!(report.files_indexed, 1);
    assert!(report.seconds.chunk < 5.0);
}

#[test]
fn a_path_that_is_not_utf_8_is_listed() {
    use std::os::unix::ffi::OsStrExt;

    let bench = Bench::new(None);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.rs");
    fs::write(bench.root.join(name), "fn f() {}\n").unwrap();
    let (_, report) = bench.index();
    assert_eq!(report.files_skipped.len(), 1);
    assert_eq!(report.files_skipped[0].reason, SkipReason::PathNotUtf8);
}

#[test]
fn an_unreadable_directory_is_listed_and_the_rest_indexed() {
    if rustix::process::geteuid().is_root() {
        // Root reads everything, so the test is run once more as nobody.
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::skips::an_unreadable_directory_is_listed_and_the_rest_indexed"])
            .env("TMPDIR", "/tmp")
            .uid(65534)
            .gid(65534)
            .output();
        match run {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
            Err(error) => eprintln!("skipped: nobody may not run this binary: {error}"),
        }
        return;
    }
    let bench = Bench::new(None);
    bench.write("open.rs", "fn open() {}\n");
    bench.write("closed/inside.rs", "fn inside() {}\n");
    let closed = bench.root.join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let (_, report) = bench.index();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    check(&report, "closed", Some(SkipReason::Unreadable));
    assert_eq!(report.files_indexed, 1);
}

#[test]
fn an_indexed_file_that_turns_into_a_secret_leaves_the_index() {
    let bench = Bench::new(None);
    bench.write("key.txt", "harmless text\n");
    let (_, report) = bench.index();
    assert_eq!(report.files_indexed, 1);
    bench.write("key.txt", "-----BEGIN EC PRIVATE KEY-----\nharmless\n");
    let (index, report) = bench.index();
    check(&report, "key.txt", Some(SkipReason::Secret));
    assert_eq!(report.files_removed, 1);
    assert!(paths(&index, "harmless").is_empty());
}

#[test]
fn a_submodule_is_indexed_like_any_directory_and_its_git_file_is_not() {
    let bench = Bench::new(None);
    bench.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n");
    bench.write("sub/.git", "gitdir: ../.git/modules/sub\n");
    bench.write("sub/a.rs", "fn inside() {}\n");
    let (index, report) = bench.index();
    assert_eq!(paths(&index, "inside"), ["sub/a.rs"]);
    assert!(paths(&index, "gitdir").is_empty());
    assert_eq!(report.files_skipped, []);
}

#[test]
fn a_very_deep_tree_and_a_deep_syntax_tree_do_no_harm() {
    let bench = Bench::new(None);
    let deep = vec!["d"; 200].join("/");
    bench.write(&format!("{deep}/a.rs"), "fn deep() {}\n");
    bench.write("nested.py", format!("x = {}{}\n", "[\n".repeat(50_000), "]\n".repeat(50_000)));
    let (index, report) = bench.index();
    assert_eq!(report.files_indexed, 2);
    assert_eq!(paths(&index, "deep")[0], format!("{deep}/a.rs"));
}

#[test]
fn a_generated_file_is_indexed_and_known_as_such() {
    let bench = Bench::new(None);
    bench.write("src/tables.rs", "// @generated by a tool\nfn table() {}\n");
    bench.write("src/made.go", "// Code generated by a tool. DO NOT EDIT.\npackage made\n");
    bench.write("src/own.rs", "fn own() {}\n");
    let (index, _) = bench.index();
    let files = &index.view().files;
    let class = |path: &str| files.head(files.find(path).unwrap()).class;
    assert_eq!(class("src/tables.rs"), Class::Generated);
    assert_eq!(class("src/made.go"), Class::Generated);
    assert_eq!(class("src/own.rs"), Class::Source);
}

#[test]
fn a_file_in_an_odd_encoding_is_found_by_its_plain_words_and_named() {
    let bench = Bench::new(None);
    bench.write("latin.txt", b"stra\xdfe needle\n");
    bench.write("utf16.txt", [0xff, 0xfe, b'a', 0, b'b', 0]);
    let (index, report) = bench.index();
    assert_eq!(report.files_decoded_lossily, ["latin.txt"]);
    assert_eq!(paths(&index, "needle"), ["latin.txt"]);
    check(&report, "utf16.txt", Some(SkipReason::Binary));
}
