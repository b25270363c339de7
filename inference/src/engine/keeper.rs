//! What is fetched from the disk for a prompt, and what is written down while nobody waits?
//!
//! Blocks are fetched where the memory ends, one after the other, as long as that is quicker than computing them. What was
//! computed is noted, and written block by block between requests: a request waits for one block at most.

use crate::kv::{Arena, BLOCK_TOKENS, Chain, DiskCache, Lease, PrefixCache};
use std::collections::VecDeque;
use std::time::Instant;

/// Sequences that wait to be written; the oldest is forgotten for a new one.
const WAITING_MAX: usize = 64;
/// A prefill of fewer tokens says little about speed.
const TELLING_TOKENS: usize = 64;

/// The disk, and what waits for it.
pub(super) struct Keeper {
    disk: DiskCache,
    waiting: VecDeque<(u64, Vec<u32>)>,
    /// The sequence being written with its namespace, and its blocks that are not there yet, the next one last.
    namespace: u64,
    tokens: Vec<u32>,
    todo: Vec<(usize, Chain)>,
    /// Seconds that the computation of a token took, when that was last seen.
    token_seconds: Option<f64>,
}

impl Keeper {
    pub fn new(disk: DiskCache) -> Keeper {
        let (waiting, tokens, todo) = (VecDeque::new(), Vec::new(), Vec::new());
        Keeper { disk, waiting, namespace: 0, tokens, todo, token_seconds: None }
    }

    /// Adds blocks of `prompt`, as this namespace has them, to a lease that has its first `held` tokens. Gives the tokens that it has then; never
    /// all of them, because the last must be computed.
    pub fn fetch(
        &mut self,
        namespace: u64,
        prompt: &[u32],
        held: usize,
        lease: &mut Lease,
        cache: &mut PrefixCache,
        arena: &mut Arena,
    ) -> usize {
        let blocks = prompt[..prompt.len().saturating_sub(1)].chunks_exact(BLOCK_TOKENS);
        let (mut chain, mut held) = (self.disk.root(namespace), held);
        for (at, tokens) in blocks.enumerate() {
            chain = chain.then(tokens);
            if (at + 1) * BLOCK_TOKENS <= held {
                continue;
            }
            let begun = Instant::now();
            let Some(bytes) = self.disk.read(&chain, tokens) else { break };
            let block = match lease.blocks().get(at) {
                // It begins with a copy of what was in memory.
                Some(&block) => block,
                None => match cache.grow(lease) {
                    Ok(block) => block,
                    Err(_) => break,
                },
            };
            arena.load(block, &bytes);
            held = (at + 1) * BLOCK_TOKENS;
            let computing = self.token_seconds.map(|seconds| seconds * BLOCK_TOKENS as f64);
            if computing.is_some_and(|computing| begun.elapsed().as_secs_f64() > computing) {
                break;
            }
        }
        held
    }

    /// Notes how long computing took.
    pub fn computed(&mut self, tokens: usize, seconds: f64) {
        if tokens >= TELLING_TOKENS {
            self.token_seconds = Some(seconds / tokens as f64);
        }
    }

    /// Notes a sequence whose blocks the cache has now.
    pub fn remember(&mut self, namespace: u64, computed: &[u32]) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((namespace, computed.to_vec()));
    }

    /// Writes one block. False when there is nothing to write.
    pub fn write_one(&mut self, cache: &PrefixCache, arena: &Arena) -> bool {
        loop {
            let Some((end, chain)) = self.todo.pop() else {
                let Some((namespace, tokens)) = self.waiting.pop_front() else { return false };
                self.begin(namespace, tokens);
                continue;
            };
            let prefix = &self.tokens[..end];
            // Evicted meanwhile, and then the blocks after it are too.
            let Some(block) = cache.block_of(self.namespace, prefix) else {
                self.todo.clear();
                continue;
            };
            if self.disk.holds(&chain) {
                continue;
            }
            self.disk.write(&chain, &prefix[end - BLOCK_TOKENS..], &arena.bytes(block));
            return true;
        }
    }

    /// Forgets what waits: the books that it was noted from are gone.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.todo.clear();
    }

    fn begin(&mut self, namespace: u64, tokens: Vec<u32>) {
        self.namespace = namespace;
        let mut chain = self.disk.root(namespace);
        for (at, block) in tokens.chunks_exact(BLOCK_TOKENS).enumerate() {
            chain = chain.then(block);
            if !self.disk.holds(&chain) {
                self.todo.push(((at + 1) * BLOCK_TOKENS, chain));
            }
        }
        self.todo.reverse();
        self.tokens = tokens;
    }
}
