//! What do programs that build, pack and calculate start, and what do they put into a repository's own directory?

use super::{Effect, has, here, unclear, values, write};
use crate::gate::shell::Word;

/// Programs that read what is in `.git` and change nothing there; git itself is known better.
const READERS: [&str; 37] = [
    "cat",
    "ls",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "stat",
    "file",
    "wc",
    "test",
    "[",
    "[[",
    "du",
    "tree",
    "diff",
    "cmp",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "echo",
    "printf",
    "cd",
    "pushd",
    "pwd",
    "realpath",
    "readlink",
    "basename",
    "dirname",
    "xxd",
    "od",
    "hexdump",
    "strings",
    "bat",
    "jq",
];

/// What these programs do with an option that starts another, or with code that does.
pub(super) fn starts(name: &str, words: &[Word]) -> Option<Vec<Effect>> {
    let says = |text: &str| words[1..].iter().any(|w| w.text.contains(text));
    let given = |options: &[&str]| words[1..].iter().any(|w| options.iter().any(|option| w.text.starts_with(option)));
    let what = match name {
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" if given(&["-wrapper"]) => {
            "a compiler that runs another program"
        }
        "just" if given(&["-c", "--command", "--shell"]) => "just running a command that is no recipe",
        "mvn" | "mvnw" if says("exec:exec") || says("-Dexec.executable") => "a build that runs another program",
        "m4" if says("syscmd") => "m4 running another program",
        "npm" | "pnpm" if words.get(1).is_some_and(|w| w.text == "explore") => "npm running another program",
        "cpio" if has(words, 'i') || given(&["--extract"]) => "an archive whose names say where it is unpacked",
        "7z" | "7za" | "7zr" | "jar"
            if words.get(1).is_some_and(|w| w.text.trim_start_matches('-').starts_with('x')) =>
        {
            let into = values(words, "-o").last().unwrap_or_else(here);
            return Some(vec![Effect::Writes(into)]);
        }
        _ => return None,
    };
    Some(unclear(what))
}

/// Whoever is not known to read only may write whatever of `.git` it is told of.
pub(super) fn in_git(name: &str, words: &[Word]) -> Vec<Effect> {
    let names_git = |text: &str| text.contains(".git") && text.split(['/', '=', ':', ',']).any(|part| part == ".git");
    if !words[1..].iter().any(|w| names_git(&w.text)) || READERS.contains(&name) {
        return vec![];
    }
    let value = |w: &Word| {
        let text = w.text.rsplit_once('=').map_or(w.text.as_str(), |(_, value)| value);
        Word { text: text.into(), ..w.clone() }
    };
    words[1..].iter().filter(|w| names_git(&w.text)).map(|w| write(&value(w))).collect()
}
