//! Which ids did the model produce for this text?
//!
//! A bounded memory: the turn that was not asked for the longest goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Turns kept at most.
const TURNS_MAX: usize = 1024;
/// Bytes of text and ids kept at most.
const BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Remembered {
    turns: HashMap<Arc<str>, Arc<[u32]>>,
    /// The longest unused first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

impl Remembered {
    pub fn find(&mut self, text: &str) -> Option<Arc<[u32]>> {
        let ids = self.turns.get(text)?.clone();
        if let Some(at) = self.order.iter().position(|known| &**known == text)
            && let Some(key) = self.order.remove(at)
        {
            self.order.push_back(key);
        }
        Some(ids)
    }

    pub fn insert(&mut self, text: &str, ids: &[u32]) {
        if size(text, ids) > BYTES_MAX {
            return;
        }
        self.remove(text);
        let key: Arc<str> = text.into();
        self.bytes += size(text, ids);
        self.turns.insert(key.clone(), ids.into());
        self.order.push_back(key);
        while self.order.len() > TURNS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.front().cloned() else { break };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, text: &str) {
        if let Some(ids) = self.turns.remove(text) {
            self.bytes -= size(text, &ids);
            self.order.retain(|known| &**known != text);
        }
    }
}

fn size(text: &str, ids: &[u32]) -> usize {
    text.len() + size_of_val(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_stays_within_its_bounds_and_keeps_what_is_used() {
        let mut memory = Remembered::default();
        memory.insert("often", &[1]);
        for i in 0..3 * TURNS_MAX {
            memory.insert(&format!("turn {i}"), &[2, 3]);
            assert!(memory.find("often").is_some());
        }
        assert_eq!(memory.order.len(), TURNS_MAX);
        assert_eq!(memory.turns.len(), TURNS_MAX);
        assert_eq!(memory.find("turn 0"), None);
        memory.insert("long", &vec![0; BYTES_MAX / 4 - 10]);
        assert!(memory.bytes <= BYTES_MAX && memory.find("long").is_some());
        memory.insert("too long", &vec![0; BYTES_MAX]);
        assert_eq!(memory.find("too long"), None);
    }
}
