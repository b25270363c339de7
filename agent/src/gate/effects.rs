//! What does a command of the shell do to files and to the network, so far as its words say?
//!
//! Lowers `cp a b`, `sed -i`, `dd of=`, `curl -o` and the like to writes that the path rules judge, as they judge
//! the tools. Reads need no lowering: every word of every command is judged as a path that may be read. A program
//! that is not known here does what its words do not say; the box is the wall around that.

use std::path::Path;

use copies::{copies, tar, zip};
use edits::{awk, sed};
use git::git;

use super::hosts::{self, Endpoint};
use super::path::located;
use super::rules::{spelled_out, uses};
use super::shell::{Word, found_by_find, is_input, program, roots};
use super::vars::changes_meaning;

mod builds;
mod code;
mod copies;
mod edits;
mod git;

/// One thing that a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// It makes, changes or removes this file, or things in this directory.
    Writes(Word),
    /// It connects to this.
    Reaches(Endpoint),
    /// What it does cannot be told from its words; the text completes "it is refused: ".
    Unclear(String),
}

/// Programs to which `-o` is no output.
const OTHER_O: [&str; 14] =
    ["grep", "egrep", "fgrep", "rg", "ls", "ps", "find", "set", "ssh", "scp", "git", "pytest", "mount", "test"];

/// What these words of one command do.
pub(super) fn effects(words: &[Word]) -> Vec<Effect> {
    let words = &*spelled_out(words);
    let name = program(&words[0].text);
    let mut found: Vec<Effect> = hosts::endpoints(words);
    found.extend(match name {
        "rm" | "rmdir" | "unlink" | "srm" | "tee" | "chmod" | "chown" | "chgrp" | "chattr" => all(words, &[]),
        "shred" => all(words, &["-n", "-s"]),
        "touch" => all(words, &["-d", "-t", "-r", "--date", "--reference"]),
        "mkdir" | "mkfifo" => all(words, &["-m", "--mode"]),
        "truncate" => all(words, &["-s", "-r", "--size", "--reference"]),
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" if !has(words, 'c') => all(words, &[]),
        "cp" | "mv" | "install" | "ln" | "rsync" => copies(name, words),
        "dd" => words.iter().filter_map(|w| tail(w, "of=")).map(Effect::Writes).collect(),
        "sed" | "gsed" => sed(words),
        "awk" | "gawk" | "mawk" | "nawk" => awk(words),
        "uniq" => operands(words, &["-f", "-s", "-w"]).into_iter().skip(1).map(write).collect(),
        "zip" => zip(words),
        "tar" | "bsdtar" => tar(words),
        "unzip" if !["-l", "-p", "-t", "-Z"].iter().any(|o| words.iter().any(|w| w.text == *o)) => into(words, "-d"),
        "patch" => into(words, "-d"),
        "cargo" if words.iter().take_while(|w| w.text != "--").any(|w| uses("--config", &w.text)) => {
            unclear("cargo with settings that can run another program")
        }
        "cargo" => {
            ["--target-dir", "--root"].iter().flat_map(|option| values(words, option)).map(Effect::Writes).collect()
        }
        "pip" | "pip3" | "pipx" => ["--target", "--prefix", "--root"]
            .iter()
            .flat_map(|option| values(words, option))
            .map(Effect::Writes)
            .collect(),
        "fd" | "fdfind" if has(words, 'x') || has(words, 'X') || words.iter().any(|w| w.text.starts_with("--exec")) => {
            unclear("fd runs another program with this option")
        }
        "make" | "gmake" if words[1..].iter().any(says_what_make_runs) || rules_from_input(words) => {
            unclear("make with a text that it runs")
        }
        "cmake" if words.get(1).is_some_and(|w| w.text == "-E") => cmake(&words[1..]),
        "find" => find(words),
        "sqlite3" | "sqlite" => sqlite(words),
        "git" => git(words),
        "split" | "csplit" if words.iter().any(|w| w.text.starts_with("--filter")) => {
            unclear("split runs another program")
        }
        "split" | "csplit" => {
            let named = ["-f", "--prefix"].iter().flat_map(|option| values(words, option)).map(Effect::Writes);
            all(words, &["-b", "-l", "-n", "-a", "-C", "-f"]).into_iter().chain(named).collect()
        }
        _ => match builds::starts(name, words) {
            Some(started) => started,
            None => [code::interpreter(name, words), builds::in_git(name, words)].concat(),
        },
    });
    if !OTHER_O.contains(&name) {
        found.extend(outputs(name, words));
    }
    found
}

fn write(word: &Word) -> Effect {
    Effect::Writes(word.clone())
}

fn unclear(what: &str) -> Vec<Effect> {
    vec![Effect::Unclear(what.to_owned())]
}

fn all(words: &[Word], valued: &[&str]) -> Vec<Effect> {
    operands(words, valued).into_iter().map(write).collect()
}

/// Whether what an option of a program does is among its effects, or does no harm: `tail -f` only waits.
pub(super) fn lowers(name: &str, option: &str) -> bool {
    match name {
        "find" | "tail" => true,
        "sort" | "go" | "git" => option == "-o" || option == "--output",
        _ => false,
    }
}

/// The words that are no options and no values of options.
pub(super) fn operands<'a>(words: &'a [Word], valued: &[&str]) -> Vec<&'a Word> {
    let mut found = Vec::new();
    let mut words = words.iter().skip(1);
    let mut only_operands = false;
    while let Some(word) = words.next() {
        if only_operands || !word.text.starts_with('-') || word.text == "-" {
            found.push(word);
        } else if word.text == "--" {
            only_operands = true;
        } else if valued.contains(&word.text.as_str()) {
            words.next();
        }
    }
    found
}

/// Whether a short option is given, perhaps in a cluster.
fn has(words: &[Word], option: char) -> bool {
    words[1..].iter().any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(option))
}

/// The values of an option wherever it stands.
fn values<'a>(words: &'a [Word], option: &'a str) -> impl Iterator<Item = Word> + 'a {
    (1..words.len()).filter_map(move |at| value(&words[at], words.get(at + 1), option))
}

/// The value of an option, if this word gives it: `-d x`, `-dx`, `-ad x`, `--directory x`, `--directory=x`,
/// `--dir=x`. What stands in a cluster behind another letter may belong to that one, so this errs towards yes.
fn value(word: &Word, next: Option<&Word>, option: &str) -> Option<Word> {
    // Most words are no options.
    if !word.text.starts_with('-') {
        return None;
    }
    let glued = if option.starts_with("--") {
        let (given, value) =
            word.text.split_once('=').map_or((word.text.as_str(), ""), |(given, value)| (given, value));
        abbreviates(given, option).then_some(value)?
    } else {
        let cluster = word.text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
        cluster.split_once(option.strip_prefix('-')?)?.1
    };
    if glued.is_empty() { next.cloned() } else { Some(Word { text: glued.into(), ..word.clone() }) }
}

/// `--targ` is `--target-directory`, to most programs.
fn abbreviates(given: &str, option: &str) -> bool {
    given.len() > 2 && given.starts_with("--") && option.starts_with(given)
}

fn tail(word: &Word, begin: &str) -> Option<Word> {
    word.text.strip_prefix(begin).map(|rest| Word { text: rest.into(), ..word.clone() })
}

/// `-o FILE` and `--output FILE` of any program. Of most it is not known which letters make a cluster, so only `-o`
/// itself counts.
fn outputs(name: &str, words: &[Word]) -> Vec<Effect> {
    if !words[1..].iter().any(|w| w.text.starts_with('-')) {
        return vec![];
    }
    let mut found: Vec<_> = ["--output", "--output-document"].iter().flat_map(|o| values(words, o)).collect();
    if ["sort", "curl", "shuf"].contains(&name) {
        found.extend(values(words, "-o"));
    } else {
        found.extend(words.windows(2).filter(|w| w[0].text == "-o").map(|w| w[1].clone()));
        found.extend(words.iter().filter_map(|w| tail(w, "-o")).filter(|value| !value.text.is_empty()));
    }
    found.into_iter().map(Effect::Writes).collect()
}

/// The directory that an option names, or the one in which the command runs: what is unpacked has any name.
fn into(words: &[Word], option: &str) -> Vec<Effect> {
    vec![Effect::Writes(values(words, option).last().unwrap_or_else(here))]
}

/// The directory in which the command runs.
fn here() -> Word {
    Word { text: ".".into(), glob: false, known: true }
}

/// `SHELL=x`, `CC:=x`, `--eval=x`, `-Ex`.
fn says_what_make_runs(word: &Word) -> bool {
    let variable = word.text.split_once('=').map(|(name, _)| name.trim_end_matches([':', '+', '?', '!']));
    variable.is_some_and(changes_meaning) || word.text.starts_with("--ev") || word.text.starts_with("-E")
}

/// `-f -`: the rules are what another command prints.
fn rules_from_input(words: &[Word]) -> bool {
    let input = |w: Word| w.text == "-" || is_input(&w.text);
    ["-f", "--file", "--makefile"].iter().any(|option| values(words, option).any(input))
}

/// `cmake -E` is a set of small programs.
fn cmake(words: &[Word]) -> Vec<Effect> {
    match words.get(1).map(|w| w.text.as_str()) {
        None
        | Some(
            "echo" | "cat" | "capabilities" | "compare_files" | "sleep" | "true" | "false" | "md5sum" | "sha256sum",
        ) => {
            vec![]
        }
        Some("env" | "time" | "chdir" | "tar") => unclear("cmake running another program or unpacking"),
        Some(_) => operands(&words[1..], &[]).into_iter().map(write).collect(),
    }
}

/// What a statement changes, or a command of the program starts, stands in it as a word.
fn sqlite(words: &[Word]) -> Vec<Effect> {
    const CHANGES: [&str; 11] = [
        "drop",
        "delete",
        "truncate",
        "update",
        "alter",
        "attach",
        "vacuum",
        "pragma",
        "writefile",
        "edit",
        "load_extension",
    ];
    const COMMANDS: [&str; 12] = [
        ".shell", ".system", ".import", ".output", ".once", ".save", ".backup", ".clone", ".read", ".restore", ".open",
        ".load",
    ];
    let says = |w: &Word| {
        let text = w.text.to_lowercase();
        let mut tokens = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        tokens.any(|token| CHANGES.contains(&token)) || COMMANDS.iter().any(|command| text.contains(command))
    };
    let told = words.iter().any(|w| ["--version", "-version", "--help", "-help"].contains(&w.text.as_str()));
    if words[1..].iter().any(says) {
        return unclear("a change of a database, or a program that it starts");
    }
    if operands(words, &["-separator", "-cmd", "-init"]).len() < 2 && !told {
        return unclear("a database program with commands from its input");
    }
    vec![]
}

fn find(words: &[Word]) -> Vec<Effect> {
    let prints = ["-fprint", "-fprint0", "-fprintf", "-fls"];
    let mut found: Vec<_> =
        words.windows(2).filter(|w| prints.contains(&w[0].text.as_str())).map(|w| write(&w[1])).collect();
    let deletes = words.iter().any(|w| w.text == "-delete");
    if deletes {
        found.extend(found_by_find(words).into_iter().map(Effect::Writes));
    }
    // What lies deeper below a root that is not ours is not known.
    if deletes || words.iter().any(|w| w.text.starts_with("-exec") || w.text.starts_with("-ok")) {
        found.extend(roots(words).into_iter().filter(|root| !is_ours(&root.text)).map(Effect::Writes));
    }
    found
}

/// Whether a path is in the workspace or among what is temporary.
fn is_ours(path: &str) -> bool {
    let temporary = |path: &str| ["/tmp", "/var/tmp"].iter().any(|t| Path::new(path).starts_with(t));
    located(".", path).is_ok_and(|path| !path.starts_with('/') || temporary(&path))
}
