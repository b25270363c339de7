//! Is everybody served, in memory that never suffices? A seeded simulation of the schedule over the real books of the
//! cache, audited after every step, and the rules one by one.

use super::*;
use crate::kv::{Lease, PrefixCache};
use std::collections::HashMap;

const SEEDS: u64 = 200;
/// No simulated crowd takes as many steps.
const STEPS_MAX: usize = 20_000;
const CONTEXT_BLOCKS: usize = 6;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

struct Client {
    ticket: u64,
    namespace: u64,
    arrived: Duration,
    /// The prompt and the answer so far; its next token depends on all before it, as a model's does.
    tokens: Vec<u32>,
    answer_left: usize,
    computed: usize,
    lease: Option<Lease>,
}

struct Simulation {
    schedule: Schedule,
    cache: PrefixCache,
    /// What stands in each block, token by token: the namespace and the whole sequence up to it.
    contents: HashMap<crate::kv::BlockId, Vec<(u64, Vec<u32>)>>,
    clients: Vec<Client>,
    to_come: usize,
    now: Duration,
    random: Random,
    tickets: u64,
    sequences_max: usize,
    blocks_max: usize,
    preempted: usize,
}

fn next_token(tokens: &[u32]) -> u32 {
    tokens.iter().fold(7u32, |hash, token| hash.wrapping_mul(31).wrapping_add(*token)) % 3
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let mut random = Random(seed);
        let blocks_max = CONTEXT_BLOCKS + random.below(12);
        let sequences_max = 1 + random.below(6);
        Simulation {
            schedule: Schedule::new(sequences_max, 1 + random.below(80)),
            cache: PrefixCache::new(blocks_max),
            contents: HashMap::new(),
            clients: Vec::new(),
            to_come: 12,
            now: Duration::ZERO,
            random,
            tickets: 0,
            sequences_max,
            blocks_max,
            preempted: 0,
        }
    }

    fn arrive(&mut self) {
        self.to_come -= 1;
        self.tickets += 1;
        let room = CONTEXT_BLOCKS * BLOCK_TOKENS - 1;
        let prompt = 1 + self.random.below(room);
        // Prompts share much: two families of them, which differ late.
        let family = self.random.below(2) as u32;
        let mut tokens: Vec<u32> = (0..prompt as u32).map(|i| family + i % 5).collect();
        tokens[prompt - 1] = self.random.below(3) as u32;
        let answer_left = 1 + self.random.below(room + 1 - prompt);
        let (ticket, namespace, arrived) = (self.tickets, self.random.below(3) as u64, self.now);
        self.clients.push(Client { ticket, namespace, arrived, tokens, answer_left, computed: 0, lease: None });
    }

    fn tasks(&self) -> Vec<Task> {
        let task = |client: &Client| Task {
            ticket: client.ticket,
            namespace: client.namespace,
            waited: self.now - client.arrived,
            tokens: client.tokens.len(),
            progress: match &client.lease {
                Some(lease) => Progress::Begun { computed: client.computed, blocks: lease.blocks().len() },
                None => Progress::Waiting(self.cache.known(client.namespace, &client.tokens)),
            },
        };
        self.clients.iter().map(task).collect()
    }

    fn step(&mut self) {
        if self.to_come > 0 && (self.clients.is_empty() || self.random.below(6) == 0) {
            self.arrive();
        }
        if !self.clients.is_empty() && self.random.below(60) == 0 {
            let gone = self.random.below(self.clients.len());
            self.leave(gone);
        }
        self.now += Duration::from_millis(10);
        let tasks = self.tasks();
        match self.schedule.next(&tasks, self.cache.available()) {
            Step::Idle => assert!(tasks.is_empty(), "idle beside requests"),
            Step::Preempt(at) => {
                let oldest = tasks.iter().filter(|task| task.begun()).map(|task| task.ticket).min();
                assert_ne!(Some(tasks[at].ticket), oldest, "the oldest was sent back");
                self.preempted += 1;
                self.release(at);
            }
            Step::Compute { decode, chunk } => self.compute(&decode, chunk),
        }
        self.audit();
    }

    fn compute(&mut self, decode: &[usize], chunk: Option<Chunk>) {
        let mut parts: Vec<(usize, usize)> = decode.iter().map(|&at| (at, 1)).collect();
        if let Some(Chunk { task, tokens }) = chunk {
            assert!(!decode.contains(&task));
            let client = &mut self.clients[task];
            if client.lease.is_none() {
                let (lease, reuse) = self.cache.begin(client.namespace, &client.tokens);
                if let Some(seed) = reuse.seed {
                    let copy = self.contents[&seed.from].clone();
                    self.contents.insert(seed.to, copy);
                }
                (client.lease, client.computed) = (Some(lease), reuse.tokens);
            }
            parts.push((task, tokens.min(client.tokens.len() - client.computed)));
        }
        let begun = self.clients.iter().filter(|client| client.lease.is_some()).count();
        assert!(begun <= self.sequences_max, "{begun} at once");
        let mut ended = Vec::new();
        for (at, tokens) in parts {
            self.schedule.charge(self.clients[at].namespace, tokens);
            let client = &mut self.clients[at];
            let lease = client.lease.as_mut().unwrap();
            for _ in 0..tokens {
                if client.computed == lease.blocks().len() * BLOCK_TOKENS {
                    self.cache.grow(lease).expect("what the schedule allows fits");
                }
                let contents = self.contents.entry(lease.blocks()[client.computed / BLOCK_TOKENS]).or_default();
                contents.truncate(client.computed % BLOCK_TOKENS);
                client.computed += 1;
                contents.push((client.namespace, client.tokens[..client.computed].to_vec()));
            }
            self.cache.publish(lease, &client.tokens[..client.computed]);
            if client.computed == client.tokens.len() {
                client.answer_left -= 1;
                client.tokens.push(next_token(&client.tokens));
                if client.answer_left == 0 {
                    ended.push(client.ticket);
                }
            }
        }
        if let Some(chunk) = chunk.filter(|_| !decode.is_empty()) {
            let time = Duration::from_millis(self.random.below(100) as u64);
            self.schedule.took(chunk.tokens, time);
        }
        for ticket in ended {
            let at = self.clients.iter().position(|client| client.ticket == ticket).unwrap();
            self.leave(at);
        }
    }

    fn release(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if let Some(lease) = client.lease.take() {
            self.cache.finish(lease, &client.tokens[..client.computed]);
        }
        client.computed = 0;
    }

    fn leave(&mut self, at: usize) {
        self.release(at);
        self.clients.swap_remove(at);
    }

    fn audit(&self) {
        let census = self.cache.census();
        assert_eq!(census.free + census.cached + census.held, self.blocks_max, "{census:?}");
        for client in &self.clients {
            let blocks = client.lease.as_ref().map_or(&[][..], |lease| lease.blocks());
            for position in 0..client.computed {
                let held = &self.contents[&blocks[position / BLOCK_TOKENS]][position % BLOCK_TOKENS];
                assert_eq!((held.0, &held.1[..]), (client.namespace, &client.tokens[..=position]));
            }
        }
        if self.clients.is_empty() {
            assert_eq!(census.held, 0, "nobody is there and blocks are held");
        }
    }
}

#[test]
fn everybody_comes_to_an_end_and_no_block_is_lost_however_little_memory_there_is() {
    let only = std::env::var("CLOISTER_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut preempted = 0;
    for seed in only.map_or(0..SEEDS, |seed| seed..seed + 1) {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            for step in 0.. {
                assert!(step < STEPS_MAX, "somebody waits for ever");
                simulation.step();
                if simulation.to_come == 0 && simulation.clients.is_empty() {
                    break;
                }
            }
            simulation.preempted
        });
        match run {
            Ok(count) => preempted += count,
            Err(panic) => {
                println!("to see this again: CLOISTER_SEED={seed} cargo nextest run -p inference -E 'test(schedule)'");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(only.is_some() || preempted > 0, "memory never ran out, so this says nothing of it");
}

fn waiting(ticket: u64, namespace: u64, tokens: usize, known: usize) -> Task {
    let progress = Progress::Waiting(Known { tokens: known, held: 0 });
    Task { ticket, namespace, waited: Duration::ZERO, tokens, progress }
}

fn begun(ticket: u64, tokens: usize, computed: usize, blocks: usize) -> Task {
    Task { progress: Progress::Begun { computed, blocks }, ..waiting(ticket, 0, tokens, 0) }
}

/// What the schedule does with these requests, with so many blocks to be had.
#[track_caller]
fn check(tasks: &[Task], available: usize, decode: &[usize], chunk: Option<(usize, usize)>) {
    let step = Schedule::new(4, 256).next(tasks, available);
    let chunk = chunk.map(|(task, tokens)| Chunk { task, tokens });
    assert_eq!(step, Step::Compute { decode: decode.to_vec(), chunk });
}

#[test]
fn what_wants_its_next_token_is_computed_together_beside_a_small_piece_of_a_prompt() {
    check(&[begun(1, 40, 39, 2), begun(2, 70, 69, 3), begun(3, 900, 64, 2)], 100, &[0, 1], Some((2, CHUNK_TOKENS_MIN)));
    check(&[begun(3, 900, 64, 2)], 100, &[], Some((0, 256)));
}

#[test]
fn the_longest_known_prefix_goes_first_until_another_has_waited_for_long() {
    let (cold, warm) = (waiting(1, 0, 1000, 0), waiting(2, 0, 1000, 800));
    check(&[cold, warm], 100, &[], Some((1, 256)));
    let aged = Task { waited: Duration::from_secs(5), ..cold };
    check(&[aged, warm], 100, &[], Some((0, 256)));
}

#[test]
fn a_namespace_that_sends_much_does_not_keep_another_waiting() {
    let mut schedule = Schedule::new(4, 256);
    let crowd: Vec<Task> = (0..5).map(|i| waiting(i, 1, 1000, 900)).collect();
    assert!(matches!(schedule.next(&crowd, 100), Step::Compute { .. }));
    schedule.charge(1, 256);
    let later = [crowd, vec![waiting(9, 2, 1000, 0)]].concat();
    // The newcomer begins with what the other has, and then has been served less.
    assert!(matches!(schedule.next(&later, 1000), Step::Compute { chunk: Some(Chunk { task: 0, .. }), .. }));
    schedule.charge(1, 256);
    assert!(matches!(schedule.next(&later, 1000), Step::Compute { chunk: Some(Chunk { task: 5, .. }), .. }));
}

#[test]
fn who_does_not_fit_waits_and_nobody_new_is_let_past() {
    let (running, large, small) = (begun(1, 40, 39, 2), waiting(2, 0, 1000, 500), waiting(3, 0, 10, 0));
    check(&[running, large, small], 20, &[0], None);
    check(&[running, large, small], 40, &[0], Some((1, CHUNK_TOKENS_MIN)));
    // Alone it always fits: what is cached goes for it.
    check(&[large], 32, &[], Some((0, 256)));
}

#[test]
fn when_blocks_run_out_the_youngest_goes_back() {
    let (old, young) = (begun(1, 65, 64, 2), begun(2, 65, 64, 2));
    assert_eq!(Schedule::new(4, 256).next(&[young, old], 1), Step::Preempt(0));
    check(&[young, old], 2, &[0, 1], None);
}

#[test]
fn a_chunk_shrinks_when_steps_are_slow_and_grows_when_they_are_quick() {
    let mut schedule = Schedule::new(4, 256);
    let size = |schedule: &mut Schedule| match schedule.next(&[begun(1, 40, 39, 2), begun(3, 900, 64, 2)], 100) {
        Step::Compute { chunk: Some(chunk), .. } => chunk.tokens,
        step => panic!("{step:?}"),
    };
    assert_eq!(size(&mut schedule), CHUNK_TOKENS_MIN);
    schedule.took(32, Duration::from_millis(20));
    schedule.took(64, Duration::from_millis(25));
    assert_eq!(size(&mut schedule), 128);
    schedule.took(128, Duration::from_millis(100));
    assert_eq!(size(&mut schedule), 64);
    [64, 32, 16].into_iter().for_each(|tokens| schedule.took(tokens, Duration::from_secs(10)));
    assert_eq!(size(&mut schedule), CHUNK_TOKENS_MIN);
}
