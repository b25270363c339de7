//! How long does the gate take? `cargo bench -p agent --bench gate` prints it, `-- WORD` the commands with
//! this word in their name; nothing is asserted here. On
//! a busy host the p99 is the scheduler's: the least and the median say what the gate takes.
//!
//! The bars: p99 of one 10 KiB command under 1 ms; any 1 MiB of random bytes gives a verdict within 50 ms.

use std::fmt::Write as _;
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
    let files: String = (0..).map(|n| format!("src/module_{n}.py ")).take(700).collect();
    let mut pipeline = "git log --oneline -10".to_owned();
    for n in 0..60 {
        let _ = write!(pipeline, " | grep -v \"{}\" ", "x".repeat(140 + n % 3));
    }
    let words = "a 'b c' \"d $e\" ".repeat(680);
    let edits = (0..60).map(|n| format!("sed -i 's/{}/b/' src/{n}.py; ", "a".repeat(140))).collect::<String>();
    let cases = [
        ("one command, many files", format!("wc -l {files}")),
        ("a commit message", format!("git commit -m '{}'", "fix the thing ".repeat(1_000))),
        ("a pipeline of 61 commands", pipeline),
        ("words and expansions", format!("echo {words}")),
        ("100 quoted words", format!("echo {}", format!("'{}' ", "b ".repeat(49)).repeat(100))),
        ("one-letter words", format!("echo {}", "a ".repeat(5_200))),
        ("a script in a script", format!("sh -c \"sh -c 'wc {files}'\"")),
        ("60 edits of files", edits),
        ("a here-document", format!("cat > a.txt <<'EOF'\n{}\nEOF", "a line of text\n".repeat(800))),
    ];
    println!(
        "\none command of {COMMAND_BYTES} bytes, {ROUNDS} rounds\n{:<36} {:>7} {:>10} {:>10} {:>10} {:>10}",
        "", "bytes", "least us", "median us", "p99 us", "max us"
    );
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    for (name, command) in cases.into_iter().filter(|(name, _)| wanted.as_ref().is_none_or(|part| name.contains(part)))
    {
        let end = (0..=COMMAND_BYTES.min(command.len())).rev().find(|at| command.is_char_boundary(*at)).unwrap_or(0);
        // A cut may leave a quote open; then the end of the command is kept instead.
        let cut = if ["message", "document", "script"].iter().any(|kind| name.contains(kind)) {
            fitted(&command)
        } else {
            command[..end].to_owned()
        };
        let action = Action::RunCommand { command: cut };
        let context = Context { mode: Mode::Auto, ..Context::default() };
        let verdict = judge(&policy, &action, &context).verdict;
        let times = measure(ROUNDS, || drop(black_box(judge(&policy, black_box(&action), &context))));
        print(&format!("{name} ({verdict:?})"), command_of(&action).len(), times);
        // How much of it is the grammar's parser, which is not ours.
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&tree_sitter_bash::LANGUAGE.into()).expect("the grammar fits the parser");
        let times = measure(ROUNDS, || drop(black_box(parser.parse(black_box(command_of(&action)), None))));
        print("  of which tree-sitter", command_of(&action).len(), times);
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

/// The command with its middle left out, so that it is 10 KiB long and its end is whole.
fn fitted(command: &str) -> String {
    let over = command.len().saturating_sub(COMMAND_BYTES);
    let (head, tail) = command.split_at(command.len() / 2);
    format!("{head}{}", &tail[over.min(tail.len())..])
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
