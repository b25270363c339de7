//! Which environment variables change what a command does, rather than what it says?

/// Exact names: where programs are found, what shells and runtimes run first, which programs others start.
const NAMES: [&str; 62] = [
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
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "PERL5LIB",
    "PERLLIB",
    "RUBYLIB",
    "PYTHONBREAKPOINT",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "ZDOTDIR",
    "CARGO",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "GOFLAGS",
    "GOROOT",
    "CC",
    "CXX",
    "CPP",
    "LD",
    "AR",
    "AS",
    "HOSTCC",
    "FC",
    "LEX",
    "YACC",
    "RM",
    "INSTALL",
    ".SHELLFLAGS",
    "MAKE",
    "MAKEFILES",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "RIPGREP_CONFIG_PATH",
    "GLOBIGNORE",
    "TAR_OPTIONS",
];

/// Families of names.
const PREFIXES: [&str; 12] = [
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "SSH_",
    "npm_config_",
    "NPM_CONFIG_",
    "RUSTC_",
    "CARGO_BUILD_",
    "CARGO_TARGET_",
    "CARGO_ALIAS_",
    "CGO_",
];

/// Of the families, what only says who, when, where and how fast.
const HARMLESS: [&str; 6] =
    ["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TERMINAL_PROMPT", "CARGO_BUILD_JOBS", "CARGO_TARGET_DIR", "CGO_ENABLED"];

/// Whether setting it can change which program runs, or make a program run another.
pub(super) fn changes_meaning(name: &str) -> bool {
    let harmless = HARMLESS.iter().any(|begin| name.starts_with(begin));
    NAMES.contains(&name) || !harmless && PREFIXES.iter().any(|begin| name.starts_with(begin))
}
