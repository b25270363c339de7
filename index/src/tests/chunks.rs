//! Is a file cut into the pieces that a reader would cut it into?

use crate::chunk::{self, Cut};
use crate::outline::outlined;

fn cut(path: &str, text: &str) -> Cut {
    chunk::cut(text, &outlined(path, text.as_bytes()).unwrap_or_default())
}

/// `symbol:start-end` of every chunk.
fn shape(cut: &Cut) -> Vec<String> {
    let chunks = cut.chunks.iter();
    chunks.map(|c| format!("{}:{}-{}", c.symbol.as_deref().unwrap_or(""), c.start, c.end)).collect()
}

#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    assert_eq!(shape(&cut(path, text)), expected);
}

#[test]
fn a_function_is_a_chunk_with_its_comments_and_the_rest_is_another() {
    let text = "\
use std::io;

/// Adds.
/// Two lines.
#[inline]
pub fn add(a: u32, b: u32) -> u32 {
    a + b
}

struct Point {
    x: u32,
}

impl Point {
    // The sum.
    fn sum(&self) -> u32 {
        self.x
    }
}
";
    check("a.rs", text, &[":1-2", "add:3-8", "Point:10-12", "Point:14-14", "Point.sum:15-18"]);
}

#[test]
fn a_class_keeps_the_lines_between_its_methods() {
    let text = "\
import os

class Session:
    \"\"\"A session.\"\"\"

    limit = 3

    @property
    def name(self):
        def inner():
            return 1
        return inner()
";
    check("a.py", text, &[":1-2", "Session:3-7", "Session.name:8-12"]);
}

#[test]
fn a_long_function_is_split_with_an_overlap() {
    let body: String = (0..200).map(|n| format!("    x{n} = {n}\n")).collect();
    let text = format!("def long():\n{body}");
    let cut = cut("a.py", &text);
    assert_eq!(shape(&cut), ["long:1-80", "long:73-152", "long:145-201"]);
    assert!(text[cut.chunks[1].bytes.clone()].starts_with("    x71 = 71\n"));
}

#[test]
fn text_without_grammar_is_cut_near_empty_lines() {
    let text = format!("{}\n{}", "word\n".repeat(35), "more\n".repeat(30));
    check("a.txt", &text, &[":1-36", ":37-66"]);
}

#[test]
fn wide_lines_are_split_by_bytes() {
    let text = format!("{}\n", "word ".repeat(900)).repeat(10);
    let cut = cut("a.csv", &text);
    assert!(cut.chunks.len() >= 5);
    assert!(cut.chunks.iter().all(|chunk| chunk.bytes.len() <= 8 * 1024));
}

#[test]
fn every_line_with_a_word_is_in_a_chunk() {
    let source = include_str!("../refresh.rs");
    let cut = cut("refresh.rs", source);
    for (at, line) in source.lines().enumerate() {
        let held = cut.chunks.iter().any(|chunk| chunk.start as usize <= at + 1 && at < chunk.end as usize);
        assert!(held || !line.contains(|c: char| c.is_alphanumeric()), "line {}: {line}", at + 1);
    }
}

#[test]
fn an_equal_piece_has_an_equal_hash_wherever_it_stands() {
    let function = "def same():\n    return 1\n";
    let here = cut("a.py", function);
    let there = cut("b/c.py", &format!("import os\n\n\n{function}"));
    assert_eq!(here.chunks[0].hash, there.chunks[1].hash);
}

#[test]
fn an_empty_file_has_no_chunk() {
    check("a.py", "", &[]);
    check("a.txt", "\n\n   \n", &[]);
}
