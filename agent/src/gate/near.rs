//! Which path rules can a command with these words touch at all?
//!
//! A command of 10 KiB can have thousands of words, and a policy a hundred globs. Almost every glob has a piece that
//! must stand literally in any path that it matches, such as `.env`; when no word holds it, no word is tried. A pattern
//! of the shell holds no such piece, so of a pattern each part is tried once against the parts of all globs.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use regex::bytes::{RegexSet, RegexSetBuilder};
use rustc_hash::{FxHashMap, FxHashSet};

use super::path::{Ends, can_meet, part_can_meet, twin};
use super::rules::{PathRule, covers};
use super::{Access, Verdict};

/// The globs of a policy together take so much as one automaton at most; without one all of them are tried.
const AUTOMATON_BYTES_MAX: usize = 64 << 20;

/// Room for the words of most commands.
const TEXT_BYTES: usize = 16 << 10;

/// A glob of a rule, by their places.
type At = (usize, usize);

/// A glob, as a pattern of the shell may meet it.
#[derive(Debug, Clone)]
struct Met {
    at: At,
    absolute: bool,
    /// `**/part` and `**/part/**`: the part is all there is to it.
    is_part: bool,
    /// Its first part may stand anywhere.
    floats: bool,
    /// Something may stand between its parts.
    stretches: bool,
}

impl Met {
    fn of(at: At, glob: &str) -> Met {
        let body = glob.strip_prefix("**/").map(|body| body.strip_suffix("/**").unwrap_or(body));
        Met {
            at,
            absolute: glob.starts_with('/'),
            is_part: body.is_some_and(|body| !body.contains('/')),
            floats: glob.starts_with("**"),
            stretches: glob.contains("**"),
        }
    }

    /// Whether the first part that names something can stand there.
    fn can_begin_at(&self, place: Place) -> bool {
        // Without stars it is the first of all.
        let comes_late = place.at > usize::from(place.absolute) && !self.stretches;
        let begins_late = place.at > 0 && !place.absolute && !self.floats;
        self.absolute == place.absolute && (self.is_part || !(comes_late || begins_late))
    }
}

/// Where in a pattern a part stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    /// Whether the pattern begins with a slash; its first part is empty then.
    absolute: bool,
    /// The first, the second, or a later one.
    at: usize,
}

/// The path rules of a policy, and what can be seen of all their globs at once.
#[derive(Debug, Clone, Default)]
pub(super) struct PathRules {
    rules: Vec<PathRule>,
    /// The rules that do not simply allow: those about reading, and those about writing.
    tightening: [Vec<usize>; 2],
    /// The others.
    allowing: Vec<usize>,
    /// Pieces that must stand in what some globs match, and these globs.
    needles: Vec<(String, Vec<At>)>,
    /// All the needles.
    automaton: Option<RegexSet>,
    /// Globs that have no needle.
    without_needle: Vec<At>,
    /// The first parts that name something, and the globs in which they are the first.
    parts: Vec<(String, Ends, Vec<Met>)>,
    /// For a first byte the parts that begin with it.
    by_first: FxHashMap<u8, Vec<usize>>,
    /// The parts that may begin with any.
    any_first: Vec<usize>,
    /// All of them.
    every_part: Vec<usize>,
    /// Globs in which no part names anything.
    without_part: Vec<Met>,
    /// The directories above everything that may not be written, in lower case.
    above: FxHashSet<String>,
}

impl Deref for PathRules {
    type Target = [PathRule];

    fn deref(&self) -> &[PathRule] {
        &self.rules
    }
}

impl PathRules {
    pub(super) fn extend(&mut self, more: Vec<PathRule>) {
        self.rules.extend(more);
        let rules = std::mem::take(&mut self.rules);
        let (mut needles, mut parts) = (BTreeMap::<_, Vec<At>>::new(), BTreeMap::<_, Vec<Met>>::new());
        let mut index = PathRules::default();
        for (r, rule) in rules.iter().enumerate() {
            if rule.rule.verdict == Verdict::Allow {
                index.allowing.push(r);
                continue;
            }
            for access in &rule.access {
                index.tightening[*access as usize].push(r);
            }
            for (g, (text, _)) in rule.globs.iter().enumerate() {
                match needle(text) {
                    Some(needle) => needles.entry(needle).or_default().push((r, g)),
                    None => index.without_needle.push((r, g)),
                }
                let lower = text.to_lowercase();
                match lower.split('/').find(|part| !part.is_empty() && *part != "**") {
                    Some(part) => parts.entry(part.to_owned()).or_default().push(Met::of((r, g), text)),
                    None => index.without_part.push(Met::of((r, g), text)),
                }
                index.above.extend(text.match_indices('/').map(|(at, _)| text[..at].to_ascii_lowercase()));
            }
        }
        index.needles = needles.into_iter().collect();
        index.parts = parts.into_iter().map(|(part, globs)| (part.clone(), Ends::of(&part), globs)).collect();
        index.every_part = (0..index.parts.len()).collect();
        for (at, (part, ends, _)) in index.parts.iter().enumerate() {
            match ends.first_byte(part) {
                Some(first) => index.by_first.entry(first).or_default().push(at),
                None => index.any_first.push(at),
            }
        }
        let escaped = index.needles.iter().map(|(needle, _)| regex::escape(needle));
        let mut automaton = RegexSetBuilder::new(escaped);
        automaton.unicode(false).case_insensitive(true).size_limit(AUTOMATON_BYTES_MAX);
        index.automaton = automaton.build().ok();
        *self = PathRules { rules, ..index };
    }

    /// Whether a rule allows this to be done to a path, which is in normal form.
    pub(super) fn allow(&self, access: Access, path: &str, pattern: bool) -> bool {
        self.allowing.iter().any(|r| self.rules[*r].matches(access, path, pattern))
    }

    /// Whether a rule that tightens may be about something in this directory.
    fn is_above(&self, path: &str) -> bool {
        let upper = path.bytes().any(|byte| byte.is_ascii_uppercase());
        path == "/" || self.above.contains(path) || upper && self.above.contains(&path.to_ascii_lowercase())
    }
}

/// By the text of a directory in a pattern.
type MetBy<'a> = FxHashMap<String, Rc<[&'a Met]>>;

/// The globs of the rules that tighten, as far as they can match.
pub(super) struct Near<'a> {
    rules: &'a PathRules,
    /// For every rule its globs that are near.
    globs: Vec<Vec<usize>>,
    /// The rules that tighten and have such globs, for reading and for writing.
    near: [Vec<usize>; 2],
    /// Their needles.
    needles: Vec<&'a str>,
    /// Whether some word may be a path that may not be read.
    may_refuse_reading: bool,
    /// Whether every word may be one.
    may_refuse_all: bool,
    /// For a directory in a pattern, at its place, the globs that it can meet.
    met: RefCell<FxHashMap<Place, MetBy<'a>>>,
    /// The rules that have said something already.
    spoke: RefCell<FxHashSet<*const PathRule>>,
}

impl<'a> Near<'a> {
    pub(super) fn of<'w>(rules: &'a PathRules, words: impl Iterator<Item = &'w str>) -> Near<'a> {
        let mut text = String::with_capacity(TEXT_BYTES);
        for word in words {
            text.push_str(word);
            text.push('\n');
        }
        let held = rules.automaton.as_ref().map(|set| set.matches(text.as_bytes()));
        let is_held = |at: &usize| held.as_ref().is_none_or(|held| held.matched(*at));
        let near: Vec<_> = (0..rules.needles.len()).filter(is_held).map(|at| &rules.needles[at]).collect();
        let mut globs = vec![Vec::new(); rules.len()];
        for (r, g) in near.iter().flat_map(|(_, globs)| globs).chain(&rules.without_needle) {
            globs[*r].push(*g);
        }
        globs.iter_mut().for_each(|of_rule| of_rule.sort_unstable());
        let reads = |r: usize| rules[r].access.contains(&Access::Read);
        let with_globs = |of: &Vec<usize>| of.iter().copied().filter(|r| !globs[*r].is_empty()).collect();
        Near {
            near: [with_globs(&rules.tightening[0]), with_globs(&rules.tightening[1])],
            rules,
            may_refuse_reading: globs.iter().enumerate().any(|(r, globs)| !globs.is_empty() && reads(r)),
            may_refuse_all: rules.without_needle.iter().any(|(r, _)| reads(*r)),
            needles: near.iter().map(|(needle, _)| needle.as_str()).collect(),
            globs,
            met: RefCell::default(),
            spoke: RefCell::default(),
        }
    }

    /// Whether a rule speaks for the first time about this command. What it says again changes neither the verdict nor
    /// the reason.
    pub(super) fn speaks_first(&self, rule: &PathRule) -> bool {
        self.spoke.borrow_mut().insert(rule)
    }

    /// Whether some word may be a path that may not be read.
    pub(super) fn may_refuse_reading(&self) -> bool {
        self.may_refuse_reading
    }

    /// Whether this text, which is no pattern, may be a part of such a path.
    pub(super) fn may_refuse(&self, text: &str) -> bool {
        self.may_refuse_all || self.needles.iter().any(|needle| holds(text, needle))
    }

    /// The rules that do not simply allow this to be done to a path, which is in normal form. `pattern` says that the
    /// shell will expand it. What [`PathRule::matches`] says, only sooner.
    pub(super) fn about(&self, access: Access, path: &str, pattern: bool) -> Vec<&'a PathRule> {
        let near = &self.near[access as usize];
        let mut rules = Vec::new();
        if !near.is_empty() {
            let twin = twin(path);
            let covered = |r: usize, at: &usize| covers(&self.rules.rules[r].globs[*at], path, &twin);
            rules.extend(near.iter().copied().filter(|r| self.globs[*r].iter().any(|at| covered(*r, at))));
        }
        if pattern {
            rules.extend(self.met_by(path).into_iter().filter(|r| self.rules.rules[*r].access.contains(&access)));
        }
        if access == Access::Write && self.rules.is_above(path) {
            let below = |r: &usize| self.rules.rules[*r].is_below(access, path);
            rules.extend(self.rules.tightening[access as usize].iter().copied().filter(below));
        }
        rules.sort_unstable();
        rules.dedup();
        rules.into_iter().map(|r| &self.rules.rules[r]).collect()
    }

    /// The rules of which a glob can match what a pattern of the shell can.
    fn met_by(&self, path: &str) -> Vec<usize> {
        let mut rules = Vec::new();
        let lower = lowercase(path);
        let absolute = path.starts_with('/');
        let mut meet = |glob: &Met, is_all: bool| {
            let (r, g) = glob.at;
            if glob.absolute == absolute
                && !rules.contains(&r)
                && (is_all || can_meet(path, &self.rules.rules[r].globs[g].0))
            {
                rules.push(r);
            }
        };
        let last = lower.split('/').count() - 1;
        for (at, part) in lower.split('/').enumerate() {
            let place = Place { absolute, at: at.min(2) };
            // Directories come again, and names seldom do.
            if at < last || part.len() < 3 {
                self.remembered(part, place).iter().for_each(|glob| meet(glob, glob.is_part));
            } else {
                self.met_at(part, place).for_each(|glob| meet(glob, glob.is_part));
            }
        }
        self.rules.without_part.iter().for_each(|glob| meet(glob, false));
        rules
    }

    fn remembered(&self, part: &str, place: Place) -> Rc<[&'a Met]> {
        if let Some(met) = self.met.borrow().get(&place).and_then(|parts| parts.get(part)) {
            return met.clone();
        }
        let met: Rc<[&Met]> = self.met_at(part, place).collect();
        self.met.borrow_mut().entry(place).or_default().insert(part.to_owned(), met.clone());
        met
    }

    /// The globs whose first part that names something one part of a pattern, in lower case, can meet at its place.
    fn met_at(&self, part: &str, place: Place) -> impl Iterator<Item = &'a Met> {
        let ends = Ends::of(part);
        let rules = self.rules;
        let (named, any) = match ends.first_byte(part) {
            Some(first) => (rules.by_first.get(&first).map(Vec::as_slice).unwrap_or_default(), &rules.any_first[..]),
            None => (&rules.every_part[..], &[][..]),
        };
        let met = named.iter().chain(any).map(|at| &rules.parts[*at]);
        let met = met.filter(move |(text, of_glob, _)| ends.fit(part, of_glob, text) && part_can_meet(part, text));
        met.flat_map(|(_, _, globs)| globs).filter(move |glob| glob.can_begin_at(place))
    }
}

/// As [`str::to_lowercase`], which is a copy only where something changes.
fn lowercase(text: &str) -> Cow<'_, str> {
    let is_lower = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

/// Whether a text holds a needle, without regard to case.
fn holds(text: &str, needle: &str) -> bool {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    text.len() >= needle.len() && text.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle))
}

/// The longest part of a name that every match of the glob holds, in lower case.
fn needle(glob: &str) -> Option<String> {
    if glob.contains(['[', '{', '!']) {
        return None;
    }
    let longest = glob.split(['*', '?', '/']).max_by_key(|piece| piece.len())?;
    (!longest.trim_end_matches(['.', ' ']).is_empty()).then(|| longest.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::{Access, Near, Verdict, needle};
    use crate::gate::Policy;

    const PROJECT: &str = "version = 1\n[[path]]\nid = \"p\"\nverdict = \"ask\"\naccess = [\"read\", \"write\"]\n\
        glob = [\"a/B?.py\", \"*/[a-c]*\", \"**/x/**/y.q\", \"**/*.{r,s}\", \"a//b\", \"x/**/z\", \"/tmp/*/w\"]\n";

    #[test]
    fn the_rules_that_are_near_are_those_that_match() {
        let policy = Policy::shipped().unwrap().tightened("p.toml", PROJECT).unwrap();
        let parts =
            ["a", "B1.py", "*", "a*", ".e?v", ".ENV.", "x", "y.q", "i[dx]_rsa", "etc", "c.r", "tmp", "z", ".git"];
        let one = || parts.iter().map(|part| (*part).to_owned());
        let two: Vec<_> = one().flat_map(|a| one().map(move |b| format!("{a}/{b}"))).collect();
        let three = two.iter().flat_map(|a| one().map(move |b| format!("{a}/{b}")));
        let relative: Vec<_> = one().chain(two.iter().cloned()).chain(three).chain([".".to_owned()]).collect();
        let absolute = relative.iter().filter(|path| path.len() < 12).map(|path| format!("/{path}"));
        for path in relative.iter().cloned().chain(absolute).chain(["/".to_owned()]) {
            let near = Near::of(&policy.paths, [path.as_str()].into_iter());
            for (access, pattern) in
                [Access::Read, Access::Write].into_iter().flat_map(|a| [false, true].map(|p| (a, p)))
            {
                let about: Vec<_> = near.about(access, &path, pattern).iter().map(|r| &r.rule.id).collect();
                let tightens = policy.paths.iter().filter(|r| r.rule.verdict != Verdict::Allow);
                let matches: Vec<_> =
                    tightens.filter(|r| r.matches(access, &path, pattern)).map(|r| &r.rule.id).collect();
                assert_eq!(about, matches, "{access:?} {path} {pattern}");
                let reads = access == Access::Read && !pattern;
                assert!(!reads || matches.is_empty() || near.may_refuse(&path), "{path} is not seen");
            }
        }
    }

    #[test]
    fn the_needle_is_the_longest_literal_piece() {
        for (glob, expected) in [
            ("**/.env", Some(".env")),
            ("**/.env.*.local", Some(".local")),
            ("**/.docker/config.json", Some("config.json")),
            ("/etc/Shadow*", Some("shadow")),
            ("**", None),
            (".", None),
            ("/", None),
            ("**/*.{pem,key}", None),
        ] {
            assert_eq!(needle(glob).as_deref(), expected, "{glob}");
        }
    }
}
