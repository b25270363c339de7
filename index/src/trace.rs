//! Which places does a stack trace, a compiler error or the output of a test run point at?
//!
//! Most of them write `path:line` somewhere in the line, so one reader of places serves gcc, rustc, go, tsc, node,
//! ruby and the sanitizers alike; only what looks different (Python, Java, C#, PHP) and the names of functions have
//! readers of their own. A place is a claim of the text and nothing more: whoever uses it looks whether the tree has
//! such a file. Bounded and total: any text is read in one pass over its lines.

/// Lines that are read.
const LINES_MAX: usize = 4000;
/// Bytes of each line that are read.
const LINE_BYTES_MAX: usize = 1000;
/// Places that are kept: the first and the last halves of a longer trace.
const PLACES_MAX: usize = 64;
/// Names of tests and functions that are kept.
const SYMBOLS_MAX: usize = 32;

/// Somewhere in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// As written, with `/` between its parts.
    pub path: String,
    pub line: Option<usize>,
    /// The function that the trace says lies there.
    pub symbol: Option<String>,
}

/// What a text says about where something went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Innermost first, as far as the form of the trace tells.
    pub places: Vec<Place>,
    /// Tests that failed, and functions without a place.
    pub symbols: Vec<String>,
    /// Numbers, from 0, of the lines that were read as part of a trace.
    pub lines: Vec<usize>,
}

/// Reads whatever of this is in `text`.
pub(crate) fn trace(text: &str) -> Trace {
    let mut reader = Reader::default();
    for (at, line) in text.lines().take(LINES_MAX).enumerate() {
        let line = plain(head(line, LINE_BYTES_MAX));
        if reader.line(line.trim_end()) {
            reader.trace.lines.push(at);
        }
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    /// A function named in the line before, for forms that write the place below it.
    above: Option<String>,
    /// Places of forms that write the innermost frame last.
    inner_last: usize,
}

impl Reader {
    /// Whether the line belonged to a trace.
    fn line(&mut self, line: &str) -> bool {
        let above = self.above.take();
        let text = line.trim_start();
        if let Some(name) = failed_test(text) {
            self.symbol(name);
            return true;
        }
        if let Some(place) = python(text).or_else(|| pytest(text)) {
            self.inner_last += 1;
            self.place(place);
            return true;
        }
        if let Some(place) = java(text).or_else(|| csharp(text)) {
            self.place(place);
            return true;
        }
        if let Some(name) = name_above(text) {
            self.above = Some(name);
            return true;
        }
        let Some((before, path, number)) = located(text) else { return false };
        let symbol = frame_name(before).or(above);
        self.place(Place { path, line: number, symbol });
        true
    }

    fn place(&mut self, place: Place) {
        if place.path.is_empty() {
            return self.symbol(place.symbol.unwrap_or_default());
        }
        let places = &mut self.trace.places;
        if places.last() == Some(&place) {
            return;
        }
        if places.len() == PLACES_MAX {
            places.remove(PLACES_MAX / 2);
        }
        places.push(place);
    }

    fn symbol(&mut self, name: String) {
        let symbols = &mut self.trace.symbols;
        if !name.is_empty() && symbols.len() < SYMBOLS_MAX && !symbols.contains(&name) {
            symbols.push(name);
        }
    }

    fn finish(mut self) -> Trace {
        if self.inner_last * 2 > self.trace.places.len() {
            self.trace.places.reverse();
        }
        self.trace
    }
}

/// `File "a/b.py", line 3, in name`, whatever a log writes before it
fn python(text: &str) -> Option<Place> {
    let (_, text) = text.split_once("File \"")?;
    let (path, rest) = text.split_once('"')?;
    let rest = rest.strip_prefix(", line ")?;
    let symbol = rest.split_once(", in ").map(|(_, name)| name.trim());
    Some(Place { path: normal(path), line: number(rest).0, symbol: symbol.and_then(name) })
}

/// `a/b.py:3: in name` or `a/b.py:3: ValueError`
fn pytest(text: &str) -> Option<Place> {
    let (path, rest) = text.split_once(".py:")?;
    let (line, length) = number(rest);
    let rest = rest[length..].strip_prefix(": ")?;
    if path.contains(char::is_whitespace) {
        return None;
    }
    Some(Place {
        path: normal(&format!("{path}.py")),
        line: Some(line?),
        symbol: rest.strip_prefix("in ").and_then(name),
    })
}

/// `at a.b.Outer$Inner.method(File.java:3)`
fn java(text: &str) -> Option<Place> {
    let rest = text.strip_prefix("at ")?.trim_end();
    let (called, place) = rest.strip_suffix(')')?.rsplit_once('(')?;
    let is_dotted = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '$' | '<' | '>' | '/');
    if !called.contains('.') || !called.chars().all(is_dotted) {
        return None;
    }
    let called = called.rsplit('/').next().unwrap_or(called);
    let mut parts: Vec<&str> = called.split('.').collect();
    let method = parts.pop()?;
    let class = parts.pop()?.split('$').next()?;
    let (file, line) = match place.split_once(':') {
        Some((file, line)) => (file, number(line).0),
        None if matches!(place, "Native Method" | "Unknown Source") => ("", None),
        None => return None,
    };
    let endings = [".java", ".kt", ".scala", ".groovy"];
    if !file.is_empty() && !endings.iter().any(|ending| file.ends_with(ending)) {
        return None;
    }
    let directory = parts.join("/");
    let path = if file.is_empty() || directory.is_empty() { file.to_owned() } else { format!("{directory}/{file}") };
    Some(Place { path, line, symbol: Some(format!("{class}.{method}")) })
}

/// `at A.B.Method(Int32 n) in /a/B.cs:line 3`
fn csharp(text: &str) -> Option<Place> {
    let (called, place) = text.strip_prefix("at ")?.split_once(" in ")?;
    let (path, line) = place.rsplit_once(":line ")?;
    let called = called.split('(').next().unwrap_or(called);
    Some(Place { path: normal(path), line: number(line).0, symbol: name(called) })
}

/// The function of a frame whose place stands in the next line: Rust's `12: a::b`, Go's `main.(*T).f(0x1)`.
fn name_above(text: &str) -> Option<String> {
    let (count, length) = number(text);
    if count.is_some() {
        let called = text[length..].strip_prefix(": ")?;
        let is_path = called.contains("::") && !called.contains(' ') || called.starts_with('<');
        return if is_path { name(unhashed(called)) } else { None };
    }
    let called = text.strip_prefix("created by ").unwrap_or(text);
    let (called, rest) = called.rsplit_once('(')?;
    let is_go =
        rest.ends_with(')') && rest[..rest.len() - 1].chars().all(|c| c.is_ascii_hexdigit() || "x, .{}?".contains(c));
    if is_go && called.contains('.') && !called.contains(' ') { name(called) } else { None }
}

/// Without the hash that rustc ends a mangled name with.
fn unhashed(called: &str) -> &str {
    let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    called.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(called, |(path, _)| path)
}

/// The function that a line names before its place: `at f (`, `#1 0x2 in f `, `from x:in 'f'`.
fn frame_name(before: &str) -> Option<String> {
    if let Some(called) = before.strip_prefix("at ") {
        let called = called.trim_start_matches("async ").trim_start_matches("new ");
        return called.strip_suffix(" (").and_then(|called| name(called.split(" [as ").next()?));
    }
    let frame = before.strip_prefix('#')?;
    let frame = frame.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let called = frame.split_once(" in ").map_or(frame, |(_, called)| called);
    name(called.split(['(', ' ']).next()?)
}

/// The name of a test that a line says failed.
fn failed_test(text: &str) -> Option<String> {
    let test = if let Some(rest) = text.strip_prefix("--- FAIL: ") {
        rest.split(' ').next()?
    } else if let Some(rest) = text.strip_prefix("---- ") {
        rest.strip_suffix(" stdout ----")?
    } else if let Some(rest) = text.strip_prefix("test ") {
        rest.strip_suffix(" ... FAILED")?
    } else if let Some(rest) = text.strip_prefix("FAILED ").or_else(|| text.strip_prefix("ERROR ")) {
        rest.split(" - ").next()?.split(' ').next().filter(|node| node.contains("::"))?
    } else if let Some(rest) = text.strip_prefix("FAIL: ").or_else(|| text.strip_prefix("ERROR: ")) {
        rest.split_once(" (").filter(|(_, class)| class.ends_with(')'))?.0
    } else {
        return None;
    };
    name(test.split('[').next()?)
}

/// The first `path:line`, `path(line` or `path, line` of a line, with what stands before it.
fn located(text: &str) -> Option<(&str, String, Option<usize>)> {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let after = match byte {
            b':' | b'(' => at + 1,
            _ => continue,
        };
        if !bytes.get(after).is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let is_path = |c: char| {
            c.is_alphanumeric() || matches!(c, '.' | '_' | '/' | '\\' | '-' | '@' | '+' | '~' | '$' | '[' | ']')
        };
        let start =
            text[..at].char_indices().rev().take_while(|(_, c)| is_path(*c)).last().map_or(at, |(start, _)| start);
        let path = normal(&text[start..at]);
        if is_file_name(&path) {
            return Some((&text[..start], path, number(&text[after..]).0));
        }
    }
    None
}

/// Whether the last part has an ending that a source file could have.
fn is_file_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let letters = ending.bytes().filter(u8::is_ascii_alphabetic).count();
    !stem.is_empty() && letters > 0 && ending.len() <= 8 && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `/` between parts, nothing empty, `.` or `..` among them.
pub(crate) fn normal(path: &str) -> String {
    let parts = path.split(['/', '\\']).filter(|part| !matches!(*part, "" | "." | ".."));
    parts.collect::<Vec<_>>().join("/")
}

/// A name with its owner at most: the last two parts of a qualified one.
fn name(text: &str) -> Option<String> {
    let flat = text.trim().replace("::", ".").replace(['(', ')', '*', '<', '>', '\'', '`', '"', '#'], "");
    let parts: Vec<&str> = flat.split(['.', '/']).filter(|part| !part.is_empty() && *part != "{{closure}}").collect();
    let last = parts[parts.len().saturating_sub(2)..].join(".");
    (!last.is_empty() && last != "module" && !last.contains(char::is_whitespace)).then_some(last)
}

/// The number that `text` begins with, and how many digits it has.
fn number(text: &str) -> (Option<usize>, usize) {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (text[..length].parse().ok(), length)
}

fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Without the colours of a terminal.
fn plain(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut pieces = line.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest));
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each place as `path:line symbol`, then the symbols.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let trace = trace(text);
        let place = |place: &Place| {
            let line = place.line.map_or(String::new(), |line| format!(":{line}"));
            format!("{}{line} {}", place.path, place.symbol.as_deref().unwrap_or("-"))
        };
        let got: Vec<String> = trace.places.iter().map(place).chain(trace.symbols).collect();
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn python_traces_are_read_innermost_first() {
        check(
            "Traceback (most recent call last):\n  File \"/x/app.py\", line 3, in <module>\n    run()\n  \
             File \"/x/lib/core.py\", line 12, in run\n    raise ValueError(1)\nValueError: 1",
            &["x/lib/core.py:12 run", "x/app.py:3 -"],
        );
        check(
            "tests/test_a.py:5: in test_a\n    f()\nsrc/a.py:9: ValueError\nFAILED tests/test_a.py::TestA::test_a[x] - boom",
            &["src/a.py:9 -", "tests/test_a.py:5 test_a", "TestA.test_a"],
        );
        check("INTERNALERROR>   File \"/x/core.py\", line 12, in run\nERR> a", &["x/core.py:12 run"]);
        check("FAIL: test_x (tests.test_mod.TestCase)", &["test_x"]);
    }

    #[test]
    fn rust_panics_backtraces_and_errors_are_read() {
        check("thread 'main' panicked at src/main.rs:10:5:\nboom", &["src/main.rs:10 -"]);
        check(
            "   1: core::panicking::panic_fmt\n             at /rustc/abc/library/core/src/panicking.rs:75:14\n   \
             2: app::parse::header::h0123456789abcdef\n             at ./src/parse.rs:44:9",
            &["rustc/abc/library/core/src/panicking.rs:75 panicking.panic_fmt", "src/parse.rs:44 parse.header"],
        );
        check("error[E0425]: cannot find value\n  --> index/src/a.rs:7:13", &["index/src/a.rs:7 -"]);
        check("---- fuse::tests::it_works stdout ----\ntest a::b ... FAILED", &["tests.it_works", "a.b"]);
    }

    #[test]
    fn go_is_read() {
        check(
            "goroutine 1 [running]:\nmain.(*Server).serve(0xc000, 0x1)\n\t/src/app/server.go:31 +0x1d",
            &["src/app/server.go:31 Server.serve"],
        );
        check("./main.go:10:5: undefined: x\n--- FAIL: TestParse (0.00s)", &["main.go:10 -", "TestParse"]);
    }

    #[test]
    fn java_and_csharp_are_read() {
        check(
            "\tat com.acme.web.Router$Node.find(Router.java:88)\n\tat java.base/java.lang.Thread.run(Thread.java:829)",
            &["com/acme/web/Router.java:88 Router.find", "java/lang/Thread.java:829 Thread.run"],
        );
        check("src/Foo.java:12: error: ';' expected", &["src/Foo.java:12 -"]);
        check("   at Acme.Web.Find(Int32 n) in /src/Web.cs:line 42", &["src/Web.cs:42 Web.Find"]);
    }

    #[test]
    fn javascript_and_typescript_are_read() {
        check(
            "    at Route.dispatch (/app/lib/router/route.js:119:3)\n    at async file:///app/lib/view.mjs:9:1",
            &["app/lib/router/route.js:119 Route.dispatch", "app/lib/view.mjs:9 -"],
        );
        check("src/a.ts(10,5): error TS2304: Cannot find name", &["src/a.ts:10 -"]);
    }

    #[test]
    fn c_and_its_sanitizers_are_read() {
        check("src/list.c:10:5: error: expected ';'", &["src/list.c:10 -"]);
        check("    #0 0x4f2 in list_free /src/list.c:33:3", &["src/list.c:33 list_free"]);
        check("#1  0x0001 in main (argc=1) at main.c:12", &["main.c:12 main"]);
    }

    #[test]
    fn prose_times_and_addresses_are_no_places() {
        check("It began at 12:30:45, see http://localhost:8080/ and version 1.2:3.", &[]);
        check("\u{1b}[31msrc/a.rs:3\u{1b}[0m", &["src/a.rs:3 -"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_within_the_limits(
            pieces in proptest::collection::vec(
                prop_oneof!["\\PC{0,20}", Just("File \"".to_owned()), Just("at ".to_owned()), Just("a.py:1".to_owned()),
                    Just("(a.java:".to_owned()), Just("\n".to_owned()), Just("\u{1b}[".to_owned()), Just("::h".to_owned()),
                    Just("#0 ".to_owned()), Just("9: ".to_owned()), Just("é(".to_owned()), Just("--- FAIL: ".to_owned())],
                0..60,
            )
        ) {
            let text = pieces.concat();
            let trace = trace(&text);
            prop_assert!(trace.places.len() <= PLACES_MAX && trace.symbols.len() <= SYMBOLS_MAX);
            prop_assert!(trace.lines.len() <= text.lines().count());
            prop_assert!(trace.places.iter().all(|place| !place.path.is_empty() && !place.path.starts_with('/')));
        }
    }
}
