//! Where do the keys and values lie?
//!
//! In 16-bit floats: half the memory and half the traffic of `f32`, and the error is far below that of the weights'
//! quantisation. Within a block, for each layer and KV head: the keys as `[head_dim][token]`, so that the scores of 32
//! tokens are 32 neighbouring lanes, then the values as `[token][head_dim]`.

use super::{BLOCK_TOKENS, BlockId};
use half::f16;

/// What one token costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Decoder layers.
    pub layers: usize,
    /// Key and value heads in a layer.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

impl KvShape {
    /// Bytes that one block takes.
    pub fn block_bytes(&self) -> usize {
        self.block_numbers() * size_of::<f16>()
    }

    fn block_numbers(&self) -> usize {
        self.layers * self.kv_heads * self.head_numbers() * 2
    }

    /// Keys (or values) of one head of one layer in a block.
    fn head_numbers(&self) -> usize {
        BLOCK_TOKENS * self.head_dim
    }
}

/// The memory of all blocks. Memory is taken when a block is first written and kept from then on.
pub struct Arena {
    shape: KvShape,
    blocks: Vec<Vec<f16>>,
}

impl Arena {
    /// Room for `blocks_max` blocks.
    pub fn new(shape: KvShape, blocks_max: usize) -> Arena {
        Arena { shape, blocks: vec![Vec::new(); blocks_max] }
    }

    /// What one token costs.
    pub fn shape(&self) -> KvShape {
        self.shape
    }

    /// The keys `[head_dim][token]` and values `[token][head_dim]` of one head in one block, as last stored.
    /// Legal for a block that was stored to.
    pub fn layer(&self, block: BlockId, layer: usize, kv_head: usize) -> (&[f16], &[f16]) {
        let each = self.shape.head_numbers();
        let start = (layer * self.shape.kv_heads + kv_head) * each * 2;
        let block = &self.blocks[block.0 as usize];
        (&block[start..start + each], &block[start + each..start + 2 * each])
    }

    /// Stores rows of keys and values, each row `kv_heads * head_dim` wide, for the tokens at `position..` of the
    /// sequence that `blocks` holds.
    pub fn store(&mut self, blocks: &[BlockId], layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let KvShape { kv_heads, head_dim, .. } = self.shape;
        let each = self.shape.head_numbers();
        let numbers = self.shape.block_numbers();
        let rows = keys.chunks_exact(kv_heads * head_dim).zip(values.chunks_exact(kv_heads * head_dim));
        for (position, (keys, values)) in (position..).zip(rows) {
            let block = &mut self.blocks[blocks[position / BLOCK_TOKENS].0 as usize];
            if block.is_empty() {
                block.resize(numbers, f16::ZERO);
            }
            let token = position % BLOCK_TOKENS;
            let start = layer * kv_heads * each * 2;
            let heads = block[start..start + kv_heads * each * 2].chunks_exact_mut(each * 2);
            let rows = keys.chunks_exact(head_dim).zip(values.chunks_exact(head_dim));
            for (head, (keys, values)) in heads.zip(rows) {
                let (stored_keys, stored_values) = head.split_at_mut(each);
                for (lanes, key) in stored_keys.chunks_exact_mut(BLOCK_TOKENS).zip(keys) {
                    lanes[token] = f16::from_f32(*key);
                }
                for (stored, value) in stored_values[token * head_dim..].iter_mut().zip(values) {
                    *stored = f16::from_f32(*value);
                }
            }
        }
    }

    /// A block as bytes, little endian, in the order of memory. Legal for a block that was stored to.
    pub fn bytes(&self, block: BlockId) -> Vec<u8> {
        self.blocks[block.0 as usize].iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Makes a block hold what [`Arena::bytes`] gave.
    pub fn load(&mut self, block: BlockId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.shape.block_bytes(), "a block of another shape");
        let numbers = bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes));
        let block = &mut self.blocks[block.0 as usize];
        block.clear();
        block.extend(numbers);
    }

    /// Makes block `to` hold what `from` holds.
    pub fn copy(&mut self, from: BlockId, to: BlockId) {
        let mut target = std::mem::take(&mut self.blocks[to.0 as usize]);
        target.clone_from(&self.blocks[from.0 as usize]);
        self.blocks[to.0 as usize] = target;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_for_a_position_is_found_at_its_token_of_its_block() {
        let shape = KvShape { layers: 2, kv_heads: 2, head_dim: 4 };
        let mut arena = Arena::new(shape, 3);
        let blocks = [BlockId(2), BlockId(0)];
        let row = |x: f32| (0..8).map(|i| x + i as f32).collect::<Vec<f32>>();
        for layer in 0..2 {
            for position in 0..40 {
                let x = (layer * 1000 + position * 16) as f32;
                arena.store(&blocks, layer, position, &row(x), &row(-x));
            }
        }
        arena.copy(BlockId(0), BlockId(1));
        let bytes = arena.bytes(BlockId(0));
        arena.load(BlockId(0), &bytes);
        for block in [BlockId(0), BlockId(1)] {
            let (keys, values) = arena.layer(block, 1, 1);
            let expected = (1000 + 35 * 16 + 4) as f32; // position 35 is token 3 of the second block
            assert_eq!(keys[2 * BLOCK_TOKENS + 3].to_f32(), f16::from_f32(expected + 2.0).to_f32());
            assert_eq!(values[3 * 4 + 2].to_f32(), f16::from_f32(-(1000.0 + 35.0 * 16.0) + 4.0 + 2.0).to_f32());
        }
    }
}
