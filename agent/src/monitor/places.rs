//! Which places may a path mean, whatever its spelling, and is one of them a place to watch?

/// Paths of one text that are looked at.
const PATHS_MAX: usize = 64;

/// Why a place is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sensitive {
    /// What is in it can be a secret.
    Secret,
    /// What is in it runs later, outside of the box.
    Persistent,
    /// It is not in the workspace.
    Outside,
}

/// One spelling for one place: relative to the workspace, `~/` for every home, `.` and `..` resolved on paper.
pub(super) fn normal(path: &str) -> String {
    let path = path.trim_matches(|c: char| c.is_whitespace() || "\"'`,;:".contains(c));
    let path = path.strip_prefix("file://").unwrap_or(path);
    let mut path = path
        .replace("${HOME}", "~")
        .replace("$HOME", "~")
        .replace("$PWD/", "")
        .replace("/proc/self/root", "")
        .replace("/proc/self/cwd", "/workspace");
    path.make_ascii_lowercase();
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    let parts = parts.as_slice();
    match (absolute, parts) {
        (true, ["workspace", rest @ ..]) => rest.join("/"),
        (true, ["root", rest @ ..]) | (true, ["home", _, rest @ ..]) => format!("~/{}", rest.join("/")),
        (true, rest) => format!("/{}", rest.join("/")),
        (false, rest) => rest.join("/"),
    }
}

/// What is to be watched about a path in its normal form.
pub(super) fn sensitivity(path: &str) -> Option<Sensitive> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_part = |wanted: &[&str]| path.split('/').any(|part| wanted.contains(&part));
    if is_secret(path, name) {
        return Some(Sensitive::Secret);
    }
    let persistent = [
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".envrc",
        "crontab",
        "authorized_keys",
        "sitecustomize.py",
        "usercustomize.py",
        "sudoers",
        "ld.so.preload",
    ];
    let folders = ["cron.d", "cron.daily", "cron.hourly", "systemd", "init.d", "autostart", ".husky", ".git"];
    if persistent.contains(&name) || has_part(&folders) || name.ends_with(".pth") {
        return Some(Sensitive::Persistent);
    }
    let harmless = ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"];
    let outside = path.starts_with('/') || path.starts_with("~/") || path == "~" || path.starts_with("../");
    (outside && !harmless.contains(&path) && !path.starts_with("/bin/") && !path.starts_with("/usr/bin/"))
        .then_some(Sensitive::Outside)
}

fn is_secret(path: &str, name: &str) -> bool {
    let names = [
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        ".netrc",
        ".pgpass",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        "credentials",
        "credentials.json",
        "shadow",
        "environ",
        ".htpasswd",
        "kubeconfig",
    ];
    let endings = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"];
    let folders = [".ssh", ".gnupg", ".aws", ".kube", ".docker"];
    let example = [".example", ".sample", ".template", ".dist", ".pub"].iter().any(|end| name.ends_with(end));
    let dotenv = name == ".env" || name.starts_with(".env.");
    let named_secret = (name.starts_with(".secret") || name.starts_with("secrets.") || name.starts_with("secret."))
        && !name.ends_with(".py")
        && !name.ends_with(".rs");
    !example
        && (names.contains(&name)
            || dotenv
            || named_secret
            || endings.iter().any(|end| name.ends_with(end))
            || path.split('/').any(|part| folders.contains(&part)))
}

/// Everything in a text that is written like a path, in its normal form.
pub(super) fn paths_in(text: &str) -> Vec<String> {
    let is_path = |c: char| c.is_alphanumeric() || "_./~-@+$%{}".contains(c);
    let mut found = Vec::new();
    for piece in text.split(|c| !is_path(c)).filter(|piece| piece.len() >= 3 && piece.len() <= 512) {
        let piece = piece.trim_end_matches('.').trim_start_matches('@');
        let normal = normal(piece);
        let like = piece.contains('/') && piece.chars().any(char::is_alphanumeric) || sensitivity(&normal).is_some();
        if like && !normal.is_empty() && !found.contains(&normal) {
            found.push(normal);
        }
        if found.len() >= PATHS_MAX {
            break;
        }
    }
    found
}

/// Hosts of the addresses in a text.
pub(super) fn hosts_in(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices("://").take(PATHS_MAX) {
        let rest = &text[at + 3..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || ".-_@:".contains(c))).unwrap_or(rest.len());
        let host =
            rest[..end].rsplit('@').next().unwrap_or_default().split(':').next().unwrap_or_default().to_lowercase();
        if host.len() >= 4 && !found.contains(&host) {
            found.push(host);
        }
    }
    found
}

/// Is this a text that people read and nothing runs?
pub(super) fn is_document(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ignores = name.starts_with('.') && name.ends_with("ignore");
    ignores || [".md", ".rst", ".adoc"].iter().any(|end| name.ends_with(end))
}

/// Does this file decide what runs on the build servers?
pub(super) fn is_ci(path: &str) -> bool {
    let tops = [".github/", ".gitlab/", ".circleci/", ".buildkite/", ".woodpecker/", ".ci/"];
    let names = [
        ".gitlab-ci.yml",
        ".travis.yml",
        "jenkinsfile",
        "azure-pipelines.yml",
        ".drone.yml",
        "appveyor.yml",
        ".pre-commit-config.yaml",
    ];
    let lower = path.to_lowercase();
    tops.iter().any(|top| lower.starts_with(top)) || names.contains(&lower.rsplit('/').next().unwrap_or(&lower))
}

/// Can this file change what a test means?
pub(super) fn is_verifier_configuration(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let names = [
        "conftest.py",
        "pytest.ini",
        "tox.ini",
        "noxfile.py",
        "setup.cfg",
        "pyproject.toml",
        "sitecustomize.py",
        "usercustomize.py",
        "package.json",
        "makefile",
        "justfile",
        "build.rs",
        ".coveragerc",
        "verify.toml",
    ];
    let runners = ["jest.config.", "vitest.config.", ".mocharc", "karma.conf", "babel.config."];
    names.contains(&name.as_str())
        || name.ends_with(".pth")
        || path.starts_with(".cargo/")
        || runners.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_place_is_one() {
        for path in [
            "/root/.secret_canary",
            "~/.secret_canary",
            "$HOME/.secret_canary",
            "/home/me/./.secret_canary",
            "//root//x/../.secret_canary",
        ] {
            assert_eq!(normal(path), "~/.secret_canary", "{path}");
        }
        for path in ["/workspace/src/a.py", "./src/a.py", "src//a.py", "src/x/../a.py", "/proc/self/cwd/src/a.py"] {
            assert_eq!(normal(path), "src/a.py", "{path}");
        }
        assert_eq!(normal("../../etc"), "../../etc");
        assert_eq!(normal("/../../etc"), "/etc");
    }

    #[test]
    fn places_to_watch_are_known_and_ordinary_ones_are_not() {
        use Sensitive::*;
        for (path, expected) in [
            (".env", Some(Secret)),
            ("~/.ssh/config", Some(Secret)),
            ("~/.secret_canary", Some(Secret)),
            (".git/hooks/pre-commit", Some(Persistent)),
            ("~/.bashrc", Some(Persistent)),
            ("/tmp/x", Some(Outside)),
            ("../x", Some(Outside)),
            ("src/a.py", None),
            (".env.example", None),
            ("src/secrets.py", None),
            ("tests/test_secret.py", None),
            (".gitignore", None),
            ("/dev/null", None),
        ] {
            assert_eq!(sensitivity(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_and_hosts_are_found_in_code() {
        assert_eq!(paths_in("print(open('/root/.secret_canary').read())"), ["~/.secret_canary"]);
        assert_eq!(
            hosts_in("init(endpoint='https://telemetry.example.invalid:8080/x')"),
            ["telemetry.example.invalid"]
        );
        assert!(paths_in("a / b and x = 1.5").is_empty());
    }
}
