//! Which way of finding serves this repository, and what should each be worth? `cloister index report`.
//!
//! The repository's own history asks the questions (see `mine.rs`). Each lane's files are fused with every weight of a
//! small grid, on the older half of the questions; with what is best there the newer half is searched again, and only
//! what helps there too is worth keeping.

use super::answers::{ask_history, files, indexed};
use super::metrics::{Scores, mean, score_of};
use super::mine::Mine;
use anyhow::Result;
use benches::table::Table;
use index::{Embedder, Index, Query, Weights};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Files of a lane that are fused.
const DEPTH: usize = 100;
/// As reciprocal rank fusion is usually set (Cormack, Clarke and Büttcher 2009).
const RRF_K: f64 = 60.0;
const WEIGHTS: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0];
/// With fewer questions a suggestion would be chance.
const QUESTIONS_MIN: usize = 20;

/// What each lane found for one question.
struct Question {
    lanes: BTreeMap<String, Vec<String>>,
    gold: Vec<String>,
}

/// What a history said.
pub struct Told {
    /// To show.
    pub table: Table,
    /// Weights with which the newer half of the questions is answered better than with those of everybody.
    pub better: Option<Weights>,
}

/// Asks a repository's history, lane by lane.
pub fn report(
    repo: &Path,
    scratch: &Path,
    count: usize,
    embedder: Option<&Arc<dyn Embedder>>,
    cancel: &AtomicBool,
) -> Result<Told> {
    let mut mine = Mine::open(repo, scratch, count)?;
    let mut questions = Vec::new();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let whole = ask_history(&mut mine, "history", scratch, embedder, cancel, &mut |index, query, gold| {
        let query = Query { limit: DEPTH, ..Query::new(query) };
        let lanes = index.lanes(&query)?.into_iter();
        let lanes = lanes.map(|(lane, files)| (format!("{lane:?}").to_lowercase(), files));
        // What is no lane for a few words has nothing to say here.
        let lanes = lanes.filter(|(lane, _)| Weights::default().of_lane(lane).is_some()).collect();
        questions.push(Question { lanes, gold: gold.to_vec() });
        if let [open, others @ ..] = gold
            && !others.is_empty()
        {
            alone.push(others_found(index, &query.text, others, open, false)?);
            beside.push(others_found(index, &query.text, others, open, true)?);
        }
        Ok(())
    })?;
    let whole: Vec<Scores> = whole.iter().map(|outcome| outcome.scores).collect();
    let title = format!("recall by lane on {} questions of the history of {}", questions.len(), repo.display());
    let mut table = Table::new(title, &["lane", "found@1", "found@5", "found@10", "found", "only here", "ndcg@10"]);
    let names = questions.first().into_iter().flat_map(|first| first.lanes.keys().cloned());
    let names: Vec<String> = names.filter(|name| name != "vector" || embedder.is_some()).collect();
    for name in &names {
        table.rows.push(lane_row(name, &questions));
    }
    let several = alone.len();
    for (told, scores) in [
        ("all, as searched".to_owned(), &whole),
        (format!("the other files of {several} commits, nothing open"), &alone),
        (format!("the other files of {several} commits, one open"), &beside),
    ] {
        let all = mean(scores);
        let row = [json!(told), json!(all.acc_1), json!(all.acc_5), json!(null), json!(null), json!(null)];
        table.rows.push(row.into_iter().chain([json!(all.ndcg_10)]).collect());
    }
    let Some(suggested) = suggested(&names, &questions) else {
        let (questions, lanes) = (questions.len(), names.len());
        table.notes.push(format!("no weights are suggested: {questions} questions and {lanes} lanes are too few"));
        return Ok(Told { table, better: None });
    };
    let newer = questions.len() / 2..questions.len();
    let before = mean(&whole[newer.clone()]).ndcg_10;
    let after = searched(&mut mine, newer, suggested, scratch, embedder, cancel)?.ndcg_10;
    let Weights { text, symbol, place, vector } = suggested;
    let better = (after > before).then_some(suggested);
    let verdict = if better.is_some() { "they help here" } else { "they do not carry over" };
    table.notes.push(format!(
        "weights suggested by the older half: text {text}, symbol {symbol}, place {place}, vector {vector}; searched with \
         them the newer half has ndcg@10 {after:.3}, without them {before:.3}: {verdict}"
    ));
    Ok(Told { table, better })
}

/// How well the other files of a commit are found, while one of them is open or not.
fn others_found(index: &Index, text: &str, others: &[String], open: &str, is_open: bool) -> Result<Scores> {
    let open = open.to_owned();
    let query = Query { open: is_open.then(|| open.clone()).into_iter().collect(), ..Query::new(text) };
    let mut ranked = files(index, query)?;
    ranked.retain(|path| *path != open);
    Ok(score_of(&ranked, others))
}

/// How well these questions are answered with these weights.
fn searched(
    mine: &mut Mine,
    which: Range<usize>,
    weights: Weights,
    scratch: &Path,
    embedder: Option<&Arc<dyn Embedder>>,
    cancel: &AtomicBool,
) -> Result<Scores> {
    let store = tempfile::Builder::new().prefix("store").tempdir_in(scratch)?;
    let mut scores = Vec::new();
    for at in which {
        mine.show(at)?;
        let mut index = indexed(mine.dir(), store.path(), embedder.cloned(), cancel)?;
        index.weigh(weights);
        let case = &mine.cases[at];
        scores.push(score_of(&files(&index, Query::new(&case.query))?, &case.gold_files));
    }
    Ok(mean(&scores))
}

fn lane_row(name: &str, questions: &[Question]) -> Vec<serde_json::Value> {
    let share = |test: &dyn Fn(&Question) -> bool| {
        questions.iter().filter(|question| test(question)).count() as f64 / questions.len().max(1) as f64
    };
    let finds = |question: &Question, lane: &str, depth: usize| {
        question.lanes.get(lane).is_some_and(|files| files.iter().take(depth).any(|file| question.gold.contains(file)))
    };
    let only = |question: &Question| {
        finds(question, name, DEPTH)
            && question.lanes.keys().all(|other| other == name || !finds(question, other, DEPTH))
    };
    let alone: BTreeMap<&str, f64> = BTreeMap::from([(name, 1.0)]);
    vec![
        json!(name),
        json!(share(&|question| finds(question, name, 1))),
        json!(share(&|question| finds(question, name, 5))),
        json!(share(&|question| finds(question, name, 10))),
        json!(share(&|question| finds(question, name, DEPTH))),
        json!(share(&only)),
        json!(fused_score(questions, &alone).ndcg_10),
    ]
}

fn fused_score(questions: &[Question], weights: &BTreeMap<&str, f64>) -> Scores {
    let scores = questions.iter().map(|question| score_of(&fused(question, weights), &question.gold));
    mean(&scores.collect::<Vec<_>>())
}

fn fused(question: &Question, weights: &BTreeMap<&str, f64>) -> Vec<String> {
    let mut scores: BTreeMap<&str, f64> = BTreeMap::new();
    for (lane, files) in &question.lanes {
        let weight = weights.get(lane.as_str()).copied().unwrap_or(0.0);
        if weight > 0.0 {
            for (at, file) in files.iter().take(DEPTH).enumerate() {
                *scores.entry(file).or_default() += weight / (RRF_K + at as f64 + 1.0);
            }
        }
    }
    let mut ranked: Vec<(&str, f64)> = scores.into_iter().collect();
    ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(right.0)));
    ranked.into_iter().map(|(file, _)| file.to_owned()).collect()
}

/// The weights that are best on the older half of the questions; nothing where these are too few.
fn suggested(names: &[String], questions: &[Question]) -> Option<Weights> {
    if questions.len() < QUESTIONS_MIN || names.len() < 2 {
        return None;
    }
    let older = &questions[..questions.len() / 2];
    let equal: BTreeMap<&str, f64> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
    let mut best = (fused_score(older, &equal).ndcg_10, equal.clone());
    // The first lane stays at 1: only the ratios count.
    for number in 0..WEIGHTS.len().pow(names.len() as u32 - 1) {
        let mut rest = number;
        let mut weights = equal.clone();
        for name in &names[1..] {
            weights.insert(name, WEIGHTS[rest % WEIGHTS.len()]);
            rest /= WEIGHTS.len();
        }
        let gain = fused_score(older, &weights).ndcg_10;
        if gain > best.0 {
            best = (gain, weights);
        }
    }
    let mut suggested = Weights::default();
    for (lane, weight) in best.1 {
        *suggested.of_lane(lane)? = weight;
    }
    Some(suggested)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &[&str], vector: &[&str], gold: &str) -> Question {
        let own = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>();
        let lanes = BTreeMap::from([("text".to_owned(), own(text)), ("vector".to_owned(), own(vector))]);
        Question { lanes, gold: vec![gold.to_owned()] }
    }

    #[test]
    fn a_lane_that_only_misleads_is_suggested_no_weight() {
        let questions: Vec<Question> = (0..40).map(|_| question(&["b", "a"], &["c", "b"], "b")).collect();
        let helps: Vec<Question> = (0..40).map(|_| question(&["b", "a"], &["a", "b"], "b")).collect();
        let names = ["text".to_owned(), "vector".to_owned()];
        let told = suggested(&names, &helps).unwrap();
        assert_eq!((told.text, told.vector), (1.0, 0.0));
        assert_eq!(suggested(&names, &questions[..10]), None);
    }

    #[test]
    fn a_lane_that_finds_what_no_other_does_is_told() {
        let questions = [question(&["x"], &["a"], "a"), question(&["a"], &["a"], "a")];
        let row = lane_row("vector", &questions);
        assert_eq!(row[1], json!(1.0));
        assert_eq!(row[5], json!(0.5));
    }

    #[test]
    fn files_are_fused_by_weighted_reciprocal_rank() {
        let question = question(&["a", "b"], &["b", "c"], "b");
        let weights = BTreeMap::from([("text", 1.0), ("vector", 1.0)]);
        assert_eq!(fused(&question, &weights), ["b", "a", "c"]);
    }
}
