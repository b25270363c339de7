//! In the last test file of every package that go says it tests.

use super::{FILES_MAX, Nothing, Plants, Test, inside, listing, random, text};
use crate::plan::Plan;
use crate::workspace::{Workspace, WorkspaceError};
use std::sync::atomic::AtomicBool;

/// Chooses the places.
pub fn choose(
    view: &mut dyn Workspace,
    plan: &Plan,
    asked: &[String],
    cancel: &AtomicBool,
) -> Result<Result<Plants, Nothing>, WorkspaceError> {
    let named = |word: &String| ["-run", "-skip", "-list", "--run", "--skip"].iter().any(|flag| word.starts_with(flag));
    if plan.argv.iter().any(named) {
        return Ok(Err("the command runs only tests of some names"));
    }
    let format = "{{.ImportPath}}|{{.Dir}}|{{range .TestGoFiles}}{{.}}|{{end}}{{range .XTestGoFiles}}{{.}}|{{end}}";
    let packages = plan.argv[2..].iter().filter(|word| word.starts_with('.') || word.contains('/'));
    let list = ["go", "list", "-f", format].map(str::to_owned).into_iter().chain(packages.cloned()).collect();
    let Some(said) = listing(view, list, plan, cancel)? else { return Ok(Err("go does not say what it tests")) };
    let files = view.walk()?;
    let mut tests = Vec::new();
    for line in said.lines().take(FILES_MAX) {
        let mut parts = line.split('|').filter(|part| !part.is_empty());
        let (Some(import), Some(dir)) = (parts.next(), parts.next()) else { continue };
        let fits = |name: &str| {
            let path = inside(&files, &format!("{dir}/{name}"))?;
            let text = text(view, path)?;
            (text.contains("\"testing\"") && text.contains(" *testing.T)")).then(|| path.clone())
        };
        let named: Vec<&str> = parts.collect();
        let Some(path) = named.iter().rev().find_map(|name| fits(name)) else { continue };
        let name = format!("TestPlanted{}", random()?);
        let text = format!("\nfunc {name}(t *testing.T) {{\n\tt.Fatal(\"planted\")\n}}\n");
        // In its form for machines go closes a package in another way.
        let closing = (!asked.iter().any(|word| word.contains("-json"))).then(|| format!("FAIL\t{import}\t"));
        tests.push(Test { place: String::new(), at: None, what: "t.Fatal", path, name, text, beside: None, closing });
    }
    let argv = asked.iter().filter(|word| !word.contains("failfast")).cloned().collect();
    Ok(Ok(Plants { tests, argv, all_run: true }))
}
