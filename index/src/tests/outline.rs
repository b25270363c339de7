//! Are definitions found, in every language that we read?

use crate::{outline, parses};

/// `kind qualified start-end` of every definition.
#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let found: Vec<String> = outline(path, text.as_bytes())
        .iter()
        .map(|item| format!("{} {} {}-{}", item.kind, item.qualified(), item.start_line, item.end_line))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn rust() {
    let text = "\
const MAX: u32 = 3;
type Pair = (u32, u32);
mod inner {
    #[derive(Debug)]
    pub struct Point { x: u32 }
    impl<T> From<T> for Point {
        fn from(t: T) -> Point { todo() }
    }
}
trait Shape { fn area(&self) -> f64; }
enum Color { Red }
macro_rules! twice { ($x:expr) => { $x; $x } }
fn outer() {
    fn nested() {}
    const LOCAL: u32 = 1;
}
";
    let expected = [
        "constant MAX 1-1",
        "type Pair 2-2",
        "module inner 3-9",
        "struct inner.Point 4-5",
        "method inner.Point.from 7-7",
        "trait Shape 10-10",
        "method Shape.area 10-10",
        "enum Color 11-11",
        "macro twice 12-12",
        "function outer 13-16",
        "function outer.nested 14-14",
    ];
    check("a.rs", text, &expected);
}

#[test]
fn python() {
    let text = "\
LIMIT = 3

@dataclass
class Job:
    name: str

    @staticmethod
    @cached
    def make(name):
        return Job(name)

    async def run(self):
        pass

def main():
    local = 1
    def inner():
        pass
";
    let expected = [
        "constant LIMIT 1-1",
        "class Job 3-13",
        "method Job.make 7-10",
        "method Job.run 12-13",
        "function main 15-18",
        "function main.inner 17-18",
    ];
    check("a.py", text, &expected);
}

#[test]
fn javascript() {
    let text = "\
export const LIMIT = 3;
export default function main() {}
const add = (a, b) => a + b;
class Cache {
  #size = 0;
  handler = () => 1;
  get(key) { return key; }
}
function* walk() { const local = 1; }
exports.run = function (x) {
  return x;
};
";
    let expected = [
        "constant LIMIT 1-1",
        "function main 2-2",
        "function add 3-3",
        "class Cache 4-8",
        "method Cache.handler 6-6",
        "method Cache.get 7-7",
        "function walk 9-9",
        "function run 10-12",
    ];
    check("a.js", text, &expected);
}

#[test]
fn typescript() {
    let text = "\
interface Shape { area(): number }
type Id = string;
enum Color { Red }
namespace App {
  export abstract class Base {
    @log()
    run(x: number): void {}
  }
}
export const useThing = async (): Promise<void> => {};
";
    let expected = [
        "interface Shape 1-1",
        "type Id 2-2",
        "enum Color 3-3",
        "module App 4-9",
        "class App.Base 5-8",
        "method App.Base.run 6-7",
        "function useThing 10-10",
    ];
    check("a.ts", text, &expected);
    check("a.tsx", "export function View() { return <div>{1}</div>; }\n", &["function View 1-1"]);
}

#[test]
fn go() {
    let text = "\
package main

const Max = 3

type Cache[K comparable] struct { m map[K]int }

type Store interface { Get() int }

func (c *Cache[K]) Get(k K) int { return c.m[k] }

func main() {
	var local = 1
}
";
    let expected =
        ["constant Max 3-3", "struct Cache 5-5", "interface Store 7-7", "method Cache.Get 9-9", "function main 11-13"];
    check("a.go", text, &expected);
}

#[test]
fn java() {
    let text = "\
package a;

@Entity
public class Job<T> {
    public Job() {}
    @Override
    public String run(int n) { return \"\"; }
    enum State { NEW }
    interface Listener { void done(); }
}
record Pair(int a, int b) {}
";
    let expected = [
        "class Job 3-10",
        "method Job.Job 5-5",
        "method Job.run 6-7",
        "enum Job.State 8-8",
        "interface Job.Listener 9-9",
        "method Job.Listener.done 9-9",
        "struct Pair 11-11",
    ];
    check("a.java", text, &expected);
}

#[test]
fn c() {
    let text = "\
#ifndef A_H
#define A_H
#define MAX 3
#define SQUARE(x) ((x) * (x))
struct node { int value; };
typedef struct { int x; } point;
typedef unsigned int word;
enum color { RED };
static char *name_of(struct node *n) { return 0; }
int declared(void);
#endif
";
    let expected = [
        "constant MAX 3-3",
        "macro SQUARE 4-4",
        "struct node 5-5",
        "struct point 6-6",
        "type word 7-7",
        "enum color 8-8",
        "function name_of 9-9",
    ];
    check("a.c", text, &expected);
}

#[test]
fn cpp() {
    let text = "\
namespace app {
template <typename T>
class Stack {
 public:
  void push(const T& value) { items_.push_back(value); }
  ~Stack() {}
};
int Counter::next() { return 1; }
using Id = int;
}
";
    let expected = [
        "module app 1-10",
        "class app.Stack 2-7",
        "method app.Stack.push 5-5",
        "method app.Stack.~Stack 6-6",
        "method app.Counter.next 8-8",
        "type app.Id 9-9",
    ];
    check("a.cpp", text, &expected);
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
    for path in ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp"] {
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
