//! Is this a key, a password, a token? Such a file enters no lane, whoever asks.
//!
//! Known by its name, by the directory that programs keep such things in, and by the first line of a private key. What
//! this table knows too much costs a search; what it does not know costs a secret.

/// Names that people and programs give to files with credentials.
const NAMES: &[&str] = &[
    ".boto",
    ".dockercfg",
    ".dockerconfigjson",
    ".env",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".vault-token",
    "_netrc",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "id_rsa",
    "kubeconfig",
    "master.key",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account.json",
];
const ENDINGS: &[&str] = &[
    ".asc",
    ".env",
    ".gpg",
    ".jks",
    ".kdbx",
    ".key",
    ".keystore",
    ".p12",
    ".pem",
    ".pfx",
    ".ppk",
    ".tfstate",
    ".tfstate.backup",
];
const DIRECTORIES: &[&str] = &[".aws", ".gnupg", ".ssh"];
/// The last part of a name that is a pattern for people to fill in, and of a key that is meant to be known.
const SAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults"];
const PUBLIC_ENDING: &str = ".pub.key";

/// What the path alone says.
pub(crate) fn is_secret_path(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", &path));
    if directories.split('/').any(|part| DIRECTORIES.contains(&part)) {
        return true;
    }
    if let Some(what) = name.strip_prefix(".env.") {
        return !SAMPLES.iter().any(|sample| what.ends_with(sample));
    }
    NAMES.contains(&name) || (ENDINGS.iter().any(|ending| name.ends_with(ending)) && !name.ends_with(PUBLIC_ENDING))
}

/// What the first bytes say: only at the very beginning, for code that reads keys has that text somewhere in it.
pub(crate) fn is_secret_head(head: &[u8]) -> bool {
    let first_line = head.trim_ascii_start().split(|&byte| byte == b'\n').next().unwrap_or_default();
    first_line.starts_with(b"-----BEGIN ") && first_line.windows(11).any(|window| window == b"PRIVATE KEY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_known_and_their_templates_are_not() {
        for path in [
            ".env",
            "a/.env.local",
            "prod.env",
            "server.pem",
            "ID_RSA",
            "tls.key",
            ".npmrc",
            "config/secrets.yaml",
            "config/master.key",
            "deploy/credentials",
            "service-account.json",
            "backup.gpg",
            ".ssh/config",
        ] {
            assert!(is_secret_path(path), "{path}");
        }
        for path in [
            ".env.example",
            ".env.local.sample",
            "env.py",
            "id_rsa.pub",
            "keyboard.rs",
            "key.rs",
            "secrets.rs",
            "pem.go",
            "credentials.rs",
            "credentials/store.py",
            "signing.pub.key",
        ] {
            assert!(!is_secret_path(path), "{path}");
        }
    }

    #[test]
    fn a_private_key_is_known_by_its_first_line_whatever_its_name() {
        assert!(is_secret_head(b"\n-----BEGIN OPENSSH PRIVATE KEY-----\nabc"));
        assert!(is_secret_head(b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n"));
        assert!(!is_secret_head(b"-----BEGIN PUBLIC KEY-----\nabc"));
        assert!(!is_secret_head(b"const MARK: &str = \"-----BEGIN PRIVATE KEY\";"));
    }
}
