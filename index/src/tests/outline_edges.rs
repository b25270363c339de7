//! Where does a definition begin and end, and is any text at all survived?

use crate::outline::outlined;
use crate::{outline, parses};

#[test]
fn attributes_and_comments_above_belong_together_where_nothing_stands_between() {
    let text = "\
/// Doc.
#[derive(Debug)]
// Why.
#[repr(C)]
struct A;

/// Far.

struct B; // At the end.
struct C;
";
    let items = outlined("a.rs", text.as_bytes()).unwrap();
    let places = items.iter().map(|item| (item.definition.name.as_str(), item.doc_line, item.definition.start_line));
    assert_eq!(places.collect::<Vec<_>>(), [("A", 1, 4), ("B", 9, 9), ("C", 10, 10)]);
    assert_eq!(items[0].head_line, 5);
}

#[test]
fn the_bytes_of_a_definition_are_its_whole_lines() {
    let text = "class A:\n    x = 1\n\n    @property\n    def name(self):\n        return 1\n\n    y = 2\n";
    let found = outline("a.py", text.as_bytes());
    let name = found.iter().find(|item| item.name == "name").unwrap();
    assert_eq!(&text[name.start_byte..name.end_byte], "    @property\n    def name(self):\n        return 1");
    assert_eq!(name.signature, "def name(self)");
    assert_eq!(name.parent.as_deref(), Some("A"));
}

#[test]
fn bytes_that_are_not_utf_8_have_an_outline_too() {
    let found = outline("a.py", b"# gr\xfc\xdfe\ndef f():\n    return '\xff'\n");
    assert_eq!(found[0].name, "f");
    assert_eq!(found[0].start_line, 2);
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let deep = 50_000;
    for (path, text) in [
        ("a.js", format!("f({}1{})\n", "(".repeat(deep), ")".repeat(deep))),
        ("a.rs", format!("fn f() {{ {}1{} }}\n", "{".repeat(deep), "}".repeat(deep))),
        ("a.py", format!("x = {}1{}\n", "[".repeat(deep), "]".repeat(deep))),
        ("a.go", "(".repeat(deep)),
        ("a.c", "{".repeat(deep)),
        ("a.java", "class A { ".repeat(10_000)),
        ("a.cs", "namespace A { ".repeat(10_000)),
        ("a.rb", "module A\n".repeat(10_000)),
        ("a.php", format!("<?php {}", "if (1) { ".repeat(10_000))),
        ("a.kt", "class A { ".repeat(10_000)),
        ("a.scala", "object A { ".repeat(10_000)),
        ("a.swift", "struct A { ".repeat(10_000)),
        ("a.sh", "( ".repeat(10_000)),
        ("a.lua", "do ".repeat(10_000)),
        ("a.sql", "CREATE TABLE a (".repeat(10_000)),
    ] {
        let small = std::thread::Builder::new().stack_size(512 * 1024);
        let run = move || {
            outline(path, text.as_bytes());
            parses(path, text.as_bytes());
        };
        small.spawn(run).unwrap().join().unwrap();
    }
}

#[test]
fn any_bytes_at_all_have_an_outline() {
    const ALPHABET: &[u8] = b"(){}[]<>;:,.#@\"'\n\n  abcdef=+-*/\\\xff\xc3fnclassdef";
    let mut seed = 7u64;
    for path in [
        "a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp", "a.cs", "a.rb", "a.php", "a.kt",
        "a.scala", "a.swift", "a.sh", "a.lua", "a.sql",
    ] {
        let bytes: Vec<u8> = (0..3000)
            .map(|_| {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ALPHABET[(seed >> 33) as usize % ALPHABET.len()]
            })
            .collect();
        for item in outline(path, &bytes) {
            assert!(item.start_byte < item.end_byte && item.end_byte <= bytes.len());
            assert!(item.start_line <= item.end_line);
        }
        parses(path, &bytes);
    }
}
