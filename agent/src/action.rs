//! What did the model ask for? Free text, then one action; read leniently, but only as the last thing of the turn.
//!
//! Small models answer with `<tool_call>` tags, a fenced JSON block, bare JSON, or JSON with doubled braces, whatever
//! they were shown. All are read. Code never travels inside JSON: an edit is a plain fenced block under a line
//! `edit_file PATH`, because quoting code lowers its quality measurably.

use crate::subagent::AgentType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest reply that is read, in bytes.
pub const REPLY_BYTES_MAX: usize = 256 * 1024;

/// How a diagnosis quotes the line that is wrong; the line follows.
pub const LINE_IS: &str = "The bug is in the line `";
/// How it goes on; what the line should be follows, up to the next backtick.
pub const LINE_SHOULD_BE: &str = "`. It should be `";

/// One action with everything it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Call {
    /// The names in a directory.
    ListDir {
        /// The directory.
        path: String,
    },
    /// Some lines of a file.
    ReadFile {
        /// The file.
        path: String,
        /// First line, from 1.
        start: Option<usize>,
        /// Last line, included.
        end: Option<usize>,
    },
    /// Code by words or by name.
    Search {
        /// The words.
        query: String,
    },
    /// Lines by pattern.
    Grep {
        /// A regular expression.
        pattern: String,
        /// A file or directory to look in.
        path: Option<String>,
    },
    /// New text for functions of a file, or for the whole of it.
    EditFile {
        /// The file; `None` when the model named none, and its functions tell which.
        path: Option<String>,
        /// The code, as the model wrote it.
        text: String,
    },
    /// Another text for one line of a file that was seen.
    EditLine {
        /// The file; `None` until the line has told which.
        path: Option<String>,
        /// The line as it is, without indentation.
        from: String,
        /// What it should be.
        to: String,
    },
    /// A file that does not exist yet.
    WriteFile {
        /// The file.
        path: String,
        /// Its text.
        text: String,
    },
    /// A command in the box.
    RunCommand {
        /// As typed.
        command: String,
    },
    /// The project's tests.
    RunTests,
    /// A question or a piece of work for a sub-agent.
    Task {
        /// A few words about it, for people.
        description: String,
        /// All that it is told.
        prompt: String,
        /// What kind of sub-agent.
        subagent_type: AgentType,
    },
    /// The model says it is done.
    Finish {
        /// What it did.
        summary: String,
    },
    /// The model says that it cannot be done.
    ReportImpossible {
        /// Why not.
        why: String,
    },
}

impl Call {
    /// Can it change what the box holds, by itself or by what it starts?
    pub fn may_write(&self) -> bool {
        self.edits() || matches!(self, Self::RunCommand { .. } | Self::Task { .. })
    }

    /// Does it change a file?
    pub fn edits(&self) -> bool {
        matches!(self, Self::EditFile { .. } | Self::EditLine { .. } | Self::WriteFile { .. })
    }
}

/// Why a reply holds no action; the text goes back to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Nothing that looks like an action ends the turn.
    #[error(
        "your reply contains no action. End it with one action as JSON on a line of its own, \
         for example {{\"name\": \"read_file\", \"arguments\": {{\"path\": \"a.py\"}}}}, \
         or with `edit_file PATH` followed by the new code in a code block"
    )]
    NoAction,
    /// A name that is no action.
    #[error(
        "there is no action `{0}`. The actions are list_dir, read_file, search, grep, edit_file, write_file, run_command, run_tests, finish, report_impossible"
    )]
    UnknownName(String),
    /// A call without something it needs.
    #[error("{name} needs \"{key}\": {hint}")]
    MissingArgument {
        /// The action.
        name: String,
        /// The argument.
        key: &'static str,
        /// What to write.
        hint: &'static str,
    },
    /// A kind of sub-agent that there is not.
    #[error("there is no sub-agent of the kind `{0}`. The kinds are Explore and general-purpose")]
    UnknownAgent(String),
    /// The reply broke off inside a code block.
    #[error("your code block was not finished. Write less prose and only the function that changes")]
    Unfinished,
}

/// Reads the action that ends `reply`.
pub fn parse(reply: &str) -> Result<Call, Unreadable> {
    let reply = &reply[..floor_boundary(reply, REPLY_BYTES_MAX)];
    let reply = reply.trim_end();
    let blocks = blocks(reply);
    let last = blocks.last();
    if let Some(call) = line_edit(reply).filter(|_| blocks.is_empty()) {
        return Ok(call);
    }
    if last.is_some_and(|block| !block.closed && !block.is_json()) {
        return Err(Unreadable::Unfinished);
    }
    // A block of code under an edit header is the action; prose after it is forgiven.
    if let Some(block) = blocks.iter().rev().find(|block| !block.is_json() && block.header(reply).is_some()) {
        let (writes, path) = block.header(reply).expect("just found");
        return Ok(edit(writes, Some(path), block.text(reply)));
    }
    if let Some(call) = trailing_json(reply, last) {
        return from_json(&call, blocks.iter().rev().find(|block| !block.is_json()).map(|block| block.text(reply)));
    }
    // A block of code alone: the functions in it tell the file.
    if let Some(block) = last.filter(|block| block.closed && looks_like_code(block.language(reply))) {
        return Ok(edit(false, None, block.text(reply)));
    }
    if reply.trim().eq_ignore_ascii_case("run_tests") {
        return Ok(Call::RunTests);
    }
    Err(Unreadable::NoAction)
}

/// Is the action in `reply` whole, so that the rest need not be generated?
pub fn is_whole(reply: &str) -> bool {
    if let Some(block) = blocks(reply).last()
        && block.closed
    {
        return if block.is_json() { parse(reply).is_ok() } else { block.header(reply).is_some() };
    }
    if reply.trim_end().ends_with("</tool_call>") {
        return true;
    }
    if line_edit(reply).is_some() {
        return true;
    }
    // A bare call, once the line that closes it has ended.
    reply.ends_with('\n')
        && reply.trim_end().ends_with('}')
        && blocks(reply).is_empty()
        && matches!(parse(reply), Ok(call) if !matches!(call, Call::EditFile { .. } | Call::WriteFile { .. }))
}

/// A diagnosis that quotes a line and says what it should be: complete enough to be carried out.
fn line_edit(reply: &str) -> Option<Call> {
    let (from, rest) = reply.strip_prefix(LINE_IS)?.split_once(LINE_SHOULD_BE)?;
    let (to, _) = rest.split_once('`')?;
    let plain = |text: &str| !text.trim().is_empty() && !text.contains('\n');
    (plain(from) && plain(to)).then(|| Call::EditLine { path: None, from: from.trim().into(), to: to.trim().into() })
}

fn edit(writes: bool, path: Option<String>, text: &str) -> Call {
    let text = text.to_owned();
    match path {
        Some(path) if writes => Call::WriteFile { path, text },
        path => Call::EditFile { path, text },
    }
}

/// A fenced block: byte offsets into the reply.
#[derive(Debug, Clone, Copy)]
struct Block {
    open: usize,
    body: usize,
    end: usize,
    closed: bool,
    json: bool,
}

impl Block {
    fn is_json(&self) -> bool {
        self.json
    }

    fn text<'a>(&self, reply: &'a str) -> &'a str {
        &reply[self.body..self.end]
    }

    fn info<'a>(&self, reply: &'a str) -> &'a str {
        reply[self.open..self.body].trim().trim_start_matches('`').trim()
    }

    fn language<'a>(&self, reply: &'a str) -> &'a str {
        self.info(reply).split_whitespace().next().unwrap_or("")
    }

    /// `edit_file PATH` or `write_file PATH` on the line before the block, or `path=PATH` in its info string.
    fn header(&self, reply: &str) -> Option<(bool, String)> {
        if let Some(path) = self.info(reply).split_whitespace().find_map(|word| word.strip_prefix("path=")) {
            return clean_path(path).map(|path| (false, path));
        }
        let line = reply[..self.open].trim_end().lines().next_back()?.trim().trim_matches(['*', '`', '#', ' ']);
        let line = line.strip_prefix("Action:").unwrap_or(line).trim();
        for (word, writes) in [("edit_file", false), ("write_file", true)] {
            if let Some(rest) = line.strip_prefix(word) {
                return clean_path(rest).map(|path| (writes, path));
            }
        }
        None
    }
}

fn clean_path(raw: &str) -> Option<String> {
    let path = raw.trim().trim_matches(|c: char| "`'\":*(){} ".contains(c));
    let path = path.strip_prefix("path").map_or(path, |rest| rest.trim_start_matches(['=', ':', '"', ' ']));
    let path = path.trim_matches(|c: char| "`'\":* ".contains(c)).strip_prefix("./").unwrap_or(path);
    let plain = !path.is_empty() && path.len() <= 512 && !path.contains(char::is_whitespace);
    plain.then(|| path.to_owned())
}

fn blocks(reply: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut offset = 0;
    for line in reply.split_inclusive('\n') {
        let start = offset;
        offset += line.len();
        let fence = line.trim();
        if !fence.starts_with("```") {
            continue;
        }
        match open.take() {
            None => {
                let language = fence.trim_start_matches('`').trim();
                open = Some(Block {
                    open: start,
                    body: offset,
                    end: reply.len(),
                    closed: false,
                    json: language == "json",
                });
            }
            // Only a bare fence closes; an info string inside a block is text.
            Some(block) if fence.trim_matches('`').is_empty() => {
                found.push(Block { end: start, closed: true, ..block });
            }
            Some(block) => open = Some(block),
        }
    }
    found.extend(open);
    for block in &mut found {
        let text = block.text(reply).trim_start();
        block.json |= block.info(reply).is_empty() && text.starts_with('{') && text.contains("\"name\"");
    }
    found
}

fn looks_like_code(language: &str) -> bool {
    !matches!(language, "json" | "text" | "bash" | "sh" | "shell" | "console" | "diff" | "output")
}

/// The JSON object that ends the reply: in tags, in a fence, or bare.
fn trailing_json(reply: &str, last: Option<&Block>) -> Option<Value> {
    let tail = reply.trim_end_matches("</tool_call>").trim_end();
    if let Some(block) = last.filter(|block| block.is_json() && reply[block.end..].trim().trim_matches('`').is_empty())
    {
        return object(block.text(reply).trim());
    }
    if !tail.ends_with('}') {
        // A call that an edit's code block follows.
        return last
            .filter(|block| block.closed && reply[block.end..].trim().trim_matches('`').is_empty())
            .and_then(|block| trailing_json(&reply[..block.open], None))
            .filter(|call| matches!(call["name"].as_str(), Some("edit_file" | "write_file")));
    }
    // The outermost object that ends here: the first `{` from which everything up to the end is one object.
    let from = tail.len().saturating_sub(16 * 1024);
    let starts = tail.match_indices('{').map(|(at, _)| at).filter(|at| *at >= from);
    starts.take(64).find_map(|at| object(&tail[at..]))
}

/// An object with a name, doubled braces undone.
fn object(text: &str) -> Option<Value> {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok().filter(|value| value["name"].is_string());
    read(text).or_else(|| {
        let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
        read(&format!("{{{}}}", inner.replace("{{", "{").replace("}}", "}"))).or_else(|| read(&format!("{{{inner}}}")))
    })
}

fn from_json(call: &Value, code: Option<&str>) -> Result<Call, Unreadable> {
    let name = call["name"].as_str().unwrap_or_default();
    let parsed;
    let mut arguments = [&call["arguments"], &call["parameters"]].into_iter().find(|v| !v.is_null()).unwrap_or(call);
    if let Some(text) = arguments.as_str() {
        parsed = serde_json::from_str(text).unwrap_or(Value::Null);
        arguments = &parsed;
    }
    let text = |keys: &[&str]| keys.iter().find_map(|key| arguments[key].as_str()).map(str::to_owned);
    let number = |key: &str| {
        let value = &arguments[key];
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).map(|n| n as usize)
    };
    let need = |keys: &[&'static str], hint| {
        text(keys).ok_or(Unreadable::MissingArgument { name: name.to_owned(), key: keys[0], hint })
    };
    const PATH: &[&str] = &["path", "file", "file_path", "filename"];
    const CODE_HINT: &str = "write the new code in a code block under a line `edit_file PATH`, not in JSON";
    let code = || code.map(str::to_owned).or_else(|| text(&["content", "text", "code", "new_text", "new_content"]));
    Ok(match name {
        "list_dir" => Call::ListDir { path: text(PATH).unwrap_or_else(|| ".".into()) },
        "read_file" => {
            Call::ReadFile { path: need(PATH, "the file to read")?, start: number("start"), end: number("end") }
        }
        "search" => Call::Search { query: need(&["query", "words", "text"], "what to look for")? },
        "grep" => Call::Grep { pattern: need(&["pattern", "query", "regex"], "what to look for")?, path: text(PATH) },
        "edit_file" | "write_file" => {
            let text = code().ok_or(Unreadable::MissingArgument { name: name.into(), key: "code", hint: CODE_HINT })?;
            match text_path(arguments, PATH) {
                Some(path) if name == "write_file" => Call::WriteFile { path, text },
                path => Call::EditFile { path, text },
            }
        }
        "run_tests" => Call::RunTests,
        "run_command" => Call::RunCommand { command: need(&["command", "cmd"], "the command")? },
        "task" => Call::Task {
            description: text(&["description"]).unwrap_or_default(),
            prompt: need(&["prompt", "task"], "everything that the sub-agent must know")?,
            subagent_type: text(&["subagent_type", "agent_type"]).map_or(Ok(AgentType::default()), |kind| {
                AgentType::named(&kind).ok_or_else(|| Unreadable::UnknownAgent(kind.chars().take(64).collect()))
            })?,
        },
        "finish" => Call::Finish { summary: text(&["summary", "message", "text"]).unwrap_or_default() },
        "report_impossible" => {
            Call::ReportImpossible { why: need(&["why", "reason", "summary"], "what makes it impossible")? }
        }
        other => return Err(Unreadable::UnknownName(other.chars().take(64).collect())),
    })
}

fn text_path(arguments: &Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| arguments[key].as_str()).and_then(clean_path)
}

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(reply: &str, expected: Call) {
        assert_eq!(parse(reply).as_ref(), Ok(&expected), "{reply}");
    }

    fn read(path: &str) -> Call {
        Call::ReadFile { path: path.into(), start: None, end: None }
    }

    #[test]
    fn every_dress_of_a_json_call_is_read() {
        let call = r#"{"name": "read_file", "arguments": {"path": "a.py"}}"#;
        check(call, read("a.py"));
        check(&format!("I will look.\n{call}"), read("a.py"));
        check(&format!("```json\n{call}\n```"), read("a.py"));
        check(&format!("```\n{call}\n```"), read("a.py"));
        check(&format!("<tool_call>\n{call}\n</tool_call>"), read("a.py"));
        check(r#"{{"name": "read_file", "arguments": {{"path": "a.py"}}}}"#, read("a.py"));
        check(r#"{{"name": "read_file", "arguments": {"path": "a.py"}}}"#, read("a.py"));
        check(r#"{"name": "read_file", "path": "a.py"}"#, read("a.py"));
        check(r#"{"name": "read_file", "arguments": "{\"path\": \"a.py\"}"}"#, read("a.py"));
    }

    #[test]
    fn a_call_that_does_not_end_the_turn_is_no_call() {
        let prose = r#"You could write {"name": "run_tests", "arguments": {}} to run them, but I will not."#;
        assert_eq!(parse(prose), Err(Unreadable::NoAction));
    }

    #[test]
    fn an_edit_is_a_code_block_under_its_header() {
        let edit =
            |path: Option<&str>| Call::EditFile { path: path.map(Into::into), text: "def f():\n    return 1\n".into() };
        let block = "```python\ndef f():\n    return 1\n```";
        check(&format!("The bug is the sign.\nedit_file src/a.py\n{block}"), edit(Some("src/a.py")));
        check(&format!("**edit_file `src/a.py`:**\n\n{block}\nThis fixes it."), edit(Some("src/a.py")));
        check(
            &format!("{{\"name\": \"edit_file\", \"arguments\": {{\"path\": \"src/a.py\"}}}}\n{block}"),
            edit(Some("src/a.py")),
        );
        check(&format!("Fixed:\n{block}"), edit(None));
        check(
            "write_file b.py\n```python\nx = 1\n```",
            Call::WriteFile { path: "b.py".into(), text: "x = 1\n".into() },
        );
    }

    #[test]
    fn a_quoted_line_and_what_it_should_be_are_an_edit() {
        let reply = "The bug is in the line `i = 0`. It should be `i = 1`";
        check(reply, Call::EditLine { path: None, from: "i = 0".into(), to: "i = 1".into() });
        assert!(is_whole(reply));
        assert!(!is_whole(&reply[..reply.len() - 1]));
        assert_eq!(parse("The bug is in the line `i = 0`. It should be ``"), Err(Unreadable::NoAction));
    }

    #[test]
    fn work_is_handed_on_with_a_prompt_and_a_kind() {
        let task =
            |subagent_type| Call::Task { description: "look".into(), prompt: "where is f".into(), subagent_type };
        let call = |kind: &str| {
            format!(r#"{{"name": "task", "arguments": {{"description": "look", "prompt": "where is f"{kind}}}}}"#)
        };
        check(&call(r#", "subagent_type": "explore""#), task(AgentType::Explore));
        check(&call(""), task(AgentType::General));
        let unknown = parse(&call(r#", "subagent_type": "root""#)).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "there is no sub-agent of the kind `root`. The kinds are Explore and general-purpose"
        );
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        assert_eq!(parse("Let me think about this."), Err(Unreadable::NoAction));
        assert_eq!(parse("edit_file a.py\n```python\ndef f("), Err(Unreadable::Unfinished));
        assert_eq!(parse(r#"{"name": "fly", "arguments": {}}"#), Err(Unreadable::UnknownName("fly".into())));
        let error = parse(r#"{"name": "grep", "arguments": {}}"#).unwrap_err();
        assert_eq!(error.to_string(), "grep needs \"pattern\": what to look for");
    }

    #[test]
    fn generation_stops_where_the_action_is_whole() {
        let call = "I look.\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.py\"}}";
        assert!(!is_whole(&call[..call.len() - 1]));
        assert!(is_whole(&format!("{call}\n")));
        assert!(is_whole(&format!("```json\n{call}\n```").replace("I look.\n", "")));
        assert!(!is_whole("edit_file a.py\n```python\ndef f():\n    return 1\n"));
        assert!(is_whole("edit_file a.py\n```python\ndef f():\n    return 1\n```"));
        assert!(!is_whole("```python\nthe buggy line\n```"), "a block without a header may be a quotation");
    }

    proptest! {
        #[test]
        fn any_reply_is_read_or_refused(reply in "(?s).{0,400}") {
            let _ = parse(&reply);
            let _ = is_whole(&reply);
        }

        #[test]
        fn fences_and_braces_in_any_order_are_read_or_refused(parts in proptest::collection::vec(
            prop_oneof!["```", "\n", "```json\n", "edit_file a.py\n", "\\{", "\\}", "\"name\"", "</tool_call>", "é"], 0..30)) {
            let reply = parts.concat();
            let _ = parse(&reply);
            let _ = is_whole(&reply);
        }
    }
}
