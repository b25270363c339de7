//! Where is it? The index behind the agent's [`Code`] trait, and the commands `index` and `search`.

use crate::args::{IndexCommand, IndexDir, Search};
use crate::embedder::Choice;
use crate::exit::{Exit, Fatal};
use crate::state::{State, cancel_on_ctrl_c, repository};
use agent::Code;
use agent::code::{Definition, Found, Matches};
use index::grep::GrepOptions;
use index::{Index, Query, Stage, SymbolAnswer};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const SYMBOL_PLACES_MAX: usize = 8;

/// The index of a repository, as the agent sees it.
pub struct IndexedCode {
    index: Index,
}

impl IndexedCode {
    /// Opens and refreshes the index of `repo`, with vectors by the embedder that was last chosen for it.
    pub fn open(
        state: &State,
        repo: &Path,
        vectors: bool,
        cancel: &AtomicBool,
    ) -> Result<(Self, index::Report), Fatal> {
        let embedder = if vectors { Choice::of_index(&state.index(repo), None)?.load(state, cancel)? } else { None };
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
        Ok((Self { index }, report.map_err(|error| Fatal::missing(error, hint))?))
    }
}

impl Code for IndexedCode {
    fn search(&self, query: &str, limit: usize) -> Result<Vec<Found>, String> {
        let query = Query { limit, ..Query::new(query) };
        let answer = self.index.search(&query).map_err(|error| error.to_string())?;
        let found = |hit: index::Hit| Found {
            path: hit.path,
            lines: (hit.start_line, hit.end_line),
            symbol: hit.symbol,
            text: hit.text,
        };
        Ok(answer.hits.into_iter().map(found).collect())
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
        let place = |found: index::SymbolDefinition| (found.path, found.definition.start_line);
        match self.index.symbol(name) {
            SymbolAnswer::Exact(found) => vec![place(found)],
            SymbolAnswer::Ambiguous(found) => found.into_iter().take(SYMBOL_PLACES_MAX).map(place).collect(),
            SymbolAnswer::NotFound => Vec::new(),
        }
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
    if let Some(IndexCommand::Report(args)) = args.command {
        return crate::bench::report(args);
    }
    let state = State::open()?;
    let repo = repository(&args.dir)?;
    let cancel = cancel_on_ctrl_c()?;
    if args.embedder.is_some() {
        Choice::of_index(&state.index(&repo), args.embedder)?;
    }
    let (_, report) = IndexedCode::open(&state, &repo, !args.no_vectors, &cancel)?;
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
    let (code, _) = IndexedCode::open(&state, &repo, true, &cancel)?;
    let query = Query { limit: args.limit, ..Query::new(args.words.join(" ")) };
    let answer =
        code.index.search(&query).map_err(|error| Fatal::missing(error, "give words or a name to look for"))?;
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
