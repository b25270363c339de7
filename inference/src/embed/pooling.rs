//! How do the states of a text's tokens become one vector?

use super::{sum, unit};
use crate::model::{ForwardError, Header, LoadError, SentenceEncoder, Value};

/// Tokens in one forward call of an encoder, padding included.
const BATCH_TOKENS_MAX: usize = 4096;

/// Which states count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    Mean,
    First,
    Last,
}

impl Pooling {
    /// What a GGUF file says, numbered as llama.cpp's `llama_pooling_type`; the mean where it says nothing, or that it does
    /// not pool (0).
    pub(super) fn read(header: &Header, architecture: &str) -> Result<Pooling, LoadError> {
        let unsupported = |what: String| LoadError::Unsupported { path: header.path.clone(), what };
        match header.metadata.get(&format!("{architecture}.pooling_type")) {
            None | Some(Value::Unsigned(0 | 1) | Value::Signed(-1..=1)) => Ok(Pooling::Mean),
            Some(Value::Unsigned(2) | Value::Signed(2)) => Ok(Pooling::First),
            Some(Value::Unsigned(3) | Value::Signed(3)) => Ok(Pooling::Last),
            Some(Value::Unsigned(4) | Value::Signed(4)) => {
                Err(unsupported("scores of pairs instead of vectors".into()))
            }
            Some(other) => Err(unsupported(format!("pooling of the unknown type {other:?}"))),
        }
    }

    /// Part of the name of the vectors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pooling::Mean => "mean",
            Pooling::First => "first",
            Pooling::Last => "last",
        }
    }

    /// One vector of length 1, of states that are `width` wide; the number of tokens cancels out.
    pub(super) fn pool(self, states: &[f32], width: usize) -> Vec<f32> {
        unit(match self {
            Pooling::Mean => sum(states, width),
            Pooling::First => states[..width].to_vec(),
            Pooling::Last => states[states.len() - width..].to_vec(),
        })
    }

    /// One vector for each row of token ids, none of them empty, in their order. Rows of similar length share a forward
    /// call, so that little of it is padding.
    pub(super) fn embed(self, encoder: &SentenceEncoder, rows: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, ForwardError> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&i| rows[i].len());
        let mut vectors = vec![Vec::new(); rows.len()];
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let fits = |n: &usize| n * rows[rest[n - 1]].len() <= BATCH_TOKENS_MAX;
            let size = (1..=rest.len()).take_while(fits).last().unwrap_or(1);
            let (batch, later) = rest.split_at(size);
            rest = later;
            let batched: Vec<&[u32]> = batch.iter().map(|&i| rows[i].as_slice()).collect();
            for (&i, vector) in batch.iter().zip(self.embed_batch(encoder, &batched)?) {
                vectors[i] = vector;
            }
        }
        Ok(vectors)
    }

    fn embed_batch(self, encoder: &SentenceEncoder, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>, ForwardError> {
        let length = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for row in rows {
            ids.extend(row.iter().copied().chain(std::iter::repeat(0)).take(length));
            mask.extend((0..length).map(|i| u32::from(i < row.len())));
        }
        let hidden = encoder.forward(ids, mask, rows.len())?;
        let width = encoder.dimension();
        let states = hidden.chunks(length * width);
        Ok(rows.iter().zip(states).map(|(row, states)| self.pool(&states[..row.len() * width], width)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_takes_the_direction_of_all_states_or_of_one_end() {
        let states = [1.0, 2.0, 10.0, 20.0, 100.0, -200.0];
        assert_eq!(Pooling::Mean.pool(&states, 2), unit(vec![111.0, -178.0]));
        assert_eq!(Pooling::First.pool(&states, 2), unit(vec![1.0, 2.0]));
        assert_eq!(Pooling::Last.pool(&states, 2), unit(vec![100.0, -200.0]));
        assert_eq!(Pooling::Mean.pool(&states[..2], 2), Pooling::Last.pool(&states[..2], 2));
    }
}
