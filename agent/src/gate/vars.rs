//! Which environment variables change what a command does, rather than what it says?

/// Exact names: where programs are found, what shells and runtimes run first, which programs others start.
const NAMES: [&str; 30] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "SHELL",
    "HOME",
    "PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PERL5OPT",
    "PERL5DB",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "MAKEFLAGS",
    "GLOBIGNORE",
    "TAR_OPTIONS",
];

/// Families of names.
const PREFIXES: [&str; 6] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC_", "SSH_", "npm_config_"];

/// Of the families, what only says who and when.
const HARMLESS: [&str; 3] = ["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TERMINAL_PROMPT"];

/// Whether setting it can change which program runs, or make a program run another.
pub(super) fn changes_meaning(name: &str) -> bool {
    let harmless = HARMLESS.iter().any(|begin| name.starts_with(begin));
    NAMES.contains(&name) || !harmless && PREFIXES.iter().any(|begin| name.starts_with(begin))
}
