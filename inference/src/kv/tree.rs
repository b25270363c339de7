//! Which block continues this one with these tokens?
//!
//! A radix tree whose edges are whole blocks of token ids. Only a full block has children; a partly filled one is a leaf.
//! Ids are compared, never hashes of them: a prefix found is the prefix asked for. Each namespace has a tree of its own.

use super::{BLOCK_TOKENS, BlockId};
use std::collections::HashMap;

/// Where a node stands in the slab.
pub(super) type NodeId = usize;

/// What a block stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It begins a sequence of this namespace.
    Start(u64),
    /// It follows this block.
    After(NodeId),
}

/// One cached block.
#[derive(Debug)]
pub(super) struct Node {
    pub tokens: Vec<u32>,
    pub block: BlockId,
    pub place: Place,
    pub children: Vec<NodeId>,
    /// How many leases hold it.
    pub holders: usize,
    /// The tick of the last use.
    pub used: u64,
}

/// The nodes, and those that begin a sequence.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Option<Node>>,
    vacant: Vec<NodeId>,
    starts: HashMap<u64, Vec<NodeId>>,
}

/// How far a list of tokens is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The whole blocks that match, from the start on.
    pub whole: Vec<NodeId>,
    /// The block that matches longest after these, and how many of its tokens do (never zero).
    pub part: Option<(NodeId, usize)>,
    /// Whether the tree goes on after the last token that matched, with other tokens than those asked for.
    pub diverged: bool,
}

impl Tree {
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes[id].as_ref().expect("ids are handed out for live nodes only")
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id].as_mut().expect("ids are handed out for live nodes only")
    }

    /// All live nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| Some((id, node.as_ref()?)))
    }

    /// The nodes that stand there.
    pub fn children(&self, place: Place) -> &[NodeId] {
        match place {
            Place::Start(namespace) => self.starts.get(&namespace).map_or(&[], Vec::as_slice),
            Place::After(id) => &self.node(id).children,
        }
    }

    /// Walks down as far as `tokens` and the tree of this namespace agree.
    pub fn find(&self, namespace: u64, tokens: &[u32]) -> Path {
        let mut whole = Vec::new();
        let mut rest = tokens;
        loop {
            let children = self.children(whole.last().map_or(Place::Start(namespace), |&id| Place::After(id)));
            let shared = |&id: &NodeId| shared_prefix(&self.node(id).tokens, rest);
            let best = children.iter().map(|id| (shared(id), *id)).max_by_key(|&(n, id)| (n, std::cmp::Reverse(id)));
            match best {
                Some((BLOCK_TOKENS, id)) => {
                    whole.push(id);
                    rest = &rest[BLOCK_TOKENS..];
                }
                Some((n, id)) => {
                    let diverged = n < rest.len() && n < self.node(id).tokens.len();
                    return Path { whole, part: (n > 0).then_some((id, n)), diverged };
                }
                None => return Path { whole, part: None, diverged: false },
            }
        }
    }

    /// Adds a node.
    pub fn insert(&mut self, place: Place, tokens: Vec<u32>, block: BlockId, used: u64) -> NodeId {
        debug_assert!(!tokens.is_empty() && tokens.len() <= BLOCK_TOKENS);
        let node = Node { tokens, block, place, children: Vec::new(), holders: 0, used };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.nodes[id] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        };
        match place {
            Place::Start(namespace) => self.starts.entry(namespace).or_default().push(id),
            Place::After(parent) => self.node_mut(parent).children.push(id),
        }
        id
    }

    /// Removes a leaf that nobody holds and gives its block back.
    pub fn remove(&mut self, id: NodeId) -> BlockId {
        let node = self.nodes[id].take().expect("ids are handed out for live nodes only");
        debug_assert!(node.children.is_empty() && node.holders == 0);
        match node.place {
            Place::Start(namespace) => {
                let starts = self.starts.get_mut(&namespace).expect("its nodes are there");
                starts.retain(|&sibling| sibling != id);
                if starts.is_empty() {
                    self.starts.remove(&namespace);
                }
            }
            Place::After(parent) => self.node_mut(parent).children.retain(|&sibling| sibling != id),
        }
        self.vacant.push(id);
        node.block
    }
}

fn shared_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
