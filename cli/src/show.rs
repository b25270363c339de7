//! What does a person see of a session? Short lines as it happens; at the end the diff, the ending and the costs.

use agent::Call;
use agent::ask::Answer;
use agent::drive::{Event, Finished};
use agent::gate::Verdict;
use agent::model::Usage;
use agent::session::{Ending, Record};
use agent::verify::Mark;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Duration;

const TALK_CHARS_MAX: usize = 300;
const DIFF_BYTES_MAX: usize = 64 * 1024;
/// How often the line that says that the model works is drawn again.
const TICK: Duration = Duration::from_millis(200);
/// Of what the model is writing so much of the last line is shown.
const WRITING_CHARS_MAX: usize = 60;

/// Prints to standard output.
pub struct Screen {
    turn: usize,
    color: bool,
    /// A line on a terminal that lives as long as the model reads or writes.
    working: Option<ProgressBar>,
}

impl Screen {
    /// Colour only where a person looks.
    pub fn new() -> Self {
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { turn: 0, color, working: None }
    }

    /// One event of the loop.
    pub fn watch(&mut self, event: &Event<'_>) {
        if let Event::Speaking(text) = event {
            return self.working(text);
        }
        if let Some(line) = self.working.take() {
            line.finish_and_clear();
        }
        match event {
            Event::Speaking(_) => {}
            Event::Judged { agent_id, call, judgement } => {
                let verdict = match judgement.verdict {
                    Verdict::Allow => self.paint("32", "allowed"),
                    Verdict::Ask => self.paint("33", "asks a person"),
                    Verdict::Deny => self.paint("31", "denied"),
                };
                println!("      {}{} [{verdict}]", whose(*agent_id), describe(call));
            }
            Event::Recorded(Record::Child { agent_id, happened }) => self.record(happened, Some(agent_id)),
            Event::Recorded(record) => self.record(record, None),
        }
        let _ = std::io::stdout().flush();
    }

    /// What a model on a processor does takes seconds to minutes: a person sees that it lives, and what it writes.
    fn working(&mut self, text: &str) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let line = self.working.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("     {spinner} {elapsed} {msg}").expect("constant");
            let line = ProgressBar::new_spinner().with_style(style);
            line.enable_steady_tick(TICK);
            line
        });
        let last = agent::text::sanitize(text.lines().next_back().unwrap_or_default().as_bytes(), 1024).text;
        let last: String = last.chars().take(WRITING_CHARS_MAX).collect();
        line.set_message(if text.is_empty() { "reading".to_owned() } else { format!("writing: {last}") });
    }

    /// `agent_id`: the sub-agent that it happened to.
    fn record(&mut self, record: &Record, agent_id: Option<&str>) {
        match record {
            Record::Opened { task, .. } if agent_id.is_some() => {
                println!("      {}begins: {}", whose(agent_id), first_line(task));
            }
            Record::Opened { files, tests, .. } => {
                println!("{} files", files.len());
                match tests {
                    Some(run) => println!("tests before any change: `{}`: {}", run.command, run.summary()),
                    None => println!("tests: none known; the result will be `unverified`"),
                }
            }
            Record::Replied { text, usage } => {
                self.turn += 1;
                let turn = self.paint("1", &format!("[{:>2}]", self.turn));
                println!("{turn} {}{}", whose(agent_id), cost(usage));
                let talk = talk(text);
                if !talk.is_empty() {
                    println!("      {}", self.paint("2", &talk));
                }
            }
            Record::Refused { why, .. } => println!("      {} {}", self.paint("33", "not done:"), first_line(why)),
            Record::Observed { text, writes, .. } if writes.is_empty() => {
                println!("      {}", self.paint("2", &first_line(text)))
            }
            Record::Observed { .. } | Record::Resumed => {}
            Record::Tested { run } => {
                let tone = if run.passed { "32" } else { "31" };
                println!("      tests in the box: {} ({} ms)", self.paint(tone, &run.summary()), run.millis);
            }
            Record::Restored => println!("      taken back; trying another way"),
            Record::Compacted => println!("the conversation grew too long for the model: its older half is left out"),
            Record::Verified { report } => {
                for rung in &report.rungs {
                    let mark = match rung.mark {
                        Mark::Passed => self.paint("32", "ok  "),
                        Mark::Failed => self.paint("31", "FAIL"),
                        Mark::Skipped => self.paint("2", "-   "),
                        Mark::Unknown => self.paint("33", "?   "),
                    };
                    println!("verify {mark} {}: {}", rung.name, first_line(&rung.detail));
                }
                for path in &report.dropped {
                    println!("verify      {path}: put back, it decides what the tests mean");
                }
                for finding in &report.findings {
                    println!("verify      {finding}");
                }
            }
            Record::Told { by, text } => println!("hook {by} adds: {}", self.paint("2", &first_line(text))),
            Record::SentOn { by, why } => {
                println!("hook {by} {} {}", self.paint("33", "says not done:"), first_line(why))
            }
            Record::Answered { answer, .. } => {
                let word = match answer {
                    Answer::Yes => "yes",
                    Answer::YesForSession => "yes, as long as this session lives",
                    Answer::No => "no",
                    Answer::Silence => "nothing, which is a no",
                };
                println!("      a person says: {word}");
            }
            Record::Returned { agent_id, agent_type, ending, costs, spent } => println!(
                "      {}({}) ended {}{}; {} calls, {} tokens, {} s",
                whose(Some(agent_id)),
                agent_type.name(),
                if *ending == Ending::Unverified { "with an answer" } else { ending.name() },
                if *ending == Ending::Unverified { String::new() } else { because(ending) },
                costs.len(),
                spent.model_tokens,
                spent.seconds
            ),
            // There is no child of a child.
            Record::Child { .. } | Record::Stopped { .. } => {}
        }
    }

    /// The closing lines.
    pub fn close(&self, finished: &Finished, costs: &[Usage]) {
        // A model that failed said nothing that would have ended it.
        self.working.iter().for_each(ProgressBar::finish_and_clear);
        if let Some(report) = finished.report.as_ref().filter(|report| !report.diff.is_empty()) {
            println!("\n{}", self.diff(&agent::text::sanitize(report.diff.as_bytes(), DIFF_BYTES_MAX).text));
        }
        println!(
            "{:>6} {:>8} {:>8} {:>9} {:>10} {:>8}",
            "call", "prompt", "reused", "computed", "generated", "seconds"
        );
        for (at, usage) in costs.iter().enumerate() {
            println!("{:>6} {}", at + 1, row(usage));
        }
        let total = costs.iter().fold(Usage::default(), |a, b| Usage {
            prompt_tokens: a.prompt_tokens + b.prompt_tokens,
            cached_tokens: a.cached_tokens + b.cached_tokens,
            generated_tokens: a.generated_tokens + b.generated_tokens,
            millis: a.millis + b.millis,
        });
        println!("{:>6} {}", "sum", row(&total));
        let tone = if finished.ending == Ending::Verified { "32" } else { "33" };
        let unreviewed =
            finished.report.iter().flat_map(|report| &report.rungs).find(|rung| rung.mark == Mark::Unknown);
        let because = match (&finished.ending, unreviewed) {
            (Ending::Unverified, Some(rung)) => format!(": {}", first_line(&rung.detail)),
            (ending, _) => because(ending),
        };
        println!("\nending: {}{because}", self.paint(tone, finished.ending.name()));
    }

    fn diff(&self, diff: &str) -> String {
        let line = |line: &str| match line.as_bytes().first() {
            Some(b'+') => self.paint("32", line),
            Some(b'-') => self.paint("31", line),
            _ => line.to_owned(),
        };
        diff.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Before what a sub-agent does.
fn whose(agent_id: Option<&str>) -> String {
    agent_id.map(|id| format!("sub-agent {id} ")).unwrap_or_default()
}

fn row(usage: &Usage) -> String {
    let Usage { prompt_tokens, cached_tokens, generated_tokens, millis } = usage;
    let computed = usage.computed_tokens();
    format!(
        "{prompt_tokens:>8} {cached_tokens:>8} {computed:>9} {generated_tokens:>10} {:>8.1}",
        *millis as f64 / 1000.0
    )
}

fn cost(usage: &Usage) -> String {
    let seconds = usage.millis as f64 / 1000.0;
    let (reused, computed) = (usage.cached_tokens, usage.computed_tokens());
    format!("{reused} tokens reused, {computed} computed, {} generated, {seconds:.1} s", usage.generated_tokens)
}

/// What an action is, in a few words.
pub fn describe(call: &Call) -> String {
    let short = |text: &str| text.chars().take(100).collect::<String>();
    let text = match call {
        Call::ListDir { path } => format!("list_dir {path}"),
        Call::ReadFile { path, .. } => format!("read_file {path}"),
        Call::Search { query } => format!("search {:?}", short(query)),
        Call::Grep { pattern, path } => format!("grep {:?} in {}", short(pattern), path.as_deref().unwrap_or(".")),
        Call::EditFile { path, .. } => format!("edit_file {}", path.as_deref().unwrap_or("?")),
        Call::EditLine { path, .. } => format!("edit_line {}", path.as_deref().unwrap_or("?")),
        Call::WriteFile { path, .. } => format!("write_file {path}"),
        Call::RunCommand { command } => format!("run_command {:?}", short(command)),
        Call::RunTests => "run_tests".into(),
        Call::Task { prompt, subagent_type, .. } => format!("task for {} {:?}", subagent_type.name(), short(prompt)),
        Call::Finish { .. } => "finish".into(),
        Call::ReportImpossible { .. } => "report_impossible".into(),
    };
    // A model wrote the paths: they may hold anything.
    agent::text::sanitize(text.as_bytes(), 512).text.replace('\n', " ")
}

fn because(ending: &Ending) -> String {
    match ending {
        Ending::Verified => ": the tests pass in a fresh box with the original test files".into(),
        Ending::Unverified => ": no test that failed before the change proves it".into(),
        Ending::Impossible { why } => format!(": {}", first_line(why)),
        Ending::GaveUp { attempts } => format!(": {attempts} attempts failed"),
        Ending::Stuck { why } => format!(": no usable action; the last complaint was: {}", first_line(why)),
        Ending::BudgetExhausted { which } => format!(": {which}"),
        Ending::Blocked { by, why } => format!(": the hook {by} says: {}", first_line(why)),
        Ending::Rejected { by, why } => format!(": {by} rejects the change: {}", first_line(why)),
        Ending::Parked { question } => {
            let shown: String = question.shown.lines().map(|line| format!("\n  | {line}")).collect();
            format!(": may this run? ({}){shown}", first_line(&question.reason))
        }
        Ending::Cancelled => ": stopped by a person; the repository is untouched".into(),
        Ending::Failed { why } => format!(": {why}"),
    }
}

/// The prose of a reply: what stands before its action.
fn talk(text: &str) -> String {
    let end = ["```", "{\"name\"", "{{\"name\"", "edit_file ", "write_file ", "<tool_call>"];
    let end = end.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    let talk = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    agent::text::sanitize(talk.as_bytes(), 4096).text.chars().take(TALK_CHARS_MAX).collect()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(160).collect()
}
