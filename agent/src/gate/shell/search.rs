//! What can `find` find, and what does its `-exec` run on it?

use super::unwrap::doubt;
use super::{Doubt, Part, Word};
use crate::gate::path::part_can_meet;

/// What stands below the top of a repository at places where it matters. A name that find is given is one of them,
/// wherever it begins to search.
const NAMED_BELOW: [&str; 34] = [
    ".git/HEAD",
    ".git/config",
    ".git/credentials",
    ".git/description",
    ".git/hooks",
    ".git/index",
    ".git/info",
    ".git/info/attributes",
    ".git/info/exclude",
    ".git/logs",
    ".git/modules",
    ".git/objects",
    ".git/packed-refs",
    ".git/refs",
    ".git/refs/heads",
    ".git/refs/stash",
    ".git/worktrees",
    ".git/hooks/applypatch-msg",
    ".git/hooks/commit-msg",
    ".git/hooks/post-checkout",
    ".git/hooks/post-commit",
    ".git/hooks/post-merge",
    ".git/hooks/pre-commit",
    ".git/hooks/pre-push",
    ".git/hooks/pre-rebase",
    ".git/hooks/prepare-commit-msg",
    ".git/hooks/update",
    ".github/workflows",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".docker/config.json",
    ".aws/credentials",
    ".cargo/config.toml",
    ".cloister/policy.toml",
];

/// The commands of `find -exec`, with a pattern in the place of `{}`.
pub(super) fn executed(words: &[Word]) -> Result<Vec<Part>, Doubt> {
    let mut commands = Vec::new();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        at += 1;
        if !["-exec", "-execdir", "-ok", "-okdir"].contains(&word.text.as_str()) {
            continue;
        }
        let rest = &words[at..];
        let Some(end) = rest.iter().position(|w| w.text == ";" || w.text == "+") else {
            return doubt("find -exec without its end");
        };
        let found = found_by_find(words);
        let mut command = Vec::new();
        for word in &rest[..end] {
            match word.text.as_str() {
                "{}" => command.extend(found.iter().cloned()),
                text if text.contains("{}") => command.push(Word { known: false, ..word.clone() }),
                _ => command.push(word.clone()),
            }
        }
        if command.first().is_none_or(|name| !name.known || name.glob) {
            return doubt("find -exec of a command that is not written out");
        }
        commands.push(Part { words: command.into(), ..Part::default() });
        at += end + 1;
    }
    Ok(commands)
}

/// Patterns for what `find` can find: below every root, by its one `-name`, else everything.
pub(in super::super) fn found_by_find(words: &[Word]) -> Vec<Word> {
    let joins = ["!", "-not", "-o", "-or", ",", "("];
    let certain = !words.iter().any(|w| joins.contains(&w.text.as_str()));
    let mut names = words.windows(2).filter(|w| ["-name", "-iname"].contains(&w[0].text.as_str())).map(|w| &w[1]);
    let name = match (names.next(), names.next()) {
        (Some(name), None) if certain && name.known => name.text.as_str(),
        _ => "*",
    };
    // A bare suffix names no file in particular, and everything is the root itself.
    let in_particular = !name.starts_with("*.") && name.chars().any(|c| c != '*' && c != '?' && c != '.');
    let named = NAMED_BELOW.into_iter().filter(|path| in_particular && is_called(path, name));
    let names: Vec<_> = std::iter::once((name, true)).chain(named.map(|path| (path, false))).collect();
    let below = |root: &Word| {
        let found = names.iter().map(|(name, glob)| (format!("{}/{name}", root.text), *glob));
        found.map(|(text, glob)| Word { text: text.into(), glob, known: root.known }).collect::<Vec<_>>()
    };
    roots(words).iter().flat_map(below).collect()
}

/// Whether the last part of a path is what a name of find can mean.
fn is_called(path: &str, name: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or(path);
    part_can_meet(&name.to_lowercase(), &last.to_lowercase())
}

/// Where find begins to search.
pub(in super::super) fn roots(words: &[Word]) -> Vec<Word> {
    let starts_expression = |w: &&Word| w.text.starts_with('-') || w.text == "!" || w.text == "(";
    let is_option = |w: &&Word| ["-H", "-L", "-P"].contains(&w.text.as_str());
    let roots: Vec<_> =
        words[1..].iter().skip_while(is_option).take_while(|w| !starts_expression(w)).cloned().collect();
    let here = Word { text: ".".into(), glob: false, known: true };
    if roots.is_empty() { vec![here] } else { roots }
}
