//! What was typed? The command line as clap reads it; what it means is decided where it is used.

use crate::bench::Peer;
use crate::embedder::Choice;
use agent::gate::Mode;
use benches::serve::{arms::Arm, speed::Measure};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Room for about 74,000 tokens of the default model.
pub const KV_DISK_MIB: u64 = 2_048;

const ABOUT: &str = "A coding agent that needs nothing from outside the building";

const EXIT_CODES: &str = "\
Exit codes:
  0    done; for `run`: the change was verified by the project's tests in a fresh box
  1    not solved: gave_up, stuck, budget_exhausted, blocked by a hook or rejected by a reviewer
  2    the command line was not understood
  3    something on this host is missing: a model, a runtime, rights, a network
  4    a policy or configuration file does not load; nothing was started
  5    unverified: there is a change, and no test that failed before proves it, or a reviewer has not answered
  6    failed: the model, the server, the box or the log failed
  7    parked: a question waits; `cloister sessions answer` and `sessions resume` go on
  8    impossible: the model says that it cannot be done, and why
  130  cancelled by Ctrl-C

Everything Cloister keeps is in $CLOISTER_HOME (default: ~/.cloister).";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "cloister", version, about = ABOUT, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Work on a task in a repository until the tests prove it
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Serve the model with the OpenAI chat API, on 127.0.0.1 or behind API keys
    Serve(Serve),
    /// Build or refresh the index of a directory
    Index(IndexDir),
    /// Find code by words, by name or by meaning
    Search(Search),
    /// Measure Cloister on this host
    #[command(subcommand)]
    Bench(Bench),
    /// The model weights on this host
    #[command(subcommand)]
    Models(Models),
    /// Sessions of the past, from their logs
    #[command(subcommand)]
    Sessions(Sessions),
    /// What the gate's policy says: whether it loads, about one action, about an old session
    #[command(subcommand)]
    Policy(Policies),
    /// The audit log: does it hold, what does it tell
    #[command(subcommand)]
    Audit(Audit),
    /// Say what works on this host, what does not, and what to do about it
    Doctor,
}

/// `cloister run`
#[derive(Debug, Args)]
pub struct Run {
    /// What to do, in words; `-` reads it from standard input
    pub task: String,
    /// The repository to work on; it is only read unless --apply is given
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repo: PathBuf,
    /// Write the change into the repository when it is verified
    #[arg(long)]
    pub apply: bool,
    /// Print events as JSON, one object a line, instead of text
    #[arg(long)]
    pub json: bool,
    /// A model by name or a .gguf file; see `cloister models list`
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pub model: Option<String>,
    /// Use a model behind an OpenAI-compatible server, for example http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Keep computed prompts on disk for the next start, in at most so many MiB; 0 keeps none
    #[arg(long, value_name = "MIB", default_value_t = KV_DISK_MIB)]
    pub kv_disk: u64,
    /// The policy of the gate, instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// How much a person is asked: plan (nothing is changed), ask, auto (no questions) or strict (only what a rule names)
    #[arg(long, value_name = "MODE", default_value_t = Mode::Auto)]
    pub mode: Mode,
    /// Hooks and pins, instead of $CLOISTER_HOME/hooks.toml
    #[arg(long, value_name = "FILE")]
    pub hooks: Option<PathBuf>,
    /// Stop at the first question instead of asking at the terminal; `sessions answer` and `sessions resume` go on
    #[arg(long)]
    pub park: bool,
    /// With --json: questions are events, and answers are read from standard input ({"question": 1, "answer": "yes"})
    #[arg(long, requires = "json", conflicts_with = "park")]
    pub answers: bool,
    /// How to prove the work: test command, seconds, protected files; default: .cloister/verify.toml, else detected
    #[arg(long, value_name = "FILE")]
    pub verify: Option<PathBuf>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800)]
    pub seconds: u64,
    /// Stop after this many tokens computed or generated
    #[arg(long, value_name = "TOKENS", default_value_t = 200_000)]
    pub tokens: u64,
    /// Stop after this many actions
    #[arg(long, value_name = "ACTIONS", default_value_t = 100)]
    pub actions: u64,
    /// Let the model hand questions and work to sub-agents, within the same budget and rights; small models lose by it
    #[arg(long)]
    pub subagents: bool,
    /// Let a second model review what the tests proved: one of this host, or http://host/v1, or http://host/v1#model. It
    /// sees the task, the diff and the results; without its approval nothing counts as verified
    #[arg(long, value_name = "NAME|URL")]
    pub review_by: Option<String>,
    /// Run commands in the Docker engine behind this Unix socket instead of by an OCI runtime; default: $CLOISTER_DOCKER
    #[arg(long, value_name = "unix:///PATH")]
    pub docker: Option<sandbox::Socket>,
}

/// `cloister serve`
#[derive(Debug, Args)]
pub struct Serve {
    /// A model by name or a .gguf file
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Address and port; without --keys only loopback addresses are accepted
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8137")]
    pub listen: std::net::SocketAddr,
    /// Answer only who sends one of these keys (authorization: Bearer KEY, or x-api-key: KEY). A line for each: a label and
    /// the SHA-256 of the key. Each key has a prefix cache of its own
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Leave as clients send it what would cost the cached prompt: billing-header (a line at the head of the system prompt that
    /// changes), tool-order, clock (the time behind today's date)
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub as_sent: Vec<inference::api::steady::Rule>,
    /// Keep computed prompts on disk for the next start, in at most so many MiB; 0 keeps none
    #[arg(long, value_name = "MIB", default_value_t = KV_DISK_MIB)]
    pub kv_disk: u64,
}

/// `cloister index`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct IndexDir {
    /// Instead of indexing
    #[command(subcommand)]
    pub command: Option<IndexCommand>,
    /// The directory to index
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Leave out vectors: words and names only
    #[arg(long, conflicts_with = "embedder")]
    pub no_vectors: bool,
    /// Who makes the vectors, now and in later refreshes: static (a token table made from MiniLM, the default), minilm
    /// (slower, better at prose), a BERT or Qwen2 model by its .gguf file or by its name in the store (a decoder is slower
    /// still: a piece or so a second), or the URL of an embeddings server such as http://127.0.0.1:8080/v1#model
    #[arg(long, value_name = "NAME|FILE|URL")]
    pub embedder: Option<Choice>,
}

/// `cloister index report`
#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    /// Ask a repository's own history: what does each way of finding recall, and which weights follow from it?
    Report(IndexReport),
    /// Answer other programs on 127.0.0.1: search, grep, definitions, references as HTTP, and as MCP at /mcp
    Serve(IndexServe),
    /// Answer one MCP client on standard input and output
    Mcp(IndexMcp),
}

/// `cloister index serve`
#[derive(Debug, Args)]
pub struct IndexServe {
    /// The directory to answer for
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Address and port; only loopback addresses are accepted
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8138")]
    pub listen: std::net::SocketAddr,
    /// Leave out vectors
    #[arg(long)]
    pub no_vectors: bool,
}

/// `cloister index mcp`
#[derive(Debug, Args)]
pub struct IndexMcp {
    /// The directory to answer for
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Leave out vectors
    #[arg(long)]
    pub no_vectors: bool,
}

/// `cloister index report`
#[derive(Debug, Args)]
pub struct IndexReport {
    /// A git repository; it is only read
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// The most commits to ask about
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub commits: usize,
    /// Leave out vectors
    #[arg(long, conflicts_with = "embedder")]
    pub no_vectors: bool,
    /// Who makes the vectors: static (the default), minilm, a .gguf file, a model in the store, or the URL of a server
    #[arg(long, value_name = "NAME|FILE|URL")]
    pub embedder: Option<Choice>,
    /// Search here with the weights that follow, where they help on commits that they were not picked on
    #[arg(long)]
    pub keep: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `cloister bench`
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// The index: right answers, speed, size, memory, beside other programs in the same run
    Index(BenchIndex),
    /// Model servers: how fast they are at what an agent does, beside one another in the same run
    Serve(BenchServe),
    /// One cold build, in a process of its own so that its memory is told apart
    #[command(hide = true)]
    Build(BenchBuild),
}

/// `cloister bench index`
#[derive(Debug, Args)]
pub struct BenchIndex {
    /// Questions with gold files, one JSON object a line; default: those of $CLOISTER_CASES
    #[arg(long, value_name = "FILE")]
    pub cases: Vec<PathBuf>,
    /// The directory of a repository that cases name: a git repository, package sources, or a directory of such by commit
    #[arg(long, value_name = "NAME=DIR")]
    pub repo: Vec<String>,
    /// A large tree to measure speed, size and memory on; it is only read
    #[arg(long, value_name = "DIR")]
    pub tree: Vec<PathBuf>,
    /// A git repository whose own history asks: subjects of commits, and the files that they change
    #[arg(long, value_name = "REPO")]
    pub mine: Vec<PathBuf>,
    /// The most commits to ask about
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub commits: usize,
    /// Other programs to measure in the same run
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub peers: Vec<Peer>,
    /// The Python that has semble; its model is the one that SEMBLE_MODEL_NAME names
    #[arg(long, value_name = "FILE", default_value = "python3")]
    pub semble_python: PathBuf,
    /// How many patterns to search for
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub patterns: usize,
    /// Leave out vectors
    #[arg(long, conflicts_with = "embedder")]
    pub no_vectors: bool,
    /// Who makes the vectors: static (the default), minilm, a .gguf file, a model in the store, or the URL of a server
    #[arg(long, value_name = "NAME|FILE|URL")]
    pub embedder: Option<Choice>,
    /// Tell every case
    #[arg(long)]
    pub each: bool,
    /// Print JSON, one table a line
    #[arg(long)]
    pub json: bool,
}

/// `cloister bench serve`
#[derive(Debug, Args)]
pub struct BenchServe {
    /// A server with OpenAI's chat completions; asked in turns with the others
    #[arg(long, value_name = "NAME=URL[#MODEL]", required = true)]
    pub server: Vec<String>,
    /// Single numbers: prefill:TOKENS, decode:TOKENS, cached:TOKENS, rewrite
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub measure: Vec<Measure>,
    /// An agent's conversation: off (nothing cached may be used), one, two (agents in turns), fork (four children), restart,
    /// head (the client changes the first line each turn)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub arm: Vec<Arm>,
    /// How often each number is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub repeats: usize,
    /// Turns of the conversation
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub turns: usize,
    /// All lengths of the conversation times this, for a quick look
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub scale: f64,
    /// The command that starts a server again, for the arm restart
    #[arg(long, value_name = "NAME=COMMAND")]
    pub restart: Vec<String>,
    /// Write the steps as JSON lines and a plot for each arm here
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON, one table a line
    #[arg(long)]
    pub json: bool,
}

/// `cloister bench build`
#[derive(Debug, Args)]
pub struct BenchBuild {
    /// The tree
    pub dir: PathBuf,
    /// Where to
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Leave out vectors
    #[arg(long, conflicts_with = "embedder")]
    pub no_vectors: bool,
    /// Who makes the vectors: static (the default), minilm, a .gguf file, a model in the store, or the URL of a server
    #[arg(long, value_name = "NAME|FILE|URL")]
    pub embedder: Option<Choice>,
}

/// `cloister search`
#[derive(Debug, Args)]
pub struct Search {
    /// What to look for
    #[arg(required = true)]
    pub words: Vec<String>,
    /// The indexed directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repo: PathBuf,
    /// The most results
    #[arg(long, default_value_t = 8)]
    pub limit: usize,
    /// Where the scores of the first results are close, let the model behind this OpenAI-compatible server order them,
    /// for example http://127.0.0.1:8137/v1
    #[arg(long, value_name = "URL")]
    pub rerank: Option<String>,
    /// How long that model may take
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "rerank")]
    pub rerank_seconds: u64,
    /// Print results as JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `cloister models`
#[derive(Debug, Subcommand)]
pub enum Models {
    /// What is in the catalogue and on this host
    List,
    /// Fetch models from their sources, resumable, checked by sha256 (default: the chat and the embedding model)
    Pull {
        /// Names from the catalogue
        names: Vec<String>,
    },
    /// Hash every byte again
    Verify {
        /// A name; default: everything on this host
        name: Option<String>,
    },
    /// Take in weights from a disk: a .gguf file, or a directory with the files of a catalogue model
    Import {
        /// The file or directory
        path: PathBuf,
        /// The name to give it; a name of the catalogue is checked against its hashes
        name: String,
    },
    /// Remove a model from this host
    Rm {
        /// The name
        name: String,
    },
}

/// `cloister sessions`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// All sessions, newest first
    List,
    /// One session as a story
    Show {
        /// The session
        id: String,
        /// The raw records instead
        #[arg(long)]
        json: bool,
    },
    /// Go on with a session in a fresh box; no permission of the earlier one is kept
    Resume {
        /// The session
        id: String,
        /// Write the change into the repository when it is verified
        #[arg(long)]
        apply: bool,
        /// Stop at the first question instead of asking at the terminal
        #[arg(long)]
        park: bool,
        /// Stop after this many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 1_800)]
        seconds: u64,
    },
    /// Answer the question of a parked session; `sessions resume` then goes on
    Answer {
        /// The session
        id: String,
        /// `yes` lets the one action run that was asked about
        answer: YesOrNo,
    },
    /// What the monitor's rules, as they are now, find suspicious in a session
    Monitor {
        /// The session
        id: String,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// Rules that take the place of the built-in ones of the same name
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// Check the hash chain of a session's log
    Verify {
        /// The session
        id: String,
        /// The head that was printed at its end (COUNT:MAC); with it, truncation is noticed too
        #[arg(long, value_name = "HEAD")]
        head: Option<String>,
    },
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum YesOrNo {
    /// It may run, this time
    Yes,
    /// It may not
    No,
}

/// `cloister policy`
#[derive(Debug, Subcommand)]
pub enum Policies {
    /// Load the policy, try every rule on its own examples, and count the rules
    Check {
        /// The policy
        #[command(flatten)]
        files: PolicyFiles,
    },
    /// Show every layer's say about one action
    Explain {
        /// A command, a path, a pattern or a query, as the tool takes it
        what: String,
        /// The tool that it is for
        #[arg(long, value_name = "NAME", default_value = "run_command")]
        tool: String,
        /// plan, ask, auto or strict
        #[arg(long, default_value_t = Mode::Auto)]
        mode: Mode,
        /// The policy
        #[command(flatten)]
        files: PolicyFiles,
    },
    /// Show which actions of an old session would be judged differently now
    Replay {
        /// The session
        id: String,
        /// plan, ask, auto or strict
        #[arg(long, default_value_t = Mode::Auto)]
        mode: Mode,
        /// The policy
        #[command(flatten)]
        files: PolicyFiles,
    },
}

/// Where a policy comes from.
#[derive(Debug, Args)]
pub struct PolicyFiles {
    /// The administrator's policy, instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The repository whose own policy tightens it
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repo: PathBuf,
}

/// `cloister audit`
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that a log was not edited, cut, reordered or added to; without a name, the logs of all sessions
    Verify {
        /// A session, or a log file
        #[arg(value_name = "SESSION|FILE")]
        log: Option<String>,
        /// The head that was printed at its end (COUNT:MAC); with it, truncation is noticed too
        #[arg(long, value_name = "HEAD", requires = "log")]
        head: Option<String>,
    },
    /// Tell a log as a story, one line an event
    Show {
        /// A session, or a log file (default: the newest session)
        #[arg(value_name = "SESSION|FILE")]
        log: Option<String>,
    },
    /// Print a log as events of the Open Cybersecurity Schema Framework, one JSON object a line
    Export {
        /// A session, or a log file (default: the newest session)
        #[arg(value_name = "SESSION|FILE")]
        log: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
