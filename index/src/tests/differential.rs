//! Does an index that followed many edits hold the same as one made afresh?

use super::{Bench, WordCounts, contents, refresh};

/// A small linear congruential generator: the seed is in the message of every failure.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit
    }
}

const PATHS: &[&str] = &["a.py", "b.rs", "lib/c.py", "lib/d.go", "lib/deep/e.md", "f.txt", ".gitignore", "g.bin"];

fn text(dice: &mut Dice, path: &str) -> Vec<u8> {
    let name = ["alpha", "beta", "gamma", "delta"][dice.below(4)];
    let number = dice.below(5);
    let functions = dice.below(4);
    let body: String = match path.rsplit('.').next() {
        Some("py") => (0..functions).map(|n| format!("def {name}_{n}():\n    return {number}\n\n")).collect(),
        Some("rs") => {
            (0..functions).map(|n| format!("/// {name}\nfn {name}_{n}() -> u32 {{ {number} }}\n\n")).collect()
        }
        Some("go") => (0..functions).map(|n| format!("func {name}{n}() int {{ return {number} }}\n\n")).collect(),
        Some("gitignore") => ["lib/deep/\n", "f.txt\n", "", "*.go\n"][number % 4].to_owned(),
        Some("bin") if number.is_multiple_of(2) => "\0binary".to_owned(),
        _ => format!("{name} {number}\n").repeat(functions * 20),
    };
    body.into_bytes()
}

fn edit(dice: &mut Dice, bench: &Bench) -> String {
    let path = PATHS[dice.below(PATHS.len())];
    let exists = bench.root.join(path).exists();
    match dice.below(5) {
        0 if exists => {
            bench.remove(path);
            format!("remove {path}")
        }
        1 if exists && path.ends_with(".py") => {
            let to = format!("moved_{}.py", dice.below(3));
            std::fs::rename(bench.root.join(path), bench.root.join(&to)).unwrap();
            format!("rename {path} to {to}")
        }
        _ => {
            let text = text(dice, path);
            bench.write(path, text);
            format!("write {path}")
        }
    }
}

#[track_caller]
fn check(seed: u64, steps: usize) {
    let bench = Bench::new(Some(WordCounts::new()));
    let mut dice = Dice(seed);
    let mut index = bench.open();
    let mut edits = Vec::new();
    for step in 0..steps {
        for _ in 0..=dice.below(3) {
            edits.push(edit(&mut dice, &bench));
        }
        let report = refresh(&mut index).unwrap();
        assert_eq!(report.rebuilt, None);
        assert_eq!(contents(&index), contents(&bench.cold()), "seed {seed}, step {step}, after {edits:?}");
    }
}

#[test]
fn many_small_refreshes_give_what_one_cold_one_gives() {
    for seed in 1..=3 {
        check(seed, 8);
    }
}

#[test]
fn an_edit_that_keeps_size_and_time_is_seen() {
    let bench = Bench::new(None);
    bench.write("a.txt", "first word\n");
    let (mut index, _) = bench.index();
    let before = std::fs::metadata(bench.root.join("a.txt")).unwrap().modified().unwrap();
    bench.write("a.txt", "other word\n");
    std::fs::File::options().write(true).open(bench.root.join("a.txt")).unwrap().set_modified(before).unwrap();
    assert_eq!(refresh(&mut index).unwrap().files_indexed, 1);
}
