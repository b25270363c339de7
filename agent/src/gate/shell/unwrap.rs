//! Which commands does a proven command start: what do `env`, `sudo`, `xargs` and `sh -c` run?
//!
//! Exact where [`super::find`] is generous: an option that is not known here is a doubt, because it may take the
//! next word for its value and so shift which word is the command.

use super::tree::Grammar;
use super::{DEPTH_MAX, Doubt, PARTS_MAX, Part, Word, prove, search};

/// How the arguments of a wrapper are read up to the command that it runs.
struct Wrapper {
    names: &'static [&'static str],
    /// The subcommands that run another program; they count as operands. Empty: the program always does.
    when: &'static [&'static str],
    /// Options that stand alone; `-` at the end of an entry means that a value is glued to it.
    flags: &'static [&'static str],
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Words between the options and the command: the seconds of `timeout`.
    operands: usize,
    /// Whether `NAME=value` may stand before the command.
    assigns: bool,
}

const fn plain(names: &'static [&'static str]) -> Wrapper {
    Wrapper { names, when: &[], flags: &[], valued: &[], operands: 0, assigns: false }
}

/// `PROGRAM SUBCOMMAND COMMAND`.
const fn with(names: &'static [&'static str], when: &'static [&'static str]) -> Wrapper {
    Wrapper { when, operands: 1, ..plain(names) }
}

const WRAPPERS: [Wrapper; 22] = [
    Wrapper {
        flags: &["-i", "-", "--ignore-environment"],
        valued: &["-u", "--unset"],
        assigns: true,
        ..plain(&["env"])
    },
    Wrapper {
        flags: &["-n", "-E", "-H", "-S", "-b", "-k", "--non-interactive"],
        valued: &["-u", "-g", "--user", "--group"],
        assigns: true,
        ..plain(&["sudo"])
    },
    Wrapper { flags: &["-n"], valued: &["-u"], ..plain(&["doas"]) },
    Wrapper { flags: &["-n-", "--adjustment=-"], valued: &["-n"], ..plain(&["nice"]) },
    Wrapper { flags: &["-t", "-c-", "-n-"], valued: &["-c", "-n"], ..plain(&["ionice"]) },
    Wrapper { flags: &["-w", "-c", "-f", "--wait", "--fork"], ..plain(&["setsid"]) },
    Wrapper {
        flags: &["--foreground", "--preserve-status", "-v", "-s-", "-k-", "--signal=-", "--kill-after=-"],
        valued: &["-s", "-k"],
        operands: 1,
        ..plain(&["timeout"])
    },
    Wrapper { flags: &["-i-", "-o-", "-e-"], ..plain(&["stdbuf"]) },
    Wrapper { flags: &["-p"], ..plain(&["time", "command"]) },
    Wrapper { flags: &["-c", "-l"], ..plain(&["exec"]) },
    plain(&[
        "nohup",
        "builtin",
        "busybox",
        "toybox",
        "fakeroot",
        "dbus-run-session",
        "catchsegv",
        "linux64",
        "linux32",
        "eatmydata",
        "valgrind",
    ]),
    Wrapper {
        flags: &[
            "-0",
            "-r",
            "-t",
            "-I-",
            "-n-",
            "-P-",
            "-L-",
            "-d-",
            "-s-",
            "--null",
            "--no-run-if-empty",
            "--max-args=-",
            "--max-procs=-",
        ],
        valued: &["-I", "-n", "-P", "-L", "-d", "-s"],
        ..plain(&["xargs"])
    },
    Wrapper {
        flags: &["-y", "--yes", "-q", "--quiet", "--no-install"],
        valued: &["-p", "--package"],
        ..plain(&["npx", "bunx"])
    },
    Wrapper { flags: &["-n-", "-t", "-d", "-e", "-g"], valued: &["-n"], ..plain(&["watch"]) },
    Wrapper {
        flags: &["-a", "-g", "-d", "-v", "-q", "-s", "--call-graph=-", "-e-", "-r-", "-F-"],
        valued: &["-e", "-r", "-o", "-F", "-C", "-x", "--event", "--repeat", "--output", "--call-graph", "--freq"],
        ..with(&["perf"], &["stat", "record", "trace", "mem", "c2c", "kvm", "sched", "lock", "kmem"])
    },
    Wrapper { flags: &["--install"], operands: 2, ..with(&["rustup"], &["run"]) },
    Wrapper {
        flags: &["-y", "--yes", "-q", "--quiet", "-s", "--silent", "--no-install", "--package=-"],
        valued: &["-p", "--package", "-w", "--workspace"],
        ..with(&["npm", "pnpm", "yarn", "bun"], &["exec", "x", "dlx"])
    },
    Wrapper {
        flags: &["-q", "-v", "--frozen", "--locked", "--offline", "--no-sync", "--isolated", "--all-extras"],
        valued: &["-p", "--python", "--with", "--extra", "--group", "--package", "--project", "--directory"],
        ..with(&["uv"], &["run"])
    },
    Wrapper { flags: &["-q"], valued: &["-p", "--python", "--from", "--with"], ..plain(&["uvx"]) },
    Wrapper {
        flags: &["-q", "-v", "--quiet", "--no-capture-output", "--live-stream"],
        valued: &["-n", "--name"],
        ..with(&["poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "pipx", "conda", "mamba", "micromamba"], &["run"])
    },
    Wrapper { flags: &["-q"], valued: &["-e"], ..with(&["tox"], &["exec"]) },
    with(&["bundle", "rbenv", "pyenv", "asdf", "mise", "rtx"], &["exec", "x"]),
];

/// How the names of the programs begin that load others: `/lib64/ld-linux-x86-64.so.2 PROGRAM`.
const LOADERS: [&str; 4] = ["ld-linux", "ld-musl", "ld.so", "ld64.so"];

/// Programs that run another in a way that is not followed.
const OPAQUE: [&str; 62] = [
    "prlimit",
    "numactl",
    "proot",
    "firejail",
    "bwrap",
    "setpriv",
    "capsh",
    "sg",
    "newgrp",
    "run-parts",
    "setarch",
    "xvfb-run",
    "gdb",
    "lldb",
    "hyperfine",
    "entr",
    "nodemon",
    "sudoedit",
    "sshpass",
    "parallel",
    "script",
    "chroot",
    "unshare",
    "nsenter",
    "strace",
    "ltrace",
    "runuser",
    "su",
    "pkexec",
    "flock",
    "taskset",
    "chrt",
    "caffeinate",
    "unbuffer",
    "expect",
    "coproc",
    "nix-shell",
    "guix",
    "direnv",
    "gosu",
    "su-exec",
    "tini",
    "dumb-init",
    "rr",
    "watchexec",
    "start-stop-daemon",
    "daemonize",
    "chpst",
    "softlimit",
    "envdir",
    "envuidgid",
    "setuidgid",
    "setlock",
    "cpulimit",
    "torsocks",
    "proxychains",
    "proxychains4",
    "faketime",
    "dotenv",
    "dtach",
    "abduco",
    "dc",
];

pub(super) const SHELLS: [&str; 14] =
    ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "yash", "oksh", "posh"];

/// Shells whose language is another.
const OTHER_SHELLS: [&str; 4] = ["nu", "elvish", "xonsh", "osh"];

/// Builtins that change what later commands mean, or evaluate the names that they are given.
const REDEFINING: [&str; 11] =
    ["alias", "enable", "shopt", "let", "read", "mapfile", "readarray", "compgen", "complete", "bind", "fc"];

/// What a command starts.
enum Starts {
    Commands(Vec<Part>),
    Script(String),
}

/// Everything that the parts start, and what that starts in turn.
pub(super) fn started(parts: &[Part], grammar: &mut Grammar) -> Result<Vec<Part>, Doubt> {
    let mut inner = Vec::new();
    let mut waiting: Vec<(Part, usize)> = parts.iter().map(|part| (part.clone(), 0)).collect();
    while let Some((part, depth)) = waiting.pop() {
        let next = match starts(&part)? {
            Starts::Commands(commands) => commands,
            Starts::Script(script) => prove::prove(&*grammar.parse(&script)?)?.to_vec(),
        };
        if depth >= DEPTH_MAX && !next.is_empty() {
            return Err(Doubt::TooDeep);
        }
        inner.extend(next.iter().cloned());
        if parts.len() + inner.len() > PARTS_MAX {
            return Err(Doubt::TooManyParts);
        }
        waiting.extend(next.into_iter().map(|part| (part, depth + 1)));
    }
    Ok(inner)
}

fn starts(part: &Part) -> Result<Starts, Doubt> {
    let words = &part.words;
    let name = program(&words[0].text);
    let loads = LOADERS.iter().any(|begin| name.starts_with(begin));
    if loads || OPAQUE.contains(&name) || OTHER_SHELLS.contains(&unversioned(name)) {
        return doubt(&format!("{name}, which runs another command"));
    }
    if !name.is_ascii() {
        return doubt(&format!("a program that is called {name}, which may only look like another"));
    }
    if REDEFINING.contains(&name) || name == "hash" && words.iter().any(|w| w.text.starts_with("-p")) {
        return doubt(&format!("{name}, which can change what later commands mean"));
    }
    if ["source", "."].contains(&name) && words[1..].iter().any(|w| is_input(&w.text)) {
        return doubt(&format!("{name} of its input"));
    }
    if name == "find" {
        return search::executed(words).map(Starts::Commands);
    }
    if let Some(script) = shell_script(words)? {
        return Ok(Starts::Script(script));
    }
    let wrapper = WRAPPERS.iter().find(|w| w.names.contains(&name) && w.runs_another(words));
    match wrapper.filter(|_| !asks_where(words)) {
        Some(wrapper) => wrapper.command(words, part.input),
        None => Ok(Starts::Commands(vec![])),
    }
}

/// `command -v NAME` runs nothing.
pub(super) fn asks_where(words: &[Word]) -> bool {
    let shows = |w: &Word| w.text == "-v" || w.text == "-V";
    program(&words[0].text) == "command" && words.get(1).is_some_and(shows)
}

impl Wrapper {
    fn runs_another(&self, words: &[Word]) -> bool {
        let subcommand = words[1..].iter().find(|w| !w.text.starts_with('-'));
        self.when.is_empty() || subcommand.is_some_and(|w| self.when.contains(&w.text.as_str()))
    }

    fn command(&self, words: &[Word], input: bool) -> Result<Starts, Doubt> {
        let name = program(&words[0].text);
        if let Some(hole) = words.iter().find(|w| !w.known) {
            return doubt(&format!("an expansion beside {name} (`{}`)", hole.text));
        }
        let mut at = 1;
        let mut assigned = Vec::new();
        let mut operands = self.operands;
        while let Some(word) = words.get(at) {
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
                break;
            }
            let names_a_variable = self.assigns.then(|| text.split_once('=')).flatten();
            if let Some((variable, value)) = names_a_variable.filter(|(n, _)| !n.is_empty() && !n.starts_with('-')) {
                assigned.push((variable.to_owned(), Word { text: value.into(), ..word.clone() }));
            } else if self.valued.contains(&text) {
                at += 1;
            } else if text.starts_with('-') {
                let glued = |flag: &str| {
                    flag.strip_suffix('-').is_some_and(|f| f.len() > 1 && text.starts_with(f) && text.len() > f.len())
                };
                if !self.flags.iter().any(|flag| *flag == text || glued(flag)) {
                    return doubt(&format!("the option {text} of {name}, after which the command is not certain"));
                }
            } else if operands > 0 {
                operands -= 1;
            } else {
                break;
            }
            at += 1;
        }
        let rest = words.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(Starts::Commands(vec![]));
        }
        if name == "watch" {
            return Ok(Starts::Script(joined(rest)));
        }
        let mut rest = rest.to_vec();
        if name == "xargs" {
            // What it adds is not known, only that it is there.
            rest.push(Word { text: "".into(), glob: false, known: false });
        }
        Ok(Starts::Commands(vec![Part { words: rest.into(), assigned, redirects: vec![], input }]))
    }
}

/// The script that a shell is given as text; none when it runs a file.
fn shell_script(words: &[Word]) -> Result<Option<String>, Doubt> {
    let name = program(&words[0].text);
    if name == "eval" || name == "trap" {
        let text = if name == "eval" { &words[1..] } else { words.get(1..2).unwrap_or_default() };
        return if text.iter().all(|w| w.known && !w.glob) {
            Ok(Some(joined(text)))
        } else {
            doubt(&format!("{name} of a text that is not written out"))
        };
    }
    if !SHELLS.contains(&unversioned(name)) {
        return Ok(None);
    }
    let options =
        words[1..].iter().take_while(|w| w.known && w.text.starts_with(['-', '+']) && w.text.len() > 1).count();
    let given =
        |short: char| words[1..=options].iter().any(|w| !w.text.starts_with("--") && w.text[1..].contains(short));
    // `-o pipefail` and `--rcfile x` take a word.
    if given('o') || words[1..=options].iter().any(|w| ["--rcfile", "--init-file"].contains(&w.text.as_str())) {
        return doubt(&format!("an option of {name} that takes a value"));
    }
    let told = words[1..=options].iter().any(|w| ["--version", "--help"].contains(&w.text.as_str()));
    match words.get(1 + options) {
        _ if told => Ok(None),
        Some(script) if given('c') && script.known && !script.glob => Ok(Some(script.text.to_string())),
        Some(file) if !given('c') && !given('s') && file.known && file.text != "-" && !is_input(&file.text) => Ok(None),
        _ => doubt(&format!("{name} with a script from its input or from an expansion")),
    }
}

/// `/usr/bin/git` and `git.exe` are `git`.
pub(in super::super) fn program(name: &str) -> &str {
    let name = name.bytes().rposition(|b| b == b'/').map_or(name, |slash| &name[slash + 1..]);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Whether a file is what another command prints, by another name.
pub(in super::super) fn is_input(path: &str) -> bool {
    ["/dev/stdin", "/dev/fd/", "/proc/"].iter().any(|begin| path.starts_with(begin))
}

/// `python3.11` is `python`, and `bash-5.1` is `bash`.
pub(in super::super) fn unversioned(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|w| w.text.as_str()).collect::<Vec<_>>().join(" ")
}

pub(super) fn doubt<T>(what: &str) -> Result<T, Doubt> {
    Err(Doubt::Construct(what.to_owned()))
}
