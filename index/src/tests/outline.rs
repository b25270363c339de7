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
    let expected = [
        "constant Max 3-3",
        "struct Cache 5-5",
        "interface Store 7-7",
        "method Store.Get 7-7",
        "method Cache.Get 9-9",
        "function main 11-13",
    ];
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
fn csharp() {
    let text = "\
using System.Text;
namespace Acme.Tools {
    [Serializable]
    public class Job<T> : IJob {
        public const int Max = 3;
        public Job() {}
        [Obsolete]
        public string Run(int n) { return \"\"; }
        public int Size { get; set; }
        enum State { New }
        struct Pair { }
    }
    interface IJob { string Run(int n); }
    record Point(int X, int Y);
    delegate void Done(int code);
}
";
    let expected = [
        "module Acme.Tools 2-16",
        "class Acme.Tools.Job 3-12",
        "constant Acme.Tools.Job.Max 5-5",
        "method Acme.Tools.Job.Job 6-6",
        "method Acme.Tools.Job.Run 7-8",
        "constant Acme.Tools.Job.Size 9-9",
        "enum Acme.Tools.Job.State 10-10",
        "struct Acme.Tools.Job.Pair 11-11",
        "interface Acme.Tools.IJob 13-13",
        "method Acme.Tools.IJob.Run 13-13",
        "struct Acme.Tools.Point 14-14",
        "type Acme.Tools.Done 15-15",
    ];
    check("a.cs", text, &expected);
}

#[test]
fn ruby() {
    let text = "\
module Acme
  LIMIT = 3
  class Job < Base
    def initialize(name)
      @name = name
    end

    def self.make(name) = new(name)

    class << self
      def build; end
    end
  end
end

class Acme::Other
  def run?; end
end

def main
end
";
    let expected = [
        "trait Acme 1-14",
        "constant Acme.LIMIT 2-2",
        "class Acme.Job 3-13",
        "method Acme.Job.initialize 4-6",
        "method Acme.Job.make 8-8",
        "method Acme.Job.build 11-11",
        "class Acme.Other 16-18",
        "method Acme.Other.run? 17-17",
        "function main 20-21",
    ];
    check("a.rb", text, &expected);
}

#[test]
fn php() {
    let text = "\
<?php
namespace App;
use App\\Models\\User;
const LIMIT = 3;
#[Attribute]
final class Job extends Base {
    const MAX = 1;
    public function run(int $n): string { return ''; }
}
interface Runs { public function run(int $n); }
trait Logs { function log() {} }
enum State { case New; }
function main() { $local = 1; }
";
    let expected = [
        "constant LIMIT 4-4",
        "class Job 5-9",
        "constant Job.MAX 7-7",
        "method Job.run 8-8",
        "interface Runs 10-10",
        "method Runs.run 10-10",
        "trait Logs 11-11",
        "method Logs.log 11-11",
        "enum State 12-12",
        "function main 13-13",
    ];
    check("a.php", text, &expected);
}

#[test]
fn kotlin() {
    let text = "\
package acme

import acme.tools.Base

const val LIMIT = 3
typealias Id = String

@Entity
data class Job(val name: String) : Base() {
    val size = 1
    fun run(n: Int): String { val local = 1; return name }
    companion object {
        fun make() = Job(\"\")
    }
}
interface Runs {
    fun run(n: Int): String
}
enum class State { NEW, OLD }
object Registry { fun find() {} }
fun String.shout() = uppercase()
";
    let expected = [
        "constant LIMIT 5-5",
        "type Id 6-6",
        "class Job 8-15",
        "constant Job.size 10-10",
        "method Job.run 11-11",
        "method Job.make 13-13",
        "interface Runs 16-18",
        "method Runs.run 17-17",
        "enum State 19-19",
        "class Registry 20-20",
        "method Registry.find 20-20",
        "function shout 21-21",
    ];
    check("a.kt", text, &expected);
}

#[test]
fn scala() {
    let text = "\
package acme

import acme.tools.Base

trait Runs { def run(n: Int): String }
class Job(name: String) extends Runs {
  val size = 1
  def run(n: Int): String = { val local = 1; name }
}
object Job { def make(): Job = new Job(\"\") }
case class Point(x: Int, y: Int)
enum State { case New, Old }
type Id = String
";
    let expected = [
        "trait Runs 5-5",
        "method Runs.run 5-5",
        "class Job 6-9",
        "constant Job.size 7-7",
        "method Job.run 8-8",
        "class Job 10-10",
        "method Job.make 10-10",
        "class Point 11-11",
        "enum State 12-12",
        "type Id 13-13",
    ];
    check("a.scala", text, &expected);
}

#[test]
fn swift() {
    let text = "\
import Foundation

let limit = 3
protocol Runs { func run(_ n: Int) -> String }
@objc
class Job: Runs {
    let name: String
    init(name: String) { self.name = name }
    func run(_ n: Int) -> String { let local = 1; return name }
}
struct Point { var x: Int }
enum State { case new }
extension Job { func stop() {} }
typealias Id = String
func main() {}
";
    let expected = [
        "constant limit 3-3",
        "interface Runs 4-4",
        "method Runs.run 4-4",
        "class Job 5-10",
        "constant Job.name 7-7",
        "method Job.init 8-8",
        "method Job.run 9-9",
        "struct Point 11-11",
        "constant Point.x 11-11",
        "enum State 12-12",
        "method Job.stop 13-13",
        "type Id 14-14",
        "function main 15-15",
    ];
    check("a.swift", text, &expected);
}

#[test]
fn bash() {
    let text = "\
#!/bin/bash
LIMIT=3
export NAME=x
source ./lib.sh
greet() {
  local who=$1
  echo \"$who\"
}
function stop { greet you; }
";
    let expected = ["constant LIMIT 2-2", "constant NAME 3-3", "function greet 5-8", "function stop 9-9"];
    check("a.sh", text, &expected);
    check("bin/tool", text, &expected);
}

#[test]
fn lua() {
    let text = "\
local json = require(\"json\")
local M = {}
function M.load(path) local inner = 1 return path end
function M:save() end
local function helper() end
M.run = function() end
return { stop = function() end }
";
    let expected = [
        "constant json 1-1",
        "constant M 2-2",
        "method M.load 3-3",
        "method M.save 4-4",
        "function helper 5-5",
        "function run 6-6",
        "function stop 7-7",
    ];
    check("a.lua", text, &expected);
}

#[test]
fn sql() {
    let text = "\
-- CREATE TABLE commented (id int);
CREATE TABLE IF NOT EXISTS shop.users (
  id int, name text DEFAULT 'CREATE TABLE no;'
);
create or replace view \"Active\" as select * from users;
CREATE UNIQUE INDEX users_name ON users (name);
CREATE FUNCTION add(a int, b int) RETURNS int AS $$
BEGIN
  CREATE TABLE inner_one (id int);
  RETURN a + b;
END;
$$ LANGUAGE plpgsql;
CREATE PROCEDURE tidy() BEGIN IF 1 THEN DELETE FROM users; END IF; END;
CREATE TYPE mood AS ENUM ('sad');
INSERT INTO users VALUES (1, 'x');
CREATE TRIGGER watch AFTER INSERT ON users EXECUTE FUNCTION add();
";
    let expected = [
        "struct shop.users 2-4",
        "struct Active 5-5",
        "constant users_name 6-6",
        "function add 7-12",
        "function tidy 13-13",
        "type mood 14-14",
        "function watch 16-16",
    ];
    check("a.sql", text, &expected);
    assert_eq!(parses("a.sql", text.as_bytes()), None);
    let add = outline("a.sql", text.as_bytes()).into_iter().find(|item| item.name == "add").unwrap();
    assert_eq!(add.signature, "CREATE FUNCTION add(a int, b int)");
}
