//! Where does Cloister keep what it keeps? In $CLOISTER_HOME, else in ~/.cloister.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory that holds everything Cloister keeps between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

/// No home directory could be found or made.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither $CLOISTER_HOME nor the user's home directory is known.
    #[error("no home directory is known; set CLOISTER_HOME to a directory that may be written")]
    Unknown,
    /// The directory could not be made.
    #[error("cannot make {path}: {source}; set CLOISTER_HOME to a directory that may be written")]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Home {
    /// $CLOISTER_HOME, else `.cloister` in the user's home directory. Touches no disk.
    pub fn from_env() -> Result<Home, HomeError> {
        let Home(path) = Home::choose(std::env::var_os("CLOISTER_HOME"), std::env::home_dir())?;
        Ok(Home(std::path::absolute(&path).unwrap_or(path)))
    }

    /// A home at an absolute path of the caller's choice. Touches no disk.
    pub fn at(path: impl Into<PathBuf>) -> Home {
        Home(path.into())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path below the home.
    pub fn join(&self, below: impl AsRef<Path>) -> PathBuf {
        self.0.join(below)
    }

    /// Makes the directory where it is missing, readable by its owner only: sessions and code live in it too.
    pub fn make(&self) -> Result<(), HomeError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(|source| HomeError::Make { path: self.0.clone(), source })
    }

    fn choose(cloister_home: Option<OsString>, user_home: Option<PathBuf>) -> Result<Home, HomeError> {
        let given = |path: &PathBuf| !path.as_os_str().is_empty();
        let chosen = cloister_home.map(PathBuf::from).filter(given);
        let path = chosen.or_else(|| user_home.filter(given).map(|home| home.join(".cloister")));
        path.map(Home).ok_or(HomeError::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cloister_home: Option<&str>, user_home: Option<&str>, expected: Option<&str>) {
        let home = Home::choose(cloister_home.map(OsString::from), user_home.map(PathBuf::from));
        assert_eq!(home.ok(), expected.map(Home::at));
    }

    #[test]
    fn the_variable_wins_over_the_users_home_and_an_empty_one_counts_as_unset() {
        check(Some("/srv/c"), Some("/root"), Some("/srv/c"));
        check(None, Some("/root"), Some("/root/.cloister"));
        check(Some(""), Some("/root"), Some("/root/.cloister"));
        check(None, None, None);
    }
}
