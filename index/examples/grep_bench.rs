//! Does `grep` with the trigram lane find what ripgrep finds, and how much sooner?
//!
//!     cargo run -p index --example grep_bench -- DIRECTORY [PATTERNS] [SEED]
//!
//! Builds the lane over the directory, makes patterns from its own words and lines, and asks the lane and `rg` (on the
//! PATH) for all matches of each, with as many threads. Every line of every file that both search must be the same;
//! what else ripgrep finds is counted by the reason why we do not search that file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use index::grep::GrepOptions;
use index::grep_trial::Trial;

const MEMORY_BYTES_MAX: usize = 64 << 20;
const RG: &[&str] = &[
    "--no-config",
    "--no-require-git",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--hidden",
    "--glob=!.git",
    "--no-heading",
    "--line-number",
    "--with-filename",
    "--null",
    "--color=never",
    "--no-messages",
    "--threads=2",
];

struct Question {
    pattern: String,
    ignore_case: bool,
    word: bool,
    literal: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(arguments.first().map_or(".", String::as_str)).canonicalize().expect("a directory");
    let number =
        |at: usize, otherwise: u64| arguments.get(at).map_or(otherwise, |text| text.parse().expect("a number"));
    let (patterns, seed) = (number(1, 500) as usize, number(2, 6));

    let work = tempfile::tempdir().expect("a temporary directory");
    let (trial, cost) = Trial::build(&root, work.path(), MEMORY_BYTES_MAX).expect("the lane is built");
    let files = trial.paths().count();
    println!("load average {}", load());
    println!(
        "{files} files, {} lines, {:.1} MB; lane {:.1} MB, {:.3} of the source; writer {:.1} MB/s, in all {:.1} MB/s",
        cost.lines,
        cost.source_bytes as f64 / 1e6,
        cost.lane_bytes as f64 / 1e6,
        cost.lane_bytes as f64 / cost.source_bytes as f64,
        cost.source_bytes as f64 / 1e6 / cost.writer_seconds,
        cost.source_bytes as f64 / 1e6 / cost.seconds,
    );

    let ours: BTreeSet<&str> = trial.paths().collect();
    let mut chance = Chance(seed);
    let questions: Vec<Question> =
        std::iter::repeat_with(|| question(&root, &trial, &mut chance)).take(patterns).collect();
    let mut tally = Tally::default();
    for question in &questions {
        ask(&root, &trial, &ours, question, &mut tally);
    }
    println!("load average {}", load());
    println!("{} of {patterns} patterns differ; {} lines compared", tally.differing, tally.lines);
    println!("lines that only ripgrep finds, in files we do not search: {:?}", tally.elsewhere);
    println!("candidates: {} files in all, {} of them match", tally.candidates, tally.matching);
    for (name, mut times) in [("all matches", tally.all), ("first 200", tally.first), ("ripgrep", tally.ripgrep)] {
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] * 1e3;
        println!(
            "{name:12} p50 {:7.1} ms, p90 {:7.1} ms, p99 {:7.1} ms, max {:7.1} ms",
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0)
        );
    }
}

#[derive(Default)]
struct Tally {
    all: Vec<f64>,
    first: Vec<f64>,
    ripgrep: Vec<f64>,
    differing: usize,
    lines: usize,
    candidates: usize,
    matching: usize,
    elsewhere: BTreeMap<&'static str, usize>,
}

type Lines = BTreeSet<(String, usize, String)>;

fn ask(root: &Path, trial: &Trial, ours: &BTreeSet<&str>, question: &Question, tally: &mut Tally) {
    let Question { pattern, ignore_case, word, literal } = question;
    let (ignore_case, word, literal) = (*ignore_case, *word, *literal);
    let options = GrepOptions { literal, ignore_case, word, ..GrepOptions::default() };
    let start = Instant::now();
    trial.grep(pattern, &options).expect("a pattern");
    tally.first.push(start.elapsed().as_secs_f64());

    let everything = GrepOptions { matches_max: usize::MAX / 2, line_bytes_max: usize::MAX / 2, ..options };
    let start = Instant::now();
    let (found, candidates) = trial.grep(pattern, &everything).expect("a pattern");
    let seconds = start.elapsed().as_secs_f64();
    tally.all.push(seconds);
    tally.candidates += candidates;
    tally.matching += found.files_matched;
    if seconds > 0.1 {
        let lines = found.matches.len();
        println!(
            "{:.0} ms: {pattern:?} i={ignore_case} w={word}: {candidates} candidates, {lines} lines",
            seconds * 1e3
        );
    }

    let mut command = Command::new("rg");
    command.args(RG).current_dir(root).stdin(Stdio::null());
    for (flag, given) in [("-F", literal), ("-i", ignore_case), ("-w", word)] {
        command.args(given.then_some(flag));
    }
    let start = Instant::now();
    let output = command.args(["-e", pattern, "."]).output().expect("ripgrep runs");
    tally.ripgrep.push(start.elapsed().as_secs_f64());

    let found: Lines = found.matches.into_iter().map(|hit| (hit.path, hit.line, hit.text)).collect();
    let mut theirs = lines_of(&output.stdout);
    theirs.retain(|(path, ..)| {
        let searched = ours.contains(path.as_str());
        if !searched {
            *tally.elsewhere.entry(reason(root, path)).or_default() += 1;
        }
        searched
    });
    tally.lines += theirs.len();
    if found != theirs {
        tally.differing += 1;
        println!("DIFFERENT: {pattern:?} i={ignore_case} w={word} F={literal}: {} and {}", found.len(), theirs.len());
        found.symmetric_difference(&theirs).take(3).for_each(|line| println!("    {line:?}"));
        println!("    {}", String::from_utf8_lossy(&output.stderr).trim());
    }
}

fn lines_of(output: &[u8]) -> Lines {
    let line = |line: &[u8]| -> Option<(String, usize, String)> {
        let nul = line.iter().position(|&byte| byte == 0)?;
        let (path, rest) = (&line[..nul], &line[nul + 1..]);
        let colon = rest.iter().position(|&byte| byte == b':')?;
        let number = std::str::from_utf8(&rest[..colon]).ok()?.parse().ok()?;
        let text = rest[colon + 1..].strip_suffix(b"\r").unwrap_or(&rest[colon + 1..]);
        let path = String::from_utf8_lossy(path.strip_prefix(b"./").unwrap_or(path)).into_owned();
        Some((path, number, String::from_utf8_lossy(text).into_owned()))
    };
    output.split(|&byte| byte == b'\n').filter_map(line).collect()
}

/// Why a file that ripgrep searches is none of ours.
fn reason(root: &Path, path: &str) -> &'static str {
    let bytes = std::fs::read(root.join(path)).unwrap_or_default();
    if bytes.contains(&0) {
        "binary"
    } else if path.split('/').any(|part| part.starts_with('.')) {
        "hidden"
    } else if bytes.len() > 64 << 20 {
        "giant"
    } else {
        "secret or not UTF-8 path"
    }
}

/// A linear congruential generator: the same questions for the same seed and tree.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(of.len());
        of.get(at)
    }
}

/// A question about a line of the tree: its words, what stands between them, and patterns over them.
fn question(root: &Path, trial: &Trial, chance: &mut Chance) -> Question {
    let paths: Vec<&str> = trial.paths().collect();
    loop {
        let path = chance.one(&paths).expect("a file");
        let text = String::from_utf8_lossy(&std::fs::read(root.join(path)).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| (8..200).contains(&line.len())).collect();
        let Some(line) = chance.one(&lines) else { continue };
        let is_word = |word: &&str| word.chars().count() >= 3;
        let words: Vec<&str> =
            line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(is_word).collect();
        let (Some(first), Some(last)) = (chance.one(&words), words.last()) else { continue };
        let part: String = {
            let letters: Vec<char> = line.trim().chars().collect();
            let start = chance.below(letters.len().saturating_sub(6));
            let length = 4 + chance.below(20);
            letters[start..(start + length).min(letters.len())].iter().collect()
        };
        let head: String = first.chars().take(3 + chance.below(4)).collect();
        let (e_part, e_line) = (escape(&part), escape(line.trim()));
        let plain = |pattern: String| Question { pattern, ignore_case: false, word: false, literal: false };
        let made = match chance.below(20) {
            0 | 1 => plain((*first).to_owned()),
            2 => Question { word: true, ..plain((*first).to_owned()) },
            3 => Question { ignore_case: true, ..plain((*first).to_owned()) },
            4 => Question { literal: true, ..plain(part) },
            5 => Question { literal: true, ignore_case: true, ..plain(part) },
            6 => plain(format!("{first}.*{last}")),
            7 => plain(format!(r"\b{head}\w*")),
            8 => plain(format!(r"{first}\s*\(")),
            9 => plain(format!("{first}|{last}")),
            10 => plain(format!("^\\s*{e_part}")),
            11 => plain(format!(r"(fn|def|class|struct|int|void)\s+{head}\w*")),
            12 => plain(format!("{e_line}$")),
            13 => Question { ignore_case: true, word: true, ..plain(format!("{first}|{last}")) },
            14 => plain(format!("[A-Z]{}\\w+\\(", &escape(&head.to_lowercase()))),
            15 => plain(format!(r"(?i){head}\w{{2,6}}\b")),
            16 => plain(format!(r"{head}[a-z0-9_]+\.{}", last.chars().take(2).collect::<String>())),
            17 => plain(format!(r"{e_part}.?\d+")),
            18 => plain(format!("(?:{first}_?)+[({{<]")),
            _ => Question { ignore_case: true, ..plain(e_part) },
        };
        if made.pattern.trim().len() >= 3 && !made.pattern.contains('\0') {
            return made;
        }
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}
