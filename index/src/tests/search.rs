//! Does a search find what a developer would want to be shown?

use std::sync::atomic::Ordering;

use super::{Bench, WordCounts, paths, refresh};
use crate::{Kind, Lane, Query, QueryKind, SearchError, SymbolAnswer};

const RETRY: &str = "\
//! Retries.

/// Waits longer after every failure, up to a ceiling.
pub fn backoff_delay(attempt: u32) -> u64 {
    let doubled = 100u64.checked_shl(attempt).unwrap_or(u64::MAX);
    doubled.min(30_000)
}
";

const CLIENT: &str = "\
use crate::retry::backoff_delay;

pub struct Client;

impl Client {
    pub fn fetch(&self) {
        for attempt in 0..5 {
            std::thread::sleep_ms(backoff_delay(attempt));
        }
    }
}
";

fn sample(embedder: bool) -> Bench {
    let bench = Bench::new(embedder.then(WordCounts::new));
    bench.write("src/retry.rs", RETRY);
    bench.write("src/client.rs", CLIENT);
    bench.write("tests/retry.rs", "#[test]\nfn delays_grow() { assert!(backoff_delay(2) > backoff_delay(1)); }\n");
    bench.write("docs/notes.md", "Nothing about that here.\n");
    bench
}

#[test]
fn a_definition_is_found_by_the_words_of_its_body_and_by_its_name() {
    for embedder in [false, true] {
        let bench = sample(embedder);
        let (index, _) = bench.index();
        let answer = index.search(&Query::new("where do we wait longer after a failure, up to a ceiling?")).unwrap();
        let best = &answer.hits[0];
        assert_eq!((best.path.as_str(), best.start_line, best.end_line), ("src/retry.rs", 3, 7));
        assert_eq!((best.symbol.as_deref(), best.kind), (Some("backoff_delay"), Some(Kind::Function)));
        assert!(best.text.starts_with("/// Waits longer"));
        let by_part = index.search(&Query::new("delay")).unwrap();
        assert!(by_part.hits[0].lanes.contains(&Lane::Symbol) && by_part.hits[0].lanes.contains(&Lane::Text));
    }
}

#[test]
fn the_definition_comes_before_its_uses_and_tests_come_last() {
    for embedder in [false, true] {
        let bench = sample(embedder);
        let (index, _) = bench.index();
        assert_eq!(paths(&index, "backoff_delay")[..3], ["src/retry.rs", "src/client.rs", "tests/retry.rs"]);
    }
}

#[test]
fn without_an_embedder_the_other_lanes_work_and_the_answer_says_so() {
    let bench = sample(false);
    let (index, _) = bench.index();
    let answer = index.search(&Query::new("backoff")).unwrap();
    assert!(!answer.hits.is_empty());
    assert!(answer.notes.iter().any(|note| note.contains("no embedding model")), "{:?}", answer.notes);
    let bench = sample(true);
    let (index, _) = bench.index();
    assert_eq!(index.search(&Query::new("backoff")).unwrap().notes, [] as [&str; 0]);
}

#[test]
fn a_failing_embedder_costs_only_its_lane() {
    let bench = sample(true);
    let embedder = bench.embedder.clone().unwrap();
    embedder.fails.store(true, Ordering::Relaxed);
    let (index, report) = bench.index();
    assert!(report.notes.iter().any(|note| note.contains("switched off")), "{:?}", report.notes);
    let answer = index.search(&Query::new("backoff_delay")).unwrap();
    assert_eq!(answer.hits[0].path, "src/retry.rs");
    assert!(answer.notes.iter().any(|note| note.contains("have no vector yet")), "{:?}", answer.notes);
    embedder.fails.store(false, Ordering::Relaxed);
    let (index, report) = bench.index();
    assert!(report.vectors_embedded > 0);
    assert_eq!(index.search(&Query::new("backoff_delay")).unwrap().notes, [] as [&str; 0]);
}

#[test]
fn a_path_prefix_narrows_every_lane() {
    let bench = sample(true);
    let (index, _) = bench.index();
    for (prefix, expected) in
        [("src", "src/"), ("./src/", "src/"), ("src/client.rs", "src/client.rs"), ("docs", "docs/")]
    {
        let query = Query { path_prefix: Some(prefix.to_owned()), ..Query::new("backoff_delay about") };
        let hits = index.search(&query).unwrap().hits;
        assert!(!hits.is_empty(), "{prefix}");
        assert!(hits.iter().all(|hit| hit.path.starts_with(expected)), "{prefix}: {hits:?}");
    }
    let query = Query { path_prefix: Some("../x".to_owned()), ..Query::new("a") };
    assert!(matches!(index.search(&query), Err(SearchError::PathOutside(_))));
}

#[test]
fn tests_rank_like_everything_else_when_asked_for() {
    let bench = sample(false);
    let (index, _) = bench.index();
    let query = Query { include_tests: true, ..Query::new("delays grow") };
    assert_eq!(index.search(&query).unwrap().hits[0].path, "tests/retry.rs");
}

#[test]
fn a_question_without_words_is_refused() {
    let bench = sample(false);
    let (index, _) = bench.index();
    assert_eq!(index.search(&Query::new(" ?! ")), Err(SearchError::NoWords));
}

#[test]
fn an_index_that_was_never_refreshed_answers_with_a_note() {
    let bench = sample(false);
    let index = bench.open();
    let answer = index.search(&Query::new("backoff")).unwrap();
    assert_eq!((answer.hits.len(), answer.generation), (0, 0));
    assert!(answer.notes[0].contains("nothing is indexed yet"));
    assert_eq!(index.symbol("backoff_delay"), SymbolAnswer::NotFound);
}

#[test]
fn a_symbol_is_exact_ambiguous_or_not_found() {
    let bench = sample(false);
    bench.write("src/other.py", "class Client:\n    def fetch(self):\n        pass\n");
    let (index, _) = bench.index();
    let path_of = |name: &str| match index.symbol(name) {
        SymbolAnswer::Exact(found) => found.path,
        other => format!("{other:?}"),
    };
    assert_eq!(path_of("backoff_delay"), "src/retry.rs");
    assert_eq!(path_of("BACKOFF_delay"), "src/retry.rs");
    assert_eq!(path_of("src/other.py:Client.fetch"), "src/other.py");
    assert_eq!(path_of("other.py:fetch()"), "src/other.py");
    assert_eq!(path_of("client.rs:Client::fetch"), "src/client.rs");
    match index.symbol("Client::fetch") {
        SymbolAnswer::Ambiguous { first, count } => assert_eq!((first.len(), count), (2, 2)),
        other => panic!("{other:?}"),
    }
    assert_eq!(index.symbol("no_such_name"), SymbolAnswer::NotFound);
    assert_eq!(index.symbol(""), SymbolAnswer::NotFound);
}

#[test]
fn a_rename_and_a_move_within_a_file_embed_nothing() {
    let bench = sample(true);
    let (mut index, first) = bench.index();
    assert!(first.vectors_embedded >= 4);
    bench.remove("src/retry.rs");
    bench.write("src/waiting.rs", RETRY);
    bench.write("src/client.rs", format!("\n\n\n{CLIENT}"));
    let report = refresh(&mut index).unwrap();
    assert_eq!((report.files_indexed, report.files_removed), (2, 1));
    assert_eq!(report.vectors_embedded, 1, "only the head of client.rs has new lines");
    assert_eq!(paths(&index, "backoff_delay")[0], "src/waiting.rs");
}

#[test]
fn a_refresh_that_finds_nothing_new_keeps_the_generation() {
    let bench = sample(true);
    let (mut index, first) = bench.index();
    let second = refresh(&mut index).unwrap();
    assert_eq!((first.generation, second.generation), (1, 1));
    assert_eq!((second.files_indexed, second.files_unchanged, second.vectors_embedded), (0, 4, 0));
    bench.write("src/client.rs", "fn other() {}\n");
    assert_eq!(refresh(&mut index).unwrap().generation, 2);
}

#[test]
fn another_embedder_gets_vectors_of_its_own() {
    let mut bench = sample(true);
    let (_, first) = bench.index();
    bench.embedder = Some(WordCounts::named("another"));
    let index = bench.open();
    assert!(index.status().notes.iter().any(|note| note.contains("word-counts")));
    let (index, report) = bench.index();
    assert_eq!((report.files_indexed, report.vectors_embedded), (0, first.vectors_embedded));
    assert_eq!(index.search(&Query::new("backoff_delay")).unwrap().notes, [] as [&str; 0]);
}

#[test]
fn an_embedder_that_comes_later_finds_its_vectors_made() {
    let mut bench = sample(false);
    bench.index();
    bench.embedder = Some(WordCounts::new());
    let (index, report) = bench.index();
    assert_eq!(report.files_indexed, 0);
    assert!(report.vectors_embedded >= 4);
    bench.embedder = None;
    let (_, report) = bench.index();
    assert_eq!(report.generation, index.status().generation);
    bench.embedder = Some(WordCounts::new());
    assert_eq!(bench.index().1.vectors_embedded, 0);
}

#[cfg(feature = "vectors")]
#[test]
fn a_search_works_inside_somebody_elses_runtime() {
    let bench = sample(true);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (index, _) = bench.index();
        assert_eq!(paths(&index, "backoff_delay")[0], "src/retry.rs");
    });
}

#[test]
fn one_chunk_of_every_file_comes_before_the_second_of_any() {
    let bench = Bench::new(None);
    let functions: String = (0..6).map(|n| format!("def shared_{n}():\n    return 'shared'\n\n\n")).collect();
    bench.write("many.py", functions);
    bench.write("one.py", "x = 'shared'\n");
    let (index, _) = bench.index();
    let found = paths(&index, "shared");
    assert_eq!(found.iter().take(2).filter(|path| *path == "many.py").count(), 1);
    assert_eq!(found.len(), 7);
}

#[test]
fn a_name_of_all_the_words_comes_before_a_name_of_one_of_them() {
    let bench = Bench::new(None);
    bench.write("a.rs", "pub fn merge() { let merge = 1; let policy = merge; }\n");
    bench.write("b.rs", "pub trait MergePolicy {\n    fn compute(&self);\n}\n");
    let (index, _) = bench.index();
    assert_eq!(paths(&index, "merge policy")[0], "b.rs");
    assert_eq!(paths(&index, "where is merge")[0], "a.rs");
}

#[test]
fn an_index_can_be_sent_to_and_shared_by_threads() {
    fn check<T: Send + Sync>() {}
    check::<crate::Index>();
}

#[test]
fn a_trace_leads_to_its_innermost_frame_in_the_tree_and_not_to_a_library() {
    let bench = sample(false);
    bench.write("lib/util.py", "def other():\n    pass\n");
    let (index, _) = bench.index();
    let trace = "thread 'main' panicked at src/retry.rs:5:13:\nboom\n   0: x::y\n             at /usr/lib/z/util.py:1:1\n   \
                 1: a::fetch\n             at ./src/client.rs:7:5\n";
    let answer = index.search(&Query::new(trace)).unwrap();
    assert_eq!(answer.kind, QueryKind::Trace);
    assert_eq!(
        (answer.hits[0].path.as_str(), answer.hits[0].symbol.as_deref()),
        ("src/retry.rs", Some("backoff_delay"))
    );
    assert_eq!(answer.hits[1].path, "src/client.rs");
    assert!(answer.hits[0].lanes.contains(&Lane::Place));
    assert!(answer.hits.iter().all(|hit| hit.path != "lib/util.py" || !hit.lanes.contains(&Lane::Place)));
}

#[test]
fn the_text_of_an_issue_leads_to_the_source_that_holds_the_message_it_quotes() {
    let bench = Bench::new(None);
    bench.write(
        "src/other.py",
        "def load(path):\n    # loads a module and skips none: load module, load path\n    return path\n",
    );
    bench.write(
        "src/core.py",
        "def f(x):\n    raise Error(\n        \"Using this outside of \"\n        \"a handler is not allowed.\"\n    )\n",
    );
    bench.write("docs/all.md", "Using this outside of a handler is not allowed.\n");
    let (index, _) = bench.index();
    let issue = "Cannot load a module by its path\n\nI load a module by its path and it says:\n\n\
                 > Using this outside of a handler is not allowed.\n\nSo no module and no path is loaded.\n";
    let answer = index.search(&Query::new(issue)).unwrap();
    assert_eq!(answer.kind, QueryKind::Issue);
    assert_eq!(answer.hits[0].path, "src/core.py");
    assert!(answer.hits[0].lanes.contains(&Lane::Quote));
}

#[test]
fn a_test_that_fits_an_issue_speaks_for_the_source_that_it_tests() {
    let bench = Bench::new(None);
    bench.write("src/skipping.py", "def evaluate(item):\n    return item.marks\n");
    bench.write("src/runner.py", "def run(item):\n    return item.marks\n");
    bench.write(
        "tests/test_skipping.py",
        "def test_dynamic_marker_is_honoured():\n    \"\"\"A marker added while the test runs counts.\"\"\"\n",
    );
    let (index, _) = bench.index();
    let issue =
        "Marker added dynamically is not honoured\n\nA marker that is added while it runs\nis not honoured: item\n";
    let found = paths(&index, issue);
    let place = |path: &str| found.iter().position(|found| found == path);
    assert!(place("src/skipping.py") < place("src/runner.py"), "{found:?}");
}

#[test]
fn a_qualified_name_means_a_module_and_no_other_file_of_that_name() {
    let bench = sample(false);
    bench.write("client.ini", "[client]\nfetch = client.fetch\n");
    let (index, _) = bench.index();
    let hits = index.search(&Query::new("what does client.fetch do")).unwrap().hits;
    let of_place = hits.iter().filter(|hit| hit.lanes.contains(&Lane::Place));
    assert_eq!(of_place.map(|hit| hit.path.as_str()).collect::<Vec<_>>(), ["src/client.rs"]);
}

#[test]
fn a_path_or_the_end_of_one_finds_its_file() {
    let bench = sample(false);
    bench.write("other/client.rs", "fn z() {}\n");
    let (index, _) = bench.index();
    assert_eq!(paths(&index, "src/client.rs")[0], "src/client.rs");
    assert_eq!(paths(&index, "other/client.rs:1")[0], "other/client.rs");
    assert_eq!(paths(&index, "retry.rs")[0], "src/retry.rs");
}

#[test]
fn a_question_finds_code_that_says_it_in_another_form() {
    let bench = Bench::new(None);
    bench.write("a.py", "def route(request):\n    return table.lookup(request)\n");
    bench.write("b.py", "def close(handle):\n    return handle.done()\n");
    let (index, _) = bench.index();
    assert_eq!(paths(&index, "how are requests routed")[0], "a.py");
}

#[test]
fn comments_in_a_script_without_spaces_are_found() {
    let bench = Bench::new(None);
    bench.write("a.rs", "// 超过重试次数后放弃\nfn a() {}\n");
    bench.write("b.rs", "// 关闭连接\nfn b() {}\n");
    let (index, _) = bench.index();
    assert_eq!(paths(&index, "重试次数"), ["a.rs"]);
}

#[test]
fn what_is_vendored_generated_or_documentation_comes_after_the_source() {
    let bench = Bench::new(None);
    for path in ["vendor/x/pool.go", "api/pool.pb.go", "docs/pool.md", "examples/pool.go", "src/pool.go"] {
        bench.write(path, "package pool\n\n// ConnectionPool keeps connections.\nfunc ConnectionPool() {}\n");
    }
    let (index, _) = bench.index();
    assert_eq!(paths(&index, "connection pool keeps")[0], "src/pool.go");
}

#[test]
fn a_pack_holds_whole_functions_within_its_budget_in_the_order_of_the_tree() {
    let bench = sample(false);
    let (index, _) = bench.index();
    let count = |text: &str| text.split_whitespace().count();
    let query = Query::new("backoff_delay");
    let pack = index.pack(&query, 1000, &[], &count).unwrap();
    assert!(pack.tokens <= 1000 && pack.left_out == 0);
    assert!(
        pack.pieces
            .windows(2)
            .all(|pair| (&pair[0].path, *pair[0].lines.end()) < (&pair[1].path, *pair[1].lines.start()))
    );
    let retry = pack.pieces.iter().find(|piece| piece.path == "src/retry.rs").unwrap();
    assert!(retry.text.contains("/// Waits longer") && retry.text.ends_with("}\n"));
    assert_eq!(pack, index.pack(&query, 1000, &[], &count).unwrap());
    let without = index.pack(&query, 1000, &[("src/retry.rs".to_owned(), 1..=7)], &count).unwrap();
    assert!(without.pieces.iter().all(|piece| piece.path != "src/retry.rs"));
    let small = index.pack(&query, 40, &[], &count).unwrap();
    assert!(small.tokens <= 40 && !small.pieces.is_empty() && small.left_out > 0);
}

#[test]
fn a_name_as_the_whole_question_gives_its_definitions_first() {
    let bench = Bench::new(None);
    let methods = |class: &str| {
        format!(
            "class {class}:\n    def keep(self):\n        return {{}}\n\n    def popitem(self):\n        return 1\n"
        )
    };
    bench.write("cache.py", format!("{}\n\n{}", methods("TimedCache"), methods("OldCache")));
    bench.write("docs/popitem.md", "popitem popitem TimedCache.popitem takes an item out of a TimedCache.\n");
    bench.write("timedcache.py", "# TimedCache popitem\nTimedCache = None\n");
    let (index, _) = bench.index();
    let first = |text: &str, count: usize| {
        let hits = index.search(&Query::new(text)).unwrap().hits;
        hits.into_iter().take(count).map(|hit| hit.symbol.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(first("TimedCache.popitem", 1), ["TimedCache.popitem"]);
    assert_eq!(first("OldCache::popitem", 1), ["OldCache.popitem"]);
    assert_eq!(first("popitem", 2), ["TimedCache.popitem", "OldCache.popitem"]);
}

#[test]
fn weights_that_are_kept_beside_an_index_are_searched_with() {
    let bench = Bench::new(None);
    bench.write("src/alpha.py", "x = 1\n");
    bench.write("src/other.py", "def tokens():\n    return 2\n");
    let first = |symbol: f64, place: f64| {
        let weights = crate::Weights { text: 0.0, symbol, place, vector: 0.0 };
        weights.keep(&bench.store).unwrap();
        paths(&bench.index().0, "tokens as in src/alpha.py")[0].clone()
    };
    assert_eq!((first(10.0, 0.0).as_str(), first(0.0, 10.0).as_str()), ("src/other.py", "src/alpha.py"));
}
