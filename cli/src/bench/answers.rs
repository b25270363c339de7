//! What does the index answer, and is it right? Cases and mined history are asked, files are ranked.

use super::cases::{Case, Repositories, Set, Source, is_same};
use super::metrics::{Scores, mean, ranks, score, score_of};
use super::mine::Mine;
use anyhow::{Context, Result};
use benches::table::Table;
use index::{Embedder, Index, Query};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Hits that are asked for: enough that ten files come together.
const HITS_MAX: usize = 100;
/// The columns of a table of scores.
pub const HEAD: [&str; 9] = ["who", "set", "kind", "cases", "acc@1", "acc@3", "acc@5", "ndcg@10", "mrr"];

/// Cases about one tree.
pub struct Group {
    /// The tree.
    pub source: Source,
    /// The set and the case.
    pub cases: Vec<(String, Case)>,
}

/// How well one question was answered.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The set that the case is of.
    pub set: String,
    /// The kind of question.
    pub kind: String,
    /// The case.
    pub id: String,
    /// What it is worth.
    pub scores: Scores,
    /// What the answer took.
    pub seconds: f64,
}

/// Puts cases together that are about the same tree; what has none is told.
pub fn groups(sets: Vec<Set>, repositories: &Repositories, scratch: &Path) -> Result<(Vec<Group>, Vec<String>)> {
    let mut groups: BTreeMap<(String, String, Option<String>), Group> = BTreeMap::new();
    let mut notes = BTreeMap::new();
    for set in sets {
        for case in set.cases {
            let key = (case.repo.clone(), case.commit.clone(), case.root.clone());
            if let Some(group) = groups.get_mut(&key) {
                group.cases.push((set.name.clone(), case));
                continue;
            }
            match repositories.source(&case, scratch)? {
                Some(source) => {
                    groups.insert(key, Group { source, cases: vec![(set.name.clone(), case)] });
                }
                None => *notes.entry(format!("no directory for {}", case.repo)).or_insert(0) += 1,
            }
        }
    }
    let mut told: Vec<String> =
        notes.into_iter().map(|(note, count)| format!("{note}: {count} cases left out")).collect();
    told.extend(groups.values().map(|group| {
        let case = &group.cases[0].1;
        format!("{} at {:.12}: {}", case.repo, case.commit, group.source.told)
    }));
    told.dedup();
    Ok((groups.into_values().collect(), told))
}

/// A fresh index over a directory.
pub fn indexed(dir: &Path, store: &Path, embedder: Option<Arc<dyn Embedder>>, cancel: &AtomicBool) -> Result<Index> {
    let mut index = Index::open(store, dir, embedder)?;
    index.refresh(&mut |_| {}, cancel)?;
    Ok(index)
}

/// The files that answer a question, best first, as many as its first [`HITS_MAX`] hits lie in.
pub fn files(index: &Index, query: Query) -> Result<Vec<String>> {
    let query = Query { limit: HITS_MAX, ..query };
    let mut files: Vec<String> = Vec::new();
    for hit in index.search(&query)?.hits {
        if !files.contains(&hit.path) {
            files.push(hit.path);
        }
    }
    Ok(files)
}

/// How well `ranked` answers a case.
pub fn outcome(set: &str, case: &Case, prefix: &str, ranked: &[String], seconds: f64) -> Outcome {
    let full = |path: &String| if prefix.is_empty() { path.clone() } else { format!("{prefix}/{path}") };
    let ranked: Vec<String> = ranked.iter().map(full).collect();
    let scores = score(&ranks(&ranked, &case.gold_files, is_same), case.gold_files.len());
    Outcome { set: set.to_owned(), kind: case.category.clone(), id: case.id.clone(), scores, seconds }
}

/// Asks our index every case of every group.
pub fn ask(
    groups: &[Group],
    scratch: &Path,
    embedder: Option<&Arc<dyn Embedder>>,
    cancel: &AtomicBool,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for group in groups {
        let store = tempfile::Builder::new().prefix("store").tempdir_in(scratch)?;
        let index = indexed(&group.source.dir, store.path(), embedder.cloned(), cancel)
            .with_context(|| format!("cannot index {}", group.source.dir.display()))?;
        for (set, case) in &group.cases {
            let begun = Instant::now();
            let ranked = files(&index, Query::new(&case.query)).with_context(|| format!("case {}", case.id))?;
            outcomes.push(outcome(set, case, &group.source.prefix, &ranked, begun.elapsed().as_secs_f64()));
        }
    }
    Ok(outcomes)
}

/// Is called after each question with the index, the question and its gold files.
pub type Each<'a> = dyn FnMut(&Index, &str, &[String]) -> Result<()> + 'a;

/// Asks our index what the history of a repository asks.
pub fn ask_history(
    mine: &mut Mine,
    set: &str,
    scratch: &Path,
    embedder: Option<&Arc<dyn Embedder>>,
    cancel: &AtomicBool,
    each: &mut Each,
) -> Result<Vec<Outcome>> {
    let store = tempfile::Builder::new().prefix("store").tempdir_in(scratch)?;
    let mut outcomes = Vec::new();
    for at in 0..mine.cases.len() {
        mine.show(at)?;
        let index = indexed(mine.dir(), store.path(), embedder.cloned(), cancel)?;
        let case = &mine.cases[at];
        let begun = Instant::now();
        let ranked = files(&index, Query::new(&case.query))?;
        let seconds = begun.elapsed().as_secs_f64();
        let scores = score_of(&ranked, &case.gold_files);
        let id = case.commit.id.clone();
        outcomes.push(Outcome { set: set.to_owned(), kind: "commit".to_owned(), id, scores, seconds });
        each(&index, &case.query, &case.gold_files)?;
    }
    Ok(outcomes)
}

/// The means, by set and by kind of question.
pub fn rows(who: &str, outcomes: &[Outcome]) -> Vec<Vec<Value>> {
    let mut parts: BTreeMap<(&str, &str), Vec<Scores>> = BTreeMap::new();
    for outcome in outcomes {
        parts.entry((&outcome.set, "")).or_default().push(outcome.scores);
        parts.entry((&outcome.set, &outcome.kind)).or_default().push(outcome.scores);
    }
    let only_one = |set: &str| parts.keys().filter(|(name, _)| *name == set).count() == 2;
    let row = |((set, kind), scores): (&(&str, &str), &Vec<Scores>)| {
        let mean = mean(scores);
        let kind = if kind.is_empty() { "all" } else { kind };
        vec![
            json!(who),
            json!(set),
            json!(kind),
            json!(scores.len()),
            json!(mean.acc_1),
            json!(mean.acc_3),
            json!(mean.acc_5),
            json!(mean.ndcg_10),
            json!(mean.mrr),
        ]
    };
    parts.iter().filter(|((set, kind), _)| kind.is_empty() || !only_one(set)).map(row).collect()
}

/// An empty table of scores.
pub fn table(title: &str) -> Table {
    Table::new(title, &HEAD)
}
