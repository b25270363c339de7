//! Who owns which block, and which goes when there is none left?
//!
//! A block is in exactly one of three places: free, cached (in the tree, held by nobody), or held (in the tree with
//! holders, or private to one lease). A sequence takes a [`Lease`] and fills private blocks; a full one can be published, so
//! that others share it while the sequence goes on. When the lease is given back with the tokens that were computed, the
//! rest of their blocks enter the tree. Eviction takes the leaf that was not used for the longest time and that nobody
//! holds. What is found is of the asker's namespace alone: another's requests cannot be told from how long one's own take.

use super::tree::{NodeId, Place, Tree};
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
    namespace: u64,
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

/// What a sequence would find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Tokens whose KV is there.
    pub tokens: usize,
    /// Blocks of them that are held already, so that holding them once more takes nothing from anybody.
    pub held: usize,
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

    /// Where the first private block would stand in the tree.
    fn end(&self) -> Place {
        self.shared.last().map_or(Place::Start(self.namespace), |&id| Place::After(id))
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
    pub fn begin(&mut self, namespace: u64, tokens: &[u32]) -> (Lease, Reuse) {
        self.tick += 1;
        let path = self.tree.find(namespace, &tokens[..tokens.len().saturating_sub(1)]);
        let whole = path.whole.len() * BLOCK_TOKENS;
        let known = whole + path.part.map_or(0, |(_, n)| n);
        let diverged_at = path.diverged.then_some(known);
        let blocks = path.whole.iter().map(|&id| self.tree.node(id).block).collect();
        let mut lease = Lease { namespace, shared: path.whole, blocks };
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
        Lease { namespace: 0, shared: Vec::new(), blocks: Vec::new() }
    }

    /// What [`PrefixCache::begin`] would find now.
    pub fn known(&self, namespace: u64, tokens: &[u32]) -> Known {
        let path = self.tree.find(namespace, &tokens[..tokens.len().saturating_sub(1)]);
        let held = path.whole.iter().filter(|&&id| self.tree.node(id).holders > 0).count();
        Known { tokens: path.whole.len() * BLOCK_TOKENS + path.part.map_or(0, |(_, n)| n), held }
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

    /// Lets others share the blocks of a running sequence that are full. `computed` are the tokens whose KV is in them,
    /// from the first on. Where another was quicker, its block, which has the same bits, takes the place of ours.
    pub fn publish(&mut self, lease: &mut Lease, computed: &[u32]) {
        let full = computed.len() / BLOCK_TOKENS;
        if full <= lease.shared.len() {
            return;
        }
        self.tick += 1;
        for at in lease.shared.len()..full {
            let tokens = &computed[at * BLOCK_TOKENS..][..BLOCK_TOKENS];
            self.private -= 1;
            let id = self.adopt(lease.end(), tokens, lease.blocks[at]);
            let node = self.tree.node_mut(id);
            node.holders += 1;
            lease.blocks[at] = node.block;
            lease.shared.push(id);
        }
        self.touch(lease.end());
    }

    /// Ends a sequence and keeps its blocks. `computed` are the tokens whose KV is in them, from the first on.
    pub fn finish(&mut self, mut lease: Lease, computed: &[u32]) {
        self.publish(&mut lease, computed);
        self.tick += 1;
        self.release(&lease.shared);
        let mut end = lease.end();
        let mut private = lease.blocks.into_iter().skip(lease.shared.len());
        let rest = computed.get(lease.shared.len() * BLOCK_TOKENS..).unwrap_or_default();
        if !rest.is_empty()
            && let Some(block) = private.next()
        {
            self.private -= 1;
            end = Place::After(self.adopt(end, rest, block));
        }
        self.give_back(private);
        self.touch(end);
    }

    /// Ends a sequence and keeps nothing of its private blocks.
    pub fn discard(&mut self, lease: Lease) {
        self.release(&lease.shared);
        self.give_back(lease.blocks.into_iter().skip(lease.shared.len()));
    }

    /// The cached block that ends where `tokens` end, which are whole blocks; `None` when it is not cached (any more).
    pub fn block_of(&self, namespace: u64, tokens: &[u32]) -> Option<BlockId> {
        let path = self.tree.find(namespace, tokens);
        let last = *path.whole.last()?;
        (path.whole.len() * BLOCK_TOKENS == tokens.len()).then(|| self.tree.node(last).block)
    }

    /// Blocks that could be had now: free ones, and those that nobody holds.
    pub fn available(&self) -> usize {
        let census = self.census();
        census.free + census.cached
    }

    /// How many blocks are where.
    pub fn census(&self) -> Census {
        let in_tree_held = self.tree.iter().filter(|(_, node)| node.holders > 0).count();
        let in_tree = self.tree.iter().count();
        Census { free: self.free.len(), cached: in_tree - in_tree_held, held: in_tree_held + self.private }
    }

    /// Puts a block with `tokens` there, unless the tree holds as much already. Gives the node that does.
    fn adopt(&mut self, place: Place, tokens: &[u32], block: BlockId) -> NodeId {
        let siblings = self.tree.children(place);
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
        self.tree.insert(place, tokens.to_vec(), block, self.tick)
    }

    fn evict(&mut self) -> Option<BlockId> {
        let leaves = self.tree.iter().filter(|(_, node)| node.children.is_empty() && node.holders == 0);
        let (oldest, _) = leaves.min_by_key(|(id, node)| (node.used, *id))?;
        Some(self.tree.remove(oldest))
    }

    /// Marks the whole path up to `end` as used just now: a parent must not look older than its children.
    fn touch(&mut self, mut end: Place) {
        while let Place::After(id) = end {
            let node = self.tree.node_mut(id);
            node.used = self.tick;
            end = node.place;
        }
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
