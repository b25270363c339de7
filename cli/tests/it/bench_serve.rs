//! Are model servers measured by what they did?

use crate::home::Home;
use crate::real_model;
use serde_json::Value;
use std::io::{BufRead, BufReader};

#[test]
fn without_a_server_or_a_question_there_is_nothing_to_measure() {
    let home = Home::new();
    let bench = |more: &[&str]| home.cloister(&[&["bench", "serve"], more].concat());
    assert_eq!(bench(&["--measure", "rewrite"]).code, 2);
    let nobody = "a=http://127.0.0.1:1/v1";
    let told = bench(&["--server", nobody]);
    assert!(told.code == 3 && told.err.contains("give --measure or --arm"), "{told:?}");
    let told = bench(&["--server", nobody, "--measure", "prefill:64"]);
    assert!(told.code == 3 && told.err.contains("http://127.0.0.1:1/v1/models"), "{told:?}");
    let told = bench(&["--server", nobody, "--arm", "three"]);
    assert!(told.code == 2 && told.err.contains("off, one, two, fork, restart, head"), "{told:?}");
}

#[test]
fn our_own_server_computes_what_is_new_and_all_of_it_when_nothing_may_be_reused() {
    let Some(store) = real_model::store() else { return };
    let home = Home::new();
    std::fs::create_dir_all(home.path()).expect("home");
    std::os::unix::fs::symlink(&store, home.path().join("store")).expect("link");
    // The smaller one where it is: what is asserted are tokens.
    let smaller = "qwen2.5-coder-0.5b-instruct";
    let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
    if store.join("models").join(smaller).exists() {
        args.extend(["--model", smaller]);
    }
    let mut server = home.command(&args).spawn().expect("starts");
    let lines = BufReader::new(server.stderr.take().expect("stderr")).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("http://")?.1.split_once("/v1")?.0.to_owned()));
    let out = home.beside("out");
    let url = format!("ours=http://{}/v1", address.expect("an address"));
    let sizes = ["--turns", "3", "--scale", "0.03", "--out", out.to_str().expect("UTF-8"), "--json"];
    let told = home.cloister(&[&["bench", "serve", "--server", &url, "--arm", "one,off,fork"], &sizes[..]].concat());
    let _ = server.kill();
    let _ = server.wait();
    let table: Value = serde_json::from_str(&told.expect(0).out).expect("one table");
    let of = |arm: &str, what: &str| {
        let row = table["rows"].as_array().and_then(|rows| rows.iter().find(|row| row["arm"] == arm)).expect("a row");
        row[what].as_f64().unwrap_or_else(|| panic!("{what} of {arm}: {row}"))
    };
    assert!((1.0..1.02).contains(&of("one", "computed / ideal")), "{table}");
    // Children begin alike, and what the first computed of that the others find.
    assert!((0.8..1.02).contains(&of("fork", "computed / ideal")), "{table}");
    assert_eq!(of("off", "computed"), of("off", "prompt"), "{table}");
    assert!(of("one", "computed") < of("off", "computed") * 0.7, "{table}");
    let plot = std::fs::read_to_string(out.join("fork.svg")).expect("a plot");
    assert_eq!(plot.matches("<polyline").count(), 3);
    // One turn of the parent, then two of each of four children.
    let steps = std::fs::read_to_string(out.join("steps.jsonl")).expect("steps");
    assert_eq!(steps.lines().filter(|line| line.contains("\"fork\"")).count(), 9);
}
