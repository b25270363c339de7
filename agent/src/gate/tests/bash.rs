//! Does bash itself read a proven script as the gate does?

use std::process::Command;

use super::super::shell::{Part, Script};
use super::*;

/// The words of every command that bash would run, by bash's own account: no program can be found, so each command
/// comes to the handler. `None` where there is no bash.
fn bash_reads(script: &str) -> Option<Vec<Vec<String>>> {
    let (dir, reports) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A file for each process: the two sides of a pipe run at the same time.
    let handler = format!("printf '%s\\0' \"$@\" $'\\n' >>'{}'/$BASHPID", reports.path().display());
    let status = Command::new("bash")
        .args(["--norc", "-c"])
        .arg(format!("PATH=/nonexistent; set -f; command_not_found_handle() {{ {handler}; }}; eval \"$1\""))
        .args(["bash", script])
        .current_dir(dir.path())
        .status();
    status.ok()?;
    let files = std::fs::read_dir(reports.path()).unwrap().map(|file| file.unwrap().path());
    let report: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let mut commands: Vec<Vec<String>> =
        report.split_terminator("\n\0").map(|c| c.split_terminator('\0').map(str::to_owned).collect()).collect();
    commands.sort();
    Some(commands)
}

/// Pieces without `||`, whose right side would not run, and without a newline inside a word.
fn scripts() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        " ",
        " ",
        " ",
        "zz",
        "zz",
        "a",
        "'",
        "\"",
        "\\",
        "$",
        " && ",
        ";",
        " | ",
        "#",
        "!",
        "~",
        "=",
        "{",
        "}",
        "*",
        "[",
        "2>&1",
        " >/dev/null",
        "&",
        ">",
        "-",
        "\t",
        "\nzz",
        "`",
        "(",
        "é",
        "1",
        "$'",
        "\u{a0}",
        "^",
        "%",
        ",",
        "/dev/null",
        "2",
        "<<<",
        " A=b ",
        " >>",
        "{}",
    ]);
    proptest::collection::vec(piece, 0..9).prop_map(|pieces| format!("zz {}", pieces.concat()))
}

#[test]
fn bash_agrees_on_scripts_that_are_written_by_hand() {
    let scripts = [
        "zz a'b'\"c\" \\d",
        "zz \"a\\\\b\" \"\\a\" 'x\\y' \"x$\"",
        "zz 2>&1 | zz b && zz c; zz d\nzz e",
        "zz a2>/dev/null",
        "zz '' \"\" a''b",
        "zz a#b 'x;y' \"(\" a=b c~d e^f %1 -- -x",
        "zz \u{a0}a",
        "zz *.py [ab]? ",
        "zz a &>/dev/null",
        "zz a 1>&2",
        "A=b C='d e' zz a",
        "zz <<<'a b' c",
        "zz {} '{}'",
        "zz a # b; zz c",
        "zz a <<E\nx y\nE\nzz b",
        "zz <<-'E'\n\t$x `y`\n\tE\nzz b",
        "zz b > a",
        "if zz a; then zz b; fi",
        "zz 2>a >b",
        "zz ! a",
        "zz <<<2 2>&1",
    ];
    for script in scripts {
        agrees(script, true);
    }
}

#[track_caller]
fn agrees(script: &str, must_be_proven: bool) {
    let proven = Script::read(script).proven;
    assert!(proven.is_ok() || !must_be_proven, "{script:?}: {proven:?}");
    let Ok(proven) = proven else { return };
    // What is expanded is not known, and a file elsewhere must not be made.
    let plain = |part: &Part| {
        part.words.iter().all(|w| w.known) && part.redirects.iter().all(|(_, file)| !file.text.contains('/'))
    };
    if !proven.parts.iter().all(plain) || proven.parts.is_empty() {
        return;
    }
    let commands: Vec<_> = proven.parts.into_iter().map(|part| part.words).collect();
    // Other names can be builtins, or programs by their paths, which the handler does not see.
    if !commands.iter().all(|c| c[0].text.bytes().all(|b| b.is_ascii_alphanumeric())) {
        return;
    }
    let mut ours: Vec<Vec<String>> =
        commands.into_iter().map(|c| c.iter().map(|w| w.text.to_string()).collect()).collect();
    ours.sort();
    match bash_reads(script) {
        Some(theirs) => assert_eq!(ours, theirs, "{script:?}"),
        None => println!("skipped: no bash to compare with"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bash_agrees_on_every_script_that_is_proven(script in scripts()) {
        agrees(&script, false);
    }
}
