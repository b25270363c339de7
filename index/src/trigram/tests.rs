//! Does the lane never lose a match?

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use grep_matcher::Matcher as _;
use proptest::collection::vec;
use proptest::prelude::*;
use rustc_hash::FxHashSet;

use super::read::TrigramSegment;
use super::write::merge;
use super::{Plan, Trigram, TrigramLane, TrigramWriter};
use crate::file_no::FileNo;
use crate::grep::{GrepOptions, Matcher, grep_dir};
use crate::grep_trial::Trial;

/// What patterns and files are made of: few pieces, so that they meet, and those where letter case is not simple.
const PIECES: &[&str] = &[
    "foo", "Bar", "task", "KILO", "mask", "\u{212a}", "\u{17f}", "é", "É", "ß", "ẞ", "İ", "日本", "a", "k", "S", "_",
    "0", "42", "::", " ",
];

const CLASSES: &[&str] = &[
    "[a-c]",
    "[^a]",
    r"\w",
    r"\d",
    r"\s",
    r"\S",
    ".",
    "[ksKS]",
    "[foö]",
    r"\pL",
    r"\p{Greek}",
    r"(?-u:\xff)",
    "[[:upper:]]",
    "[a&&b]",
    r"(?-u:\w)",
    r"(?s:.)",
    r"[^\n]",
    r"\x{212a}",
    r"(?-u:[\x80-\xff])",
];

const LOOKS: &[&str] = &["^", "$", r"\b", r"\B", r"\A", r"\z", "", "(?:)", r"\b{start}", r"(?-u:\b)"];

const REPETITIONS: &[&str] = &["?", "*", "+", "??", "*?", "{2}", "{1,3}", "{0,2}", "{2,}", "{0}", "{5,}", "{1}"];

/// What is no UTF-8, and what ends a line in other places.
const ODD: &[&[u8]] = &[b"\xff", b"\xe2\x84", b"\r", b"\t", b"\xc5"];

fn piece() -> impl Strategy<Value = String> {
    proptest::sample::select(PIECES).prop_map(str::to_owned)
}

/// Patterns from a grammar of what people write and what they should not.
fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        6 => piece().prop_map(|piece| regex_syntax::escape(&piece)),
        2 => proptest::sample::select(CLASSES).prop_map(str::to_owned),
        1 => proptest::sample::select(LOOKS).prop_map(str::to_owned),
    ];
    atom.prop_recursive(4, 24, 4, |inner| {
        let group = |open: &'static str| move |inner: String| format!("{open}{inner})");
        prop_oneof![
            6 => vec(inner.clone(), 1..5).prop_map(|parts| parts.concat()),
            3 => vec(inner.clone(), 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            1 => vec(inner.clone(), 2..4).prop_map(|parts| parts.join("|")),
            3 => (inner.clone(), proptest::sample::select(REPETITIONS))
                .prop_map(|(inner, times)| format!("(?:{inner}){times}")),
            1 => inner.clone().prop_map(group("(")),
            1 => inner.clone().prop_map(group("(?i:")),
            1 => inner.clone().prop_map(group("(?-i:")),
            1 => inner.clone().prop_map(group("(?U:")),
            1 => inner.clone().prop_map(|inner| format!("(?i){inner}")),
            1 => inner.prop_map(|inner| format!("(?i-u:{inner})")),
        ]
    })
}

/// A pattern with the ways to use it, sometimes cut in the middle so that it is no regular expression.
fn question() -> impl Strategy<Value = (String, GrepOptions)> {
    let flags = (prop::bool::weighted(0.15), any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.05));
    (pattern(), flags).prop_map(|(mut pattern, (literal, ignore_case, word, cut))| {
        if cut {
            pattern.pop();
        }
        if pattern.is_empty() {
            pattern.push('a');
        }
        (pattern, GrepOptions { literal, ignore_case, word, matches_max: 10_000, ..GrepOptions::default() })
    })
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let cased = (piece(), 0..3).prop_map(|(piece, case)| match case {
        0 => piece.into_bytes(),
        1 => piece.to_uppercase().into_bytes(),
        _ => piece.to_lowercase().into_bytes(),
    });
    let odd = proptest::sample::select(ODD).prop_map(<[u8]>::to_vec);
    vec(prop_oneof![12 => cased, 1 => odd], 0..9).prop_map(|parts| parts.concat())
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let text = (vec(line(), 0..30), any::<bool>())
        .prop_map(|(lines, ended)| {
            let mut bytes = lines.join(&b'\n');
            bytes.extend(ended.then_some(b'\n'));
            bytes
        })
        .boxed();
    prop_oneof![
        12 => text.clone(),
        1 => text.clone().prop_map(|text| [b"\xef\xbb\xbf", text.as_slice()].concat()),
        1 => text.clone().prop_map(|text| [text.as_slice(), b"\0"].concat()),
        1 => text.clone().prop_map(|text| [b"\xff\xfe", text.as_slice()].concat()),
        // Several pages.
        2 => text.prop_map(|text| [text.as_slice(), b"\nfiller of pages, nothing else\n"].concat().repeat(800)),
    ]
}

fn folded_trigrams(bytes: &[u8]) -> FxHashSet<Trigram> {
    let number =
        |three: &[u8]| three.iter().fold(0, |number, byte| number << 8 | Trigram::from(byte.to_ascii_lowercase()));
    bytes.split(|&byte| byte == b'\n').flat_map(|line| line.windows(3).map(number)).collect()
}

fn allows(plan: &Plan, trigrams: &FxHashSet<Trigram>) -> bool {
    match plan {
        Plan::All => true,
        Plan::Nothing => false,
        Plan::Trigram(trigram) => trigrams.contains(trigram),
        Plan::And(parts) => parts.iter().all(|part| allows(part, trigrams)),
        Plan::Or(parts) => parts.iter().any(|part| allows(part, trigrams)),
    }
}

fn written(path: &Path, files: &[(u32, &[u8])], pairs_max: usize) -> u64 {
    let mut writer = TrigramWriter::new(path.parent().unwrap(), 0);
    writer.pairs_max = pairs_max;
    files.iter().for_each(|(number, bytes)| writer.add(FileNo(*number), bytes).unwrap());
    writer.finish(path).unwrap()
}

fn found(segment: &TrigramSegment, plan: &Plan) -> BTreeSet<u32> {
    let mut found = FxHashSet::default();
    segment.candidates(plan, &mut found).unwrap();
    found.into_iter().map(|file| file.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_line_that_matches_has_what_the_plan_needs((pattern, options) in question(), lines in vec(line(), 1..12)) {
        if let Ok(matcher) = Matcher::new(&pattern, &options) {
            for line in lines {
                if matcher.pattern.regex.is_match(&line).unwrap() {
                    prop_assert!(allows(matcher.plan(), &folded_trigrams(&line)), "{:?}", matcher.plan());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_tree_is_searched_with_the_same_result_as_without_the_lane(
        files in vec(file(), 1..10),
        questions in vec(question(), 12),
    ) {
        let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |at: usize| tree.path().join(format!("{}/f{at}", ["b", "a", "c/d"][at % 3]));
        for (at, bytes) in files.iter().enumerate() {
            fs::create_dir_all(path(at).parent().unwrap()).unwrap();
            fs::write(path(at), bytes).unwrap();
        }
        let (mut trial, _) = Trial::build(tree.path(), work.path(), 0).unwrap();
        // One file changes after the lane was made, and one comes new: the caller hands them in without a number.
        fs::write(path(0), files.last().unwrap()).unwrap();
        fs::create_dir_all(tree.path().join("a")).unwrap();
        fs::write(tree.path().join("a/new"), &files[0]).unwrap();
        trial.files.retain(|(path, _)| path != "b/f0");
        trial.files.extend([("b/f0".to_owned(), None), ("a/new".to_owned(), None)]);
        trial.files.sort();
        for (pattern, options) in questions {
            let Ok(expected) = grep_dir(tree.path(), &pattern, &options) else { continue };
            let (found, _) = trial.grep(&pattern, &options).unwrap();
            prop_assert_eq!(&found.matches, &expected.matches, "{} {:?}", pattern, options);
            prop_assert_eq!((found.files_matched, &found.notes), (expected.files_matched, &expected.notes));
            let few = GrepOptions { matches_max: 3, ..options };
            let (found, _) = trial.grep(&pattern, &few).unwrap();
            prop_assert_eq!(&found.matches, &expected.matches[..expected.matches.len().min(3)]);
            prop_assert!(found.truncated || expected.matches.len() <= 3);
        }
    }

    #[test]
    fn a_segment_knows_the_files_of_every_trigram_however_it_was_made(files in vec(file(), 1..12), cut in 1usize..11) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let files: Vec<(u32, &[u8])> = files.iter().enumerate().map(|(at, bytes)| (at as u32 * 3, &bytes[..])).collect();
        written(&path("whole"), &files, usize::MAX);
        written(&path("spilled"), &files, 50);
        let whole = fs::read(path("whole")).unwrap();
        prop_assert!(whole == fs::read(path("spilled")).unwrap());

        let (first, second) = files.split_at(cut.min(files.len()));
        written(&path("first"), first, usize::MAX);
        written(&path("second"), second, usize::MAX);
        let parts = ["first", "second"].map(|name| TrigramSegment::open(&path(name)).unwrap());
        merge(&parts, &|_| true, &path("merged")).unwrap();
        prop_assert!(whole == fs::read(path("merged")).unwrap());

        let alive = |file: FileNo| file.0.is_multiple_of(2);
        let living: Vec<(u32, &[u8])> = files.iter().copied().filter(|(file, _)| alive(FileNo(*file))).collect();
        written(&path("living"), &living, usize::MAX);
        merge(&parts, &alive, &path("merged living")).unwrap();
        prop_assert!(fs::read(path("living")).unwrap() == fs::read(path("merged living")).unwrap());

        let segment = TrigramSegment::open(&path("whole")).unwrap();
        segment.verify().unwrap();
        let trigrams: Vec<FxHashSet<Trigram>> = files.iter().map(|(_, bytes)| folded_trigrams(bytes)).collect();
        let all: BTreeSet<Trigram> = trigrams.iter().flatten().copied().chain([0, 0xff_ffff]).collect();
        for trigram in all {
            let holds = |(file, has): (&(u32, &[u8]), &FxHashSet<Trigram>)| {
                let is_searched = !file.1.contains(&0);
                let may_hold = has.contains(&trigram) || file.1.starts_with(b"\xff\xfe");
                (is_searched && may_hold).then_some(file.0)
            };
            let expected: BTreeSet<u32> = files.iter().zip(&trigrams).filter_map(holds).collect();
            prop_assert_eq!(found(&segment, &Plan::Trigram(trigram)), expected);
        }
    }
}

fn small_segment(directory: &Path) -> PathBuf {
    let path = directory.join("sound");
    let texts: Vec<String> =
        (0..60).map(|at| format!("word {} of file {at}\nsecond\n", at % 7).repeat(at % 5)).collect();
    let files: Vec<(u32, &[u8])> = texts.iter().enumerate().map(|(at, text)| (at as u32, text.as_bytes())).collect();
    written(&path, &files, usize::MAX);
    path
}

#[test]
fn a_damaged_segment_is_an_error_or_a_guess_but_never_a_panic() {
    let directory = tempfile::tempdir().unwrap();
    let sound = small_segment(directory.path());
    let bytes = fs::read(&sound).unwrap();
    let (damaged, merged) = (directory.path().join("damaged"), directory.path().join("merged"));
    let plans =
        [Plan::of("word.*file|second", false, true), Plan::of("file 1", true, false), Plan::of("e 4", true, false)];
    let mut refused = 0;
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= [0x01, 0x80, 0xff, 0x10][at % 4];
        fs::write(&damaged, &changed).unwrap();
        let Ok(segment) = TrigramSegment::open(&damaged) else {
            refused += 1;
            continue;
        };
        for plan in &plans {
            let _ = segment.candidates(plan, &mut FxHashSet::default());
        }
        if at % 3 == 0 {
            let _ = fs::remove_file(&merged);
            let _ = merge(&[segment], &|_| true, &merged);
        }
    }
    assert!(refused > 50, "header, tables and file numbers are checked when opening: {refused}");
}

#[test]
fn a_file_that_the_lane_never_saw_is_searched() {
    let directory = tempfile::tempdir().unwrap();
    let lane = TrigramLane::open(&[small_segment(directory.path())]).unwrap();
    let nothing = lane.candidates(&Plan::of("never there", true, false)).unwrap();
    assert!(!nothing.contains(FileNo(7)) && nothing.contains(FileNo(60)));
}

#[test]
fn a_giant_line_of_noise_and_a_text_in_utf_16_are_always_candidates() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8 | 0x80
    })
    .take(3 << 20)
    .collect();
    written(&path, &[(1, b"plain"), (2, &noise), (3, b"\xfe\xff\x65\xe5"), (4, b"plain \0")], usize::MAX);
    let segment = TrigramSegment::open(&path).unwrap();
    assert_eq!(found(&segment, &Plan::of("needle", true, false)), BTreeSet::from([2, 3]));
    assert_eq!(found(&segment, &Plan::of("plain", true, false)), BTreeSet::from([1, 2, 3]));
    assert_eq!(found(&segment, &Plan::All).len(), 4);
}
