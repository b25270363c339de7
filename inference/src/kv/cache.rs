//! Who owns which block, and which goes when there is none left?
//!
//! A block is in exactly one of three places: free, cached (in the tree, held by nobody), or held (in the tree with
//! holders, or private to one lease). A sequence takes a [`Lease`], fills private blocks, and gives its lease back with
//! the tokens that were computed; their blocks then enter the tree. Eviction takes the leaf that was not used for the
//! longest time and that nobody holds.

use super::tree::{NodeId, Tree};
use super::{BLOCK_TOKENS, BlockId};

/// The books of all blocks.
#[derive(Debug)]
pub struct PrefixCache {
    tree: Tree,
    free: Vec<BlockId>,
    private: usize,
    blocks_max: usize,
    tick: u64,
}

/// Blocks held for one sequence. Give it back with [`PrefixCache::finish`] or [`PrefixCache::discard`]; a lease that is
/// only dropped leaves its blocks held for ever.
#[derive(Debug)]
#[must_use]
pub struct Lease {
    shared: Vec<NodeId>,
    blocks: Vec<BlockId>,
}

/// What a new lease found already computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Tokens whose KV is there.
    pub tokens: usize,
    /// When the last of them lie in a private block: copy this into it before anything else.
    pub seed: Option<Seed>,
    /// The first token at which the sequence left the longest known path, when that path goes on otherwise.
    pub diverged_at: Option<usize>,
}

/// A copy to make: the private block `to` begins with tokens that `from` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The cached block. It stays valid until the next call that takes blocks.
    pub from: BlockId,
    /// The private block.
    pub to: BlockId,
}

/// Every block is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {blocks_max} KV blocks are held")]
pub struct CacheFull {
    /// How many there are.
    pub blocks_max: usize,
}

/// How many blocks are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Never used or evicted.
    pub free: usize,
    /// In the tree, held by nobody.
    pub cached: usize,
    /// Held by a lease, in the tree or private.
    pub held: usize,
}

impl Lease {
    /// The blocks of the sequence, in order.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }
}

impl PrefixCache {
    /// Books for `blocks_max` blocks, all free.
    pub fn new(blocks_max: usize) -> PrefixCache {
        let free = (0..blocks_max as u32).rev().map(BlockId).collect();
        PrefixCache { tree: Tree::default(), free, private: 0, blocks_max, tick: 0 }
    }

    /// Begins a sequence that starts with `tokens`: holds the longest computed prefix, but never all of it, because the
    /// last token must be computed to have scores for the next.
    pub fn begin(&mut self, tokens: &[u32]) -> (Lease, Reuse) {
        self.tick += 1;
        let path = self.tree.find(&tokens[..tokens.len().saturating_sub(1)]);
        let whole = path.whole.len() * BLOCK_TOKENS;
        let known = whole + path.part.map_or(0, |(_, n)| n);
        let diverged_at = path.diverged.then_some(known);
        let blocks = path.whole.iter().map(|&id| self.tree.node(id).block).collect();
        let mut lease = Lease { shared: path.whole, blocks };
        self.hold(&lease.shared.clone());
        let Some((source, n)) = path.part else {
            return (lease, Reuse { tokens: whole, seed: None, diverged_at });
        };
        // Hold the source too, lest the block for its copy be won by evicting it.
        self.hold(&[source]);
        let grown = self.grow(&mut lease);
        self.release(&[source]);
        match grown {
            Ok(to) => {
                let from = self.tree.node(source).block;
                (lease, Reuse { tokens: whole + n, seed: Some(Seed { from, to }), diverged_at })
            }
            Err(_) => (lease, Reuse { tokens: whole, seed: None, diverged_at }),
        }
    }

    /// Begins a sequence that shares nothing.
    pub fn begin_alone(&mut self) -> Lease {
        Lease { shared: Vec::new(), blocks: Vec::new() }
    }

    /// Adds one private block to the sequence, evicting a cached one when none is free.
    pub fn grow(&mut self, lease: &mut Lease) -> Result<BlockId, CacheFull> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => self.evict().ok_or(CacheFull { blocks_max: self.blocks_max })?,
        };
        self.private += 1;
        lease.blocks.push(block);
        Ok(block)
    }

    /// Ends a sequence and keeps its blocks. `computed` are the tokens whose KV is in them, from the first on.
    pub fn finish(&mut self, lease: Lease, computed: &[u32]) {
        self.tick += 1;
        self.release(&lease.shared);
        let mut parent = lease.shared.last().copied();
        let mut private = lease.blocks.into_iter().skip(lease.shared.len());
        let rest = computed.get(lease.shared.len() * BLOCK_TOKENS..).unwrap_or_default();
        for tokens in rest.chunks(BLOCK_TOKENS) {
            let Some(block) = private.next() else { break };
            self.private -= 1;
            parent = Some(self.adopt(parent, tokens, block));
        }
        self.give_back(private);
        // The whole path was used just now: a parent must not look older than its children.
        while let Some(id) = parent {
            self.tree.node_mut(id).used = self.tick;
            parent = self.tree.node(id).parent;
        }
    }

    /// Ends a sequence and keeps nothing of its private blocks.
    pub fn discard(&mut self, lease: Lease) {
        self.release(&lease.shared);
        self.give_back(lease.blocks.into_iter().skip(lease.shared.len()));
    }

    /// The cached block that ends where `tokens` end, which are whole blocks; `None` when it is not cached (any more).
    pub fn block_of(&self, tokens: &[u32]) -> Option<BlockId> {
        let path = self.tree.find(tokens);
        let last = *path.whole.last()?;
        (path.whole.len() * BLOCK_TOKENS == tokens.len()).then(|| self.tree.node(last).block)
    }

    /// How many blocks are where.
    pub fn census(&self) -> Census {
        let in_tree_held = self.tree.iter().filter(|(_, node)| node.holders > 0).count();
        let in_tree = self.tree.iter().count();
        Census { free: self.free.len(), cached: in_tree - in_tree_held, held: in_tree_held + self.private }
    }

    /// Puts a block with `tokens` under `parent`, unless the tree holds as much already. Gives the node that does.
    fn adopt(&mut self, parent: Option<NodeId>, tokens: &[u32], block: BlockId) -> NodeId {
        let siblings = self.tree.children(parent);
        if let Some(&known) = siblings.iter().find(|&&id| self.tree.node(id).tokens.starts_with(tokens)) {
            self.free.push(block);
            return known;
        }
        // A shorter leaf that begins the same says nothing that this block does not say.
        let covered = |&&id: &&NodeId| {
            let node = self.tree.node(id);
            node.holders == 0 && node.children.is_empty() && tokens.starts_with(&node.tokens)
        };
        if let Some(&shorter) = siblings.iter().find(covered) {
            let freed = self.tree.remove(shorter);
            self.free.push(freed);
        }
        self.tree.insert(parent, tokens.to_vec(), block, self.tick)
    }

    fn evict(&mut self) -> Option<BlockId> {
        let leaves = self.tree.iter().filter(|(_, node)| node.children.is_empty() && node.holders == 0);
        let (oldest, _) = leaves.min_by_key(|(id, node)| (node.used, *id))?;
        Some(self.tree.remove(oldest))
    }

    fn hold(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            let node = self.tree.node_mut(id);
            node.holders += 1;
            node.used = self.tick;
        }
    }

    fn release(&mut self, nodes: &[NodeId]) {
        for &id in nodes {
            self.tree.node_mut(id).holders -= 1;
        }
    }

    fn give_back(&mut self, blocks: impl Iterator<Item = BlockId>) {
        for block in blocks {
            self.private -= 1;
            self.free.push(block);
        }
    }
}

#[cfg(test)]
mod tests;
