//! Does the lane of symbols give back what was put in, and find what is asked for?

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;

use crate::cochange::CoChange;
use crate::file_no::FileNo;
use crate::graph::FileGraph;
use crate::parsed::parse_once;
use crate::references::{Tree, UseKind, callees, callers};
use crate::symbols::{Living, Lookup, SymbolPlace, SymbolSegment, SymbolWriter, Symbols, merge};

/// A tree in memory with its lane on disk.
struct Bench {
    _directory: tempfile::TempDir,
    files: BTreeMap<FileNo, (String, String)>,
    symbols: Symbols,
}

impl Living for Bench {
    fn path(&self, file: FileNo) -> Option<&str> {
        self.files.get(&file).map(|(path, _)| path.as_str())
    }
}

impl Tree for Bench {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.files.values().find(|(at, _)| at == path).map(|(_, text)| text.clone().into_bytes())
    }
}

impl Bench {
    /// Every slice is a segment of its own.
    fn new(segments: &[&[(&str, &str)]]) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let mut bench = Bench { files: BTreeMap::new(), symbols: Symbols::default(), _directory: directory };
        for (at, files) in segments.iter().enumerate() {
            let mut writer = SymbolWriter::default();
            for (path, text) in *files {
                let number = FileNo(bench.files.len() as u32);
                add(&mut writer, number, path, text);
                bench.files.insert(number, ((*path).to_owned(), (*text).to_owned()));
            }
            let path = bench.path_of(at);
            writer.finish(&path).unwrap();
            bench.symbols.segments.push(Arc::new(SymbolSegment::open(&path).unwrap()));
        }
        bench
    }

    fn path_of(&self, at: usize) -> PathBuf {
        self._directory.path().join(format!("symbols-{at}"))
    }

    /// `exact`, `ambiguous` or `not_found`, then path, line and qualified name of each.
    fn ask(&self, name: &str) -> String {
        let shown = |place: &SymbolPlace| {
            format!(" {}:{}:{}", self.path(place.file).unwrap(), place.start_line, place.qualified())
        };
        match self.symbols.lookup(name, self) {
            Lookup::Exact(place) => format!("exact{}", shown(&place)),
            Lookup::Ambiguous(places, _) => format!("ambiguous{}", places.iter().map(shown).collect::<String>()),
            Lookup::NotFound => "not_found".to_owned(),
        }
    }
}

fn add(writer: &mut SymbolWriter, number: FileNo, path: &str, text: &str) {
    let syntax = parse_once(path, text.as_bytes()).unwrap().read(text.as_bytes());
    writer.add(number, &syntax, text.as_bytes());
}

const STORE: &[(&str, &str)] = &[
    (
        "src/session.rs",
        "pub struct Session;\nimpl Session {\n    pub fn open() {}\n    pub fn close(&self) { helper() }\n}\nfn helper() {}\n",
    ),
    (
        "src/file.rs",
        "use crate::session::Session;\n/// A file.\n#[derive(Debug)]\npub struct File;\nimpl File {\n    pub fn close(&self) { Session::open(); }\n}\n",
    ),
    ("tests/session.rs", "fn close() {}\nfn HELPER() {}\n"),
];

#[test]
fn a_name_is_found_plain_qualified_and_with_its_path() {
    let bench = Bench::new(&[STORE]);
    assert_eq!(bench.ask("Session"), "exact src/session.rs:1:Session");
    assert_eq!(bench.ask("Session.close"), "exact src/session.rs:4:Session.close");
    assert_eq!(bench.ask("Session::close()"), "exact src/session.rs:4:Session.close");
    assert_eq!(bench.ask("src/file.rs:close"), "exact src/file.rs:6:File.close");
    assert_eq!(bench.ask("file.rs:File::close"), "exact src/file.rs:6:File.close");
    assert_eq!(bench.ask("session"), "exact src/session.rs:1:Session");
    assert_eq!(bench.ask("File"), "exact src/file.rs:3:File");
}

#[test]
fn several_bearers_are_listed_and_those_of_tests_come_last() {
    let bench = Bench::new(&[STORE]);
    let all = " src/file.rs:6:File.close src/session.rs:4:Session.close tests/session.rs:1:close";
    assert_eq!(bench.ask("close"), format!("ambiguous{all}"));
    assert_eq!(bench.ask("helper"), "exact src/session.rs:6:helper");
    assert_eq!(bench.ask("Helper"), "ambiguous src/session.rs:6:helper tests/session.rs:2:HELPER");
}

#[test]
fn what_only_sounds_alike_is_not_found() {
    let bench = Bench::new(&[STORE]);
    for name in
        ["Sess", "Sessions", "Other.close", "src/other.rs:close", "ession", "", ".", "::", ":", "Session.", "no such"]
    {
        let expected = if name == "Session." { "exact src/session.rs:1:Session" } else { "not_found" };
        assert_eq!(bench.ask(name), expected, "{name:?}");
    }
}

#[test]
fn names_are_found_by_their_parts() {
    let bench = Bench::new(&[&[(
        "a.py",
        "class MergePolicy: pass\ndef merge(): pass\ndef policy_of_merging(): pass\nclass Other: pass\n",
    )]]);
    let names = |places: Vec<SymbolPlace>| places.into_iter().map(|place| place.name).collect::<Vec<_>>();
    let rank = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        names(bench.symbols.rank(&words, 9, &bench).into_iter().map(|(place, _)| place).collect())
    };
    assert_eq!(rank(&["merge", "policy"]), ["MergePolicy", "merge"]);
    assert_eq!(rank(&["mergepolicy", "other"])[0], "MergePolicy");
    assert!(rank(&["unknown"]).is_empty());
}

#[test]
fn a_dead_file_is_not_found_in() {
    let mut bench = Bench::new(&[STORE]);
    bench.files.remove(&FileNo(0));
    assert_eq!(bench.ask("Session"), "not_found");
    assert_eq!(bench.ask("close"), "ambiguous src/file.rs:6:File.close tests/session.rs:1:close");
}

#[test]
fn a_signature_is_read_from_the_file_and_missed_when_the_file_is_another() {
    let bench = Bench::new(&[STORE]);
    let Lookup::Exact(place) = bench.symbols.lookup("File", &bench) else { panic!() };
    assert_eq!((place.start_line, place.head_line), (3, 4));
    assert_eq!(place.signature(STORE[1].1.as_bytes()).unwrap(), "pub struct File;");
    assert_eq!(place.signature(b"nothing\nof\nthe\nkind\n"), None);
    let Lookup::Exact(place) = bench.symbols.lookup("Session.close", &bench) else { panic!() };
    assert_eq!(place.signature(STORE[0].1.as_bytes()).unwrap(), "pub fn close(&self)");
}

#[test]
fn callers_and_callees_are_read_from_the_files() {
    let bench = Bench::new(&[STORE]);
    let found = callers(&bench.symbols, &bench, "Session::open");
    let shown: Vec<_> = found.found.iter().map(|r| (r.file.0, r.line, r.inside.as_deref())).collect();
    assert_eq!(shown, [(1, 6, Some("File.close"))]);
    let found = callers(&bench.symbols, &bench, "helper").found;
    assert_eq!((found[0].line, found[0].kind), (4, UseKind::Call));
    let Lookup::Exact(close) = bench.symbols.lookup("Session.close", &bench) else { panic!() };
    let called = callees(&bench.symbols, &bench, &close);
    assert_eq!((called[0].name.as_str(), called[0].definitions[0].start_line), ("helper", 6));
}

#[test]
fn files_that_import_and_use_one_another_are_related() {
    let bench = Bench::new(&[&STORE[..2], &STORE[2..]]);
    let files: Vec<(FileNo, String)> = bench.files.iter().map(|(file, (path, _))| (*file, path.clone())).collect();
    let graph = FileGraph::build(&bench.symbols, &files, &CoChange::default()).unwrap();
    assert_eq!(graph.imports(FileNo(1)), [FileNo(0)]);
    assert_eq!(graph.imported_by(FileNo(0)), [FileNo(1)]);
    let related: Vec<FileNo> = graph.related(&[FileNo(1)], 5).into_iter().map(|(file, _)| file).collect();
    assert_eq!(related[0], FileNo(0));
    assert!(graph.related(&[], 5).is_empty() && graph.related(&[FileNo(77)], 5).is_empty());
}

#[test]
fn a_changed_byte_is_an_error_and_never_a_panic() {
    let bench = Bench::new(&[STORE]);
    let whole = std::fs::read(bench.path_of(0)).unwrap();
    let other = bench.path_of(9);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x15;
        std::fs::write(&other, &changed).unwrap();
        if let Ok(segment) = SymbolSegment::open(&other) {
            // Padding between sections.
            assert_eq!(segment.definition_count, bench.symbols.segments[0].definition_count);
        }
        std::fs::write(&other, &whole[..at]).unwrap();
        assert!(SymbolSegment::open(&other).is_err(), "cut at {at}");
    }
}

/// Small files of two languages, with names that repeat.
fn any_file() -> impl Strategy<Value = (bool, Vec<(u8, u8, bool)>)> {
    (any::<bool>(), proptest::collection::vec((0u8..12, 0u8..12, any::<bool>()), 0..8))
}

fn text_of(is_rust: bool, items: &[(u8, u8, bool)]) -> String {
    let item = |(name, calls, nested): &(u8, u8, bool)| match (is_rust, nested) {
        (true, false) => format!("pub fn f{name}() {{ f{calls}(); }}\n"),
        (true, true) => format!("impl T{calls} {{ fn f{name}(&self) {{ g{calls}(); }} }}\n"),
        (false, false) => format!("def f{name}():\n    f{calls}()\n"),
        (false, true) => format!("class T{calls}:\n    def f{name}(self):\n        self.g{calls}()\n"),
    };
    items.iter().map(item).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merged_segments_are_what_one_writer_would_have_written_of_the_living(
        files in proptest::collection::vec((any_file(), 0usize..3, any::<bool>()), 1..8),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut writers: Vec<SymbolWriter> = (0..3).map(|_| SymbolWriter::default()).collect();
        let mut cold = SymbolWriter::default();
        for (at, (file, segment, lives)) in files.iter().enumerate().rev() {
            let (path, text) = (format!("f{at}.{}", if file.0 { "rs" } else { "py" }), text_of(file.0, &file.1));
            add(&mut writers[*segment], FileNo(at as u32), &path, &text);
            if *lives {
                add(&mut cold, FileNo(at as u32), &path, &text);
            }
        }
        let mut segments = Vec::new();
        for (at, writer) in writers.into_iter().enumerate() {
            let path = directory.path().join(at.to_string());
            writer.finish(&path).unwrap();
            segments.push(SymbolSegment::open(&path).unwrap());
        }
        let alive = |file: FileNo| files[file.0 as usize].2;
        let (merged, fresh) = (directory.path().join("merged"), directory.path().join("fresh"));
        merge(&segments.iter().collect::<Vec<_>>(), &alive, &merged).unwrap();
        cold.finish(&fresh).unwrap();
        prop_assert_eq!(std::fs::read(&merged).unwrap(), std::fs::read(&fresh).unwrap());
    }

    #[test]
    fn every_definition_of_an_outline_comes_back(file in any_file()) {
        let (path, text) = (if file.0 { "a.rs" } else { "a.py" }, text_of(file.0, &file.1));
        let bench = Bench::new(&[&[(path, &text)]]);
        let segment = &bench.symbols.segments[0];
        let stored = segment.outline(0).unwrap();
        let expected = crate::outline(path, text.as_bytes());
        prop_assert_eq!(stored.len(), expected.len());
        for (place, definition) in stored.iter().zip(&expected) {
            prop_assert_eq!(place.qualified(), definition.qualified());
            prop_assert_eq!((place.start_line, place.end_line), (definition.start_line, definition.end_line));
            prop_assert_eq!(place.kind, definition.kind);
            let signature = place.signature(text.as_bytes()).unwrap_or_default();
            prop_assert!(signature.ends_with(&definition.signature), "{} {}", signature, definition.signature);
        }
    }
}
