//! What changes from request to request and says nothing to the model?
//!
//! Some clients put a line of accounting at the head of the system prompt, list their tools in another order each time, or tell
//! the time of the day. Each such change costs the whole cached prompt. A [`Rule`] takes one kind of it out of a request
//! before it is encoded; each has a name and can be switched off.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::{Message, Role};

/// One kind of change that is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Lines `x-…billing-header: …` at the head of the system prompt are dropped: they are for a provider's accounting.
    BillingHeader,
    /// Tools come in the order of their names.
    ToolOrder,
    /// A line of the system prompt that tells today's date and the time keeps the date alone.
    Clock,
}

const RULES: [Rule; 3] = [Rule::BillingHeader, Rule::ToolOrder, Rule::Clock];
/// How a line begins that tells the time, after what may stand before it in a list.
const TELLS_TIME: [&str; 7] = ["today", "current date", "current time", "the current", "date", "time", "now"];

impl Rule {
    /// As it is written on a command line and in usage.
    pub fn name(self) -> &'static str {
        match self {
            Rule::BillingHeader => "billing-header",
            Rule::ToolOrder => "tool-order",
            Rule::Clock => "clock",
        }
    }

    /// Whether it changed anything.
    fn apply(self, messages: &mut [Message], tools: &mut [Value]) -> bool {
        let system = messages.first_mut().filter(|message| message.role == Role::System);
        match self {
            Rule::BillingHeader => system.is_some_and(|system| drop_billing(&mut system.content)),
            Rule::ToolOrder => {
                let name = |tool: &Value| tool["function"]["name"].as_str().unwrap_or_default().to_owned();
                let is_sorted = tools.is_sorted_by_key(name);
                tools.sort_by_key(name);
                !is_sorted
            }
            Rule::Clock => system.is_some_and(|system| drop_clock(&mut system.content)),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let names = RULES.map(Rule::name).join(", ");
        RULES.into_iter().find(|rule| rule.name() == text).ok_or(format!("the rules are {names}"))
    }
}

/// The rules that are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules(BTreeSet<Rule>);

impl Default for Rules {
    fn default() -> Rules {
        Rules::without(&[])
    }
}

impl Rules {
    /// All but these.
    pub fn without(off: &[Rule]) -> Rules {
        Rules(RULES.into_iter().filter(|rule| !off.contains(rule)).collect())
    }

    /// Applies them and gives the names of those that changed something.
    pub(super) fn apply(&self, messages: &mut [Message], tools: &mut [Value]) -> Vec<&'static str> {
        self.0.iter().filter(|rule| rule.apply(messages, tools)).map(|rule| rule.name()).collect()
    }
}

fn drop_billing(text: &mut String) -> bool {
    let is_billing = |line: &&str| {
        line.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"))
            && line.split([' ', '\t']).next().is_some_and(|word| word.to_ascii_lowercase().contains("billing-header:"))
    };
    let bytes: usize = text.split_inclusive('\n').take_while(is_billing).map(str::len).sum();
    text.drain(..bytes);
    bytes > 0
}

fn drop_clock(text: &mut String) -> bool {
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_start_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
        let clock = if TELLS_TIME.iter().any(|start| words.starts_with(start)) { clock(line) } else { None };
        match clock {
            Some((from, to)) => {
                kept.push_str(&line[..from]);
                kept.push_str(&line[to..]);
            }
            None => kept.push_str(line),
        }
    }
    let changed = kept.len() != text.len();
    *text = kept;
    changed
}

/// Where the time stands behind a date such as `2026-12-01T10:30:00Z`, the sign between them included.
fn clock(line: &str) -> Option<(usize, usize)> {
    let bytes = line.as_bytes();
    let fits = |at: usize, pattern: &str| {
        let found = bytes.get(at..at + pattern.len())?;
        let same = |(byte, sign): (&u8, u8)| if sign == b'0' { byte.is_ascii_digit() } else { *byte == sign };
        found.iter().zip(pattern.bytes()).all(same).then_some(at + pattern.len())
    };
    let date = (0..bytes.len()).find_map(|at| fits(at, "0000-00-00"))?;
    let mut to = [" 00:00", "T00:00", " at 00:00", ", 00:00"].iter().find_map(|pattern| fits(date, pattern))?;
    if let Some(end) = fits(to, ":00") {
        to = end;
        if bytes.get(to) == Some(&b'.') {
            to += 1 + bytes[to + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
    }
    let zone = ["Z", " UTC", " GMT", "+00:00", "-00:00", "+0000", "-0000"].iter().find_map(|zone| fits(to, zone));
    Some((date, zone.unwrap_or(to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(system: &str, expected: &str, rules: &[&str]) {
        let mut messages = [Message::new(Role::System, system), Message::new(Role::User, system)];
        assert_eq!(Rules::default().apply(&mut messages, &mut []), rules, "{system:?}");
        assert_eq!(messages[0].content, expected);
        assert_eq!(messages[1].content, system, "what a person says is theirs");
    }

    #[test]
    fn a_line_of_accounting_at_the_head_is_dropped_and_one_further_down_is_not() {
        check("x-some-billing-header: v=1; cch=5f3;\nYou are.", "You are.", &["billing-header"]);
        check("X-Billing-Header: 1\nx-billing-header: 2\n\nYou", "\nYou", &["billing-header"]);
        check("x-billing-header: 1", "", &["billing-header"]);
        check("You are.\nx-billing-header: 1\n", "You are.\nx-billing-header: 1\n", &[]);
        check("x-ray: see the billing-header: of it\n", "x-ray: see the billing-header: of it\n", &[]);
        check("", "", &[]);
        check("é", "é", &[]);
    }

    #[test]
    fn of_a_line_that_tells_the_time_the_date_is_kept() {
        check("Today's date: 2026-12-01T10:30:00.123Z.\nGo.", "Today's date: 2026-12-01.\nGo.", &["clock"]);
        check(" - Current time: 2026-12-01 10:30 UTC\n", " - Current time: 2026-12-01\n", &["clock"]);
        check("Now 2026-12-01 10:30:59+02:00", "Now 2026-12-01", &["clock"]);
        check("Today is 2026-12-01, 09:00, é", "Today is 2026-12-01, é", &["clock"]);
        // A date alone, a time alone, and times in what is not about now.
        check("Today is 2026-12-01.\n", "Today is 2026-12-01.\n", &[]);
        check("Time: 10:30\n", "Time: 10:30\n", &[]);
        check("The log says 2026-12-01T10:30:00Z\n", "The log says 2026-12-01T10:30:00Z\n", &[]);
    }

    #[test]
    fn tools_come_in_the_order_of_their_names() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        let mut tools = [tool("b"), tool("a")];
        assert_eq!(Rules::default().apply(&mut [], &mut tools), ["tool-order"]);
        assert_eq!(tools, [tool("a"), tool("b")]);
        assert!(Rules::default().apply(&mut [], &mut tools).is_empty());
        let mut tools = [tool("b"), tool("a")];
        assert!(Rules::without(&[Rule::ToolOrder]).apply(&mut [], &mut tools).is_empty());
        assert_eq!(tools, [tool("b"), tool("a")]);
    }

    #[test]
    fn rules_are_named_as_they_are_read() {
        assert!(RULES.into_iter().all(|rule| rule.to_string().parse() == Ok(rule)));
        assert!("all".parse::<Rule>().unwrap_err().contains("billing-header, tool-order, clock"));
    }
}
