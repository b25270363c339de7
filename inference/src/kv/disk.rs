//! Which computed blocks outlive the process?
//!
//! One file for each full block, named by a SHA-256 over all that its KV depends on: the model file, how KV is stored, the
//! version of the engine, and every token up to the end of the block; and over the namespace of whoever computed it. The file repeats that name and the block's own tokens
//! and ends in a SHA-256 of itself. A file that is not wholly as expected is removed, told of, and counts as absent: its
//! tokens are computed again. Several models and processes may share a directory. When it holds more bytes than it may,
//! the files that were not used for the longest time go; since a path is always used from its start, ends go first.
//!
//! The files tell what was in the prompts, so they are for their owner alone.

use super::BLOCK_TOKENS;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MAGIC: &[u8; 8] = b"clstrKV1";
const HASH_BYTES: usize = 32;
const TOKENS_BYTES: usize = BLOCK_TOKENS * size_of::<u32>();
const HEAD_BYTES: usize = MAGIC.len() + HASH_BYTES + TOKENS_BYTES;
const ENDING: &str = ".kv";
/// Begins the name of a file that is still being written.
const UNFINISHED: &str = ".new-";
/// Files of a directory that are looked at when it is opened.
const FILES_MAX: usize = 1 << 20;

/// Where blocks are kept.
pub struct DiskCache {
    directory: PathBuf,
    bytes_max: u64,
    bytes: u64,
    known: HashMap<Chain, Kept>,
    root: Chain,
    block_bytes: usize,
    log: Box<dyn Fn(&str) + Send>,
}

/// A prefix of whole blocks, under one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain([u8; HASH_BYTES]);

#[derive(Clone, Copy)]
struct Kept {
    bytes: u64,
    used: SystemTime,
}

impl Chain {
    /// This prefix and one block more.
    #[must_use]
    pub fn then(&self, tokens: &[u32]) -> Chain {
        let mut hash = Sha256::new_with_prefix(self.0);
        tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
        Chain(hash.finalize().into())
    }

    fn name(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + ENDING
    }

    fn of_name(name: &str) -> Option<Chain> {
        let hex = name.strip_suffix(ENDING).filter(|hex| hex.len() == 2 * HASH_BYTES && hex.is_ascii())?;
        let mut hash = [0; HASH_BYTES];
        for (byte, digits) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Chain(hash)).filter(|chain| chain.name() == name)
    }
}

impl DiskCache {
    /// Opens `directory`, which is made if it is not there. `model` names everything besides the tokens that the KV
    /// depends on; `log` hears of what was removed or could not be written.
    pub fn open(directory: &Path, bytes_max: u64, model: &str, log: Box<dyn Fn(&str) + Send>) -> io::Result<DiskCache> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(0o700))?;
        let root = Chain(Sha256::digest(model.as_bytes()).into());
        let (directory, known) = (directory.to_owned(), HashMap::new());
        let mut cache = DiskCache { directory, bytes_max, bytes: 0, known, root, block_bytes: 0, log };
        for entry in fs::read_dir(&cache.directory)?.take(FILES_MAX) {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(UNFINISHED) && !is_alive(name) {
                let _ = fs::remove_file(entry.path());
            }
            let (Some(chain), Ok(about)) = (Chain::of_name(name), entry.metadata()) else { continue };
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            cache.bytes += about.len();
            cache.known.insert(chain, Kept { bytes: about.len(), used });
        }
        cache.prune();
        Ok(cache)
    }

    /// Says how KV is stored by the model that asks, which is part of every name; before anything is read or written.
    pub fn bind(&mut self, stored: &str, block_bytes: usize) {
        let mut hash = Sha256::new_with_prefix(self.root.0);
        hash.update(stored.as_bytes());
        self.root = Chain(hash.finalize().into());
        self.block_bytes = block_bytes;
    }

    /// The empty prefix of a namespace; 0 is the one of whoever has no namespace of their own.
    pub fn root(&self, namespace: u64) -> Chain {
        if namespace == 0 {
            return self.root;
        }
        let mut hash = Sha256::new_with_prefix(self.root.0);
        hash.update(b"namespace");
        hash.update(namespace.to_le_bytes());
        Chain(hash.finalize().into())
    }

    /// Whether the last block of this prefix seems to be there.
    pub fn holds(&self, chain: &Chain) -> bool {
        self.known.contains_key(chain)
    }

    /// The bytes of the last block of this prefix, whose own tokens are `tokens`.
    pub fn read(&mut self, chain: &Chain, tokens: &[u32]) -> Option<Vec<u8>> {
        if !self.holds(chain) {
            return None;
        }
        let path = self.directory.join(chain.name());
        let read = read_whole(&path, self.file_bytes()).map_err(|error| error.to_string());
        match read.and_then(|bytes| self.checked(bytes, chain, tokens).map_err(str::to_owned)) {
            Ok(block) => {
                let used = SystemTime::now();
                if let Some(kept) = self.known.get_mut(chain) {
                    kept.used = used;
                }
                // A directory that became read-only still gives what it has.
                let _ = File::open(&path).and_then(|file| file.set_modified(used));
                Some(block)
            }
            Err(reason) => {
                (self.log)(&format!("the cached block {} is not used and removed: {reason}", path.display()));
                self.forget(chain);
                None
            }
        }
    }

    /// Keeps the last block of this prefix. A full disk is told of and changes nothing else.
    pub fn write(&mut self, chain: &Chain, tokens: &[u32], block: &[u8]) {
        debug_assert_eq!((tokens.len(), block.len()), (BLOCK_TOKENS, self.block_bytes));
        if self.file_bytes() as u64 > self.bytes_max || self.holds(chain) {
            return;
        }
        let mut bytes = Vec::with_capacity(self.file_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&chain.0);
        tokens.iter().for_each(|token| bytes.extend_from_slice(&token.to_le_bytes()));
        bytes.extend_from_slice(block);
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        let kept = Kept { bytes: bytes.len() as u64, used: SystemTime::now() };
        if let Err(error) = self.put(&chain.name(), &bytes) {
            (self.log)(&format!("could not keep a cached block in {}: {error}", self.directory.display()));
            // Not tried again for this block.
            self.known.insert(*chain, Kept { bytes: 0, ..kept });
            return;
        }
        self.bytes += kept.bytes;
        self.known.insert(*chain, kept);
        self.prune();
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = self.directory.join(format!("{UNFINISHED}{}-{name}", std::process::id()));
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(bytes)?;
            fs::rename(&draft, self.directory.join(name))
        };
        write().inspect_err(|_| _ = fs::remove_file(&draft))
    }

    fn file_bytes(&self) -> usize {
        HEAD_BYTES + self.block_bytes + HASH_BYTES
    }

    /// The block in a file, if every byte is as it was written.
    fn checked(&self, mut bytes: Vec<u8>, chain: &Chain, tokens: &[u32]) -> Result<Vec<u8>, &'static str> {
        let (body, sum) = bytes.split_at_checked(bytes.len().wrapping_sub(HASH_BYTES)).ok_or("it is too short")?;
        if bytes.len() != self.file_bytes() {
            return Err("it has another length");
        }
        if Sha256::digest(body)[..] != *sum {
            return Err("its checksum is wrong");
        }
        let (head, own) = body[..HEAD_BYTES].split_at(MAGIC.len() + HASH_BYTES);
        let wanted = tokens.iter().flat_map(|token| token.to_le_bytes());
        if head[..MAGIC.len()] != *MAGIC || head[MAGIC.len()..] != chain.0 || !own.iter().copied().eq(wanted) {
            return Err("it is of other tokens");
        }
        bytes.truncate(HEAD_BYTES + self.block_bytes);
        bytes.drain(..HEAD_BYTES);
        Ok(bytes)
    }

    fn forget(&mut self, chain: &Chain) {
        if let Some(kept) = self.known.remove(chain) {
            self.bytes -= kept.bytes;
            let _ = fs::remove_file(self.directory.join(chain.name()));
        }
    }

    fn prune(&mut self) {
        if self.bytes <= self.bytes_max {
            return;
        }
        let mut by_age: Vec<(SystemTime, Chain)> = self.known.iter().map(|(chain, kept)| (kept.used, *chain)).collect();
        by_age.sort_by_key(|(used, chain)| (*used, chain.0));
        // A tenth more than must go, so that this is not done for every block.
        let wanted = self.bytes_max - self.bytes_max / 10;
        for (_, chain) in by_age {
            if self.bytes <= wanted {
                break;
            }
            self.forget(&chain);
        }
    }
}

/// Is the process that writes this file still there?
fn is_alive(name: &str) -> bool {
    let process = name.strip_prefix(UNFINISHED).and_then(|rest| rest.split('-').next());
    process.is_some_and(|process| Path::new("/proc").join(process).exists())
}

/// A regular file of at most `bytes_max`, and no link to one.
fn read_whole(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(bytes_max + 1);
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
