//! What can be asked of the index, with which arguments, and what comes back?
//!
//! Every answer comes twice: as JSON for programs and as text for models. Each question sees what was written before it.

use index::grep::GrepOptions;
use index::{Index, Query, SymbolDefinition, Usages};
use inference::Tokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

const HITS_DEFAULT: usize = 10;
const HITS_MAX: usize = 50;
const HIT_LINES_SHOWN: usize = 12;
const MATCHES_DEFAULT: usize = 100;
const MATCHES_MAX: usize = 2_000;
const RELATED_MAX: usize = 50;
const PACK_TOKENS_MAX: usize = 100_000;
/// A line of a text is cut here.
const LINE_BYTES_MAX: usize = 300;

/// The index and whoever may ask it; one question at a time.
#[derive(Clone)]
pub struct Desk {
    index: Arc<Mutex<Index>>,
    root: PathBuf,
    /// The chat model's name and file: `pack` counts with its tokenizer.
    model: Option<(String, PathBuf)>,
    tokenizer: Arc<OnceLock<Result<Tokenizer, String>>>,
    cancel: Arc<AtomicBool>,
}

/// One answer.
pub struct Answer {
    /// For programs.
    pub value: Value,
    /// For models.
    pub text: String,
}

/// Why there is none; what to do is in the words.
#[derive(Debug, PartialEq, Eq)]
pub enum ToolError {
    /// There is no such tool.
    Unknown(String),
    /// The arguments are not understood, or nothing can be looked for with them.
    Arguments(String),
}

/// A tool as it is told to others.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it is for, for a model.
    pub about: &'static str,
    /// Its arguments: name, type, what they are; a `?` behind the name says that it may be left out.
    arguments: &'static [(&'static str, &'static str, &'static str)],
}

/// All of them.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "search",
        about: "Find code by words, names, a sentence, an error message or a stack trace. Best pieces first.",
        arguments: &[
            ("query", "string", "what to look for"),
            ("limit?", "integer", "at most so many pieces, 10 unless told, never more than 50"),
            ("path?", "string", "only in this directory or file, relative to the root"),
            ("include_tests?", "boolean", "rank tests like everything else"),
            ("open?", "array", "files that you have open: what belongs to them ranks higher"),
        ],
    },
    Tool {
        name: "grep",
        about: "Every line that matches a regular expression, as ripgrep finds them.",
        arguments: &[
            ("pattern", "string", "a regular expression; what is none is taken literally"),
            ("path?", "string", "only in this directory or file, relative to the root"),
            ("ignore_case?", "boolean", "letter case does not matter"),
            ("limit?", "integer", "at most so many lines, 100 unless told, never more than 2000"),
        ],
    },
    Tool {
        name: "definition",
        about: "Where a name is defined: exact, ambiguous or not_found, never a guess. `close`, `Session.close`, \
                `Session::close` or `src/session.py:Session.close`.",
        arguments: &[("name", "string", "the name")],
    },
    Tool {
        name: "references",
        about: "The lines that use a name, with the definition around each. Names decide, not types.",
        arguments: &[("name", "string", "the name"), ("calls?", "boolean", "only those that call it")],
    },
    Tool {
        name: "callees",
        about: "What a function calls, and where that is defined.",
        arguments: &[("name", "string", "the function")],
    },
    Tool {
        name: "related",
        about: "The files that belong to these: they import one another, use one another's names, or change together.",
        arguments: &[("paths", "array", "files, relative to the root"), ("limit?", "integer", "10 unless told")],
    },
    Tool {
        name: "pack",
        about: "Whole functions that answer a question, in at most so many tokens of the local chat model.",
        arguments: &[("query", "string", "what to look for"), ("tokens", "integer", "the budget")],
    },
];

impl Tool {
    /// The JSON schema of its arguments.
    pub fn schema(&self) -> Value {
        let property = |(name, kind, about): &(&str, &str, &str)| {
            let mut schema = json!({"type": kind, "description": about});
            if *kind == "array" {
                schema["items"] = json!({"type": "string"});
            }
            (name.trim_end_matches('?').to_owned(), schema)
        };
        let properties: serde_json::Map<String, Value> = self.arguments.iter().map(property).collect();
        let required: Vec<&str> =
            self.arguments.iter().map(|(name, _, _)| *name).filter(|name| !name.ends_with('?')).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
    path: Option<String>,
    #[serde(default)]
    include_tests: bool,
    #[serde(default)]
    open: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grep {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct References {
    name: String,
    #[serde(default)]
    calls: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Related {
    paths: Vec<String>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pack {
    query: String,
    tokens: usize,
}

fn read<T: serde::de::DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    serde_json::from_value(arguments).map_err(|error| ToolError::Arguments(error.to_string()))
}

fn refused(error: impl std::fmt::Display) -> ToolError {
    ToolError::Arguments(error.to_string())
}

impl Desk {
    /// `model` is the chat model whose tokens `pack` counts: its name and its file.
    pub fn new(index: Index, model: Option<(String, PathBuf)>, cancel: Arc<AtomicBool>) -> Desk {
        let root = index.root().to_owned();
        Desk { index: Arc::new(Mutex::new(index)), root, model, tokenizer: Arc::default(), cancel }
    }

    /// The tree that is asked about.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Answers one question. May take as long as reading what changed since the last one.
    pub fn ask(&self, tool: &str, arguments: Value) -> Result<Answer, ToolError> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = match index.catch_up(&self.cancel) {
            Ok(_) => None,
            Err(error) => Some(format!("the index may be older than the tree: {error}")),
        };
        let mut answer = match tool {
            "search" => search(&index, read(arguments)?),
            "grep" => grep(&index, read(arguments)?),
            "definition" => definition(&index, &read::<Named>(arguments)?.name),
            "references" => references(&index, &read(arguments)?),
            "callees" => callees(&index, &read::<Named>(arguments)?.name),
            "related" => related(&index, read(arguments)?),
            "pack" => self.pack(&index, read(arguments)?),
            other => Err(ToolError::Unknown(other.to_owned())),
        }?;
        let status = index.status();
        answer.value["generation"] = json!(status.generation);
        if let Some(stale) = stale {
            answer.text += &format!("note: {stale}\n");
            answer.value["stale"] = json!(stale);
        }
        Ok(answer)
    }

    fn pack(&self, index: &Index, asked: Pack) -> Result<Answer, ToolError> {
        let Some((model, path)) = &self.model else {
            return Err(refused(
                "no chat model is on this host to count tokens with; `cloister models pull` fetches one",
            ));
        };
        let load = || Tokenizer::open(path).map_err(|error| error.to_string());
        let tokenizer = self.tokenizer.get_or_init(load).as_ref().map_err(refused)?;
        let count = |text: &str| tokenizer.encode(text, inference::Special::Forbid).len();
        let query = Query::new(asked.query);
        let pack = index.pack(&query, asked.tokens.min(PACK_TOKENS_MAX), &[], &count).map_err(refused)?;
        let pieces = pack.pieces.iter().map(|piece| {
            json!({
                "path": piece.path, "start_line": piece.lines.start(), "end_line": piece.lines.end(),
                "text": piece.text, "changed": piece.changed,
            })
        });
        let value = json!({
            "pieces": pieces.collect::<Vec<_>>(), "tokens": pack.tokens, "counted_by": model,
            "left_out": pack.left_out, "notes": pack.notes,
        });
        Ok(Answer { value, text: pack.pieces.iter().map(|piece| piece.shown() + "\n").collect() })
    }
}

fn search(index: &Index, asked: Search) -> Result<Answer, ToolError> {
    let limit = asked.limit.unwrap_or(HITS_DEFAULT).clamp(1, HITS_MAX);
    let Search { query, path, include_tests, open, .. } = asked;
    let query = Query { limit, path_prefix: path, include_tests, open, ..Query::new(query) };
    let answer = index.search(&query).map_err(refused)?;
    let mut text = String::new();
    for hit in &answer.hits {
        let symbol = hit.symbol.as_deref().map(|name| format!("  {name}")).unwrap_or_default();
        let _ = writeln!(text, "{}:{}-{}{symbol}", hit.path, hit.start_line, hit.end_line);
        for line in hit.text.lines().take(HIT_LINES_SHOWN) {
            let _ = writeln!(text, "    {}", cut(line));
        }
    }
    if answer.hits.is_empty() {
        text += "nothing found\n";
    }
    answer.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    let hits = answer.hits.iter().map(|hit| {
        json!({
            "path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line, "symbol": hit.symbol,
            "kind": hit.kind.map(index::Kind::word), "score": hit.score, "text": hit.text, "changed": hit.changed,
            "lanes": hit.lanes.iter().map(|lane| format!("{lane:?}").to_lowercase()).collect::<Vec<_>>(),
        })
    });
    let skipped: serde_json::Map<String, Value> =
        answer.skipped.iter().map(|(reason, count)| (reason.words().to_owned(), json!(count))).collect();
    let value = json!({
        "hits": hits.collect::<Vec<_>>(), "age_seconds": answer.age_seconds, "skipped": skipped, "notes": answer.notes,
    });
    Ok(Answer { value, text })
}

fn grep(index: &Index, asked: Grep) -> Result<Answer, ToolError> {
    let options = GrepOptions {
        ignore_case: asked.ignore_case,
        path_prefix: asked.path,
        matches_max: asked.limit.unwrap_or(MATCHES_DEFAULT).clamp(1, MATCHES_MAX),
        ..GrepOptions::default()
    };
    let found = index.grep(&asked.pattern, &options).map_err(refused)?;
    let mut text = String::new();
    found.matches.iter().for_each(|line| text += &format!("{}:{}: {}\n", line.path, line.line, cut(&line.text)));
    if found.truncated {
        text += "and more\n";
    }
    found.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    let lines = found.matches.iter().map(|line| json!({"path": line.path, "line": line.line, "text": line.text}));
    let value = json!({
        "matches": lines.collect::<Vec<_>>(), "truncated": found.truncated, "files_matched": found.files_matched,
        "notes": found.notes,
    });
    Ok(Answer { value, text: if text.is_empty() { "no line matches\n".to_owned() } else { text } })
}

fn definition(index: &Index, name: &str) -> Result<Answer, ToolError> {
    let answer = index.symbol(name);
    let (kind, count) = match &answer {
        index::SymbolAnswer::Exact(_) => ("exact", 1),
        index::SymbolAnswer::Ambiguous { count, .. } => ("ambiguous", *count),
        index::SymbolAnswer::NotFound => ("not_found", 0),
    };
    let found = answer.definitions();
    let mut text = format!("{kind}\n");
    found.iter().for_each(|one| text += &told(one));
    let value = json!({"answer": kind, "count": count, "definitions": found.iter().map(value_of).collect::<Vec<_>>()});
    Ok(Answer { value, text })
}

fn told(found: &SymbolDefinition) -> String {
    let signature = found.signature.as_deref().map(|text| format!("  {}", cut(text))).unwrap_or_default();
    let (path, first, last) = (&found.path, found.start_line, found.end_line);
    format!("{path}:{first}-{last}  {} {}{signature}\n", found.kind, found.qualified())
}

fn value_of(found: &SymbolDefinition) -> Value {
    json!({
        "path": found.path, "name": found.qualified(), "kind": found.kind.word(), "start_line": found.start_line,
        "end_line": found.end_line, "signature": found.signature,
    })
}

fn references(index: &Index, asked: &References) -> Result<Answer, ToolError> {
    let Usages { found, files_left_out } =
        if asked.calls { index.callers(&asked.name) } else { index.references(&asked.name) };
    let mut text = String::new();
    for usage in &found {
        let inside = usage.inside.as_deref().map(|name| format!(" in {name}")).unwrap_or_default();
        let _ = writeln!(text, "{}:{}: {}{inside}: {}", usage.path, usage.line, usage.kind.word(), cut(&usage.text));
    }
    if found.is_empty() {
        text += "no use found\n";
    }
    if files_left_out > 0 {
        let _ = writeln!(text, "{files_left_out} more files hold the name and were not read");
    }
    let usages = found.iter().map(|usage| {
        json!({
            "path": usage.path, "line": usage.line, "kind": usage.kind.word(), "inside": usage.inside,
            "text": usage.text,
        })
    });
    let value = json!({"references": usages.collect::<Vec<_>>(), "files_left_out": files_left_out});
    Ok(Answer { value, text })
}

fn callees(index: &Index, name: &str) -> Result<Answer, ToolError> {
    let Some(calls) = index.callees(name) else {
        return Ok(Answer {
            value: json!({"found": false, "calls": []}),
            text: format!("{name} is not defined here\n"),
        });
    };
    let mut text = String::new();
    for call in &calls {
        let _ = writeln!(text, "line {}: {}", call.line, call.name);
        call.definitions.iter().for_each(|one| text += &format!("    {}", told(one)));
    }
    let calls = calls.iter().map(|call| {
        let definitions: Vec<Value> = call.definitions.iter().map(value_of).collect();
        json!({"name": call.name, "line": call.line, "definitions": definitions})
    });
    let value = json!({"found": true, "calls": calls.collect::<Vec<_>>()});
    Ok(Answer { value, text: if text.is_empty() { "it calls nothing\n".to_owned() } else { text } })
}

fn related(index: &Index, asked: Related) -> Result<Answer, ToolError> {
    let found = index.related(&asked.paths, asked.limit.unwrap_or(HITS_DEFAULT).clamp(1, RELATED_MAX));
    let text = found.iter().map(|path| format!("{path}\n")).collect::<String>();
    let text = if text.is_empty() { "nothing is known to belong to these\n".to_owned() } else { text };
    Ok(Answer { value: json!({"paths": found}), text })
}

fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES_MAX)]
}
