//! How well does the index rank files on the shared cases? Every change to the ranking is measured with this.
//!
//!     rank_cases REPOSITORIES CASES.tsv STORES [WHICH]
//!
//! `CASES.tsv` gives for every case id (or the name of its repository) the directory in `REPOSITORIES` to search.
//! Cases are read from `$CLOISTER_CASES/retrieval`; paths match by suffix. One half of the cases, by hash of their
//! id, is for tuning, the other is held out. `WHICH` prints the ranks of every case of that half (`a`, `b`, `ab`).

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use index::{Index, Query};
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [repositories, map, stores] = &arguments[..3] else { return Err("three arguments are needed".into()) };
    let which = arguments.get(3).map_or("", String::as_str);
    let map = fs::read_to_string(map)?;
    let map: HashMap<&str, &str> = map.lines().filter_map(|line| line.split_once('\t')).collect();
    let cases = std::env::var("CLOISTER_CASES")?;
    let mut open: BTreeMap<String, Index> = BTreeMap::new();
    for set in ["localisation", "queries"] {
        let text = fs::read_to_string(Path::new(&cases).join(format!("retrieval/{set}.jsonl")))?;
        let mut halves: [Tally; 2] = Default::default();
        for line in text.lines() {
            let case: Value = serde_json::from_str(line)?;
            let text = |key: &str| case[key].as_str().unwrap_or_default();
            let Some(directory) = map.get(text("id")).or_else(|| map.get(text("repo"))) else { continue };
            let index = match open.entry((*directory).to_owned()) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let store = Path::new(stores).join(directory.replace('/', "_"));
                    let mut index = Index::open(&store, &Path::new(repositories).join(directory), None)?;
                    index.refresh(&mut |_| {}, &AtomicBool::new(false))?;
                    entry.insert(index)
                }
            };
            let gold: Vec<&str> = ["gold_files", "secondary_files"]
                .iter()
                .flat_map(|key| case[*key].as_array().into_iter().flatten())
                .filter_map(Value::as_str)
                .collect();
            let first = case["gold_files"].as_array().map_or(0, Vec::len);
            let answer = index.search(&Query { limit: 100, ..Query::new(text("query")) })?;
            let mut files: Vec<&str> = Vec::new();
            for hit in &answer.hits {
                if !files.contains(&hit.path.as_str()) {
                    files.push(&hit.path);
                }
            }
            let ranks: Vec<Option<usize>> =
                gold.iter().map(|gold| files.iter().position(|file| same(file, gold))).collect();
            let half = usize::from(
                text("id").bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33) ^ u32::from(byte)) % 2 == 0,
            );
            halves[half].add(&ranks, first);
            if which.contains(["a", "b"][half]) {
                let shown: Vec<String> =
                    ranks.iter().map(|rank| rank.map_or("-".to_owned(), |rank| (rank + 1).to_string())).collect();
                println!(
                    "{} {:<34} {:<10} {:<6} {:<40} {}",
                    ["a", "b"][half],
                    text("id"),
                    answer.kind.to_string(),
                    shown.join(","),
                    gold[0],
                    files.iter().take(4).copied().collect::<Vec<_>>().join(" ")
                );
            }
        }
        println!("{set}: half a (tuned)    {}", halves[0]);
        println!("{set}: half b (held out) {}", halves[1]);
        let [a, b] = halves;
        println!("{set}: both              {}", a.and(b));
    }
    Ok(())
}

/// Whether two paths, one perhaps without its first parts, name one file.
fn same(left: &str, right: &str) -> bool {
    let (short, long) = if left.len() < right.len() { (left, right) } else { (right, left) };
    long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

#[derive(Default)]
struct Tally {
    cases: f64,
    at: [f64; 3],
    ndcg: f64,
    reciprocal: f64,
}

impl Tally {
    /// Accuracy looks at the `first` gold files, NDCG at all of them.
    fn add(&mut self, ranks: &[Option<usize>], first: usize) {
        self.cases += 1.0;
        let best = ranks[..first].iter().flatten().min();
        for (at, limit) in self.at.iter_mut().zip([1, 3, 5]) {
            *at += f64::from(best.is_some_and(|rank| *rank < limit));
        }
        self.reciprocal += best.map_or(0.0, |rank| 1.0 / (*rank as f64 + 1.0));
        let gain = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
        let ideal: f64 = (0..ranks.len().min(10)).map(gain).sum();
        self.ndcg += ranks.iter().flatten().filter(|rank| **rank < 10).map(|rank| gain(*rank)).sum::<f64>() / ideal;
    }

    fn and(mut self, other: Tally) -> Tally {
        self.cases += other.cases;
        self.at.iter_mut().zip(other.at).for_each(|(at, more)| *at += more);
        self.ndcg += other.ndcg;
        self.reciprocal += other.reciprocal;
        self
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = |sum: f64| sum / self.cases.max(1.0);
        let [one, three, five] = self.at.map(|at| 100.0 * share(at));
        write!(
            f,
            "{:>3} cases  Acc@1 {one:5.1}  @3 {three:5.1}  @5 {five:5.1}  NDCG@10 {:.3}  MRR {:.3}",
            self.cases,
            share(self.ndcg),
            share(self.reciprocal)
        )
    }
}
