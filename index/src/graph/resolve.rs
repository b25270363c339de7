//! Which file of the tree does an import mean? By the customs of each language, from paths alone: no build file is
//! read. What is not found is from elsewhere.

use rustc_hash::FxHashMap;

/// An import without a path before it (`utils`) means a file elsewhere only when so few are called that.
const NAMESAKES_MAX: usize = 3;
/// Files of one Go package that an import of it leads to.
const PACKAGE_FILES_MAX: usize = 8;
/// Parts of an import that are looked at.
const PARTS_MAX: usize = 16;

/// The paths of the tree, made to be found by their ends.
pub(super) struct Paths<'a> {
    paths: &'a [&'a str],
    /// The path of the module: without the ending, and without `mod`, `index`, `__init__`.
    modules: Vec<&'a str>,
    /// By the last two parts of the module, and by the last.
    by_tail: FxHashMap<&'a str, Vec<u32>>,
    by_path: FxHashMap<&'a str, u32>,
    go_packages: FxHashMap<&'a str, Vec<u32>>,
    /// (directory, import) that was asked before.
    known: FxHashMap<(&'a str, String), Vec<u32>>,
}

impl<'a> Paths<'a> {
    pub(super) fn of(paths: &'a [&'a str]) -> Paths<'a> {
        let modules: Vec<&str> = paths.iter().map(|path| module(path)).collect();
        let mut by_tail: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
        let mut go_packages: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
        for (at, module) in modules.iter().enumerate() {
            let last = tail(module, 1);
            by_tail.entry(last).or_default().push(at as u32);
            if tail(module, 2) != last {
                by_tail.entry(tail(module, 2)).or_default().push(at as u32);
            }
            if paths[at].ends_with(".go") && !paths[at].ends_with("_test.go") {
                go_packages.entry(tail(directory(paths[at]), 1)).or_default().push(at as u32);
            }
        }
        let by_path = paths.iter().enumerate().map(|(at, path)| (*path, at as u32)).collect();
        Paths { paths, modules, by_tail, by_path, go_packages, known: FxHashMap::default() }
    }

    /// The files that `import`, written in the file `from`, means.
    pub(super) fn resolve(&mut self, import: &str, from: u32) -> Vec<u32> {
        let path = self.paths[from as usize];
        // Imports of a Rust file count from its module, those of all others from its directory.
        let key = (if path.ends_with(".rs") { path } else { directory(path) }, import.to_owned());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = self.find(import, path);
        self.known.insert(key, found.clone());
        found
    }

    fn find(&self, import: &str, from: &str) -> Vec<u32> {
        let here = directory(from);
        let ending = from.rsplit_once('.').map_or("", |(_, ending)| ending);
        let one = match ending {
            "rs" => self.rust(import, from),
            "py" | "pyi" => self.python(import, from),
            "go" => return self.go(import, here),
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => {
                if !import.starts_with('.') {
                    return Vec::new();
                }
                joined(here, import).and_then(|path| self.exactly(&path))
            }
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" | "inl" | "cu" | "cuh" => {
                let beside = joined(here, import).and_then(|path| self.by_path.get(path.as_str()).copied());
                beside.or_else(|| self.nearest(module(import), from, |path| ends_with_path(path, import)))
            }
            "rb" | "rake" | "sh" | "bash" => {
                let beside = joined(here, import).and_then(|path| self.exactly(&path));
                beside.or_else(|| self.by_end(&import.split('/').collect::<Vec<_>>(), from, ending))
            }
            "php" if import.contains('/') => {
                joined(here, import.trim_start_matches('/')).and_then(|p| self.exactly(&p))
            }
            _ => self.by_end(&import.split(['.', '\\', '/']).collect::<Vec<_>>(), from, ending),
        };
        one.into_iter().collect()
    }

    /// A file or a module of exactly this path.
    fn exactly(&self, path: &str) -> Option<u32> {
        if let Some(at) = self.by_path.get(path) {
            return Some(*at);
        }
        // `./a.js` written for `a.ts`.
        let plain = path.strip_suffix(".js").or_else(|| path.strip_suffix(".jsx")).unwrap_or(path);
        let bucket = self.by_tail.get(tail(plain, 2))?;
        bucket.iter().copied().find(|at| self.modules[*at as usize] == plain)
    }

    /// The nearest file whose module path ends with these parts, or with all but the last of them.
    fn by_end(&self, parts: &[&str], from: &str, ending: &str) -> Option<u32> {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).take(PARTS_MAX).collect();
        (parts.len().saturating_sub(1).max(1)..=parts.len()).rev().find_map(|length| {
            let wanted = parts.get(..length)?.join("/");
            self.nearest(&wanted, from, |path| family(path) == family_of_ending(ending))
        })
    }

    /// Of the modules that end with `wanted`, the one that shares most of its path with `from`.
    fn nearest(&self, wanted: &str, from: &str, fits: impl Fn(&str) -> bool) -> Option<u32> {
        let bucket = self.by_tail.get(tail(wanted, 2))?;
        let found = bucket.iter().copied().filter(|at| ends_with_path(self.modules[*at as usize], wanted));
        let found: Vec<u32> = found.filter(|at| fits(self.paths[*at as usize])).collect();
        if !wanted.contains('/') && found.len() > NAMESAKES_MAX {
            let beside = |at: &&u32| directory(self.paths[**at as usize]) == directory(from);
            return found.iter().find(beside).copied();
        }
        found.into_iter().max_by_key(|at| (shared(self.paths[*at as usize], from), std::cmp::Reverse(*at)))
    }

    fn rust(&self, import: &str, from: &str) -> Option<u32> {
        let mut parts: Vec<&str> = import.split("::").take(PARTS_MAX).collect();
        let source = from.rfind("src/").map(|at| &from[..at + 3]);
        let mut base = match parts.first().copied()? {
            "crate" => source.unwrap_or_else(|| directory(from)).to_owned(),
            "self" => rust_module(from).to_owned(),
            "super" => directory(rust_module(from)).to_owned(),
            package => {
                let crate_of =
                    |name: &str| self.nearest(&format!("{name}/src/lib"), from, |path| path.ends_with(".rs"));
                let root = crate_of(package).or_else(|| crate_of(&package.replace('_', "-")));
                let Some(root) = root else {
                    return self.below(rust_module(from), &parts);
                };
                directory(self.paths[root as usize]).to_owned()
            }
        };
        parts.remove(0);
        while parts.first() == Some(&"super") {
            base = directory(&base).to_owned();
            parts.remove(0);
        }
        let root = || self.by_path.get(format!("{base}/lib.rs").as_str()).copied();
        self.below(&base, &parts).or_else(root)
    }

    /// The longest beginning of `parts` that is a module below `base`.
    fn below(&self, base: &str, parts: &[&str]) -> Option<u32> {
        (1..=parts.len()).rev().find_map(|length| {
            let inner = parts[..length].join("/");
            self.exactly(&if base.is_empty() { inner } else { format!("{base}/{inner}") })
        })
    }

    fn python(&self, import: &str, from: &str) -> Option<u32> {
        let dots = import.len() - import.trim_start_matches('.').len();
        let parts: Vec<&str> = import[dots..].split('.').filter(|part| !part.is_empty()).take(PARTS_MAX).collect();
        if dots == 0 {
            return self.by_end(&parts, from, "py");
        }
        let mut base = directory(from);
        (1..dots).for_each(|_| base = directory(base));
        (0..=parts.len()).rev().find_map(|length| {
            let inner = parts[..length].join("/");
            let path = [base, &inner].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            self.exactly(&path)
        })
    }

    fn go(&self, import: &str, here: &str) -> Vec<u32> {
        let Some(files) = self.go_packages.get(tail(import, 1)) else { return Vec::new() };
        // The module's own name stands before the path; so the longest shared end wins.
        let length = |at: &u32| {
            let parts = directory(self.paths[*at as usize]).rsplit('/').zip(import.rsplit('/'));
            parts.take_while(|(one, other)| one == other).count()
        };
        let best = files.iter().map(length).max().unwrap_or(0);
        let whole = best == import.split('/').count();
        if best < 2 && !whole {
            return Vec::new();
        }
        let found = files.iter().filter(|at| length(at) == best && directory(self.paths[**at as usize]) != here);
        found.copied().take(PACKAGE_FILES_MAX).collect()
    }
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The last parts of a path.
fn tail(path: &str, parts: usize) -> &str {
    match path.rmatch_indices('/').nth(parts - 1) {
        Some((at, _)) => &path[at + 1..],
        None => path,
    }
}

fn module(path: &str) -> &str {
    let name_start = path.rfind('/').map_or(0, |at| at + 1);
    let stem = path[name_start..].find('.').filter(|at| *at > 0).map_or(path, |at| &path[..name_start + at]);
    ["/mod", "/index", "/__init__"].iter().find_map(|name| stem.strip_suffix(name)).unwrap_or(stem)
}

/// The directory in which the modules below a Rust file lie.
fn rust_module(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some("lib.rs" | "main.rs" | "mod.rs") => directory(path),
        _ => path.strip_suffix(".rs").unwrap_or(path),
    }
}

fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// How many leading bytes two paths share.
fn shared(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// `directory/relative` without `.` and `..`; nothing where it leaves the tree.
fn joined(directory: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/').take(2 * PARTS_MAX) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Languages that import one another.
fn family(path: &str) -> &str {
    family_of_ending(path.rsplit_once('.').map_or("", |(_, ending)| ending))
}

fn family_of_ending(ending: &str) -> &str {
    match ending {
        "py" | "pyi" => "py",
        "java" | "kt" | "kts" | "scala" => "jvm",
        "rb" | "rake" => "rb",
        "sh" | "bash" => "sh",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &[&str] = &[
        "a/src/lib.rs",
        "a/src/store/mod.rs",
        "a/src/store/disk.rs",
        "a/src/plan.rs",
        "some-crate/src/lib.rs",
        "some-crate/src/wire.rs",
        "web/app.ts",
        "web/lib/index.ts",
        "web/lib/math.tsx",
        "py/pkg/__init__.py",
        "py/pkg/models.py",
        "py/pkg/sub/views.py",
        "inc/net/socket.h",
        "c/main.c",
        "c/local.h",
        "go/server/http.go",
        "go/server/http_test.go",
        "go/main.go",
        "jvm/src/org/acme/Job.java",
        "jvm/src/org/acme/Main.kt",
        "rb/lib/tool/cli.rb",
        "rb/bin/run.rb",
    ];

    #[track_caller]
    fn check(from: &str, import: &str, expected: &[&str]) {
        let mut paths = Paths::of(TREE);
        let at = TREE.iter().position(|path| *path == from).unwrap() as u32;
        let found: Vec<&str> = paths.resolve(import, at).into_iter().map(|at| TREE[at as usize]).collect();
        assert_eq!(found, expected, "{import} in {from}");
    }

    #[test]
    fn an_import_leads_to_the_file_that_its_language_would_take() {
        check("a/src/plan.rs", "crate::store::disk::Disk", &["a/src/store/disk.rs"]);
        check("a/src/plan.rs", "crate::store", &["a/src/store/mod.rs"]);
        check("a/src/store/mod.rs", "self::disk", &["a/src/store/disk.rs"]);
        check("a/src/store/disk.rs", "super::super::plan::Plan", &["a/src/plan.rs"]);
        check("a/src/lib.rs", "some_crate::wire::Frame", &["some-crate/src/wire.rs"]);
        check("a/src/lib.rs", "std::collections::HashMap", &[]);
        check("web/app.ts", "./lib", &["web/lib/index.ts"]);
        check("web/app.ts", "./lib/math.js", &["web/lib/math.tsx"]);
        check("web/app.ts", "react", &[]);
        check("py/pkg/sub/views.py", "..models.Model", &["py/pkg/models.py"]);
        check("py/pkg/sub/views.py", "pkg.models", &["py/pkg/models.py"]);
        check("py/pkg/models.py", "pkg.sub.views.View", &["py/pkg/sub/views.py"]);
        check("py/pkg/models.py", "os", &[]);
        check("c/main.c", "net/socket.h", &["inc/net/socket.h"]);
        check("c/main.c", "local.h", &["c/local.h"]);
        check("c/main.c", "stdio.h", &[]);
        check("go/main.go", "example.invalid/go/server", &["go/server/http.go"]);
        check("jvm/src/org/acme/Main.kt", "org.acme.Job", &["jvm/src/org/acme/Job.java"]);
        check("rb/bin/run.rb", "../lib/tool/cli", &["rb/lib/tool/cli.rb"]);
        check("rb/bin/run.rb", "tool/cli", &["rb/lib/tool/cli.rb"]);
    }

    #[test]
    fn no_import_leads_out_of_the_tree_or_panics() {
        for import in
            ["", ".", "..", "../../../../etc/passwd", "::", "crate", "self", "super::super::super", "//", "\\", "é"]
        {
            for from in TREE {
                let at = TREE.iter().position(|path| path == from).unwrap() as u32;
                Paths::of(TREE).resolve(import, at);
            }
        }
    }
}
