//! Which Unix sockets of the host would a box see?
//!
//! A read-only mount does not keep anybody from connecting to a socket that lies on it. So what the host listens on below a
//! tree that a box shows is covered, like the masked files of /proc. The repository needs no cover: through an overlay a
//! socket is another one.

use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's list of this network namespace's sockets, described in proc(5).
const LIST: &str = "/proc/net/unix";

/// Sockets of the host below the trees that a box shows at these paths of its own.
pub(crate) fn below<'a>(trees: impl Iterator<Item = &'a Path> + Clone) -> Vec<PathBuf> {
    let list = fs::read(LIST).unwrap_or_default();
    let mut found: Vec<PathBuf> = bound(&String::from_utf8_lossy(&list))
        .filter_map(|path| fs::canonicalize(path).ok())
        .flat_map(|path| trees.clone().filter_map(move |tree| seen_below(&path, tree)))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn seen_below(path: &Path, tree: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(fs::canonicalize(tree).ok()?).ok()?;
    Some(tree.join(rest))
}

/// Paths in the list: what follows seven fields and begins with a slash (an abstract name begins with `@`).
fn bound(list: &str) -> impl Iterator<Item = &str> {
    list.lines().skip(1).filter_map(|line| {
        let rest = (0..7).try_fold(line, |rest, _| rest.trim_start().split_once(' ').map(|(_, rest)| rest))?;
        rest.starts_with('/').then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_with_a_path_are_taken_from_the_list() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            00000000f9db3756: 00000003 00000000 00000000 0001 03 4425373\n\
            00000000f9db3756: 00000002 00000000 00010000 0001 01 44253 /run/a b.sock\n\
            00000000f9db3756: 00000002 00000000 00010000 0001 01  1073 /usr/x\n\
            00000000f9db3756: 00000002 00000000 00010000 0001 01  1073 @ /usr/y\n";
        assert_eq!(bound(list).collect::<Vec<_>>(), ["/run/a b.sock", "/usr/x"]);
    }
}
