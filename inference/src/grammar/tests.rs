//! Does what a grammar lets through fit its schema, and is a hostile schema refused soon?
//!
//! A model of bytes that says at random whatever is allowed: nothing but the grammar makes sense of it.

use super::*;
use crate::api::Bytes;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A hostile schema is refused, or one mask found, within so long, on a machine that is shared.
const HOSTILE_TIME_MAX: Duration = Duration::from_secs(5);
/// A token is taken within so long, which is about what a forward pass takes.
const STEP_TIME_MAX: Duration = Duration::from_millis(100);
/// No random answer here is longer.
const BYTES_MAX: usize = 4000;

fn grammars() -> Grammars {
    Grammars::new(Bytes)
}

fn answer(schema: Value) -> Shape {
    Shape { answer: Some(("schema".into(), schema)), calls: None }
}

fn calls(tools: &[(&str, Option<Value>)], required: bool, several: bool) -> Shape {
    let tool = |(at, (name, arguments)): (usize, &(&str, Option<Value>))| ToolShape {
        name: (*name).to_owned(),
        path: format!("tools[{at}].function.parameters"),
        arguments: arguments.clone(),
    };
    let tools = tools.iter().enumerate().map(tool).collect();
    Shape { answer: None, calls: Some(CallShape { tools, required, several }) }
}

/// What a model says that chooses among the allowed bytes by this seed and likes to end things.
fn random_text(grammar: &Grammar, mut seed: u64) -> String {
    let mut matcher = grammar.begin();
    let mut text = Vec::new();
    while !matcher.is_stopped() && text.len() < BYTES_MAX {
        let mask = matcher.compute_mask_or_eos().unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let closing = b"}]\"".iter().map(|&byte| u32::from(byte)).find(|&id| mask.is_allowed(id));
        let allowed: Vec<u32> = (0..257).filter(|&id| mask.is_allowed(id)).collect();
        let id = closing.filter(|_| seed >> 62 > 0).unwrap_or_else(|| allowed[(seed >> 33) as usize % allowed.len()]);
        matcher.consume_token(id).unwrap();
        if id == Bytes::END {
            break;
        }
        text.push(id as u8);
    }
    String::from_utf8(text).unwrap()
}

/// Reads ten random answers of this shape.
#[track_caller]
fn check(schema: Value, fits: impl Fn(&Value) -> bool) {
    let grammar = grammars().compile(answer(schema)).unwrap();
    for seed in 0..10 {
        let text = random_text(&grammar, seed);
        let read: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        assert!(fits(&read), "{read}");
    }
}

#[test]
fn whatever_is_let_through_fits_the_schema() {
    check(json!({"type": "object"}), Value::is_object);
    check(json!({"type": "integer", "minimum": 3, "maximum": 17}), |read| {
        read.as_i64().is_some_and(|n| (3..=17).contains(&n))
    });
    check(json!({"enum": ["red", "green", 3]}), |read| [json!("red"), json!("green"), json!(3)].contains(read));
    let person = json!({
        "type": "object", "required": ["name", "ages"], "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "ages": {"type": "array", "items": {"$ref": "#/$defs/age"}, "minItems": 1, "maxItems": 3},
        },
        "$defs": {"age": {"type": "integer", "minimum": 0, "maximum": 130}},
    });
    check(person, |read| {
        let ages = read["ages"].as_array().unwrap();
        read.as_object().unwrap().len() == 2
            && read["name"].as_str().unwrap().chars().count() <= 12
            && (1..=3).contains(&ages.len())
            && ages.iter().all(|age| age.as_u64().unwrap() <= 130)
    });
}

#[test]
fn white_space_between_two_tokens_is_bounded_whatever_the_schema_says_about_it() {
    let schema = json!({"type": "object", "x-guidance": {"whitespace_flexible": true, "lenient": true}});
    let mut matcher = grammars().compile(answer(schema)).unwrap().begin();
    matcher.consume_token(u32::from(b'{')).unwrap();
    let spaces = (0..1000).take_while(|_| matcher.try_consume_tokens(&[u32::from(b' ')]).is_ok_and(|taken| taken == 1));
    assert_eq!(spaces.count(), 64);
}

#[test]
fn a_forced_call_is_one_of_the_tools_with_arguments_that_fit() {
    let search = json!({
        "type": "object", "properties": {"depth": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["depth"], "additionalProperties": false,
    });
    let names = ["search".to_owned(), "stop".to_owned()];
    for several in [false, true] {
        let shape = calls(&[("search", Some(search.clone())), ("stop", None)], true, several);
        let grammar = grammars().compile(shape).unwrap();
        assert_eq!(grammar.opens_with(), None);
        let mut counts = Vec::new();
        for seed in 0..30 {
            let text = random_text(&grammar, seed);
            if text.len() >= BYTES_MAX {
                continue;
            }
            let (said, calls) = crate::api::toolcall::parse(&text, &names);
            assert_eq!(said, "", "{text}");
            for call in calls.iter().filter(|call| call.name == "search") {
                assert!((1..=9).contains(&call.arguments["depth"].as_u64().unwrap()), "{text}");
            }
            counts.push(calls.len());
        }
        assert!(counts.len() >= 20 && counts.iter().all(|&count| count >= 1), "{counts:?}");
        assert_eq!(counts.iter().any(|&count| count > 1), several, "{counts:?}");
    }
}

#[test]
fn a_schema_that_cannot_be_enforced_is_refused_by_its_place() {
    let refused = |shape| grammars().compile(shape).unwrap_err();
    let bad = json!({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}});
    assert_eq!(refused(answer(bad.clone())).path, "schema");
    let two = calls(&[("good", Some(json!({"type": "object"}))), ("bad", Some(bad))], true, true);
    assert_eq!(refused(two).path, "tools[1].function.parameters");
    for (schema, path) in [
        (json!([1]), "schema"),
        (json!({"type": "strange"}), "schema"),
        (json!({"properties": {"a": {"maxItems": limits::COUNT_MAX + 1}}}), "schema.properties.a.maxItems"),
        (json!({"pattern": "a".repeat(limits::REGEX_BYTES_MAX + 1)}), "schema.pattern"),
        (json!({"type": "string", "pattern": "("}), "schema"),
        (json!({"$ref": "a/file.json"}), "schema"),
        (json!({"$ref": "#"}), "schema"),
        (json!({"description": "x".repeat(limits::BYTES_MAX)}), "schema"),
        (json!({"enum": vec![1; limits::NODES_MAX]}), "schema"),
    ] {
        let error = refused(answer(schema));
        assert_eq!(error.path, path, "{error}");
        assert!(!error.reason.is_empty() && error.reason.len() < 400, "{error}");
    }
    let deep = (0..limits::DEPTH_MAX).fold(json!(true), |inner, _| json!({"items": inner}));
    assert!(grammars().compile(answer(deep.clone())).is_ok());
    let deeper = refused(answer(json!({"items": deep})));
    assert!(deeper.path.starts_with("schema.items.items"), "{deeper}");
}

#[test]
fn a_property_may_be_called_like_a_keyword() {
    let names = ["pattern", "maxItems", "$ref", "x-guidance", "properties"];
    let property = |name: &&str| ((*name).to_owned(), json!({"type": "integer", "minimum": 0, "maximum": 9}));
    let properties = Value::Object(names.iter().map(property).collect());
    check(json!({"type": "object", "properties": properties, "required": names}), |read| {
        names.iter().all(|name| read[name].is_u64())
    });
}

#[test]
fn a_hostile_schema_is_refused_or_followed_within_its_time() {
    check_hostile(&grammars());
}

/// The words of a real model cost more than bytes: 151,936 of them.
#[test]
fn a_hostile_schema_is_refused_or_followed_within_its_time_in_a_real_vocabulary() {
    let models = std::env::var("CLOISTER_TEST_MODELS").unwrap_or_default();
    let file = "qwen2.5-coder-1.5b-instruct/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf";
    let path = std::path::Path::new(&models).join(file);
    if std::env::var("CLOISTER_SLOW").is_err() || !path.exists() {
        println!("skipped, it is slow and needs CLOISTER_SLOW=1 and {file} in CLOISTER_TEST_MODELS");
        return;
    }
    let tokenizer = Arc::new(crate::Tokenizer::open(&path).unwrap());
    let begun = Instant::now();
    let grammars = Grammars::new(tokenizer);
    grammars.compile(answer(json!({"type": "object"}))).unwrap();
    println!("the vocabulary and the first schema: {:?}", begun.elapsed());
    check_hostile(&grammars);
}

#[test]
fn what_compiles_too_long_is_refused_and_keeps_its_place() {
    let far = |i: usize| json!({"pattern": format!("(a|b)*a(a|b){{{i}}}$")});
    let endless = json!({"type": "string", "allOf": (20..60).map(far).collect::<Value>()});
    let grammars = Grammars::within(Duration::from_millis(300), Bytes);
    // Past the limits, which would refuse it.
    let reason = || grammars.matcher(TopLevelGrammar::from_json_schema(shape::bounded(&endless))).err().unwrap();
    for _ in 0..COMPILING_MAX {
        assert_eq!(reason(), "it takes more than 0.3 s to compile");
    }
    assert!(reason().contains("others are being compiled"));
    let simple = grammars.compile(answer(json!({"type": "object"}))).unwrap_err();
    assert!(simple.reason.contains("try it again later"), "{simple}");
}

fn check_hostile(grammars: &Grammars) {
    let ways: Vec<u32> =
        ["[", "{", ":", "a", "\""].iter().flat_map(|way| grammars.compiler.vocabulary.ids_of(way)).collect();
    let alternatives = |n: usize| (0..n).map(|i| json!({"type": "string", "pattern": format!("^(a|b)*{i}c{{9}}$")}));
    let nested = (0..11).fold(json!({"type": "string"}), |inner, _| json!({"anyOf": [inner, {"items": inner}]}));
    let product = (0..12).map(|i| json!({"properties": {format!("p{i}"): {"enum": [1, 2, 3]}}}));
    let properties: serde_json::Map<String, Value> =
        (0..limits::PROPERTIES_MAX).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
    let either = |i: usize| json!({"anyOf": (0..3).map(|j| json!({"properties": {format!("p{i}{j}"): {"type": "integer"}}, "required": [format!("p{i}{j}")]})).collect::<Value>()});
    let explosion = json!({"type": "object", "allOf": (0..12).map(either).collect::<Value>()});
    let one_of = json!({"oneOf": (0..60).map(|i| json!({"type": "object", "properties": {format!("p{i}"): {"type": "string"}}})).collect::<Value>()});
    let far = |i: usize| json!({"pattern": format!("(a|b)*a(a|b){{{i}}}$")});
    let meeting = json!({"type": "string", "allOf": (20..60).map(far).collect::<Value>()});
    let names: serde_json::Map<String, Value> =
        (0..60).map(|i| (format!("(a|b)*a(a|b){{{i}}}$"), json!({"maximum": i}))).collect();
    let cases = [
        ("refers to itself", json!({"$ref": "#"})),
        (
            "a loop of references",
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ),
        ("all of itself", json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]})),
        (
            "a tree without end",
            json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]}),
        ),
        ("either itself or itself", json!({"anyOf": [{"$ref": "#"}, {"items": {"$ref": "#"}}]})),
        ("a regex of repeated repeats", json!({"type": "string", "pattern": "^((a{1,99}){1,99}){1,99}$"})),
        ("a regex that looks far back", json!({"type": "string", "pattern": "(a|b)*a(a|b){300}$"})),
        ("many regexes", json!({"anyOf": alternatives(300).collect::<Value>()})),
        ("doubled eleven times", nested),
        ("products of alternatives", json!({"allOf": product.collect::<Value>()})),
        (
            "much of much",
            json!({"type": "array", "minItems": 4096, "items": {"type": "string", "minLength": 4096, "maxLength": 4096}}),
        ),
        ("many properties", json!({"type": "object", "properties": properties, "additionalProperties": false})),
        ("an explosion of alternatives", explosion),
        ("one of many objects", one_of),
        ("regexes that meet", meeting),
        ("names that meet", json!({"type": "object", "patternProperties": names})),
        ("contradictions", json!({"type": "object", "minProperties": 3, "maxProperties": 2})),
    ];
    for (name, schema) in cases {
        let begun = Instant::now();
        let compiled = grammars.compile(answer(schema));
        let compile_time = begun.elapsed();
        let outcome = match &compiled {
            Err(error) => error.to_string(),
            Ok(grammar) => {
                let mut matcher = grammar.begin();
                let (mut slowest, mut slowest_step) = (Duration::ZERO, Duration::ZERO);
                for _ in 0..40 {
                    let begun = Instant::now();
                    let Ok(mask) = matcher.compute_mask_or_eos() else { break };
                    slowest = slowest.max(begun.elapsed());
                    // Deeper, where that is possible.
                    let next = ways.iter().copied().chain(0..mask.len() as u32).find(|&id| mask.is_allowed(id));
                    let begun = Instant::now();
                    let gone_on = next.is_some_and(|id| matcher.consume_token(id).is_ok());
                    slowest_step = slowest_step.max(begun.elapsed());
                    if !gone_on || matcher.is_stopped() {
                        break;
                    }
                }
                assert!(slowest < HOSTILE_TIME_MAX, "{name}: a mask took {slowest:?}");
                // The engine's own thread takes these steps, between two forward passes.
                assert!(slowest_step < STEP_TIME_MAX, "{name}: a step took {slowest_step:?}");
                // Some are given up on the way, when their fuel is used up.
                format!("mask at most {slowest:?}, step {slowest_step:?}; {:?}", matcher.get_error())
            }
        };
        println!("{name}: {compile_time:?}: {outcome}");
        assert!(compile_time < HOSTILE_TIME_MAX, "{name}: {compile_time:?}");
    }
}
