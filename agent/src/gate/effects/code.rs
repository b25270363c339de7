//! Is an interpreter given code that nobody can read: on its command line or on its input?
//!
//! Code in a file is judged when the file is written, and the box is the wall around it.

use super::{Effect, unclear};
use crate::gate::shell::{Word, is_input, unversioned};

/// Modules of Python that run what their arguments say, or a shell of their own.
const MODULES: [&str; 9] = ["timeit", "pdb", "code", "runpy", "codeop", "IPython", "bpython", "ptpython", "idlelib"];

/// Long options of various interpreters after which code follows.
const LONG: [&str; 10] = [
    "--eval",
    "--print",
    "--run",
    "--execute",
    "--interactive",
    "--rpc-eval",
    "--command",
    "--process-code",
    "-eval",
    "-run",
];

/// The letters after which an interpreter takes code; `None` when the program is none.
fn letters(name: &str) -> Option<&'static str> {
    Some(match name {
        "python" | "pypy" | "ipython" | "bpython" | "ptpython" | "guile" | "tclsh" => "c",
        "perl" | "ruby" | "lua" | "luajit" | "julia" => "eE",
        "node" | "nodejs" | "deno" | "bun" => "ep",
        "php" => "rBER",
        "R" | "Rscript" | "osascript" | "elixir" | "erl" | "ocaml" | "octave" | "groovy" | "racket" | "sbcl"
        | "scala" | "ghc" | "swift" | "irb" | "iex" | "ghci" | "jshell" => "e",
        _ => return None,
    })
}

/// Whether the code that this command runs hides; nothing when it is no interpreter.
pub(super) fn interpreter(name: &str, words: &[Word]) -> Vec<Effect> {
    let name = unversioned(name);
    if name == "pwsh" || name == "powershell" {
        return power_shell(words);
    }
    let Some(letters) = letters(name) else { return vec![] };
    if let [_, only] = words
        && ["--version", "-V", "-v", "--help", "-h"].contains(&only.text.as_str())
    {
        return vec![];
    }
    match name {
        "python" | "pypy" => python(&words[1..]),
        "deno" | "bun" if words[1..].iter().any(|w| w.text == "eval" || w.text == "repl") => inline(),
        // What the tests are it finds itself.
        "node" if words.iter().any(|w| w.text == "--test") && !any_code(&words[1..], letters) => vec![],
        _ if any_code(&words[1..], letters) => inline(),
        _ if words[1..].iter().any(|w| is_input(&w.text)) => from_input(),
        _ if words[1..].iter().any(is_operand) => vec![],
        _ => from_input(),
    }
}

fn inline() -> Vec<Effect> {
    unclear("code on the command line cannot be judged")
}

fn from_input() -> Vec<Effect> {
    unclear("an interpreter takes its code from its input, which cannot be judged")
}

fn is_operand(word: &Word) -> bool {
    !word.text.starts_with('-')
}

/// Whether an option for code stands before what is certainly the script. A word behind an option can be the
/// option's value, as in `perl -I lib -e x`, so only one behind another word is certain.
fn any_code(args: &[Word], letters: &str) -> bool {
    let certain = args.windows(2).position(|w| is_operand(&w[0]) && is_operand(&w[1]));
    let first = args.first().is_some_and(is_operand).then_some(0);
    let options = &args[..first.or(certain.map(|at| at + 1)).unwrap_or(args.len())];
    options.iter().filter(|w| !is_operand(w)).any(|option| {
        let text = option.text.as_str();
        let long = LONG.iter().any(|o| text.starts_with(o));
        long || !text.starts_with("--") && text.contains(|c| letters.contains(c))
    }) || options.iter().any(|w| w.text.contains("data:"))
}

/// Python's options are few and known, so the script is certain.
fn python(args: &[Word]) -> Vec<Effect> {
    let mut args = args.iter();
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        if text == "-" || !word.known || is_input(text) {
            return from_input();
        }
        let Some(cluster) = text.strip_prefix('-') else { return vec![] };
        if cluster.starts_with('-') {
            // Of the long ones, one takes a value.
            if text == "--check-hash-based-pycs" {
                args.next();
            }
            continue;
        }
        // These letters end a cluster: the rest of it, or the next word, belongs to them.
        let Some(at) = cluster.find(['c', 'm', 'W', 'X', 'Q']) else { continue };
        let (letter, glued) = (&cluster[at..=at], &cluster[at + 1..]);
        let value = if glued.is_empty() { args.next().map_or("", |w| w.text.as_str()) } else { glued };
        match letter {
            "c" => return inline(),
            "m" if MODULES.iter().any(|module| value.split('.').next() == Some(module)) => return inline(),
            "m" if ["zipfile", "tarfile"].contains(&value) && args.clone().any(unpacks) => {
                return unclear("an archive whose names say where it is unpacked");
            }
            "m" => return vec![],
            _ => {}
        }
    }
    from_input()
}

/// `-e`, `--extract`, `-c`, `--create` of Python's archive modules.
fn unpacks(word: &Word) -> bool {
    ["-e", "-c", "--e", "--c"].iter().any(|option| word.text.starts_with(option))
}

/// It takes any beginning of an option, in any case.
fn power_shell(words: &[Word]) -> Vec<Effect> {
    let options = words[1..].iter().map(|w| w.text.to_lowercase()).filter(|text| text.starts_with(['-', '/']));
    let code = |text: &str| {
        let name = &text[1..];
        name.starts_with('c') || name.starts_with('e') && !name.starts_with("ex") && name != "ep"
    };
    let file = words[1..].iter().any(|w| w.text.to_lowercase().ends_with(".ps1"));
    if file && !options.into_iter().any(|text| code(&text)) { vec![] } else { inline() }
}
