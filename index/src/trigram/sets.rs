//! With which bytes can a match begin and end? Small sets of folded strings, kept small.

use super::Trigram;
use super::plan::Plan;

/// A set of more beginnings or endings is cut to shorter ones.
const SET_MAX: usize = 24;
/// Trigrams overlap by two bytes: of what is known, this much must be kept to go on.
const KEPT_BYTES: usize = 2;

/// Strings, ascending, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set(Vec<Vec<u8>>);

/// At which end of a match a set stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Prefix,
    Suffix,
}

impl Set {
    pub(super) fn new(mut strings: Vec<Vec<u8>>) -> Set {
        strings.sort_unstable();
        strings.dedup();
        Set(strings)
    }

    /// Says nothing: every match begins and ends with the empty string.
    pub(super) fn unknown() -> Set {
        Set(vec![Vec::new()])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn shortest(&self) -> usize {
        self.0.iter().map(Vec::len).min().unwrap_or(0)
    }

    pub(super) fn union(self, other: Set) -> Set {
        let mut strings = self.0;
        strings.extend(other.0);
        Set::new(strings)
    }

    /// Every string of this one followed by every string of the other.
    pub(super) fn followed_by(&self, other: &Set) -> Set {
        let pairs = self.0.iter().flat_map(|left| other.0.iter().map(|right| [left.as_slice(), right].concat()));
        Set::new(pairs.collect())
    }

    /// One of the strings is there: of one of them all trigrams must be. Nothing is asked where one has none.
    pub(super) fn needs(&self) -> Plan {
        if self.shortest() < 3 {
            return Plan::All;
        }
        let every = |string: &Vec<u8>| Plan::and_all(string.windows(3).map(|three| Plan::Trigram(trigram(three))));
        Plan::or_all(self.0.iter().map(every))
    }

    /// Shorter strings that are as true, and few of them.
    pub(super) fn cut(self, end: End) -> Set {
        let mut set = self;
        for bytes in (0..=KEPT_BYTES).rev() {
            let part = |string: &Vec<u8>| {
                let bytes = bytes.min(string.len());
                match end {
                    End::Prefix => string[..bytes].to_vec(),
                    End::Suffix => string[string.len() - bytes..].to_vec(),
                }
            };
            set = Set::new(set.0.iter().map(part).collect());
            if set.len() <= SET_MAX {
                break;
            }
        }
        set
    }
}

fn trigram(three: &[u8]) -> Trigram {
    three.iter().fold(0, |trigram, byte| trigram << 8 | Trigram::from(byte.to_ascii_lowercase()))
}
