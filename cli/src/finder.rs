//! Where is it? The index behind the agent's [`Code`] trait, and the commands `index` and `search`.

use crate::args::{IndexCommand, IndexDir, Search};
use crate::embedder::Choice;
use crate::exit::{Exit, Fatal};
use crate::rerank::rerank;
use crate::state::{State, cancel_on_ctrl_c, repository};
use agent::Code;
use agent::code::{Definition, Found, Matches};
use agent::session::Files;
use index::grep::GrepOptions;
use index::{Index, Query, RERANKED_MAX, Stage};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SYMBOL_PLACES_MAX: usize = 8;

/// The index of a repository, as the agent sees it.
pub struct IndexedCode {
    index: RefCell<Index>,
    /// What was laid over it last.
    written: RefCell<Files>,
}

impl IndexedCode {
    /// Opens and refreshes the index of `repo`, see [`open_index`].
    pub fn open(
        state: &State,
        repo: &Path,
        vectors: bool,
        cancel: &AtomicBool,
    ) -> Result<(Self, index::Report), Fatal> {
        let (index, report) = open_index(state, repo, vectors, cancel)?;
        Ok((Self { index: RefCell::new(index), written: RefCell::default() }, report))
    }
}

/// Opens and refreshes the index of `repo`, with vectors by the embedder that was last chosen for it.
pub fn open_index(
    state: &State,
    repo: &Path,
    vectors: bool,
    cancel: &AtomicBool,
) -> Result<(Index, index::Report), Fatal> {
    let embedder = if vectors { kept_embedder(state, repo, cancel)? } else { None };
    open_with(state, repo, embedder, cancel)
}

fn open_with(
    state: &State,
    repo: &Path,
    embedder: Option<Arc<dyn index::Embedder>>,
    cancel: &AtomicBool,
) -> Result<(Index, index::Report), Fatal> {
    let hint = "`cloister doctor` checks the home directory; a damaged index is rebuilt by `cloister index DIR`";
    let mut index = Index::open(&state.index(repo), repo, embedder).map_err(|error| Fatal::missing(error, hint))?;
    let progress = indicatif::ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        progress.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let shape =
        indicatif::ProgressStyle::with_template("indexing: {msg} [{bar:30}] {pos}/{len} {eta}").expect("constant");
    progress.set_style(shape.progress_chars("=> "));
    let mut show = |at: index::Progress| {
        progress.set_message(match at.stage {
            Stage::Walk => "files",
            Stage::Chunk => "chunks",
            Stage::Embed => "vectors",
            Stage::Commit => "writing",
        });
        progress.set_length(at.total as u64);
        progress.set_position(at.done as u64);
    };
    let report = index.refresh(&mut show, cancel);
    progress.finish_and_clear();
    let failed = |error| match error {
        index::RefreshError::Cancelled => {
            let hint = "what was indexed before still answers; the same command goes on".to_owned();
            Fatal { exit: Exit::Cancelled, error: error.into(), hint }
        }
        error => Fatal::missing(error, hint),
    };
    Ok((index, report.map_err(failed)?))
}

/// The embedder that was last chosen for the index of `repo`. One that does not answer costs the vectors alone.
fn kept_embedder(state: &State, repo: &Path, cancel: &AtomicBool) -> Result<Option<Arc<dyn index::Embedder>>, Fatal> {
    let choice = Choice::of_index(&state.index(repo));
    match (choice.load(state, cancel), &choice) {
        (Err(fatal), choice) if choice.may_be_gone() => {
            eprintln!("note: searching without meaning, by words and names only: {choice}: {:#}", fatal.error);
            Ok(None)
        }
        (loaded, _) => loaded,
    }
}

impl Code for IndexedCode {
    fn search(&self, query: &str, limit: usize) -> Result<Vec<Found>, String> {
        let query = Query { limit, ..Query::new(query) };
        let answer = self.index.borrow().search(&query).map_err(|error| error.to_string())?;
        let found = |hit: index::Hit| Found {
            path: hit.path,
            lines: (hit.start_line, hit.end_line),
            symbol: hit.symbol,
            text: hit.text,
        };
        Ok(answer.hits.into_iter().map(found).collect())
    }

    fn lay_over(&self, written: &Files) {
        let mut before = self.written.borrow_mut();
        if *before == *written {
            return;
        }
        let changes: Vec<_> =
            written.iter().map(|(path, text)| (path.clone(), Some(text.clone().into_bytes()))).collect();
        let mut index = self.index.borrow_mut();
        index.clear_overlay();
        // What cannot be laid over is found as the repository has it.
        let _ = index.overlay(&changes);
        *before = written.clone();
    }

    fn may_match(&self, pattern: &str, paths: Vec<String>) -> Vec<String> {
        self.index.borrow().may_match(pattern, paths)
    }

    fn grep(
        &self,
        pattern: &str,
        files: &mut dyn Iterator<Item = (String, Vec<u8>)>,
        limit: usize,
    ) -> Result<Matches, String> {
        let options = GrepOptions { matches_max: limit, ..GrepOptions::default() };
        let found = index::grep::grep(files, pattern, &options).map_err(|error| error.to_string())?;
        Ok(Matches {
            lines: found.matches.into_iter().map(|line| (line.path, line.line, line.text)).collect(),
            truncated: found.truncated,
            note: (!found.notes.is_empty()).then(|| found.notes.join("; ")),
        })
    }

    fn defined(&self, name: &str) -> Vec<(String, usize)> {
        let found = self.index.borrow().symbol(name).definitions().into_iter().take(SYMBOL_PLACES_MAX);
        found.map(|found| (found.path, found.start_line)).collect()
    }

    fn outline(&self, path: &str, bytes: &[u8]) -> Vec<Definition> {
        let own = |found: index::Definition| Definition {
            name: found.name,
            parent: found.parent,
            bytes: found.start_byte..found.end_byte,
        };
        index::outline(path, bytes).into_iter().map(own).collect()
    }

    fn parses(&self, path: &str, bytes: &[u8]) -> Option<Result<(), usize>> {
        index::parses(path, bytes).map(|parsed| parsed.map_err(|error| error.line))
    }
}

/// `cloister index DIR`
pub fn index(args: IndexDir) -> Result<Exit, Fatal> {
    match args.command {
        None => {}
        Some(IndexCommand::Report(args)) => return crate::bench::report(args),
        Some(IndexCommand::Serve(args)) => return crate::lookup::serve(args),
        Some(IndexCommand::Mcp(args)) => return crate::lookup::mcp(args),
    }
    let state = State::open()?;
    let repo = repository(&args.dir)?;
    let cancel = cancel_on_ctrl_c()?;
    let (_, report) = match args.embedder {
        None => open_index(&state, &repo, !args.no_vectors, &cancel)?,
        Some(choice) => {
            let embedder = choice.load(&state, &cancel)?;
            // Kept only when it works.
            choice.keep(&state.index(&repo))?;
            open_with(&state, &repo, embedder, &cancel)?
        }
    };
    let seconds = report.seconds;
    println!(
        "{} files indexed, {} unchanged, {} removed; {} lines, {} chunks, {} definitions; generation {}",
        report.files_indexed,
        report.files_unchanged,
        report.files_removed,
        report.lines,
        report.chunks,
        report.definitions,
        report.generation
    );
    println!(
        "{} vectors computed; walk {:.2} s, chunk {:.2} s, embed {:.2} s, commit {:.2} s",
        report.vectors_embedded, seconds.walk, seconds.chunk, seconds.embed, seconds.commit
    );
    if let Some(why) = &report.rebuilt {
        println!("the index was rebuilt: {why}");
    }
    for skipped in report.files_skipped.iter().take(20) {
        println!("skipped {}: {}", skipped.path, skipped.reason.words());
    }
    if report.files_skipped.len() > 20 {
        println!("and {} more skipped", report.files_skipped.len() - 20);
    }
    Ok(Exit::Done)
}

/// `cloister search WORDS`
pub fn search(args: Search) -> Result<Exit, Fatal> {
    let state = State::open()?;
    let repo = repository(&args.repo)?;
    let cancel = cancel_on_ctrl_c()?;
    let (index, _) = open_index(&state, &repo, true, &cancel)?;
    let text = args.words.join(" ");
    // A model may bring a later hit to the front.
    let limit = if args.rerank.is_some() { args.limit.max(RERANKED_MAX) } else { args.limit };
    let query = Query { limit, ..Query::new(text.as_str()) };
    let mut answer = index.search(&query).map_err(|error| Fatal::missing(error, "give words or a name to look for"))?;
    if let Some(url) = &args.rerank {
        let note = rerank(&mut answer, &text, url, Duration::from_secs(args.rerank_seconds), &cancel);
        answer.notes.push(note);
        answer.hits.truncate(args.limit);
    }
    for hit in &answer.hits {
        if args.json {
            let line = serde_json::json!({
                "v": crate::events::VERSION, "path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line,
                "symbol": hit.symbol, "score": hit.score, "text": hit.text, "generation": answer.generation,
            });
            println!("{line}");
            continue;
        }
        println!("{}:{}-{}  {}", hit.path, hit.start_line, hit.end_line, hit.symbol.as_deref().unwrap_or(""));
        for line in hit.text.lines().take(4) {
            println!("    {}", agent::text::sanitize(line.as_bytes(), 200).text);
        }
    }
    if !args.json {
        println!("{} results, index generation {}", answer.hits.len(), answer.generation);
        for note in &answer.notes {
            println!("note: {note}");
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_session_has_written_is_found_and_what_it_took_back_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tree");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a.py"), "def before():\n    return 1\n").unwrap();
        let mut index = Index::open(&directory.path().join("store"), &root, None).unwrap();
        index.refresh(&mut |_| {}, &AtomicBool::new(false)).unwrap();
        let code = IndexedCode { index: RefCell::new(index), written: RefCell::default() };
        let found = |words: &str| code.search(words, 5).unwrap().into_iter().map(|hit| hit.path).collect::<Vec<_>>();

        let written = |files: &[(&str, &str)]| {
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect::<Files>()
        };
        code.lay_over(&written(&[("a.py", "def after():\n    return 2\n"), ("b.py", "def beside():\n    pass\n")]));
        assert_eq!((found("after"), found("beside")), (vec!["a.py".to_owned()], vec!["b.py".to_owned()]));
        assert_eq!(code.defined("beside"), [("b.py".to_owned(), 1)]);
        assert!(found("before").is_empty() && code.defined("before").is_empty());

        code.lay_over(&Files::new());
        assert_eq!((found("before"), code.defined("beside").len()), (vec!["a.py".to_owned()], 0));
    }
}
