//! What does git do to the files of the work tree, and to its own settings?
//!
//! What was not committed exists once. A path given to `git checkout` or `git restore` overwrites it, so a word that
//! can be a path is refused; one that can only be a branch is not.

use super::{Effect, operands, unclear, values, write};
use crate::gate::rules::{after_global_options, uses};
use crate::gate::shell::Word;

const LOSES_WORK: &str = "git overwriting files whose changes were not committed";

pub(super) fn git(words: &[Word]) -> Vec<Effect> {
    let rest = after_global_options("git", &words[1..]);
    let Some(subcommand) = rest.first() else { return vec![] };
    match subcommand.text.as_str() {
        "rm" | "mv" => operands(rest, &[]).into_iter().map(write).collect(),
        "push" if rest[1..].iter().any(|w| w.text.starts_with(['+', ':'])) => {
            unclear("this push overwrites or deletes what others have")
        }
        "fetch" | "pull" if rest[1..].iter().any(|w| w.text.starts_with('+')) => {
            unclear("this overwrites a branch of the repository")
        }
        "symbolic-ref" if operands(rest, &["-m"]).len() > 1 => unclear("git moving HEAD to another branch"),
        "restore" if !only_unstages(&rest[1..]) => loses(rest),
        "checkout" if names_paths(&rest[1..]) => loses(rest),
        _ if rest.iter().any(|w| w.text.starts_with("ext::")) => unclear("git running another program as a remote"),
        "clone" | "init" if takes_settings(&rest[1..]) => unclear("git with settings that can run another program"),
        "clone" => operands(rest, &["-b", "--branch", "--depth", "-o", "--origin", "-j"])
            .into_iter()
            .skip(1)
            .map(write)
            .collect(),
        "worktree" => operands(rest, &["-b", "-B"]).into_iter().skip(1).take(1).map(write).collect(),
        "clean" if !only_shows(&rest[1..]) => unclear("git removing files that it does not know"),
        "config" if !reads_settings(&rest[1..]) => {
            vec![Effect::Writes(Word { text: ".git/config".into(), glob: false, known: true })]
        }
        "bundle" => operands(rest, &[]).into_iter().skip(1).take(1).map(write).collect(),
        _ => values(rest, "--output")
            .chain(values(rest, "-o").filter(|_| rest[0].text == "archive" || rest[0].text == "format-patch"))
            .map(Effect::Writes)
            .collect(),
    }
}

/// The rules about what is overwritten explain better, where they have something to say.
fn loses(rest: &[Word]) -> Vec<Effect> {
    operands(rest, &["-s", "--source"]).into_iter().map(write).chain(unclear(LOSES_WORK)).collect()
}

/// Whether `git restore` touches the index alone. `-sS` is a source, so only `-S` by itself counts.
fn only_unstages(args: &[Word]) -> bool {
    let options = || args.iter().take_while(|w| w.text != "--");
    let staged = options().any(|w| w.text == "--staged" || w.text == "-S");
    let touches = ["--worktree", "-W", "--patch", "-p"];
    staged && !options().any(|w| touches.iter().any(|option| uses(option, &w.text)))
}

/// Whether `git checkout` is given something that is no branch for certain.
fn names_paths(args: &[Word]) -> bool {
    let picks_files = ["--pathspec-from-file", "--patch", "-p", "--ours", "--theirs", "--merge", "-m", "--overlay"];
    if args.iter().any(|w| picks_files.iter().any(|option| uses(option, &w.text))) {
        return true;
    }
    if args.iter().skip_while(|w| w.text != "--").nth(1).is_some() {
        return true;
    }
    let makes = |w: &Word| ["-b", "-B", "--orphan"].iter().any(|option| w.text.starts_with(option));
    let branches = args.iter().any(makes);
    let names: Vec<_> = args.iter().filter(|w| !w.text.starts_with('-')).collect();
    names.len() > 1 && !branches || names.into_iter().any(|name| name.glob || is_path(&name.text))
}

/// `.`, `src/`, `:/`, `*.py`, `src/a.py` and `a.py`; not `main`, `feature/x`, `v1.2`, `HEAD~1` and `release/1.x`.
fn is_path(name: &str) -> bool {
    let suffix = name.rsplit('/').next().and_then(|last| last.rsplit_once('.')).map(|(_, suffix)| suffix);
    let is_file = suffix.is_some_and(|s| s != "x" && s.starts_with(|c: char| c.is_ascii_alphabetic()));
    // A branch is called neither `.x` nor `x/`, and no part of it begins with a dot.
    let is_no_branch = name.starts_with(['.', '/', ':', '~']) || name.ends_with('/') || name.contains("/.");
    is_file || is_no_branch || name.contains(['*', '?', '['])
}

fn takes_settings(args: &[Word]) -> bool {
    let settings = ["-c", "-u", "--config", "--template", "--upload-pack", "--separate-git-dir"];
    args.iter().any(|w| settings.iter().any(|option| uses(option, &w.text)))
}

/// `-n`, `-nd`, `--dry-run`. In a longer cluster an `n` may be part of a pattern.
fn only_shows(args: &[Word]) -> bool {
    let is_cluster = |text: &str| text.len() > 1 && text[1..].chars().all(|c| "ndxXq".contains(c));
    let shows = |text: &str| text.starts_with('-') && is_cluster(text) && text.contains('n') || text == "--dry-run";
    args.iter().take_while(|w| w.text != "--").any(|w| shows(&w.text))
}

/// `--get x.y`, `--list`, and `x.y` alone. What is not known here may write.
fn reads_settings(args: &[Word]) -> bool {
    const READS: [&str; 8] =
        ["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "--get-color", "--get-colorbool"];
    const BESIDE: [&str; 12] = [
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "--name-only",
        "--null",
        "-z",
        "--bool",
        "--int",
        "--includes",
    ];
    let (options, operands): (Vec<_>, Vec<_>) = args.iter().partition(|w| w.text.starts_with('-'));
    let asks = options.iter().any(|w| READS.contains(&w.text.as_str()));
    let understood = options.iter().all(|w| READS.contains(&w.text.as_str()) || BESIDE.contains(&w.text.as_str()));
    // A list takes no name.
    let lists = options.iter().any(|w| w.text == "--list" || w.text == "-l");
    let names_one = operands.len() == 1 && operands[0].known && operands[0].text.contains('.');
    understood && (asks || names_one) && (!lists || operands.is_empty())
}
