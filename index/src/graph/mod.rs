//! Which files belong together? Those that import one another, use one another's names, or change together.
//!
//! The graph is made from the symbol lane in one pass over its names and is asked in memory. An edge says that one
//! file speaks of the other, not how: a name that many files define says little, and one that everybody uses says
//! nothing.

mod resolve;

use rustc_hash::FxHashMap;

use crate::cochange::CoChange;
use crate::file_no::FileNo;
use crate::symbols::{SymbolError, Symbols};
use resolve::Paths;

/// A name that more files define ties nobody together.
const DEFINERS_MAX: usize = 4;
/// A name that more files use, as a share of all or by number, whichever is more, ties nobody together.
const USERS_SHARE_MAX: f64 = 0.02;
const USERS_MAX: usize = 40;
/// What all shared names of two files together count at most.
const NAMES_WEIGHT_MAX: f32 = 2.0;
const IMPORT_WEIGHT: f32 = 1.0;
const COCHANGE_WEIGHT: f32 = 1.0;
/// Who is used matters more to who uses it than the other way round.
const BACKWARD: f32 = 0.5;
/// The share of rank that an edge carries on; the rest goes back to the seeds.
const DAMPING: f32 = 0.75;
const ITERATIONS: usize = 12;

/// The files of one generation and the edges between them.
#[derive(Default)]
pub(crate) struct FileGraph {
    /// Ascending.
    nodes: Vec<FileNo>,
    imports: Rows,
    imported_by: Rows,
    /// All edges in both directions, the weights of a row adding up to one.
    edges: Rows,
}

/// A sparse matrix by rows.
#[derive(Default)]
struct Rows {
    starts: Vec<u32>,
    columns: Vec<u32>,
    weights: Vec<f32>,
}

impl Rows {
    /// Weights of equal edges are added.
    fn of(count: usize, mut edges: Vec<(u32, u32, f32)>) -> Rows {
        edges.sort_unstable_by_key(|edge| (edge.0, edge.1));
        edges.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 += if same { next.2 } else { 0.0 };
            same
        });
        let mut starts = vec![0u32; count + 1];
        edges.iter().for_each(|edge| starts[edge.0 as usize + 1] += 1);
        (0..count).for_each(|at| starts[at + 1] += starts[at]);
        Rows {
            starts,
            columns: edges.iter().map(|edge| edge.1).collect(),
            weights: edges.iter().map(|edge| edge.2).collect(),
        }
    }

    fn row(&self, at: usize) -> impl Iterator<Item = (u32, f32)> {
        let range = match self.starts.get(at..at + 2) {
            Some(ends) => ends[0] as usize..ends[1] as usize,
            None => 0..0,
        };
        self.columns[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }

    fn normalise(&mut self) {
        for ends in self.starts.windows(2) {
            let row = &mut self.weights[ends[0] as usize..ends[1] as usize];
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|weight| *weight /= sum);
        }
    }
}

impl FileGraph {
    /// Makes the graph of the living files, each with its path.
    pub(crate) fn build(
        symbols: &Symbols,
        files: &[(FileNo, String)],
        cochange: &CoChange,
    ) -> Result<FileGraph, SymbolError> {
        let mut files: Vec<(FileNo, &str)> = files.iter().map(|(file, path)| (*file, path.as_str())).collect();
        files.sort_unstable();
        let nodes: Vec<FileNo> = files.iter().map(|(file, _)| *file).collect();
        let node = |file: FileNo| nodes.binary_search(&file).ok().map(|at| at as u32);
        let paths: Vec<&str> = files.iter().map(|(_, path)| *path).collect();
        let imports = import_edges(symbols, &paths, &node).ok_or(SymbolError::Damaged)?;
        let mut edges = imports.clone();
        edges.extend(name_edges(symbols, nodes.len(), &node)?);
        edges.extend(cochange_edges(&paths, cochange));
        edges.retain(|edge| edge.0 != edge.1);
        let backward: Vec<_> = edges.iter().map(|&(from, to, weight)| (to, from, weight * BACKWARD)).collect();
        edges.extend(backward);
        let mut edges = Rows::of(nodes.len(), edges);
        edges.normalise();
        let turned = imports.iter().map(|&(from, to, weight)| (to, from, weight)).collect();
        Ok(FileGraph {
            imported_by: Rows::of(nodes.len(), turned),
            imports: Rows::of(nodes.len(), imports),
            nodes,
            edges,
        })
    }

    /// The files that this one imports, as far as they are in the tree.
    pub(crate) fn imports(&self, file: FileNo) -> Vec<FileNo> {
        self.neighbours(&self.imports, file)
    }

    /// The files that import this one.
    pub(crate) fn imported_by(&self, file: FileNo) -> Vec<FileNo> {
        self.neighbours(&self.imported_by, file)
    }

    /// How many edges there are, each counted in both directions.
    #[cfg(test)]
    pub(crate) fn edge_count(&self) -> usize {
        self.edges.columns.len()
    }

    fn neighbours(&self, rows: &Rows, file: FileNo) -> Vec<FileNo> {
        let Ok(at) = self.nodes.binary_search(&file) else { return Vec::new() };
        rows.row(at).map(|(to, _)| self.nodes[to as usize]).collect()
    }

    /// The files that belong to `seeds`, best first, without the seeds: PageRank with the seeds as the place where
    /// every walk begins again (Page, Brin, Motwani, Winograd, "The PageRank Citation Ranking", 1999, section 6).
    pub(crate) fn related(&self, seeds: &[FileNo], limit: usize) -> Vec<(FileNo, f32)> {
        let mut seeds: Vec<usize> = seeds.iter().filter_map(|seed| self.nodes.binary_search(seed).ok()).collect();
        seeds.sort_unstable();
        seeds.dedup();
        if seeds.is_empty() {
            return Vec::new();
        }
        let share = 1.0 / seeds.len() as f32;
        let mut ranks = vec![0.0f32; self.nodes.len()];
        seeds.iter().for_each(|&at| ranks[at] = share);
        for _ in 0..ITERATIONS {
            let mut next = vec![0.0f32; ranks.len()];
            let mut kept = 0.0;
            for (at, rank) in ranks.iter().enumerate().filter(|(_, rank)| **rank > 0.0) {
                for (to, weight) in self.edges.row(at) {
                    next[to as usize] += DAMPING * rank * weight;
                    kept += DAMPING * rank * weight;
                }
            }
            seeds.iter().for_each(|&at| next[at] += (1.0 - kept) * share);
            ranks = next;
        }
        seeds.iter().for_each(|&at| ranks[at] = 0.0);
        let found = ranks.iter().enumerate().filter(|(_, rank)| **rank > 0.0);
        let mut found: Vec<(FileNo, f32)> = found.map(|(at, rank)| (self.nodes[at], *rank)).collect();
        found.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        found.truncate(limit);
        found
    }
}

type Edges = Vec<(u32, u32, f32)>;

fn import_edges(symbols: &Symbols, paths: &[&str], node: &dyn Fn(FileNo) -> Option<u32>) -> Option<Edges> {
    let mut resolver = Paths::of(paths);
    let mut edges = Vec::new();
    for segment in &symbols.segments {
        for place in 0..segment.file_count() as u32 {
            let Some(from) = node(segment.file(place)?) else { continue };
            for import in segment.imports(place)? {
                edges.extend(resolver.resolve(&import, from).into_iter().map(|to| (from, to, IMPORT_WEIGHT)));
            }
        }
    }
    edges.retain(|edge| edge.0 != edge.1);
    edges.sort_unstable_by_key(|edge| (edge.0, edge.1));
    edges.dedup_by_key(|edge| (edge.0, edge.1));
    Some(edges)
}

/// From the users of a name to its definers.
fn name_edges(symbols: &Symbols, count: usize, node: &dyn Fn(FileNo) -> Option<u32>) -> Result<Edges, SymbolError> {
    let users_max = USERS_MAX.max((count as f64 * USERS_SHARE_MAX) as usize);
    let mut sums: FxHashMap<(u32, u32), f32> = FxHashMap::default();
    symbols.each_name(|_, postings| {
        let (mut definers, mut users) = (Vec::new(), Vec::new());
        for (segment, posting) in postings {
            let living = |place: &u32| segment.file(*place).and_then(node);
            definers.extend(posting.definitions.iter().filter_map(|(place, _)| living(place)));
            users.extend(posting.used_in.iter().filter_map(living));
            if definers.len() > DEFINERS_MAX * 8 || users.len() > users_max {
                return;
            }
        }
        definers.sort_unstable();
        definers.dedup();
        if definers.is_empty() || definers.len() > DEFINERS_MAX {
            return;
        }
        let weight = 1.0 / (definers.len() as f32 * (1.0 + (1.0 + users.len() as f32).ln()));
        for user in users {
            for definer in definers.iter().filter(|definer| **definer != user) {
                *sums.entry((user, *definer)).or_default() += weight;
            }
        }
    })?;
    Ok(sums.into_iter().map(|((from, to), weight)| (from, to, weight.min(NAMES_WEIGHT_MAX))).collect())
}

fn cochange_edges(paths: &[&str], cochange: &CoChange) -> Edges {
    let node: FxHashMap<&str, u32> = paths.iter().enumerate().map(|(at, path)| (*path, at as u32)).collect();
    let pairs = cochange.pairs().filter_map(|(one, other, weight)| Some((*node.get(one)?, *node.get(other)?, weight)));
    pairs.map(|(one, other, weight)| (one, other, weight.min(1.0) * COCHANGE_WEIGHT)).collect()
}
