//! Where do `cp`, `mv`, `install`, `ln`, `rsync` and `tar` write?

use super::{Effect, has, operands, unclear, values, write};
use crate::gate::shell::Word;

pub(super) fn copies(name: &str, words: &[Word]) -> Vec<Effect> {
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

pub(super) fn tar(words: &[Word]) -> Vec<Effect> {
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
