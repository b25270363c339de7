//! Where is this name defined? `exact`, `ambiguous` or `not_found`, and never something that merely sounds like it.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::segment::{Place, SymbolSegment};
use crate::classify::is_test_symbol;
use crate::file_no::FileNo;
use crate::fuse::is_test_path;

/// An ambiguous name lists at most this many definitions.
pub(crate) const AMBIGUOUS_MAX: usize = 50;
/// Definitions of one name that are looked at, in the files that promise most.
const DECODED_MAX: usize = 20_000;

/// Which files live, and how they are called. What is hidden lives not.
pub(crate) trait Living {
    /// Relative to the root; nothing for a file that is no more.
    fn path(&self, file: FileNo) -> Option<&str>;
}

/// The answer of the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// One definition bears the name.
    Exact(Place),
    /// Several do: the first of them, best first, and how many there are.
    Ambiguous(Vec<Place>, usize),
    /// None does.
    NotFound,
}

/// The symbol lane: its segments together.
#[derive(Default)]
pub(crate) struct Symbols {
    pub segments: Vec<Arc<SymbolSegment>>,
}

/// A question, taken apart.
struct Wanted {
    path: Option<String>,
    /// `Outer.name`.
    name: String,
}

impl Wanted {
    fn of(text: &str) -> Wanted {
        let text = text.trim().replace("::", ".").replace('#', ".").replace("->", ".");
        let (path, name) = match text.rsplit_once(':') {
            Some((path, name)) => (Some(path.trim_start_matches("./").to_owned()), name),
            None => (None, text.as_str()),
        };
        Wanted { path, name: name.trim().trim_end_matches("()").trim_matches('.').to_owned() }
    }

    fn plain(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    fn is_qualified(&self) -> bool {
        self.name.contains('.')
    }

    fn fits_path(&self, path: &str) -> bool {
        let fits = |wanted: &str| path == wanted || path.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('/'));
        self.path.as_deref().is_none_or(fits)
    }

    fn fits(&self, place: &Place, fold: bool) -> bool {
        let full = place.qualified();
        let Some(start) = full.len().checked_sub(self.name.len()) else { return false };
        let (Some(before), Some(end)) = (full.get(..start), full.get(start..)) else { return false };
        let same = if fold { end.eq_ignore_ascii_case(&self.name) } else { end == self.name };
        same && (before.is_empty() || before.ends_with('.'))
    }
}

impl Symbols {
    /// The definitions that bear `name`, which may be qualified (`Session.close`, `Session::close`) and may begin with
    /// a path (`src/session.py:Session.close`). Letter case decides only where it can.
    pub(crate) fn lookup(&self, name: &str, files: &dyn Living) -> Lookup {
        let wanted = Wanted::of(name);
        if wanted.name.is_empty() {
            return Lookup::NotFound;
        }
        let mut found = self.bearers(&wanted, false, files);
        if found.is_empty() {
            found = self.bearers(&wanted, true, files);
        }
        let count = found.len();
        sort(&mut found, files);
        found.truncate(AMBIGUOUS_MAX);
        match count {
            0 => Lookup::NotFound,
            1 => Lookup::Exact(found.remove(0)),
            _ => Lookup::Ambiguous(found, count),
        }
    }

    /// The definitions that bear `name`, best first; nothing at all where more than `most` do. Those of a name that many
    /// bear are counted and not read.
    pub(crate) fn few(&self, name: &str, most: usize, files: &dyn Living) -> Option<Vec<Place>> {
        let wanted = Wanted::of(name);
        if !wanted.is_qualified() && wanted.path.is_none() {
            let lives =
                |segment: &SymbolSegment, place: u32| segment.file(place).and_then(|file| files.path(file)).is_some();
            let of_segment = |segment: &SymbolSegment| {
                let definitions = segment.posting(&wanted.name).map_or(Vec::new(), |posting| posting.definitions);
                definitions.into_iter().filter(|(file, _)| lives(segment, *file)).take(most + 1).count()
            };
            if self.segments.iter().map(|segment| of_segment(segment)).sum::<usize>() > most {
                return None;
            }
        }
        match self.lookup(name, files) {
            Lookup::NotFound => Some(Vec::new()),
            Lookup::Exact(found) => Some(vec![found]),
            Lookup::Ambiguous(found, count) => (count <= most).then_some(found),
        }
    }

    fn bearers(&self, wanted: &Wanted, fold: bool, files: &dyn Living) -> Vec<Place> {
        let mut found = Vec::new();
        for segment in &self.segments {
            let postings = match fold {
                false => segment.posting(wanted.plain()).into_iter().collect(),
                true => {
                    let names = segment.names_like(wanted.plain());
                    names.iter().filter_map(|(_, offset)| segment.posting_at(*offset)).collect::<Vec<_>>()
                }
            };
            for posting in postings {
                let narrowed = self.narrowed(segment, posting.definitions, wanted, files);
                found.extend(read(segment, &narrowed).into_iter().filter(|place| wanted.fits(place, fold)));
            }
        }
        found
    }

    /// The definitions in living files that the path allows. Where there are too many, those first in files that
    /// speak of the outer name, and that are no tests.
    fn narrowed(
        &self,
        segment: &SymbolSegment,
        mut all: Vec<(u32, u32)>,
        wanted: &Wanted,
        files: &dyn Living,
    ) -> Vec<(u32, u32)> {
        let path = |place: u32| segment.file(place).and_then(|file| files.path(file));
        all.retain(|(file, _)| path(*file).is_some_and(|path| wanted.fits_path(path)));
        if all.len() <= DECODED_MAX {
            return all;
        }
        let mut speaks: FxHashSet<u32> = FxHashSet::default();
        if wanted.is_qualified()
            && let Some(outer) = wanted.name.rsplit('.').nth(1)
            && let Some(posting) = segment.posting(outer)
        {
            speaks.extend(posting.used_in);
            speaks.extend(posting.definitions.iter().map(|(file, _)| *file));
        }
        all.sort_by_cached_key(|(file, at)| (!speaks.contains(file), path(*file).is_none_or(is_test_path), *file, *at));
        all.truncate(DECODED_MAX);
        all.sort_unstable();
        all
    }
}

/// Reads definitions, those of one file together.
pub(super) fn read(segment: &SymbolSegment, ascending: &[(u32, u32)]) -> Vec<Place> {
    let mut found = Vec::with_capacity(ascending.len());
    for group in ascending.chunk_by(|a, b| a.0 == b.0) {
        let places: Vec<u32> = group.iter().map(|(_, at)| *at).collect();
        found.extend(segment.definitions(group[0].0, &places).unwrap_or_default());
    }
    found
}

fn sort(found: &mut [Place], files: &dyn Living) {
    found.sort_by_cached_key(|place| key(place, files));
}

pub(super) type SortKey = ((bool, bool, bool, bool, usize, Reverse<bool>), (String, usize));

/// What comes first of definitions of one name: code before tests and what others wrote, what others see, what
/// stands at the top, types before what has their name beside them; then by path and line.
pub(super) fn key(place: &Place, files: &dyn Living) -> SortKey {
    let path = files.path(place.file).unwrap_or_default();
    let is_test = is_test_path(path) || is_test_symbol(&place.qualified());
    let depth = place.parent.as_deref().map_or(0, |parent| parent.matches('.').count() + 1);
    let is_type = place.kind.has_methods();
    let first = (is_test, is_aside(path), place.inside_callable, !place.exported, depth, Reverse(is_type));
    (first, (path.to_owned(), place.start_line))
}

/// Directories of code that is shown, copied or made, and is not the project itself.
fn is_aside(path: &str) -> bool {
    const ASIDE: &[&str] = &[
        "examples",
        "example",
        "samples",
        "demo",
        "benches",
        "benchmarks",
        "vendor",
        "vendored",
        "third_party",
        "node_modules",
        "external",
        "generated",
        "gen",
        "dist",
        "build",
        "docs",
    ];
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    directory.split('/').any(|part| ASIDE.contains(&part))
}
