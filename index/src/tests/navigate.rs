//! Does an index tell who uses a name, what it calls, and which files belong together?

use std::process::Command;

use super::Bench;
use crate::{SymbolAnswer, UseKind};

fn sample() -> Bench {
    let bench = Bench::new(None);
    bench.write(
        "src/session.rs",
        "pub struct Session;\nimpl Session {\n    pub fn close(&self) { flush() }\n}\nfn flush() {}\n",
    );
    bench.write(
        "src/pool.rs",
        "use crate::session::Session;\npub fn drain(session: &Session) {\n    session.close();\n}\n",
    );
    bench.write("tests/pool.rs", "fn drains() { other.close(); }\n");
    bench.write("README.md", "Nothing here calls close().\n");
    bench
}

#[test]
fn a_name_is_used_where_the_tree_uses_it_and_tests_come_last() {
    let bench = sample();
    let (index, _) = bench.index();
    let found = index.callers("Session::close").found;
    let shown: Vec<_> = found.iter().map(|usage| (usage.path.as_str(), usage.line, usage.inside.as_deref())).collect();
    assert_eq!(shown, [("src/pool.rs", 3, Some("drain")), ("tests/pool.rs", 1, Some("drains"))]);
    assert_eq!(found[0].text, "session.close();");
    let kinds: Vec<_> = index.references("Session").found.iter().map(|usage| usage.kind).collect();
    assert!(kinds.contains(&UseKind::Import) && kinds.contains(&UseKind::Type), "{kinds:?}");
    assert!(index.references("nobody").found.is_empty());
}

#[test]
fn what_a_function_calls_leads_to_its_definition() {
    let bench = sample();
    let (index, _) = bench.index();
    let calls = index.callees("Session.close").unwrap();
    assert_eq!((calls[0].name.as_str(), calls[0].line), ("flush", 3));
    assert_eq!(calls[0].definitions[0].path, "src/session.rs");
    assert_eq!(calls[0].definitions[0].signature.as_deref(), Some("fn flush()"));
    assert_eq!(index.callees("nobody"), None);
}

#[test]
fn files_that_import_or_change_together_are_related() {
    let bench = sample();
    let git = |args: &[&str]| {
        let config = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
        let ran = Command::new("git").arg("-C").arg(&bench.root).args(config).args(args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "-q"]);
    for round in 0..3 {
        bench.write("README.md", format!("round {round}\n"));
        bench.write("tests/pool.rs", format!("fn drains_{round}() {{ other.close(); }}\n"));
        git(&["add", "-A"]);
        git(&["commit", "-qm", "round"]);
    }
    let (index, _) = bench.index();
    assert_eq!(index.imports("src/pool.rs"), ["src/session.rs"]);
    assert_eq!(index.imported_by("src/session.rs"), ["src/pool.rs"]);
    let related = |path: &str| index.related(&[path.to_owned()], 5);
    assert_eq!(related("src/pool.rs")[0], "src/session.rs");
    assert!(related("README.md").contains(&"tests/pool.rs".to_owned()), "{:?}", related("README.md"));
    assert!(related("no/such.rs").is_empty());
}

#[test]
fn what_is_laid_over_the_tree_is_navigated_as_it_stands_there() {
    let bench = sample();
    let (mut index, _) = bench.index();
    let pool = "use crate::session::Session;\npub fn drain(session: &Session) {}\n";
    let fresh = "pub fn late() { drain(session) }\n";
    let own = |text: &str| Some(text.as_bytes().to_vec());
    index.overlay(&[("src/pool.rs".to_owned(), own(pool)), ("src/late.rs".to_owned(), own(fresh))]).unwrap();
    let callers = index.callers("Session::close").found;
    assert!(callers.iter().all(|usage| usage.path == "tests/pool.rs"), "{callers:?}");
    assert_eq!(index.callers("drain").found[0].path, "src/late.rs");
    assert!(matches!(index.symbol("late"), SymbolAnswer::Exact(found) if found.path == "src/late.rs"));
    index.clear_overlay();
    assert_eq!(index.symbol("late"), SymbolAnswer::NotFound);
    assert_eq!(index.callers("Session::close").found.len(), 2);
}

#[test]
fn only_files_that_cannot_match_and_have_not_changed_are_ruled_out() {
    let bench = sample();
    // Old enough that the stamps of the files are believed.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    for path in ["src/session.rs", "src/pool.rs", "tests/pool.rs", "README.md"] {
        std::fs::File::options().write(true).open(bench.root.join(path)).unwrap().set_modified(old).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let (mut index, _) = bench.index();
    super::refresh(&mut index).unwrap();
    let all = || ["src/pool.rs", "src/session.rs", "new.rs"].map(str::to_owned).to_vec();
    assert_eq!(index.may_match("flush", all()), ["src/session.rs", "new.rs"]);
    bench.write("src/pool.rs", "fn flush_too() {}\n");
    assert_eq!(index.may_match("flush", all()), all());
    assert_eq!(index.may_match("", all()), all());
}
