//! What is a call, what is prose, and does a turn in pieces mean the same as a whole one?

use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Splitter, parse};

fn tools() -> Vec<String> {
    ["search", "read_file", "finish"].map(str::to_owned).to_vec()
}

fn found(turn: &str, tools: &[String]) -> (String, Vec<Value>) {
    let (said, calls) = parse(turn, tools);
    (said.to_owned(), calls.into_iter().map(|call| json!([call.name, call.arguments])).collect())
}

#[track_caller]
fn check(turn: &str, said: &str, calls: Value) {
    assert_eq!(found(turn, &tools()), (said.to_owned(), calls.as_array().unwrap().clone()), "{turn}");
}

#[test]
fn a_call_in_each_of_its_forms_is_found_at_the_end_of_the_turn() {
    let one = json!([["search", {"q": "x"}]]);
    let object = r#"{"name": "search", "arguments": {"q": "x"}}"#;
    for call in [
        format!("<tool_call>\n{object}\n</tool_call>"),
        format!("<tool_call>{object}"),
        object.to_owned(),
        format!("  {object} \n\n"),
        format!("{{{object}}}"),
        format!("[{object}]"),
        format!("```json\n{object}\n```"),
        format!("```\n{object}\n```\n"),
        format!("````json\n{object}\n````"),
        format!("```json\n{object}"),
        format!("```json\n{object}```"),
        r#"{"name": "search", "parameters": {"q": "x"}}"#.to_owned(),
        r#"{"name": "search", "arguments": "{\"q\": \"x\"}"}"#.to_owned(),
    ] {
        check(&call, "", one.clone());
        check(&format!("First I look.\n\n{call}"), "First I look.", one.clone());
    }
}

#[test]
fn several_calls_are_found_together_and_in_order() {
    let both = json!([["search", {}], ["read_file", {"path": "a"}]]);
    let (first, second) = (r#"{"name":"search","arguments":{}}"#, r#"{"name":"read_file","arguments":{"path":"a"}}"#);
    check(&format!("<tool_call>{first}</tool_call>\n<tool_call>{second}</tool_call>"), "", both.clone());
    check(&format!("<tool_call>{first}\n{second}</tool_call>"), "", both.clone());
    check(&format!("{first}\n{second}"), "", both.clone());
    check(&format!("ok\n[{first}, {second}]"), "ok", both.clone());
    check(&format!("```json\n{first}\n```\n```json\n{second}\n```"), "", both);
}

#[test]
fn a_call_followed_by_anything_else_is_prose() {
    for turn in [
        "{\"name\": \"search\", \"arguments\": {}}\nThis searches.",
        "```json\n{\"name\": \"search\", \"arguments\": {}}\n```\nThis searches.",
        "<tool_call>\n{\"name\": \"search\", \"arguments\": {}}\n</tool_call>.",
        "Write <tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call> to search.",
        "{\"name\": \"search\", \"arguments\": {}}\n```python\nx = 1\n```",
    ] {
        check(turn, turn, json!([]));
    }
}

#[test]
fn what_only_looks_like_a_call_is_prose() {
    for turn in [
        "",
        "Hello",
        "Use {\"name\": \"search\", \"arguments\": {}}",
        "{\"name\": \"delete_all\", \"arguments\": {}}",
        "{\"name\": \"search\"}",
        "{\"name\": \"search\", \"arguments\": [1]}",
        "{\"name\": \"search\", \"arguments\": \"{\"}",
        "{\"arguments\": {}}",
        "[]",
        "[1, 2]",
        "<tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>search</tool_call>",
        "<tool_call>{\"name\": \"search\", \"arguments\": {\"q\": ",
        "```python\n{\"name\": \"search\", \"arguments\": {}}\n```",
        "```xml\n<tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call>\n```",
        "```xml\n<tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call>",
        "````md\n```json\n{\"name\": \"search\", \"arguments\": {}}\n```",
        "{\"example\": [\n{\"name\": \"search\", \"arguments\": {}}\n",
    ] {
        check(turn, turn, json!([]));
    }
}

#[test]
fn a_call_after_a_finished_code_block_is_a_call() {
    check(
        "```python\nx = {}\n```\n<tool_call>{\"name\": \"finish\"}</tool_call>",
        "```python\nx = {}\n```",
        json!([["finish", {}]]),
    );
}

#[test]
fn line_breaks_inside_strings_are_accepted_as_written() {
    let turn =
        "<tool_call>{\"name\": \"search\", \"arguments\": {\"q\": \"a\n\tb\\n\\\"c\\\"\r\n</tool_call>\"}}</tool_call>";
    check(turn, "", json!([["search", {"q": "a\n\tb\n\"c\"\r\n</tool_call>"}]]));
}

#[test]
fn a_long_turn_of_near_calls_is_judged_in_time() {
    let call = "{\"name\":\"search\",\"arguments\":{}}";
    let near = [call.to_owned() + "x\n", call.to_owned() + "\n", format!("<tool_call>{call}</tool_call>")];
    let brackets = ["{\n", "[\n", "{\"a\":\n", "<tool_call>", "```\n", "<", "\n```json\n{\n"].map(str::to_owned);
    for unit in near.iter().chain(&brackets) {
        let turn = unit.repeat((128 << 10) / unit.len()) + "prose";
        let begun = Instant::now();
        assert!(parse(&turn, &tools()).1.is_empty(), "{unit}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{unit} took {:?}", begun.elapsed());
    }
}

/// Pieces from which turns are made that come close to calls.
fn turns() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("<tool_call>"),
        Just("</tool_call>"),
        Just("```"),
        Just("````"),
        Just("json"),
        Just("python"),
        Just("\n"),
        Just(" "),
        Just("{"),
        Just("}"),
        Just("{{"),
        Just("}}"),
        Just("["),
        Just("]"),
        Just(","),
        Just("\""),
        Just("\\"),
        Just(r#"{"name": "search", "arguments": {"q": "x"}}"#),
        Just(r#""name": "search""#),
        Just(r#""arguments": {}"#),
        Just(r#"{"name": "nobody", "arguments": {}}"#),
        Just(r#""\ud800"#),
        Just("prose"),
        Just("é"),
        Just("<"),
        Just("`"),
        Just("1e"),
        Just("-"),
        Just("tru"),
        Just("\t"),
        Just("\u{a0}"),
    ];
    let near = prop::collection::vec(fragment, 0..14).prop_map(|parts| parts.concat());
    prop_oneof![4 => near, 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_in_pieces_means_the_same_as_a_whole_one(turn in turns(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8), whole: bool) {
        let places: Vec<usize> = turn.char_indices().map(|(at, _)| at).chain([turn.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&places)).chain([0, turn.len()]).collect();
        cuts.sort_unstable();
        let mut splitter = Splitter::new(tools());
        let mut shown = String::new();
        for pair in cuts.windows(2) {
            shown.push_str(splitter.push(&turn[pair[0]..pair[1]]));
        }
        let (rest, calls) = splitter.finish(whole);
        shown.push_str(rest);
        let expected = if whole { parse(&turn, &tools()) } else { (turn.as_str(), Vec::new()) };
        prop_assert_eq!((shown.as_str(), calls), expected);
    }

    #[test]
    fn a_call_is_only_ever_the_last_thing(turn in turns(), prose in "[ \n]{0,2}[a-zA-Z][a-z .`]{0,10}") {
        let tools = tools();
        let (said, calls) = parse(&turn, &tools);
        prop_assert!(calls.iter().all(|call| tools.contains(&call.name)));
        prop_assert!(turn.starts_with(said));
        if calls.is_empty() {
            prop_assert_eq!(said, turn.as_str());
        } else {
            let continued = format!("{turn}{prose}");
            prop_assert_eq!(parse(&continued, &tools), (continued.as_str(), Vec::new()));
        }
    }

    #[test]
    fn no_tools_means_no_calls(turn in turns()) {
        prop_assert_eq!(parse(&turn, &[]), (turn.as_str(), Vec::new()));
    }
}

/// Reference cases live beside the checkout, or where CLOISTER_CASES points. None, told, when they are not there.
fn cases(file: &str) -> Option<Vec<Value>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let path = std::env::var_os("CLOISTER_CASES").map_or_else(beside, PathBuf::from).join("toolcall").join(file);
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    };
    Some(text.lines().map(|line| serde_json::from_str(line).expect("a case in JSON")).collect())
}

#[test]
fn what_models_really_emit_is_understood() {
    let Some(cases) = cases("wild_outputs.jsonl") else { return };
    let mut missed = Vec::new();
    for case in &cases {
        let expected = case["expected_calls"].as_array().unwrap();
        let tools: Vec<String> = expected.iter().map(|call| call[0].as_str().unwrap().to_owned()).collect();
        if &found(case["raw"].as_str().unwrap(), &tools).1 != expected {
            missed.push(case["id"].as_str().unwrap());
        }
    }
    eprintln!("wild_outputs: {} of {} understood", cases.len() - missed.len(), cases.len());
    // The one that was cut off inside its arguments: there is nothing that could be run.
    assert_eq!(missed, ["llamacpp_partial_args"]);
}

#[test]
fn what_the_default_model_emits_is_understood() {
    let Some(cases) = cases("qwen1.5b_raw_probe.jsonl") else { return };
    for case in cases {
        let raw = case["raw"].as_str().unwrap();
        let (said, calls) = found(raw, &["get_current_weather".to_owned()]);
        assert_eq!((said.as_str(), calls.len()), ("", usize::from(!raw.is_empty())), "{raw}");
    }
}

#[test]
fn every_acceptable_answer_of_the_benchmark_survives_each_form() {
    let Some(cases) = cases("bfcl_100.jsonl") else { return };
    for case in cases {
        let names: Vec<String> = case["functions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        let calls: Vec<Value> = case["ground_truth"].as_array().unwrap().iter().flat_map(first_acceptable).collect();
        let objects: Vec<String> =
            calls.iter().map(|call| json!({"name": call[0], "arguments": call[1]}).to_string()).collect();
        if calls.is_empty() {
            continue;
        }
        for (open, close) in [("<tool_call>\n", "\n</tool_call>\n"), ("```json\n", "\n```\n"), ("", "\n"), ("{", "}\n")]
        {
            let turn: String = objects.iter().map(|object| format!("{open}{object}{close}")).collect();
            assert_eq!(found(&turn, &names), (String::new(), calls.clone()), "{turn}");
        }
    }
}

/// The first acceptable value of each argument, as `[name, arguments]`.
fn first_acceptable(call: &Value) -> Option<Value> {
    let (name, arguments) = call.as_object()?.iter().next()?;
    let arguments: serde_json::Map<String, Value> =
        arguments.as_object()?.iter().map(|(name, values)| (name.clone(), values[0].clone())).collect();
    Some(json!([name, arguments]))
}
