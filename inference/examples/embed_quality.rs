//! How good and how fast are the vectors? The shared queries over source trees, by vectors alone.
//!
//!     cargo run -p inference --example embed_quality -- MODEL_DIR TABLE_DIR QUERIES.jsonl owner/name=DIR …
//!
//! Files are cut into pieces of about 40 lines; a file is as near as its nearest piece. Prints NDCG@10 and the share
//! of queries whose first, first three and first five files hold a right one, for the table, for MiniLM (not with
//! ONLY_TABLE set) and, with GGUF=FILE, for that decoder.

use inference::{Embedder, GgufEmbedder, StaticEmbedder};
use std::path::{Path, PathBuf};
use std::time::Instant;

const LINES: usize = 40;
const BATCH: usize = 32;
const PIECE_BYTES_MAX: usize = 2000;
const ENDINGS: [&str; 5] = ["rs", "js", "py", "ts", "go"];

struct Piece {
    path: String,
    text: String,
}

struct Question {
    repo: String,
    root: String,
    text: String,
    right: Vec<String>,
    also: Vec<String>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, tables, queries, repos @ ..] = &args[..] else { panic!("see the top of this file") };
    let path = StaticEmbedder::path(Path::new(tables), "quality");
    let table = StaticEmbedder::read(&path).unwrap_or_else(|| {
        let start = Instant::now();
        let table = StaticEmbedder::make(Path::new(model), &path, &mut |done, total| {
            eprint!("\r{done} of {total} tokens");
            true
        });
        eprintln!(", {:.1} s", start.elapsed().as_secs_f64());
        table.unwrap()
    });
    let questions = questions(Path::new(queries));
    let decoder = std::env::var_os("GGUF").map(|path| GgufEmbedder::load(Path::new(&path)).unwrap());
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    for repo in repos {
        let (name, directory) = repo.split_once('=').expect("owner/name=DIR");
        let asked: Vec<&Question> = questions.iter().filter(|question| question.repo == name).collect();
        let Some(root) = asked.first().map(|question| question.root.clone()) else { continue };
        let mut pieces = Vec::new();
        collect(Path::new(directory), Path::new(directory), &mut pieces);
        pieces.retain(|piece| piece.path.starts_with(&root));
        let texts: Vec<String> = pieces.iter().map(|piece| piece.text.clone()).collect();
        let bytes: usize = texts.iter().map(String::len).sum();
        println!("{name}: {} pieces, {bytes} bytes, {} questions", texts.len(), asked.len());
        let start = Instant::now();
        let near = table.embed(&texts);
        let seconds = start.elapsed().as_secs_f64();
        tell("table", &asked, &pieces, &near, |text| table.embed(&[text.to_owned()]).remove(0), seconds);
        if let Some(decoder) = &decoder {
            let start = Instant::now();
            let near = decoder.embed(&texts).unwrap();
            let seconds = start.elapsed().as_secs_f64();
            tell(
                "decoder",
                &asked,
                &pieces,
                &near,
                |text| decoder.embed(&[text.to_owned()]).unwrap().remove(0),
                seconds,
            );
        }
        if std::env::var_os("ONLY_TABLE").is_some() {
            continue;
        }
        let minilm = Embedder::load(Path::new(model)).unwrap();
        let start = Instant::now();
        let near: Vec<Vec<f32>> = texts.chunks(BATCH).flat_map(|texts| minilm.embed(texts).unwrap()).collect();
        let seconds = start.elapsed().as_secs_f64();
        tell("MiniLM", &asked, &pieces, &near, |text| minilm.embed(&[text.to_owned()]).unwrap().remove(0), seconds);
    }
}

fn tell(
    name: &str,
    questions: &[&Question],
    pieces: &[Piece],
    vectors: &[Vec<f32>],
    embed: impl Fn(&str) -> Vec<f32>,
    seconds: f64,
) {
    let (mut ndcg, mut first) = (0.0, [0usize; 3]);
    for question in questions {
        let query = embed(&question.text);
        let mut scored: Vec<(f32, &str)> = vectors
            .iter()
            .zip(pieces)
            .map(|(vector, piece)| (vector.iter().zip(&query).map(|(x, y)| x * y).sum(), piece.path.as_str()))
            .collect();
        scored.sort_by(|left, right| right.0.total_cmp(&left.0));
        let mut files: Vec<&str> = Vec::new();
        for (_, path) in scored {
            if !files.contains(&path) {
                files.push(path);
            }
        }
        ndcg += gain(&files, question);
        for (count, at) in first.iter_mut().zip([1, 3, 5]) {
            *count += usize::from(files.iter().take(at).any(|file| question.right.iter().any(|right| right == file)));
        }
    }
    let count = questions.len() as f64;
    let share = first.map(|first| first as f64 / count);
    println!(
        "  {name}: NDCG@10 {:.3}, Acc@1/3/5 {:.2}/{:.2}/{:.2}, {:.1} pieces/s",
        ndcg / count,
        share[0],
        share[1],
        share[2],
        vectors.len() as f64 / seconds
    );
}

/// Right files count 2, also-right ones 1.
fn gain(files: &[&str], question: &Question) -> f64 {
    let holds = |list: &[String], file: &str| list.iter().any(|right| right == file);
    let worth = |file: &str| if holds(&question.right, file) { 2.0 } else { f64::from(holds(&question.also, file)) };
    let discount = |at: usize| 1.0 / (at as f64 + 2.0).log2();
    let got: f64 = files.iter().take(10).enumerate().map(|(at, file)| worth(file) * discount(at)).sum();
    let best = question.right.iter().map(|_| 2.0).chain(question.also.iter().map(|_| 1.0));
    let best: f64 = best.take(10).enumerate().map(|(at, worth): (usize, f64)| worth * discount(at)).sum();
    got / best
}

fn questions(path: &Path) -> Vec<Question> {
    let text = std::fs::read_to_string(path).expect("the queries");
    let list = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|file| file.as_str().map(str::to_owned)).collect()
    };
    let question = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Question {
            repo: word("repo"),
            root: word("root"),
            text: word("query"),
            right: list(&value["gold_files"]),
            also: list(&value["secondary_files"]),
        }
    };
    text.lines().map(question).collect()
}

fn collect(root: &Path, directory: &Path, pieces: &mut Vec<Piece>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("a directory").flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(root, &path, pieces);
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            let lines: Vec<&str> = text.lines().collect();
            for some in lines.chunks(LINES) {
                let mut text = some.join("\n");
                text.truncate(text.floor_char_boundary(PIECE_BYTES_MAX));
                pieces.push(Piece { path: name.clone(), text });
            }
        }
    }
}
