//! Does this path lie in the part of the tree that was asked about?

/// A prefix that leaves the tree, as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutsideTree(pub String);

/// Whether `path` is `within` or lies in it.
pub(crate) fn is_within(path: &str, within: &str) -> bool {
    path.strip_prefix(within).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `./src/` is `src`; the root itself is no prefix at all.
pub(crate) fn normal_prefix(prefix: &str) -> Result<Option<String>, OutsideTree> {
    let outside = || OutsideTree(prefix.to_owned());
    if prefix.starts_with('/') {
        return Err(outside());
    }
    let parts: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(outside());
    }
    Ok((!parts.is_empty()).then(|| parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stays_inside_and_ends_at_a_border() {
        assert_eq!(normal_prefix("./src//a/"), Ok(Some("src/a".to_owned())));
        assert_eq!(normal_prefix("."), Ok(None));
        assert!(normal_prefix("../x").is_err() && normal_prefix("/etc").is_err());
        assert!(is_within("src/a.rs", "src") && is_within("src", "src") && !is_within("srcs/a.rs", "src"));
    }
}
