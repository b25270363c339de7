//! May somebody else put the first hits in another order?
//!
//! This crate knows no model. A caller that has one, and the time, may order the first hits anew where their scores
//! say little; where they say much, nobody is asked.

use crate::search::{Answer, Hit};

/// Hits that are shown to the caller of [`Answer::rerank`]; what lies behind them keeps its place.
pub const RERANKED_MAX: usize = 20;
/// The first hit is sure when the second scores less than this share of it. Of the 29 shared queries 3 of 16 were wrong
/// below, 5 of 13 above.
const MARGIN_SURE: f64 = 0.7;

impl Answer {
    /// Whether the scores hardly tell the first hit from the second.
    pub fn is_close(&self) -> bool {
        matches!(self.hits.as_slice(), [first, second, ..] if second.score > first.score * MARGIN_SURE)
    }

    /// Shows the first 20 hits to `order` where they are close, and puts first what it names, by index. Numbers that
    /// are out of range or come twice are passed over; what is not named keeps its order behind. Scores stay with
    /// their hits. Whether anything was asked and answered.
    pub fn rerank(&mut self, order: impl FnOnce(&[Hit]) -> Option<Vec<usize>>) -> bool {
        let shown = self.hits.len().min(RERANKED_MAX);
        if !self.is_close() {
            return false;
        }
        let Some(order) = order(&self.hits[..shown]) else { return false };
        let mut waiting: Vec<Option<Hit>> = std::mem::take(&mut self.hits).into_iter().map(Some).collect();
        for at in order.into_iter().filter(|at| *at < shown) {
            self.hits.extend(waiting[at].take());
        }
        self.hits.extend(waiting.into_iter().flatten());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueryKind;

    fn answer(scores: &[f64]) -> Answer {
        let hit = |(at, score): (usize, &f64)| Hit {
            path: at.to_string(),
            start_line: 1,
            end_line: 1,
            symbol: None,
            kind: None,
            score: *score,
            lanes: Vec::new(),
            text: String::new(),
            changed: false,
        };
        Answer {
            hits: scores.iter().enumerate().map(hit).collect(),
            kind: QueryKind::Words,
            generation: 1,
            age_seconds: 0,
            skipped: Default::default(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn only_close_hits_are_ordered_anew_and_none_is_lost() {
        let paths = |answer: &Answer| answer.hits.iter().map(|hit| hit.path.clone()).collect::<String>();
        let mut close = answer(&[1.0, 0.9, 0.8, 0.7]);
        assert!(close.rerank(|_| Some(vec![2, 9, 2, 0])));
        assert_eq!(paths(&close), "2013");
        assert!(!close.rerank(|_| None));
        let mut sure = answer(&[1.0, 0.5]);
        assert!(!sure.rerank(|_| panic!("nobody is asked")));
        assert!(!answer(&[1.0]).is_close() && !answer(&[]).is_close());
    }
}
