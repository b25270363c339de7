//! What does a command of the shell do to files and to the network, so far as its words say?
//!
//! Lowers `cp a b`, `sed -i`, `dd of=`, `curl -o` and the like to writes that the path rules judge, as they judge
//! the tools. Reads need no lowering: every word of every command is judged as a path that may be read. A program
//! that is not known here does what its words do not say; the box is the wall around that.

use super::hosts::{self, Endpoint};
use super::rules::after_global_options;
use super::shell::{Word, found_by_find, program};

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

/// Programs that run what they are given as text or on their input.
const INTERPRETERS: [&str; 14] = [
    "python",
    "pypy",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "php",
    "lua",
    "deno",
    "bun",
    "Rscript",
    "osascript",
    "tclsh",
    "guile",
];

/// Programs to which `-o` is no output.
const OTHER_O: [&str; 14] =
    ["grep", "egrep", "fgrep", "rg", "ls", "ps", "find", "set", "ssh", "scp", "git", "pytest", "mount", "test"];

/// What these words of one command do.
pub(super) fn effects(words: &[Word]) -> Vec<Effect> {
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
        "zip" => operands(words, &[]).into_iter().take(1).map(write).collect(),
        "tar" => tar(words),
        "unzip" if !["-l", "-p", "-t", "-Z"].iter().any(|o| words.iter().any(|w| w.text == *o)) => into(words, "-d"),
        "patch" => into(words, "-d"),
        "find" => find(words),
        "git" => git(words),
        "split" | "csplit" if words.iter().any(|w| w.text.starts_with("--filter")) => {
            unclear("split runs another program")
        }
        "split" | "csplit" => all(words, &["-b", "-l", "-n", "-a", "-C", "-f"]),
        _ if INTERPRETERS.contains(&unversioned(name)) => interpreter(unversioned(name), words),
        _ => vec![],
    });
    if !OTHER_O.contains(&name) {
        found.extend(outputs(words));
    }
    found
}

/// `python3.11` is `python`.
fn unversioned(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
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

/// The values of an option: `-d x`, `-dx`, `--directory x`, `--directory=x`.
fn values<'a>(words: &'a [Word], option: &'a str) -> impl Iterator<Item = Word> + 'a {
    words.iter().enumerate().skip(1).filter_map(move |(at, word)| {
        if word.text == option {
            return words.get(at + 1).cloned();
        }
        match option.starts_with("--") {
            true => tail(word, option).and_then(|rest| tail(&rest, "=")),
            false => tail(word, option),
        }
    })
}

fn tail(word: &Word, begin: &str) -> Option<Word> {
    word.text.strip_prefix(begin).map(|rest| Word { text: rest.to_owned(), ..word.clone() })
}

/// `-o FILE` and `--output FILE` of any program.
fn outputs(words: &[Word]) -> Vec<Effect> {
    ["-o", "--output", "--out", "--output-document"].iter().flat_map(|o| values(words, o)).map(Effect::Writes).collect()
}

/// The directory that an option names, or the one in which the command runs: what is unpacked has any name.
fn into(words: &[Word], option: &str) -> Vec<Effect> {
    let here = Word { text: ".".into(), glob: false, known: true };
    vec![Effect::Writes(values(words, option).last().unwrap_or(here))]
}

fn copies(name: &str, words: &[Word]) -> Vec<Effect> {
    let valued = ["-t", "--target-directory", "-S", "--suffix", "-m", "-o", "-g", "--mode", "--owner", "--group", "-e"];
    let mut sources = operands(words, &valued);
    if name == "rsync" && (has(words, 'e') || words.iter().any(|w| w.text.starts_with("--rsh"))) {
        return unclear("rsync runs another program with -e");
    }
    if name == "install" && has(words, 'd') {
        return sources.into_iter().map(write).collect();
    }
    let told = values(words, "-t").chain(values(words, "--target-directory")).last();
    let single_link = name == "ln" && sources.len() == 1;
    let here = Word { text: ".".into(), glob: false, known: true };
    let target = match told {
        Some(target) => target,
        None if single_link => here,
        None => match sources.pop() {
            Some(target) => target.clone(),
            None => return vec![],
        },
    };
    // Into a directory, or onto the file of this name: which of the two is not known.
    let inside = |source: &&Word| {
        let last = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        Effect::Writes(Word {
            text: format!("{}/{last}", target.text),
            glob: target.glob || source.glob,
            known: target.known && source.known,
        })
    };
    let mut found: Vec<_> = sources.iter().map(inside).collect();
    let names_directory = target.text.ends_with('/') || target.text == "." || target.text == "..";
    if !names_directory {
        found.push(Effect::Writes(target.clone()));
    }
    if name == "mv" {
        found.extend(sources.into_iter().map(write));
    }
    found
}

fn sed(words: &[Word]) -> Vec<Effect> {
    if values(words, "--file").next().is_some() || has(words, 'f') {
        return unclear("sed takes its script from a file");
    }
    let given: Vec<Word> = words
        .windows(2)
        .filter(|w| ["-e", "--expression"].contains(&w[0].text.as_str()))
        .map(|w| w[1].clone())
        .collect();
    let glued =
        words.iter().any(|w| w.text.starts_with("-e") && w.text.len() > 2 || w.text.starts_with("--expression="));
    let mut files = operands(words, &["-e", "--expression", "-l"]);
    let scripts = if given.is_empty() && !files.is_empty() { vec![files.remove(0).clone()] } else { given };
    if glued || !scripts.iter().all(|s| s.known && is_plain_sed(&s.text)) {
        return unclear("this sed script may write files or run commands, or it is not understood");
    }
    let changes = words.iter().any(|w| w.text.starts_with("--in-place") || w.text.starts_with("-i")) || has(words, 'i');
    if changes { files.into_iter().map(write).collect() } else { vec![] }
}

/// `5p`, `1,20p`, `/re/d`, `s/a/b/g`, joined by `;`: no command that writes, reads or runs.
fn is_plain_sed(script: &str) -> bool {
    let mut rest = script.trim_start();
    while !rest.is_empty() {
        let Some(after) = sed_address(rest) else { return false };
        let after = after.trim_start_matches([' ', '!']);
        let Some(command) = after.chars().next() else { return false };
        let body = &after[command.len_utf8()..];
        let end = match command {
            'p' | 'd' | 'q' | '=' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | 'P' | 'D' => Some(body),
            's' | 'y' => sed_substitution(body),
            _ => None,
        };
        let Some(end) = end.map(|end| end.trim_start_matches(' ')) else { return false };
        rest = match end.strip_prefix([';', '\n']) {
            Some(next) => next.trim_start(),
            None if end.is_empty() => end,
            None => return false,
        };
    }
    true
}

/// What follows the line numbers or patterns in front of a command.
fn sed_address(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = match rest.strip_prefix('/') {
            Some(pattern) => after_delimiter(pattern, '/')?,
            None => rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$' || c == '~' || c == '+'),
        };
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => return Some(rest),
        }
    }
}

fn sed_substitution(body: &str) -> Option<&str> {
    let delimiter = body.chars().next().filter(|c| c.is_ascii_punctuation() && *c != '\\')?;
    let rest = after_delimiter(&body[1..], delimiter)?;
    let rest = after_delimiter(rest, delimiter)?;
    Some(rest.trim_start_matches(|c: char| matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || c.is_ascii_digit()))
}

fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
}

/// A program of awk may run commands and write files; without these signs it does neither.
fn awk(words: &[Word]) -> Vec<Effect> {
    let valued = ["-F", "-v"];
    let options = words[1..].iter().filter(|w| w.text.starts_with('-'));
    let known = |w: &Word| ["-F", "-v"].iter().any(|o| w.text.starts_with(o)) || w.text == "--";
    let operands = operands(words, &valued);
    let plain = |w: &&Word| {
        w.known && !["system", "getline", "|", ">", "@", "close", "\\"].iter().any(|sign| w.text.contains(sign))
    };
    match operands.first() {
        Some(code) if options.into_iter().all(known) && plain(code) => vec![],
        None => vec![],
        Some(_) => unclear("this awk program may write files or run commands, or it is not understood"),
    }
}

fn tar(words: &[Word]) -> Vec<Effect> {
    let runs = [
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
        "-I",
        "-F",
    ];
    if words.iter().any(|w| runs.iter().any(|option| w.text.starts_with(option))) {
        return unclear("tar runs another program with this option");
    }
    let first = words.get(1).map_or("", |w| w.text.trim_start_matches('-'));
    let long = |name: &str| {
        words.iter().any(|w| w.text.strip_prefix("--").is_some_and(|given| given.len() > 1 && name.starts_with(given)))
    };
    let mode = |letter: char, name: &str| has(words, letter) || first.contains(letter) || long(name);
    if mode('x', "extract") || long("get") {
        let told = values(words, "--directory").chain(values(words, "-C")).last();
        return vec![Effect::Writes(told.unwrap_or(Word { text: ".".into(), glob: false, known: true }))];
    }
    if mode('t', "list") {
        return vec![];
    }
    // The archive is the word after the cluster that ends with f.
    let archive = words.windows(2).skip(1).find(|w| {
        w[0].text == "--file" || w[0].text.ends_with('f') && (w[0].text.starts_with('-') || w[0].text == words[1].text)
    });
    let archive = archive.map(|w| w[1].clone()).or_else(|| values(words, "--file").last());
    archive.map(Effect::Writes).into_iter().collect()
}

fn find(words: &[Word]) -> Vec<Effect> {
    let mut found: Vec<_> = words
        .windows(2)
        .filter(|w| ["-fprint", "-fprint0", "-fprintf", "-fls"].contains(&w[0].text.as_str()))
        .map(|w| write(&w[1]))
        .collect();
    if words.iter().any(|w| w.text == "-delete") {
        found.extend(found_by_find(words).into_iter().map(Effect::Writes));
    }
    found
}

fn git(words: &[Word]) -> Vec<Effect> {
    let rest = after_global_options("git", &words[1..]);
    let Some(subcommand) = rest.first() else { return vec![] };
    match subcommand.text.as_str() {
        "rm" | "mv" => operands(rest, &[]).into_iter().map(write).collect(),
        "push" if rest[1..].iter().any(|w| w.text.starts_with(['+', ':'])) => {
            unclear("this push overwrites or deletes what others have")
        }
        // What has not been committed is lost; a name before `--` may be a branch.
        "checkout" | "restore" => {
            let files = rest.iter().skip_while(|w| w.text != "--").skip(1);
            files.chain(rest[1..].iter().filter(|w| w.text == "." || w.text == ":/")).map(write).collect()
        }
        "config"
            if !["--get", "--get-all", "--get-regexp", "--list", "-l"]
                .iter()
                .any(|o| rest.iter().any(|w| w.text == *o)) =>
        {
            vec![Effect::Writes(Word { text: ".git/config".into(), glob: false, known: true })]
        }
        _ => values(rest, "--output")
            .chain(values(rest, "-o").filter(|_| rest[0].text == "archive" || rest[0].text == "format-patch"))
            .map(Effect::Writes)
            .collect(),
    }
}

/// Code in a file is judged when the file is written, and the box is the wall; code on the command line or on the
/// input hides.
fn interpreter(name: &str, words: &[Word]) -> Vec<Effect> {
    let takes_code = match name {
        "perl" | "ruby" | "lua" => "eE",
        "node" | "nodejs" | "deno" | "bun" => "ep",
        "php" => "rBER",
        "Rscript" | "osascript" => "e",
        _ => "c",
    };
    let options = words[1..].iter().take_while(|w| w.text.starts_with('-') && w.text.len() > 1);
    for option in options.clone() {
        let text = option.text.as_str();
        let long = ["--eval", "--print", "--run", "--interactive"].iter().any(|o| text.starts_with(o));
        if text == "-m" || ["--version", "-V", "-v", "--help", "-h"].contains(&text) {
            return vec![];
        }
        if long || !text.starts_with("--") && text.contains(|c| takes_code.contains(c)) {
            return unclear("code on the command line cannot be judged");
        }
    }
    match words.get(1 + options.count()) {
        Some(file) if file.text != "-" => vec![],
        _ => unclear("an interpreter takes its code from its input, which cannot be judged"),
    }
}
