//! What is each way of finding worth for a few words?
//!
//! Measured once for everybody, and again by whoever has a history to measure on (`cloister index report --keep`). Kept
//! beside an index as one line for each lane: `vector 0.5`.

use std::io;
use std::path::Path;

/// The name of the file in the directory of an index.
const FILE: &str = "weights";
/// No lane counts more.
const WEIGHT_MAX: f64 = 10.0;

/// What the lanes count against each other for a question of a few words, each from 0 to 10. For other kinds of questions
/// they are fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// The words stand in the chunk.
    pub text: f64,
    /// The words name a definition.
    pub symbol: f64,
    /// The question names the file.
    pub place: f64,
    /// The chunk means something like the question.
    pub vector: f64,
}

impl Default for Weights {
    /// Earned on the shared query sets, see docs/decisions/10-long-questions.md.
    fn default() -> Weights {
        Weights { text: 1.0, symbol: 1.0, place: 0.5, vector: 1.0 }
    }
}

impl Weights {
    /// What is kept in the directory of an index; the default where nothing is, or nothing that can be read.
    pub fn kept(store: &Path) -> Weights {
        std::fs::read_to_string(store.join(FILE)).ok().and_then(|text| Weights::parse(&text)).unwrap_or_default()
    }

    /// Keeps them for the index in this directory.
    pub fn keep(&self, store: &Path) -> io::Result<()> {
        let Weights { text, symbol, place, vector } = self;
        std::fs::create_dir_all(store)?;
        let new = store.join(format!("{FILE}.new"));
        std::fs::write(&new, format!("text {text}\nsymbol {symbol}\nplace {place}\nvector {vector}\n"))?;
        std::fs::rename(&new, store.join(FILE))
    }

    fn parse(text: &str) -> Option<Weights> {
        let mut weights = Weights::default();
        for line in text.lines() {
            let (lane, weight) = line.split_once(' ')?;
            let weight: f64 = weight.trim().parse().ok()?;
            if !(0.0..=WEIGHT_MAX).contains(&weight) {
                return None;
            }
            *weights.of_lane(lane)? = weight;
        }
        Some(weights)
    }

    /// The weight of a lane by its name; nothing where a lane is unknown or has none for a few words.
    pub fn of_lane(&mut self, lane: &str) -> Option<&mut f64> {
        Some(match lane {
            "text" => &mut self.text,
            "symbol" => &mut self.symbol,
            "place" => &mut self.place,
            "vector" => &mut self.vector,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_come_back_as_they_were_kept_and_nonsense_is_the_default() {
        let store = tempfile::tempdir().unwrap();
        assert_eq!(Weights::kept(store.path()), Weights::default());
        let own = Weights { vector: 0.25, ..Weights::default() };
        own.keep(store.path()).unwrap();
        assert_eq!(Weights::kept(store.path()), own);
        for nonsense in ["vector", "vector x", "vector -1", "vector NaN", "vector 11", "other 1"] {
            std::fs::write(store.path().join(FILE), nonsense).unwrap();
            assert_eq!(Weights::kept(store.path()), Weights::default(), "{nonsense}");
        }
    }
}
