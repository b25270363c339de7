//! How long does the gate take? `cargo bench --profile dev --workspace --bench gate` prints it for the build that users run, `-- WORD` the commands with
//! this word in their name, `-- --parser` beside each what the grammar's parser alone would take; nothing is asserted
//! here. On a busy host the p99 is the scheduler's: the least and the median say what the gate takes.
//!
//! The bars: p99 of one 10 KiB command under 1 ms; any 1 MiB of random bytes gives a verdict within 50 ms.

use std::hint::black_box;
use std::time::{Duration, Instant};

use agent::gate::{Action, Context, Mode, Policy, judge};

const ROUNDS: usize = 1_000;
const RANDOM_ROUNDS: usize = 60;
const COMMAND_BYTES: usize = 10 << 10;
const RANDOM_BYTES: usize = 1 << 20;

fn main() {
    let policy = Policy::shipped().expect("the shipped policy loads");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average: {}", load.trim());
    println!(
        "\none command of {COMMAND_BYTES} bytes, {ROUNDS} rounds\n{:<36} {:>7} {:>10} {:>10} {:>10} {:>10}",
        "", "bytes", "least us", "median us", "p99 us", "max us"
    );
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let show_parser = std::env::args().any(|arg| arg == "--parser");
    for (name, command) in
        scripts().into_iter().filter(|(name, _)| wanted.as_ref().is_none_or(|part| name.contains(part)))
    {
        let action = Action::RunCommand { command };
        let context = Context { mode: Mode::Auto, ..Context::default() };
        let verdict = judge(&policy, &action, &context).verdict;
        let times = measure(ROUNDS, || drop(black_box(judge(&policy, black_box(&action), &context))));
        print(&format!("{name} ({verdict:?})"), command_of(&action).len(), times);
        if show_parser {
            // What the grammar's parser alone would take for all of it.
            let mut parser = tree_sitter::Parser::new();
            parser.set_language(&tree_sitter_bash::LANGUAGE.into()).expect("the grammar fits the parser");
            let times = measure(ROUNDS / 4, || drop(black_box(parser.parse(black_box(command_of(&action)), None))));
            print("  tree-sitter, all of it", command_of(&action).len(), times);
        }
    }
    if wanted.is_some() {
        return;
    }
    println!("\n{RANDOM_BYTES} random bytes, {RANDOM_ROUNDS} rounds each");
    let mut state = 7_u64;
    for (name, alphabet) in [("any bytes", None), ("shell punctuation", Some("$(){}'\"`|&;<>\\ \n#*a="))] {
        let mut times = Vec::new();
        for _ in 0..RANDOM_ROUNDS {
            let text = random(&mut state, RANDOM_BYTES, alphabet);
            for action in [Action::RunCommand { command: text.clone() }, Action::ReadFile { path: text }] {
                times.extend(measure(1, || drop(black_box(judge(&policy, black_box(&action), &Context::default())))));
            }
        }
        print(name, RANDOM_BYTES, times);
    }
    let mut times = Vec::new();
    for _ in 0..20 * RANDOM_ROUNDS {
        let command = random(&mut state, 16 << 10, Some("$(){}'\"`|&;<>\\ \n#*a="));
        let action = Action::RunCommand { command };
        times.extend(measure(1, || drop(black_box(judge(&policy, black_box(&action), &Context::default())))));
    }
    print("16 KiB of punctuation, parsed", 16 << 10, times);
}

/// Scripts of every kind, each as long as it can be within 10 KiB and 64 commands.
fn scripts() -> Vec<(&'static str, String)> {
    let words = |begin: &str, piece: &dyn Fn(usize) -> String| fill(begin, piece, "", usize::MAX);
    let commands = |begin: &str, piece: &dyn Fn(usize) -> String| fill(begin, piece, "", 60);
    let files = |bytes| (0..bytes / 18).map(|n| format!("src/module_{n}.py ")).collect::<String>();
    let many = |word: &str, count| format!("{word} ").repeat(count);
    let line = "a line of text\n";
    vec![
        ("one command, many files", words("wc -l ", &|n| format!("src/module_{n}.py "))),
        ("one-letter words", words("echo ", &|_| "a ".into())),
        ("one long word", words("echo ", &|_| "x".into())),
        ("a commit message", format!("git commit -m '{}'", "fix the thing ".repeat(730))),
        ("100 quoted words", words("echo ", &|_| format!("'{}' ", "b ".repeat(49)))),
        ("short quoted words", words("echo ", &|n| format!("'a {n}' \"b c\" "))),
        ("words and expansions", words("echo ", &|_| "a 'b c' \"d $e\" ".into())),
        ("Chinese, and emoji", words("echo ", &|n| format!("测试{n} '模型 🦀' \"é 🎉\" "))),
        ("60 piped commands", commands("git log", &|n| format!(" | grep -v \"{}\"", "x".repeat(150 + n % 3)))),
        ("60 edits of files", commands("true", &|n| format!("; sed -i 's/{}/b/' src/{n}.py", "a".repeat(140)))),
        (
            "60 commands of 12 words",
            commands("true", &|n| {
                format!(
                    " && cargo test --package crate_{n} --test integration -- --exact module::tests::name_{n} --nocapture {}",
                    "src/a/long/path/to/a_file.rs src/b.rs"
                )
            }),
        ),
        ("60 commands of 80 words", commands("true", &|_| format!(" || ls {}", many("a", 80)))),
        ("60 redirections", commands("true", &|n| format!("; ls {}> out/{n}.txt 2>&1", many("src/a_b.py", 13)))),
        ("60 assignments", commands("true", &|n| format!("; A_{n}=b C='x y' python3 run.py {}", many("w", 65)))),
        ("a here-document", fill("cat > a.txt <<'EOF'\n", &|_| line.into(), "EOF", usize::MAX)),
        ("30 here-documents", words("true\n", &|n| format!("cat > {n}.txt <<'EOF'\n{}EOF\n", line.repeat(21)))),
        ("a script in a script", format!("sh -c \"sh -c 'wc {}'\"", files(10_200))),
        ("30 scripts in it", words("true", &|n| format!("; sh -c 'ls src/{n} | wc {}'", many("-l a.txt", 35)))),
        ("6 substitutions, nested", format!("{}wc {}{}", "echo a $(".repeat(6), files(10_100), ")".repeat(6))),
        ("60 substitutions", commands("true", &|n| format!("; echo \"$(cat src/{n}.txt {})\"", many("a.txt", 24)))),
        ("a loop", fill("for f in *; do true", &|n| format!("; grep \"$f\" {n} {}", many("a", 75)), "; done", 60)),
        ("patterns of files", words("wc -l ", &|n| format!("src/*/a{n}_?.py "))),
        ("a removal of many files", words("rm ", &|n| format!("build/{n}.o "))),
        ("a removal by patterns", words("rm ", &|n| format!("build/{n}*.o "))),
        ("words near secrets", words("cat .en id_rs x.pe x.ke .ss/x .gi/x ", &|n| format!("a{n}.env "))),
        ("words after secrets", words("echo .env id_rsa .pem .key .ssh .git .aws .npmrc ", &|_| "a/b ".into())),
        ("16 directories", words("cd a; cd b; cd c; cd d; ls ", &|n| format!("f{n} "))),
        ("wrapped 30 times", words("true", &|_| format!("; env nice {}", many("git", 80)))),
    ]
}

/// As many pieces as fit between a beginning and an end.
fn fill(begin: &str, piece: &dyn Fn(usize) -> String, end: &str, pieces_max: usize) -> String {
    let mut text = begin.to_owned();
    for next in (0..pieces_max).map(piece) {
        if text.len() + next.len() + end.len() > COMMAND_BYTES {
            break;
        }
        text += &next;
    }
    text + end
}

fn command_of(action: &Action) -> &str {
    match action {
        Action::RunCommand { command } => command,
        _ => "",
    }
}

fn measure(rounds: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..rounds).map(once).collect()
}

fn print(name: &str, bytes: usize, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
    println!("{name:<36} {bytes:>7} {:>10.1} {:>10.1} {:>10.1} {:>10.1}", at(0), at(50), at(99), at(100));
}

/// xorshift64* (Vigna 2016).
fn random(state: &mut u64, bytes: usize, alphabet: Option<&str>) -> String {
    let mut next = || {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    };
    match alphabet {
        Some(alphabet) => (0..bytes).map(|_| alphabet.as_bytes()[next() as usize % alphabet.len()] as char).collect(),
        None => String::from_utf8_lossy(&(0..bytes).map(|_| next() as u8).collect::<Vec<_>>()).into_owned(),
    }
}
