//! Where is the engine?

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The Unix socket of an engine, written `unix:///path`. Nothing is guessed, and an engine over a network is refused: whoever
/// speaks to it in clear text owns its machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Socket(PathBuf);

impl Socket {
    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Why words are not the address of an engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// Another protocol.
    #[error("{0:?} is not a Unix socket; engines over a network are refused, write unix:///path/to/docker.sock")]
    Protocol(String),
    /// A path that depends on where one stands.
    #[error("{0:?} is not an absolute path of one socket; write unix:///path/to/docker.sock")]
    Relative(String),
}

const UNIX: &str = "unix://";

impl FromStr for Socket {
    type Err = SocketError;

    fn from_str(words: &str) -> Result<Socket, SocketError> {
        let path = words.strip_prefix(UNIX).ok_or_else(|| SocketError::Protocol(words.to_owned()))?;
        // The client takes the protocol off wherever it stands.
        if !path.starts_with('/') || path.contains(UNIX) || path.contains('\0') {
            return Err(SocketError::Relative(words.to_owned()));
        }
        Ok(Socket(PathBuf::from(path)))
    }
}

impl TryFrom<String> for Socket {
    type Error = SocketError;

    fn try_from(words: String) -> Result<Socket, SocketError> {
        words.parse()
    }
}

impl From<Socket> for String {
    fn from(socket: Socket) -> String {
        socket.to_string()
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{UNIX}{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_unix_socket_at_an_absolute_path_is_an_engine() {
        let socket: Socket = "unix:///run/docker.sock".parse().expect("socket");
        assert_eq!(
            (socket.path(), socket.to_string()),
            (Path::new("/run/docker.sock"), "unix:///run/docker.sock".into())
        );
        for words in ["tcp://127.0.0.1:2375", "http://host", "ssh://host", "/run/docker.sock", "", "npipe:////./pipe"] {
            assert_eq!(words.parse::<Socket>(), Err(SocketError::Protocol(words.into())), "{words}");
        }
        for words in ["unix://", "unix://run/docker.sock", "unix:///a/unix:///b"] {
            assert_eq!(words.parse::<Socket>(), Err(SocketError::Relative(words.into())), "{words}");
        }
    }
}
