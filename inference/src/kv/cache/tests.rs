//! Seeded simulations against a naive model: what each block holds is written down by hand, and the books are audited
//! after each step.

use super::*;
use std::collections::{HashMap, HashSet};

const SEEDS: u64 = 200;
/// Namespaces that compute the same prompts.
const NAMESPACES: usize = 2;
const STEPS: usize = 150;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

struct Running {
    namespace: u64,
    lease: Lease,
    prompt: Vec<u32>,
    computed: Vec<u32>,
}

struct Simulation {
    cache: PrefixCache,
    /// What stands in each block: for each token the whole sequence up to it, because that is what its KV depends on; and
    /// before all of them the namespace that computed it.
    blocks: HashMap<BlockId, Vec<Vec<u32>>>,
    running: Vec<Running>,
    /// Every sequence that was given back or published, with its namespace.
    finished: Vec<(u64, Vec<u32>)>,
    random: Random,
    blocks_max: usize,
}

impl Simulation {
    fn new(seed: u64, blocks_max: usize) -> Simulation {
        let cache = PrefixCache::new(blocks_max);
        let random = Random(seed);
        Simulation { cache, blocks: HashMap::new(), running: Vec::new(), finished: Vec::new(), random, blocks_max }
    }

    /// A prompt that shares much with earlier ones: few different tokens, and often a continuation of a finished sequence.
    fn prompt(&mut self) -> Vec<u32> {
        let mut prompt = Vec::new();
        if !self.finished.is_empty() && self.random.below(4) > 0 {
            let known = self.random.below(self.finished.len());
            let known = self.finished[known].1.clone();
            prompt = known[..self.random.below(known.len() + 1)].to_vec();
        }
        let more = 1 + self.random.below(70);
        prompt.extend((0..more).map(|_| self.random.below(2) as u32));
        prompt.truncate(self.blocks_max.saturating_mul(BLOCK_TOKENS).min(250));
        prompt
    }

    fn step(&mut self, plenty: bool) {
        match self.random.below(5) {
            4 if !self.running.is_empty() => self.publish(),
            0 if self.running.len() < 3 => self.begin(plenty),
            1 if !self.running.is_empty() => self.end(),
            _ if !self.running.is_empty() => self.compute(),
            _ => {}
        }
        self.audit();
    }

    fn begin(&mut self, plenty: bool) {
        let (prompt, namespace) = (self.prompt(), self.random.below(NAMESPACES) as u64);
        let known = self.cache.known(namespace, &prompt);
        let (lease, reuse) = self.cache.begin(namespace, &prompt);
        assert!(known.tokens == reuse.tokens || reuse.seed.is_none(), "{known:?}, then {reuse:?}");
        if let Some(Seed { from, to }) = reuse.seed {
            let copy = self.blocks[&from].clone();
            self.blocks.insert(to, copy);
        }
        assert!(reuse.tokens < prompt.len(), "the last token is never reused");
        let shared = |known: &Vec<u32>| known.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        let own = self.finished.iter().filter(|(of, _)| *of == namespace).map(|(_, known)| known);
        let naive = own.map(shared).max().unwrap_or(0).min(prompt.len() - 1);
        assert!(reuse.tokens <= naive, "{} tokens reused, only {naive} were ever computed", reuse.tokens);
        if plenty {
            assert_eq!(reuse.tokens, naive, "the longest known prefix was not found");
        }
        let computed = prompt[..reuse.tokens].to_vec();
        self.running.push(Running { namespace, lease, prompt, computed });
        self.check_contents(self.running.len() - 1);
    }

    fn compute(&mut self) {
        let at = self.random.below(self.running.len());
        let chunk = 1 + self.random.below(40);
        for _ in 0..chunk {
            let token = match self.running[at].prompt.get(self.running[at].computed.len()) {
                Some(&token) => token,
                None => self.random.below(2) as u32,
            };
            let run = &mut self.running[at];
            if run.computed.len() == run.lease.blocks().len() * BLOCK_TOKENS && self.cache.grow(&mut run.lease).is_err()
            {
                assert_eq!(self.cache.census().held, self.blocks_max, "refused although a block could be had");
                return;
            }
            run.computed.push(token);
            let position = run.computed.len() - 1;
            let block = run.lease.blocks()[position / BLOCK_TOKENS];
            let contents = self.blocks.entry(block).or_default();
            contents.truncate(position % BLOCK_TOKENS);
            contents.push(stamped(run.namespace, &run.computed));
        }
        self.check_contents(at);
    }

    fn end(&mut self) {
        let at = self.random.below(self.running.len());
        let Running { namespace, lease, computed, .. } = self.running.swap_remove(at);
        if self.random.below(5) == 0 {
            self.cache.discard(lease);
        } else {
            self.cache.finish(lease, &computed);
            self.finished.push((namespace, computed));
        }
    }

    fn publish(&mut self) {
        let at = self.random.below(self.running.len());
        let Running { namespace, lease, computed, .. } = &mut self.running[at];
        self.cache.publish(lease, computed);
        let full = computed.len() / BLOCK_TOKENS;
        assert!(lease.shared.len() >= full, "a full block was not published");
        self.finished.push((*namespace, computed[..full * BLOCK_TOKENS].to_vec()));
    }

    /// Each block of a running sequence holds what the sequence computed: nobody wrote over it.
    fn check_contents(&self, at: usize) {
        let Running { namespace, lease, computed, .. } = &self.running[at];
        for position in 0..computed.len() {
            let contents = &self.blocks[&lease.blocks()[position / BLOCK_TOKENS]];
            let expected = stamped(*namespace, &computed[..=position]);
            assert_eq!(contents[position % BLOCK_TOKENS], expected, "at position {position}");
        }
    }

    fn audit(&self) {
        let census = self.cache.census();
        assert_eq!(census.free + census.cached + census.held, self.blocks_max, "{census:?}");
        let mut seen = HashSet::new();
        let private = self.running.iter().flat_map(|run| &run.lease.blocks[run.lease.shared.len()..]);
        let in_tree = self.cache.tree.iter().map(|(_, node)| &node.block);
        for block in self.cache.free.iter().chain(private).chain(in_tree) {
            assert!(seen.insert(*block), "{block:?} is in two places");
        }
        for at in 0..self.running.len() {
            self.check_contents(at);
        }
        let mut holders: HashMap<NodeId, usize> = HashMap::new();
        for &id in self.running.iter().flat_map(|run| &run.lease.shared) {
            *holders.entry(id).or_default() += 1;
        }
        for (id, node) in self.cache.tree.iter() {
            assert_eq!(node.holders, holders.get(&id).copied().unwrap_or(0), "holders of {id}");
            assert!(node.tokens.len() == BLOCK_TOKENS || node.children.is_empty(), "a partial block has children");
            let mut path = vec![node.tokens.clone()];
            let mut above = node.place;
            while let Place::After(id) = above {
                assert!(self.cache.tree.node(id).used >= node.used, "a parent looks older than its child");
                path.insert(0, self.cache.tree.node(id).tokens.clone());
                above = self.cache.tree.node(id).place;
            }
            let Place::Start(namespace) = above else { unreachable!("the loop ends at a start") };
            let path = path.concat();
            let start = path.len() - node.tokens.len();
            for (i, contents) in self.blocks[&node.block][..node.tokens.len()].iter().enumerate() {
                assert_eq!(
                    *contents,
                    stamped(namespace, &path[..=start + i]),
                    "a cached block does not hold its tokens"
                );
            }
        }
    }
}

fn stamped(namespace: u64, tokens: &[u32]) -> Vec<u32> {
    [&[namespace as u32], tokens].concat()
}

fn simulate(blocks_max: usize, plenty: bool) {
    let only = std::env::var("CLOISTER_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..SEEDS, |seed| seed..seed + 1) {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed, blocks_max);
            (0..STEPS).for_each(|_| simulation.step(plenty));
        });
        if let Err(panic) = run {
            println!("to see this again: CLOISTER_SEED={seed} cargo nextest run -E 'test(kv::cache)'");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn with_memory_to_spare_the_longest_known_prefix_is_always_found() {
    simulate(4000, true);
}

#[test]
fn with_little_memory_nothing_held_is_evicted_and_no_block_is_lost() {
    for blocks_max in [1, 2, 3, 8, 20] {
        simulate(blocks_max, false);
    }
}

#[test]
fn the_block_unused_for_the_longest_time_goes_first_and_leaves_before_their_parents() {
    let mut cache = PrefixCache::new(4);
    let sequence = |start: u32| (start..start + 64).collect::<Vec<u32>>();
    for start in [0, 1000] {
        let (mut lease, _) = cache.begin(0, &sequence(start));
        (0..2).for_each(|_| _ = cache.grow(&mut lease).unwrap());
        cache.finish(lease, &sequence(start));
    }
    // Using the first sequence makes the second the older one.
    let (lease, reuse) = cache.begin(0, &sequence(0));
    assert_eq!(reuse.tokens, 63);
    cache.discard(lease);
    let (mut lease, _) = cache.begin(0, &sequence(2000));
    (0..1).for_each(|_| _ = cache.grow(&mut lease).unwrap());
    cache.finish(lease, &sequence(2000)[..32]);
    let known = |cache: &mut PrefixCache, start| {
        let (lease, reuse) = cache.begin(0, &sequence(start));
        cache.discard(lease);
        reuse.tokens
    };
    // Of the second sequence no block or only the first is left; of the first, everything.
    assert!(known(&mut cache, 1000) <= 32);
    assert!(known(&mut cache, 0) >= 32);
}
