//! Is found what a file uses and imports, in every language that we read?

use crate::parsed::parse_once;

/// Uses as `kind name line inside`, each of `expected` among them; `absent` are names that no use may have.
#[track_caller]
fn check(path: &str, text: &str, expected: &[&str], absent: &[&str], imports: &[&str]) {
    let syntax = parse_once(path, text.as_bytes()).unwrap().read(text.as_bytes());
    let uses: Vec<String> = syntax
        .uses
        .iter()
        .map(|used| {
            let inside = syntax.outline.get(used.definition as usize);
            let inside = inside.map_or("-".to_owned(), |item| item.definition.qualified());
            let name = String::from_utf8_lossy(used.text(text.as_bytes()));
            format!("{:?} {name} {} {inside}", used.kind, used.line)
        })
        .collect();
    for wanted in expected {
        assert!(uses.iter().any(|found| found == wanted), "{wanted} is not in {uses:#?}");
    }
    for name in absent {
        let holds = |found: &&String| found.split(' ').nth(1) == Some(name);
        assert!(!uses.iter().any(|found| holds(&found)), "{name} is in {uses:#?}");
    }
    assert_eq!(syntax.imports, imports, "{path}");
}

#[test]
fn rust() {
    let text = "\
use std::collections::{HashMap, hash_map::Entry as E};
mod other;
struct Job { map: HashMap<u32, Tool> }
impl Job {
    fn run(&self, count: u32) -> Outcome {
        let local = helper(count);
        self.map.get(&local).unwrap().start::<Tool>(MAX);
        println!(\"{}\", shown(local));
        tools::Tool::make()
    }
}
";
    let expected = [
        "Import HashMap 1 -",
        "Type HashMap 3 Job",
        "Type Tool 3 Job",
        "Type Job 4 Job",
        "Type Outcome 5 Job.run",
        "Call helper 6 Job.run",
        "Member map 7 Job.run",
        "Call get 7 Job.run",
        "Call start 7 Job.run",
        "Name MAX 7 Job.run",
        "Call println 8 Job.run",
        "Call shown 8 Job.run",
        "Call make 9 Job.run",
        "Member Tool 9 Job.run",
    ];
    let imports = ["std::collections::HashMap", "std::collections::hash_map::Entry", "self::other"];
    check("a.rs", text, &expected, &["local", "count", "run"], &imports);
}

#[test]
fn python() {
    let text = "\
import os.path as p, sys
from ..models import User, Group as G
from . import views
class Job(Base):
    def run(self, count):
        local = helper(count)
        self.user.save(User)
        return map(run_all, sys.argv)
def run_all(): pass
";
    let expected = [
        "Import User 2 -",
        "Name Base 4 Job",
        "Call helper 6 Job.run",
        "Member user 7 Job.run",
        "Call save 7 Job.run",
        "Name User 7 Job.run",
        "Name run_all 8 Job.run",
        "Member argv 8 Job.run",
    ];
    let imports = ["os.path", "sys", "..models.User", "..models.Group", ".views"];
    check("a.py", text, &expected, &["local", "count"], &imports);
}

#[test]
fn scripts() {
    let text = "\
import { load } from './loader';
export { other } from '../other.js';
const fs = require('fs');
class Job extends Base {
  run(count) {
    const local = load(count);
    this.tool.start(local);
    return new Outcome(fs.read);
  }
}
";
    let expected = [
        "Import load 1 -",
        "Name Base 4 Job",
        "Call load 6 Job.run",
        "Member tool 7 Job.run",
        "Call start 7 Job.run",
        "Call Outcome 8 Job.run",
        "Member read 8 Job.run",
    ];
    check("a.js", text, &expected, &["local", "count"], &["./loader", "../other.js", "fs"]);
    let text = "import type { Aa } from \"./a\";\nfunction f(x: Aa, y: ns.Bb): Cc<Dd> { return <View kind={x} />; }\n";
    let expected = ["Type Aa 2 f", "Type Bb 2 f", "Type Cc 2 f", "Type Dd 2 f", "Call View 2 f"];
    check("a.tsx", text, &expected, &["x"], &["./a"]);
}

#[test]
fn go() {
    let text = "\
package main

import (
	\"fmt\"
	web \"example.invalid/net/web\"
)

func (s *Server) Run(count int) web.Outcome {
	local := helper(count)
	s.tool.Start(local)
	fmt.Println(Max)
	return web.Outcome{}
}
";
    let expected = [
        "Call helper 9 Server.Run",
        "Member tool 10 Server.Run",
        "Call Start 10 Server.Run",
        "Call Println 11 Server.Run",
        "Name Max 11 Server.Run",
        "Type Outcome 12 Server.Run",
    ];
    check("a.go", text, &expected, &["local", "count"], &["fmt", "example.invalid/net/web"]);
}

#[test]
fn languages_of_the_jvm() {
    let text = "\
import org.acme.Tool;
import static org.acme.Maths.*;
class Job extends Base {
    @Override Outcome run(int count) { int local = helper(count); this.tool.start(local); return new Outcome(); }
}
";
    let expected = [
        "Type Base 3 Job",
        "Type Override 4 Job.run",
        "Call helper 4 Job.run",
        "Call start 4 Job.run",
        "Call Outcome 4 Job.run",
    ];
    check("a.java", text, &expected, &["local", "count"], &["org.acme.Tool", "org.acme.Maths"]);
    let text = "import org.acme.Tool\nclass Job : Base() {\n  fun run(): Outcome { val l = helper(1); tool.start(l); return Outcome() }\n}\n";
    let expected = ["Call Base 2 Job", "Call helper 3 Job.run", "Call start 3 Job.run", "Call Outcome 3 Job.run"];
    check("a.kt", text, &expected, &[], &["org.acme.Tool"]);
    let text = "import org.acme.Tool\nclass Job extends Base {\n  def run(): Outcome = { helper(1); tool.start(2); new Outcome() }\n}\n";
    let expected = ["Type Base 2 Job", "Call helper 3 Job.run", "Call start 3 Job.run", "Call Outcome 3 Job.run"];
    check("a.scala", text, &expected, &[], &["org.acme.Tool"]);
}

#[test]
fn c_and_cpp() {
    let text = "\
#include <stdio.h>
#include \"net/socket.h\"
struct job *run(int count) { int local = helper(count); tool->start(local); return MAX; }
";
    let expected = ["Type job 3 run", "Call helper 3 run", "Call start 3 run", "Name MAX 3 run"];
    check("a.c", text, &expected, &["local", "count"], &["stdio.h", "net/socket.h"]);
    let text = "ns::Outcome Job::run() { auto x = ns::helper<int>(1); tools.start(); return Outcome{}; }\n";
    let expected = ["Call helper 1 Job.run", "Call start 1 Job.run", "Type Outcome 1 Job.run"];
    check("a.cpp", text, &expected, &[], &[]);
}

#[test]
fn csharp() {
    let text = "using System.Text;\nclass Job : Base {\n  Outcome Run(int n) { Helper(n); tool.Start(n); return new Outcome(); }\n}\n";
    let expected = ["Name Base 2 Job", "Call Helper 3 Job.Run", "Call Start 3 Job.Run", "Call Outcome 3 Job.Run"];
    check("a.cs", text, &expected, &[], &["System.Text"]);
}

#[test]
fn ruby() {
    let text = "require 'json'\nrequire_relative '../tool'\nclass Job < Base\n  def run\n    Tool.make(helper(1)).start\n  end\nend\n";
    let expected = [
        "Type Base 3 Job",
        "Type Tool 5 Job.run",
        "Call make 5 Job.run",
        "Call helper 5 Job.run",
        "Call start 5 Job.run",
    ];
    check("a.rb", text, &expected, &[], &["json", "../tool"]);
}

#[test]
fn php() {
    let text = "<?php\nuse App\\Models\\User;\nrequire 'lib/tool.php';\nclass Job extends Base {\n  function run($count) { helper($count); $this->tool->start(); Tool::make(); return new Outcome(); }\n}\n";
    let expected = [
        "Type Base 4 Job",
        "Call helper 5 Job.run",
        "Member tool 5 Job.run",
        "Call start 5 Job.run",
        "Type Tool 5 Job.run",
        "Call make 5 Job.run",
        "Call Outcome 5 Job.run",
    ];
    check("a.php", text, &expected, &[], &["App\\Models\\User", "lib/tool.php"]);
}

#[test]
fn swift_shell_and_lua() {
    let text = "import Foundation\nclass Job: Base {\n  func run() -> Outcome { helper(1); tool.start(2); return Outcome() }\n}\n";
    let expected = ["Type Base 2 Job", "Type Outcome 3 Job.run", "Call helper 3 Job.run", "Call start 3 Job.run"];
    check("a.swift", text, &expected, &[], &["Foundation"]);
    let text = "source ./lib.sh\n. other.sh\nrun() {\n  helper \"$1\" | grep x\n}\n";
    check("a.sh", text, &["Call helper 4 run", "Call grep 4 run"], &[], &["./lib.sh", "other.sh"]);
    let text =
        "local json = require(\"json\")\nfunction run() helper(1) tool.start(2) tool:stop() return json.encode end\n";
    let expected = ["Call helper 2 run", "Call start 2 run", "Call stop 2 run", "Member encode 2 run"];
    check("a.lua", text, &expected, &[], &["json"]);
}

#[test]
fn a_chain_of_ten_thousand_calls_is_walked_in_little_time() {
    let text = format!("fn f() {{ x{}; }}\n", ".step()".repeat(10_000));
    let start = std::time::Instant::now();
    let syntax = parse_once("a.rs", text.as_bytes()).unwrap().read(text.as_bytes());
    assert_eq!(syntax.uses.len(), 10_000);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn many_definitions_side_by_side_are_walked_in_little_time() {
    let text = "/// Doc.\n#[inline]\nfn f() {}\n".repeat(19_000);
    let start = std::time::Instant::now();
    let syntax = parse_once("a.rs", text.as_bytes()).unwrap().read(text.as_bytes());
    assert_eq!(syntax.outline.len(), 19_000);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}
