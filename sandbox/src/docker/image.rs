//! What is in the image of a box? Nothing but the places for what is mounted.
//!
//! A tar (POSIX.1-1988 "ustar") of the bundle's root file system with every file empty, so that it is the same for all boxes of a
//! host, and imported once. Its name is a digest of its bytes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// The repository part of the image's name.
pub(crate) const REPOSITORY: &str = "cloister-box";
const BLOCK: usize = 512;

/// A tar of the tree `root`, and the tag of the image that it becomes.
pub(crate) fn of(root: &Path) -> io::Result<(String, Vec<u8>)> {
    let mut tar = Vec::new();
    add(root, Path::new(""), &mut tar)?;
    tar.extend([0; 2 * BLOCK]);
    let digest = Sha256::digest(&tar);
    Ok((digest[..8].iter().map(|byte| format!("{byte:02x}")).collect(), tar))
}

fn add(root: &Path, at: &Path, tar: &mut Vec<u8>) -> io::Result<()> {
    let mut names: Vec<_> =
        fs::read_dir(root.join(at))?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    for name in names {
        let at = at.join(name);
        let meta = fs::symlink_metadata(root.join(&at))?;
        if meta.is_symlink() {
            tar.extend(header(&at, b'2', 0o777, &fs::read_link(root.join(&at))?)?);
        } else if meta.is_dir() {
            tar.extend(header(&at, b'5', meta.permissions().mode(), Path::new(""))?);
            add(root, &at, tar)?;
        } else {
            tar.extend(header(&at, b'0', meta.permissions().mode(), Path::new(""))?);
        }
    }
    Ok(())
}

/// The header of an entry without content: root's, and as old as time.
fn header(at: &Path, kind: u8, mode: u32, target: &Path) -> io::Result<[u8; BLOCK]> {
    let too_long = || io::Error::other(format!("{at:?} is too long a path for the image of a box"));
    let (name, target) = (at.as_os_str().as_bytes(), target.as_os_str().as_bytes());
    // A long path is split at a slash: up to 155 bytes before it, up to 100 after it.
    let split = if name.len() <= 100 {
        None
    } else {
        let fits = |at: &usize| name[*at] == b'/' && *at <= 155 && name.len() - at - 1 <= 100;
        Some((0..name.len()).rev().find(fits).ok_or_else(too_long)?)
    };
    let (prefix, name) = split.map_or((&[][..], name), |slash| (&name[..slash], &name[slash + 1..]));
    if target.len() > 100 {
        return Err(too_long());
    }
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    // A runtime gives a tmpfs the mode of the directory that it covers.
    put(100, format!("{:07o}", mode & 0o7777).as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, b"00000000000");
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, target);
    put(257, b"ustar\x0000");
    put(345, prefix);
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_tar_program_reads_the_image_and_finds_every_file_empty() {
        let dir = tempfile::tempdir().expect("directory");
        let deep = "d".repeat(90);
        fs::create_dir_all(dir.path().join(&deep).join("below")).expect("directories");
        fs::write(dir.path().join(&deep).join("below/secret"), "text").expect("file");
        std::os::unix::fs::symlink("usr/bin", dir.path().join("bin")).expect("link");
        let (tag, tar) = of(dir.path()).expect("tar");
        fs::write(dir.path().join(&deep).join("below/secret"), "other text").expect("file");
        assert_eq!(of(dir.path()).expect("tar").0, tag);
        let file = tempfile::NamedTempFile::new().expect("file");
        fs::write(file.path(), tar).expect("write");
        let told = Command::new("tar").arg("tvf").arg(file.path()).stderr(Stdio::inherit()).output();
        let Ok(told) = told else { return eprintln!("SKIPPED: there is no tar on this host") };
        assert!(told.status.success());
        let told = String::from_utf8(told.stdout).expect("text");
        let shown: Vec<_> = told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let ends = ["bin -> usr/bin".to_owned(), deep.clone(), format!("{deep}/below"), format!("{deep}/below/secret")];
        assert_eq!(shown.len(), ends.len(), "{told}");
        for (line, end) in shown.iter().zip(ends) {
            assert!(line.ends_with(&end) && line.contains("0/0 0 1970"), "{line}");
        }
    }
}
