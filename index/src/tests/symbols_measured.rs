//! How fast is the lane of symbols, and how large? Measured on the sources of the cargo registry, which make a
//! monorepo of several million lines; only read. Runs where CLOISTER_MEASURE is set, and says so where it is not:
//! `CLOISTER_MEASURE=1 cargo nextest run -p index --no-default-features --no-capture symbols_measured`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cochange::CoChange;
use crate::file_no::FileNo;
use crate::graph::FileGraph;
use crate::language::Language;
use crate::parsed::parse_once;
use crate::references::{Tree, callees, callers};
use crate::symbols::{Living, Lookup, SymbolPlace, SymbolSegment, SymbolWriter, Symbols, merge};

/// Larger files are generated; the index does not admit them either.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

struct Corpus {
    root: PathBuf,
    paths: Vec<String>,
}

impl Living for Corpus {
    fn path(&self, file: FileNo) -> Option<&str> {
        self.paths.get(file.0 as usize).map(String::as_str)
    }
}

impl Tree for Corpus {
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.root.join(path)).ok()
    }
}

impl Corpus {
    /// Files of a language that is read; with a limit of bytes, files from all over the tree.
    fn of(root: &Path, bytes_max: u64) -> Corpus {
        let mut found: Vec<(u64, String)> = Vec::new();
        let mut directories = vec![root.to_path_buf()];
        while let Some(directory) = directories.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                let path = entry.path();
                let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                let is_read = metadata.is_file() && Language::detect(&relative, b"").is_some();
                if metadata.is_dir() {
                    directories.push(path);
                } else if is_read && metadata.len() <= FILE_BYTES_MAX {
                    found.push((metadata.len(), relative));
                }
            }
        }
        found.sort_by_cached_key(|(_, path)| crc32fast::hash(path.as_bytes()));
        let mut bytes = 0;
        let within = found.into_iter().take_while(|(size, _)| {
            bytes += size;
            bytes <= bytes_max
        });
        let mut paths: Vec<String> = within.map(|(_, path)| path).collect();
        paths.sort();
        Corpus { root: root.to_path_buf(), paths }
    }
}

/// What the thread computed since it began, whoever else wanted the core.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0))
}

fn say(text: &str) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    eprintln!("{text} (load average {})", load.split(' ').next().unwrap_or("?"));
}

fn percentiles(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    say(&format!("{what}: {} times, p50 {:?}, p99 {:?}, worst {:?}", times.len(), at(0.5), at(0.99), at(1.0)));
}

#[test]
fn symbols_measured() {
    if std::env::var_os("CLOISTER_MEASURE").is_none() {
        eprintln!("skipped: CLOISTER_MEASURE is not set");
        return;
    }
    let home = PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo/registry/src");
    let root = std::env::var_os("CLOISTER_MEASURE_TREE").map_or(home, PathBuf::from);
    let bytes_max = std::env::var("CLOISTER_MEASURE_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let corpus = Corpus::of(&root, bytes_max);
    let directory = tempfile::tempdir().unwrap();
    let symbols = written(&corpus, directory.path());
    look_up(&corpus, &symbols);
    graph(&corpus, &symbols);
}

/// Parses, walks, writes, on one thread; times are those of its core.
fn written(corpus: &Corpus, directory: &Path) -> Symbols {
    let (mut bytes, mut lines, mut uses) = (0usize, 0usize, 0usize);
    let (mut parse, mut walk, mut add) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut writer = SymbolWriter::default();
    for (at, path) in corpus.paths.iter().enumerate() {
        let Some(text) = corpus.read(path) else { continue };
        bytes += text.len();
        lines += text.iter().filter(|&&byte| byte == b'\n').count();
        let start = cpu_time();
        let Some(parsed) = parse_once(path, &text) else { continue };
        parse += cpu_time() - start;
        let start = cpu_time();
        let syntax = parsed.read(&text);
        walk += cpu_time() - start;
        uses += syntax.uses.len();
        let start = cpu_time();
        writer.add(FileNo(at as u32), &syntax, &text);
        add += cpu_time() - start;
    }
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    let files = corpus.paths.len();
    say(&format!(
        "{files} files, {lines} lines, {:.1} MB, {uses} uses, writer holds {:.0} MB",
        bytes as f64 / 1e6,
        writer.bytes() as f64 / 1e6
    ));
    say(&format!(
        "one core: parse {:.1} MB/s, walk {:.1} MB/s, add {:.1} MB/s; all three {:.0} lines/s",
        rate(parse),
        rate(walk),
        rate(add),
        lines as f64 / (parse + walk + add).as_secs_f64()
    ));
    let start = cpu_time();
    let size = writer.finish(&directory.join("all")).unwrap();
    say(&format!(
        "{size} bytes, {:.4} of the source, written in {:?}",
        size as f64 / bytes as f64,
        (cpu_time() - start)
    ));
    let start = cpu_time();
    let all = SymbolSegment::open(&directory.join("all")).unwrap();
    say(&format!("opened and verified in {:?}", cpu_time() - start));
    let start = cpu_time();
    merge(&[&all], &|_| true, &directory.join("merged")).unwrap();
    say(&format!("merged in {:?}", cpu_time() - start));
    for (name, bytes) in all.section_bytes() {
        eprintln!("    {name}: {bytes}");
    }
    say(&format!("{} definitions", all.definition_count));
    Symbols { segments: vec![Arc::new(all)] }
}

/// Every n-th definition is asked for: by its plain name, qualified, and with its path.
fn look_up(corpus: &Corpus, symbols: &Symbols) {
    let segment = &symbols.segments[0];
    let step = (segment.file_count() / 1500).max(1);
    let mut sample: Vec<SymbolPlace> = Vec::new();
    for file in (0..segment.file_count() as u32).step_by(step) {
        let mut outline = segment.outline(file).unwrap();
        if !outline.is_empty() {
            sample.push(outline.swap_remove(file as usize * 7 % outline.len()));
        }
    }
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let (mut exact, mut first, mut listed) = (0, 0, 0);
    for place in &sample {
        let path = corpus.path(place.file).unwrap();
        let with_path = format!("{path}:{}", place.qualified());
        let missing = format!("{}Nowhere", place.name);
        for (at, name) in [&place.name, &place.qualified(), &with_path, &missing].into_iter().enumerate() {
            let start = cpu_time();
            let answer = symbols.lookup(name, corpus);
            times[at].push(cpu_time() - start);
            let is_it = |other: &SymbolPlace| (other.file, other.start_line) == (place.file, place.start_line);
            match (at, answer) {
                (2, Lookup::Exact(other)) if is_it(&other) => {
                    (exact, first, listed) = (exact + 1, first + 1, listed + 1)
                }
                (2, Lookup::Ambiguous(others, _)) => {
                    first += usize::from(is_it(&others[0]));
                    listed += usize::from(others.iter().any(is_it));
                }
                (0 | 1, Lookup::NotFound) => panic!("{name} is lost: {place:?} of {:?}", corpus.path(place.file)),
                (3, Lookup::NotFound) => {}
                (3, answer) => assert!(symbols.lookup(&missing, corpus) == answer, "{missing}"),
                _ => {}
            }
        }
        let words: Vec<String> = crate::tokenize::words(&place.qualified()).map(|word| word.text).collect();
        let start = cpu_time();
        symbols.rank(&words, 100, corpus);
        times[4].push(cpu_time() - start);
    }
    let count = sample.len();
    say(&format!("with its path: {count} asked, {exact} exact, {first} right first, {listed} listed"));
    let [plain, qualified, with_path, missing, ranked] = times;
    percentiles("plain name", plain);
    percentiles("qualified name", qualified);
    percentiles("path and name", with_path);
    percentiles("a name that is not there", missing);
    percentiles("ranking by words", ranked);
    let mut times = [Vec::new(), Vec::new()];
    for place in sample.iter().step_by(10) {
        let start = cpu_time();
        callers(symbols, corpus, &place.qualified());
        times[0].push(cpu_time() - start);
        let start = cpu_time();
        callees(symbols, corpus, place);
        times[1].push(cpu_time() - start);
    }
    let [callers, callees] = times;
    percentiles("callers, read from the files", callers);
    percentiles("callees, read from the file", callees);
}

fn graph(corpus: &Corpus, symbols: &Symbols) {
    let files: Vec<(FileNo, String)> =
        corpus.paths.iter().enumerate().map(|(at, path)| (FileNo(at as u32), path.clone())).collect();
    let start = cpu_time();
    let graph = FileGraph::build(symbols, &files, &CoChange::default()).unwrap();
    say(&format!("graph of {} files made in {:?}, {} edges", files.len(), (cpu_time() - start), graph.edge_count()));
    let mut times = Vec::new();
    for (file, _) in files.iter().step_by((files.len() / 50).max(1)) {
        let start = cpu_time();
        graph.related(&[*file], 20);
        times.push(cpu_time() - start);
    }
    percentiles("related files", times);
}
