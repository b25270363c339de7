//! Does a block come back as it was, or not at all?

use super::*;
use std::sync::{Arc, Mutex};

const BLOCK_BYTES: usize = 200;

struct Kept {
    directory: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Kept {
    fn new() -> Kept {
        Kept { directory: tempfile::tempdir().unwrap(), told: Arc::default() }
    }

    fn open(&self, model: &str, bytes_max: u64) -> DiskCache {
        let told = self.told.clone();
        let log = Box::new(move |line: &str| told.lock().unwrap().push(line.to_owned()));
        let mut cache = DiskCache::open(&self.directory.path().join("kv"), bytes_max, model, log).unwrap();
        cache.bind("f16", BLOCK_BYTES);
        cache
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.path().join("kv")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn tokens(first: u32) -> Vec<u32> {
    (first..first + BLOCK_TOKENS as u32).collect()
}

fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK_BYTES]
}

const PLENTY: u64 = 1 << 20;

#[test]
fn a_block_comes_back_after_the_end_of_the_process_to_the_same_model_and_tokens_alone() {
    let kept = Kept::new();
    let mut cache = kept.open("model", PLENTY);
    let one = cache.root(0).then(&tokens(0));
    let two = one.then(&tokens(500));
    cache.write(&one, &tokens(0), &block(1));
    cache.write(&two, &tokens(500), &block(2));
    drop(cache);
    let mut again = kept.open("model", PLENTY);
    assert_eq!(again.root(0).then(&tokens(0)), one);
    assert_eq!(again.read(&one, &tokens(0)), Some(block(1)));
    assert_eq!(again.read(&two, &tokens(500)), Some(block(2)));
    // The same tokens after others, and under another model, are something else.
    // Another namespace has another name for the same tokens.
    assert!(again.read(&again.root(7).then(&tokens(0)), &tokens(0)).is_none());
    let elsewhere = again.root(0).then(&tokens(500));
    assert_eq!(again.read(&elsewhere, &tokens(500)), None);
    let mut other = kept.open("other model", PLENTY);
    let foreign = other.root(0).then(&tokens(0));
    assert_eq!(other.read(&foreign, &tokens(0)), None);
    assert!(kept.told.lock().unwrap().is_empty());
    let mode = fs::metadata(kept.directory.path().join("kv")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    assert!(kept.files().iter().all(|file| fs::metadata(file).unwrap().permissions().mode() & 0o077 == 0));
}

#[test]
fn every_changed_byte_and_every_cut_is_a_miss_that_is_told_and_removed() {
    let kept = Kept::new();
    let mut cache = kept.open("model", PLENTY);
    let chain = cache.root(0).then(&tokens(0));
    cache.write(&chain, &tokens(0), &block(1));
    let file = kept.files().remove(0);
    let whole = fs::read(&file).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len())
        .map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        })
        .collect();
    damaged.extend([0, 1, HASH_BYTES, whole.len() - 1].map(|length| whole[..length].to_vec()));
    damaged.push([&whole[..], b"x"].concat());
    for (at, bytes) in damaged.into_iter().enumerate() {
        fs::write(&file, bytes).unwrap();
        let mut cache = kept.open("model", PLENTY);
        assert_eq!(cache.read(&chain, &tokens(0)), None, "damage {at}");
        assert!(!file.exists() && !cache.holds(&chain));
        assert_eq!(kept.told.lock().unwrap().drain(..).count(), 1);
    }
}

#[test]
fn what_is_no_file_of_ours_is_neither_followed_nor_removed() {
    let kept = Kept::new();
    let chain = kept.open("model", PLENTY).root(0).then(&tokens(0));
    let directory = kept.directory.path().join("kv");
    let secret = kept.directory.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    std::os::unix::fs::symlink(&secret, directory.join(chain.name())).unwrap();
    fs::write(directory.join("notes.txt"), "mine").unwrap();
    let upper = chain.name().to_uppercase();
    fs::write(directory.join(&upper), "not ours").unwrap();
    let mut cache = kept.open("model", PLENTY);
    assert_eq!(cache.read(&chain, &tokens(0)), None);
    assert!(secret.exists() && directory.join("notes.txt").exists() && directory.join(upper).exists());
}

#[test]
fn the_directory_keeps_to_its_bytes_and_loses_what_was_not_used_for_the_longest_time() {
    let kept = Kept::new();
    let each = (HEAD_BYTES + BLOCK_BYTES + HASH_BYTES) as u64;
    let mut cache = kept.open("model", 10 * each);
    let chains: Vec<Chain> = (0..10).map(|at| cache.root(0).then(&tokens(at * 100))).collect();
    for (at, chain) in chains.iter().enumerate() {
        cache.write(chain, &tokens(at as u32 * 100), &block(at as u8));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(kept.files().len(), 10);
    assert!(cache.read(&chains[0], &tokens(0)).is_some());
    let more = cache.root(0).then(&tokens(5_000));
    cache.write(&more, &tokens(5_000), &block(9));
    assert_eq!(kept.files().len(), 9);
    assert!(cache.holds(&chains[0]) && cache.holds(&more) && !cache.holds(&chains[1]));
    // A smaller limit holds from the start.
    drop(cache);
    kept.open("model", 3 * each);
    assert!(kept.files().len() <= 3);
    let mut none = kept.open("model", each - 1);
    none.write(&more, &tokens(5_000), &block(9));
    assert!(kept.files().is_empty());
}

#[test]
fn a_file_that_nobody_finished_is_swept_up_and_one_of_a_living_process_is_left() {
    let kept = Kept::new();
    kept.open("model", PLENTY);
    let directory = kept.directory.path().join("kv");
    let (dead, alive) =
        (directory.join(".new-4194304999-x.kv"), directory.join(format!(".new-{}-x.kv", std::process::id())));
    fs::write(&dead, "half").unwrap();
    fs::write(&alive, "half").unwrap();
    kept.open("model", PLENTY);
    assert!(!dead.exists() && alive.exists());
}

#[test]
fn a_directory_that_cannot_be_written_costs_a_line_and_nothing_else() {
    let kept = Kept::new();
    let mut cache = kept.open("model", PLENTY);
    fs::remove_dir_all(kept.directory.path().join("kv")).unwrap();
    let chain = cache.root(0).then(&tokens(0));
    cache.write(&chain, &tokens(0), &block(1));
    cache.write(&chain, &tokens(0), &block(1));
    assert_eq!(kept.told.lock().unwrap().len(), 1);
    assert_eq!(cache.read(&chain, &tokens(0)), None);
}
