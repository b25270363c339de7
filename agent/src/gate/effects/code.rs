//! Is an interpreter given code that nobody can read: on its command line or on its input?

use super::{Effect, unclear};
use crate::gate::shell::Word;

/// Code in a file is judged when the file is written, and the box is the wall; code on the command line or on the
/// input hides.
pub(super) fn interpreter(name: &str, words: &[Word]) -> Vec<Effect> {
    let takes_code = match name {
        "perl" | "ruby" | "lua" => "eE",
        "node" | "nodejs" | "deno" | "bun" => "ep",
        "php" => "rBER",
        "Rscript" | "osascript" => "e",
        _ => "c",
    };
    let options = words[1..].iter().take_while(|w| w.text.starts_with('-') && w.text.len() > 1);
    for option in options.clone() {
        let text = option.text.as_str();
        let long = ["--eval", "--print", "--run", "--interactive"].iter().any(|o| text.starts_with(o));
        if text == "-m" || ["--version", "-V", "-v", "--help", "-h"].contains(&text) {
            return vec![];
        }
        if long || !text.starts_with("--") && text.contains(|c| takes_code.contains(c)) {
            return unclear("code on the command line cannot be judged");
        }
    }
    match words.get(1 + options.count()) {
        Some(file) if file.text != "-" => vec![],
        _ => unclear("an interpreter takes its code from its input, which cannot be judged"),
    }
}
