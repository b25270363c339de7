//! Which hosts does a command name, and what do the rules say about one?

use globset::GlobMatcher;

use super::effects::{Effect, operands};
use super::rules::{Rule, after_global_options};
use super::shell::{Word, program};

/// Another end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Lower case, without user, brackets and final dot.
    pub host: String,
    /// The port, when the words or the scheme tell it.
    pub port: Option<u16>,
}

/// A rule about hosts.
#[derive(Debug, Clone)]
pub(super) struct HostRule {
    pub rule: Rule,
    pub hosts: Vec<GlobMatcher>,
    /// Empty means any.
    pub ports: Vec<u16>,
}

impl HostRule {
    /// A port that is not told matches every rule that tightens, and no rule that allows only some ports.
    pub(super) fn matches(&self, end: &Endpoint) -> bool {
        let tightens = self.rule.verdict != super::Verdict::Allow;
        let port = self.ports.is_empty() || end.port.map_or(tightens, |port| self.ports.contains(&port));
        port && self.hosts.iter().any(|host| host.is_match(&end.host))
    }
}

impl Endpoint {
    /// `host`, `host:port`, `user@host`, `[::1]:80`; none when it cannot be a host.
    pub(super) fn parse(text: &str, default: Option<u16>) -> Option<Endpoint> {
        let authority = text.rsplit('@').next().unwrap_or(text);
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => v6.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':')))?,
            None => match authority.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (authority, None),
            },
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let plain = !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || ".-_:%*".contains(c));
        let port = port.map_or(Some(default), |port| port.parse().ok().map(Some))?;
        plain.then_some(Endpoint { host, port })
    }

    /// The host of `scheme://authority/path`; `None` when the text is no URL, an error when its host is not plain.
    fn of_url(text: &str) -> Option<Result<Endpoint, ()>> {
        let (scheme, rest) = text.split_once("://")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        if scheme.is_empty() || !scheme.chars().all(plain) || scheme.eq_ignore_ascii_case("file") {
            return None;
        }
        let default = match scheme.to_ascii_lowercase().rsplit('+').next().unwrap_or_default() {
            "http" | "ws" => Some(80),
            "https" | "wss" => Some(443),
            "ssh" | "sftp" => Some(22),
            "ftp" => Some(21),
            "git" => Some(9418),
            _ => None,
        };
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        Some(Endpoint::parse(authority, default).ok_or(()))
    }
}

/// Options of the fetching programs whose value is no host.
const FETCH_VALUED: [&str; 34] = [
    "-H",
    "-d",
    "-X",
    "-o",
    "-u",
    "-A",
    "-e",
    "-b",
    "-c",
    "-F",
    "-T",
    "-m",
    "-w",
    "-D",
    "-O",
    "-P",
    "-t",
    "-U",
    "-y",
    "-Y",
    "-r",
    "-E",
    "--header",
    "--data",
    "--data-raw",
    "--data-binary",
    "--request",
    "--output",
    "--user",
    "--user-agent",
    "--max-time",
    "--form",
    "--cookie",
    "--timeout",
];

/// Programs that do nothing but talk to the hosts that they are given, or to those in a file that they are given.
const TALKS: [&str; 52] = [
    "nc",
    "ncat",
    "netcat",
    "telnet",
    "ftp",
    "tftp",
    "lftp",
    "ncftp",
    "ping",
    "ping6",
    "fping",
    "hping3",
    "arping",
    "traceroute",
    "tracepath",
    "mtr",
    "dig",
    "nslookup",
    "host",
    "drill",
    "whois",
    "nmap",
    "zmap",
    "masscan",
    "rsh",
    "rlogin",
    "autossh",
    "smbclient",
    "smbget",
    "http",
    "https",
    "xh",
    "xhs",
    "lynx",
    "w3m",
    "links",
    "elinks",
    "axel",
    "curlie",
    "httpie",
    "ldapsearch",
    "snmpwalk",
    "snmpget",
    "iperf",
    "iperf3",
    "websocat",
    "grpcurl",
    "wrk",
    "siege",
    "ntpdate",
    "swaks",
    "sendmail",
];

/// The hosts that the words of one command name. Words that only show or search text are left out by the caller.
pub(super) fn endpoints(words: &[Word]) -> Vec<Effect> {
    let name = program(&words[0].text);
    let mut found = Vec::new();
    let subcommand = after_global_options(name, &words[1..]).first().map_or("", |w| w.text.as_str());
    let talks = name != "git"
        || ["clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule", "archive"].contains(&subcommand);
    if talks && !["echo", "printf", "test", "grep", "egrep", "fgrep", "rg"].contains(&name) {
        found.extend(urls(words));
    }
    let named: Vec<Option<Endpoint>> = match name {
        // wget's -O and -P, curl's -O: the last stands alone, so a host after it is not skipped.
        "curl" if !told(words) => bare(words, |w| !["-O", "-P", "-U", "-E"].contains(*w), Some(443)),
        "wget" | "aria2c" if !told(words) => bare(words, |_| true, Some(80)),
        "ssh" | "sftp" | "mosh" => operands(words, &["-p", "-i", "-l", "-o", "-F", "-L", "-R", "-D", "-J"])
            .first()
            .map(|w| Endpoint::parse(&w.text, Some(22)))
            .into_iter()
            .collect(),
        "scp" | "rsync" => remote_copies(words),
        "git" if talks => remote_copies(words),
        name if TALKS.contains(&name) && !told(words) => hosts_and_ports(words),
        "openssl" if words.get(1).is_some_and(|w| w.text == "s_client") => hosts_and_ports(&words[1..]),
        "socat" => {
            words[1..].iter().filter_map(|w| w.text.split(':').nth(1).map(|host| Endpoint::parse(host, None))).collect()
        }
        _ => after(words, &["--trusted-host", "--proxy", "--index-url", "-i", "--extra-index-url", "--registry"], name),
    };
    found.extend(named.into_iter().map(|end| match end {
        Some(end) => Effect::Reaches(end),
        None => Effect::Unclear(format!("{name} names a host that is not understood")),
    }));
    let asks_openssl = name == "openssl" && subcommand == "s_client";
    let fetches = ["curl", "wget", "aria2c"].contains(&name) || TALKS.contains(&name) || asks_openssl;
    if fetches && !told(words) && found.is_empty() {
        found.push(Effect::Unclear(format!("{name} names no host on the command line")));
    }
    found
}

fn told(words: &[Word]) -> bool {
    words.iter().any(|w| w.text == "--version" || w.text == "--help")
}

/// URLs in any word: alone, after `=`, and after a scheme's prefix such as `git+`.
fn urls(words: &[Word]) -> Vec<Effect> {
    let candidates = words[1..].iter().filter(|w| w.text.contains(':') && w.text.contains("://")).flat_map(|w| {
        let value = w.text.split_once('=').map(|(_, value)| value);
        [Some(w.text.as_str()), value]
    });
    let read = |text: &str| match Endpoint::of_url(text)? {
        Ok(end) => Some(Effect::Reaches(end)),
        Err(()) => Some(Effect::Unclear("a URL names a host that is not understood".into())),
    };
    candidates.flatten().filter_map(read).collect()
}

/// Operands without a scheme: `curl example.invalid/x`.
fn bare(words: &[Word], valued: impl Fn(&&&str) -> bool, port: Option<u16>) -> Vec<Option<Endpoint>> {
    let valued: Vec<&str> = FETCH_VALUED.iter().filter(|w| valued(w)).copied().collect();
    let hosts = operands(words, &valued).into_iter().filter(|w| !w.text.contains("://") && w.text != "-");
    hosts.map(|w| Endpoint::parse(w.text.split(['/', '?']).next().unwrap_or_default(), port)).collect()
}

/// `user@host:path`.
fn remote_copies(words: &[Word]) -> Vec<Option<Endpoint>> {
    let remote = |w: &&Word| {
        let host = w.text.split(':').next().filter(|host| host.len() < w.text.len() && !host.contains('/'));
        host.map(|host| Endpoint::parse(host, Some(22)))
    };
    let skip = |w: &&&Word| w.text.contains("://") || w.text.contains('=');
    // A refspec `a:b` of git has no user and no dot.
    let git = program(&words[0].text) == "git";
    let host_like = |w: &&&Word| !git || w.text.split(':').next().is_some_and(|host| host.contains(['@', '.']));
    operands(words, &[]).iter().filter(|w| !skip(w)).filter(host_like).filter_map(remote).collect()
}

/// `nc host port`.
fn hosts_and_ports(words: &[Word]) -> Vec<Option<Endpoint>> {
    let operands = operands(words, &["-p", "-w", "-c", "-i", "-s", "-e"]);
    let port = operands.iter().find_map(|w| w.text.parse().ok());
    let hosts = operands.iter().filter(|w| w.text.parse::<u16>().is_err() && !w.text.contains("://"));
    hosts.map(|w| Endpoint::parse(w.text.trim_start_matches(['@', '+']), port)).collect()
}

/// Hosts in the values of options of package programs.
fn after(words: &[Word], options: &[&str], name: &str) -> Vec<Option<Endpoint>> {
    let by_python = name.starts_with("python") && words.get(2).is_some_and(|module| module.text == "pip");
    if !by_python && !["pip", "pip3", "uv", "pipx", "npm", "yarn", "pnpm"].contains(&name) {
        return vec![];
    }
    let values = words.windows(2).filter(|w| options.contains(&w[0].text.as_str()) && !w[1].text.contains("://"));
    values.map(|w| Endpoint::parse(&w[1].text, Some(443))).collect()
}
