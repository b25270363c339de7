//! Where do `cp`, `mv`, `install`, `ln`, `rsync`, `tar` and `zip` write, and what do they remove?

use super::{Effect, abbreviates, has, here, operands, unclear, value, values, write};
use crate::gate::path::located;
use crate::gate::shell::Word;

pub(super) fn copies(name: &str, words: &[Word]) -> Vec<Effect> {
    let valued = ["-t", "--target-directory", "-S", "--suffix", "-m", "-o", "-g", "--mode", "--owner", "--group", "-e"];
    let mut sources = operands(words, &valued);
    if name == "rsync" && (has(words, 'e') || given(words, "--rsh") || given(words, "--rsync-path")) {
        return unclear("rsync runs another program with -e");
    }
    if name == "install" && has(words, 'd') {
        return sources.into_iter().map(write).collect();
    }
    // To rsync, -t says that times are kept.
    let options: &[&str] = if name == "rsync" { &[] } else { &["-t", "--target-directory"] };
    let mut targets: Vec<Word> = options.iter().flat_map(|option| values(words, option)).collect();
    // A `t` in a cluster may be the value of another letter, as in `-otom`.
    let certainly = given(words, "--target-directory") || words.iter().any(|w| w.text.starts_with("-t"));
    if name == "ln" && sources.len() == 1 && targets.is_empty() {
        targets.push(here());
    } else if targets.is_empty() {
        targets.extend(sources.pop().cloned());
    } else if !certainly {
        targets.extend(sources.last().map(|last| (*last).clone()));
    }
    let pointed_at = if name == "ln" { points_at(words, &sources, &targets) } else { vec![] };
    let mut found: Vec<_> = targets.iter().flat_map(|target| sources.iter().map(|s| inside(target, s))).collect();
    for target in targets {
        let names_directory = target.text.ends_with('/') || target.text == "." || target.text == "..";
        let holds_other_names = name == "rsync"
            && (sources.iter().any(|s| s.text.ends_with('/')) || words.iter().any(|w| w.text.starts_with("--del")));
        if !names_directory || holds_other_names {
            found.push(Effect::Writes(target));
        }
    }
    if name == "mv" || given(words, "--remove-source-files") || given(words, "--remove-sent-files") {
        found.extend(sources.into_iter().map(write));
    }
    found.extend(pointed_at);
    found
}

/// What is written through the new name is written to what it stands for. A relative one counts from where the new name
/// lies, which is in the directory that is named or beside the file.
fn points_at(words: &[Word], sources: &[&Word], targets: &[Word]) -> Vec<Effect> {
    let symbolic = has(words, 's') || given(words, "--symbolic");
    if !symbolic || has(words, 'r') || given(words, "--relative") {
        return sources.iter().map(|source| write(source)).collect();
    }
    let from = |source: &Word, dir: &str| Word { text: format!("{dir}/{}", source.text).into(), ..source.clone() };
    let each = |source: &&Word| -> Vec<Effect> {
        if source.text.starts_with('/') {
            return vec![write(source)];
        }
        let beside = |target: &Word| target.text.rsplit_once('/').map_or(".", |(dir, _)| dir).to_owned();
        let places = targets.iter().flat_map(|target| [beside(target), target.text.to_string()]);
        let stands_for: Vec<Word> = places.map(|dir| from(source, &dir)).collect();
        let inside: Vec<&Word> = stands_for.iter().filter(|word| located(".", &word.text).is_ok()).collect();
        if inside.is_empty() { stands_for.iter().map(write).collect() } else { inside.into_iter().map(write).collect() }
    };
    sources.iter().flat_map(each).collect()
}

/// Into a directory, or onto the file of this name: which of the two is not known.
fn inside(target: &Word, source: &Word) -> Effect {
    let last = source.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    Effect::Writes(Word {
        text: format!("{}/{last}", target.text).into(),
        glob: target.glob || source.glob,
        known: target.known && source.known,
    })
}

/// Whether a long option is given, perhaps only its beginning.
fn given(words: &[Word], option: &str) -> bool {
    words[1..].iter().any(|w| abbreviates(w.text.split('=').next().unwrap_or_default(), option))
}

/// The archive, and with -m what goes into it.
pub(super) fn zip(words: &[Word]) -> Vec<Effect> {
    if words.iter().any(|w| w.text.starts_with("--unz") || w.text.starts_with("-TT")) {
        return unclear("zip runs another program with this option");
    }
    let moves = has(words, 'm') || given(words, "--move");
    let count = if moves { words.len() } else { 1 };
    operands(words, &[]).into_iter().take(count).map(write).collect()
}

pub(super) fn tar(words: &[Word]) -> Vec<Effect> {
    const RUNS: [&str; 6] = [
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
    ];
    let first = words.get(1).map_or("", |w| w.text.strip_prefix('-').unwrap_or(&w.text));
    let first = if first.starts_with('-') { "" } else { first };
    let mode = |letter: char, name: &str| has(words, letter) || first.contains(letter) || given(words, name);
    let runs = RUNS.iter().any(|option| given(words, option) && (*option != RUNS[1] || more_than_checkpoint(words)));
    if runs || mode('I', "--use-compress-program") || mode('F', "--info-script") {
        return unclear("tar runs another program with this option");
    }
    if mode('x', "--extract") || given(words, "--get") {
        let clustered = first.contains('C') && !words[1].text.starts_with("-C");
        if clustered || mode('P', "--absolute-names") || given(words, "--transform") || given(words, "--xform") {
            return unclear("tar unpacks to where its names say");
        }
        return vec![Effect::Writes(unpacked_to(words))];
    }
    if mode('t', "--list") {
        return vec![];
    }
    if given(words, "--remove-files") {
        return operands(words, &[]).into_iter().map(write).collect();
    }
    // The archive is the word after the cluster that ends with f.
    let archive = words.windows(2).skip(1).find(|w| {
        w[0].text == "--file" || w[0].text.ends_with('f') && (w[0].text.starts_with('-') || w[0].text == words[1].text)
    });
    let archive = archive.map(|w| w[1].clone()).or_else(|| values(words, "--file").last());
    archive.map(Effect::Writes).into_iter().collect()
}

/// `--checkpoint` alone counts records, and is no beginning of the option that runs a program.
fn more_than_checkpoint(words: &[Word]) -> bool {
    let rest: Vec<_> = words.iter().filter(|w| w.text.split('=').next() != Some("--checkpoint")).cloned().collect();
    given(&rest, "--checkpoint-action")
}

/// One directory after the other, each in the one before.
fn unpacked_to(words: &[Word]) -> Word {
    let one = |at: usize| {
        let told = |option| value(&words[at], words.get(at + 1), option);
        told("-C").or_else(|| told("--directory"))
    };
    (1..words.len()).filter_map(one).fold(here(), |dir, next| {
        let text = if next.text.starts_with('/') { next.text } else { format!("{}/{}", dir.text, next.text).into() };
        Word { text, glob: dir.glob || next.glob, known: dir.known && next.known }
    })
}
