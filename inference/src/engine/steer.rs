//! What besides its scores decides on a token, and how likely was it?

use super::held::Mask;
use super::request::SubmitError;
use crate::grammar::Grammar;
use std::borrow::Cow;
use std::sync::Arc;

/// Alternatives told for one token at most.
pub(super) const LOGPROBS_MAX: usize = 20;
/// Tokens that are made likelier or less likely, in one request.
const BIASED_MAX: usize = 1024;
/// How much is added to a score at most; it makes sure of a token, or rules it out.
const BIAS_MAX: f32 = 100.0;

/// What a request wants of its tokens besides [`Sampling`](super::Sampling).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steer {
    /// What the answer is held to.
    pub grammar: Option<Arc<Grammar>>,
    /// Ids with what is added to their scores, -100 to 100.
    pub bias: Vec<(u32, f32)>,
    /// Tell how likely each token was, and as many of the likeliest.
    pub logprobs: Option<usize>,
}

/// How likely a token was for the model itself: natural logarithms, before bias, grammar and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Of the token that was chosen.
    pub logprob: f32,
    /// The likeliest tokens, the best first.
    pub top: Vec<(u32, f32)>,
}

impl Steer {
    pub(super) fn check(&self, vocabulary: usize) -> Result<(), SubmitError> {
        let invalid = |what: String| Err(SubmitError::Invalid { what });
        if self.bias.len() > BIASED_MAX {
            return invalid(format!("more than {BIASED_MAX} tokens are biased"));
        }
        if let Some(&(id, _)) = self.bias.iter().find(|(id, _)| *id as usize >= vocabulary) {
            return Err(SubmitError::UnknownToken { id, vocabulary });
        }
        if self.bias.iter().any(|(_, bias)| !(-BIAS_MAX..=BIAS_MAX).contains(bias)) {
            return invalid(format!("a bias is outside -{BIAS_MAX}..={BIAS_MAX}"));
        }
        if self.logprobs.is_some_and(|wanted| wanted > LOGPROBS_MAX) {
            return invalid(format!("more than {LOGPROBS_MAX} alternatives are wanted for a token"));
        }
        Ok(())
    }

    /// The scores with bias, and with nothing but what the mask allows.
    pub(super) fn apply<'s>(&self, scores: &'s [f32], mask: Option<&Mask>) -> Cow<'s, [f32]> {
        if self.bias.is_empty() && mask.is_none() {
            return Cow::Borrowed(scores);
        }
        let mut scores = scores.to_vec();
        for &(id, bias) in &self.bias {
            scores[id as usize] += bias;
        }
        if let Some(mask) = mask {
            let allowed = |id: usize| id < mask.len() && mask.is_allowed(id as u32);
            scores
                .iter_mut()
                .enumerate()
                .filter(|(id, _)| !allowed(*id))
                .for_each(|(_, score)| *score = f32::NEG_INFINITY);
        }
        Cow::Owned(scores)
    }

    /// How likely `token` was, if that is wanted.
    pub(super) fn score(&self, scores: &[f32], token: u32) -> Option<Score> {
        let wanted = self.logprobs?;
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = scores.iter().map(|score| f64::from(score - best).exp()).sum();
        let logprob = |id: u32| (f64::from(scores[id as usize] - best) - sum.ln()) as f32;
        let mut top: Vec<u32> = Vec::with_capacity(wanted + 1);
        for id in 0..scores.len() as u32 {
            // Of equal scores the lower id stands first, as the sampler has it.
            let at = top.partition_point(|&other| scores[other as usize] >= scores[id as usize]);
            if at < wanted {
                top.insert(at, id);
                top.truncate(wanted);
            }
        }
        Some(Score { logprob: logprob(token), top: top.into_iter().map(|id| (id, logprob(id))).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_tokens_are_told_with_their_share_and_the_chosen_one_with_its_own() {
        let scores = [1.0f32, 3.0, 2.0, 3.0, -50.0];
        let total: f32 = scores.iter().map(|score| score.exp()).sum();
        let steer = Steer { logprobs: Some(3), ..Steer::default() };
        let score = steer.score(&scores, 0).unwrap();
        assert_eq!(score.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 3, 2]);
        for (id, logprob) in score.top.iter().chain([&(0, score.logprob)]) {
            assert!((logprob.exp() - scores[*id as usize].exp() / total).abs() < 1e-5, "{id}: {logprob}");
        }
        assert_eq!(Steer { logprobs: Some(0), ..Steer::default() }.score(&scores, 1).unwrap().top, []);
        assert_eq!(Steer::default().score(&scores, 1), None);
    }

    #[test]
    fn a_bias_is_added_and_what_the_mask_leaves_out_cannot_be_chosen() {
        let scores = [1.0f32, 3.0, 2.0];
        let steer = Steer { bias: vec![(0, 5.0), (1, -5.0)], ..Steer::default() };
        assert_eq!(*steer.apply(&scores, None), [6.0, -2.0, 2.0]);
        // The mask is shorter than the scores: what is behind its end is left out.
        let mask = Mask::from_slice(&[false, true]);
        assert_eq!(*Steer::default().apply(&scores, Some(&mask)), [f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let biased = |bias| Steer { bias, ..Steer::default() }.check(10);
        assert_eq!(biased(vec![(9, -100.0), (3, 100.0)]), Ok(()));
        assert_eq!(biased(vec![(10, 1.0)]), Err(SubmitError::UnknownToken { id: 10, vocabulary: 10 }));
        for wrong in [vec![(1, 100.5)], vec![(1, f32::NAN)], vec![(1, 1.0); BIASED_MAX + 1]] {
            assert!(matches!(biased(wrong), Err(SubmitError::Invalid { .. })));
        }
        let wanted = Steer { logprobs: Some(LOGPROBS_MAX + 1), ..Steer::default() };
        assert!(matches!(wanted.check(10), Err(SubmitError::Invalid { .. })));
    }
}
