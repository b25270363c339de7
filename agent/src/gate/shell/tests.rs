//! Does it make no difference that the grammar is not given every word, and plain scripts not at all? Over random
//! scripts, and over the labelled commands with long runs of words in them.

use super::tree::{Grammar, PARSE_REPORTS_MAX};
use super::*;
use crate::gate::tests::cases::{Case, cases};

const SCRIPTS: u64 = 6_000;
const SPLICES: u64 = 12;
const DEPTH: usize = 3;

/// SplitMix64 (Steele, Lea and Flood 2014): a seed gives one script.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len())]
    }
}

const PLAIN: [&str; 40] = [
    "a", "src/b.py", "-l", "--x", "10", "2", "a:b", "x@y", "1,2", "%d", "+x", "3.14", "-", "--", ".", "..", "in", "do",
    "then", "fi", "time", "if", "x-1", "-eq", "-f", "-a", "-o", "EOF", "rm", "git", "sh", "env", "1", "-3", "+", "/",
    "done", "x", "esac", "a--b",
];

/// Up to a dozen plain words, mostly of the innocent kind.
fn run(random: &mut Random) -> String {
    let kinds = if random.next(3) == 0 { PLAIN.len() } else { 12 };
    let words: Vec<_> = (0..random.next(13)).map(|_| PLAIN[random.next(kinds)]).collect();
    words.join(random.pick(&[" ", " ", "  ", "\t"]))
}

fn word(random: &mut Random, depth: usize) -> String {
    match random.next(if depth == 0 { 16 } else { 21 }) {
        0..5 => PLAIN[random.next(PLAIN.len())].to_owned(),
        5 => format!("'{}'", run(random)),
        6 => format!("\"{}\"", run(random)),
        7 => format!("\"{} $x {}\"", run(random), run(random)),
        8 => random.pick(&["$x", "${x}", "${x[@]}", "$1", "$?", "\"$@\"", "$", "a$", "${#x}"]).to_owned(),
        9 => format!("${{x{}{}}}", random.pick(&[":-", ":", "/", "//a/", "#", "%", "^", "[", ":="]), run(random)),
        10 => random
            .pick(&["*.py", "[ab]*", "a?", "{a,b}", "\\ ", "a\\;b", "~", "~/x", "#a", "a#b", "!", "!x"])
            .to_owned(),
        11 => format!("${}", random.pick(&["'a b c d e f'", "\"a b c d e f\"", "'\\n'"])),
        12 => format!("a\"{}\"b", run(random)),
        13 => random.pick(&["e=f", "A=", "--x=y", "-DA=1", "a=(b)", "a+=b", "=", "{}", "+(a)", "@(a|b)"]).to_owned(),
        14 => format!("$(({}))", run(random)),
        15 => format!("a[{}]", run(random)),
        16 => format!("$({})", script(random, depth - 1)),
        17 => format!("\"{} $({}) {}\"", run(random), script(random, depth - 1), run(random)),
        18 => format!("`{}`", run(random)),
        19 => format!("<({})", script(random, depth - 1)),
        _ => format!("'{}'", script(random, depth - 1).replace('\'', "")),
    }
}

fn redirect(random: &mut Random, depth: usize) -> String {
    match random.next(6) {
        0 => format!("{} {}", random.pick(&[">", ">>", "<", "2>", "&>", ">|", "2>>", "3<"]), word(random, 0)),
        1 => random.pick(&["2>&1", ">&2", ">/dev/null", "<&3", "2>&-"]).to_owned(),
        2 => format!("<<< {}", word(random, depth)),
        3 => format!("<<EOF {}\n{}\n{} $x\nEOF\n", run(random), run(random), run(random)),
        4 => format!("<<-'EOF'\n\t{}\n{}\n\tEOF\n", run(random), script(random, 0)),
        _ => format!("<<'a b c d e f'\n{}\na b c d e f\n", run(random)),
    }
}

/// One command with arguments of all kinds.
fn command(random: &mut Random, depth: usize) -> String {
    let begin = [
        "ls",
        "wc -l",
        "git add",
        "env A=b",
        "sudo -u x",
        "timeout 5",
        "xargs",
        "nice -n 3",
        "time",
        "! grep",
        "A=b make",
        "export",
        "declare -a",
        "unset",
        "local",
        "echo",
        "find . -exec",
        "sh -c",
        "bash",
        "eval",
        "[ -f",
        "[[ a ==",
        "test",
        "a=",
        "x=(",
        "",
        "((",
        "let",
        "cd /tmp &&",
        "readonly",
        "> f",
        "command",
    ];
    let mut parts = vec![random.pick(&begin).to_owned()];
    for _ in 0..=random.next(4) {
        parts.push(match random.next(8) {
            0..4 => run(random),
            4..7 => word(random, depth),
            _ => redirect(random, depth),
        });
    }
    let end = match parts[0].as_str() {
        "[ -f" => "]",
        "[[ a ==" => "]]",
        "x=(" => ")",
        "((" => "))",
        "find . -exec" => "\\;",
        _ => "",
    };
    parts.push(end.to_owned());
    parts.join(" ")
}

fn script(random: &mut Random, depth: usize) -> String {
    let below = depth.saturating_sub(1);
    match random.next(if depth == 0 { 4 } else { 16 }) {
        0..4 => command(random, below),
        4..7 => {
            let joint = random.pick(&[" && ", " || ", "; ", " | ", "\n", " & ", "|&", ";", " # a b c d e f g\n"]);
            format!("{}{joint}{}", script(random, below), script(random, below))
        }
        7 => format!("for x in {}; do {}; done", run(random), script(random, below)),
        8 => format!("if {}; then {}; else {}; fi", command(random, 0), script(random, below), run(random)),
        9 => format!("while {}; do {}; done < {}", command(random, 0), script(random, below), word(random, 0)),
        10 => format!(
            "case {} in\n{}) {};;\n*) {};;\nesac",
            word(random, 0),
            run(random),
            script(random, below),
            run(random)
        ),
        11 => format!("f() {{ {}; }}; {}", script(random, below), run(random)),
        12 => format!("({}) {}", script(random, below), redirect(random, 0)),
        13 => format!("{{ {}; }} {}", script(random, below), run(random)),
        14 => format!("sh -c \"{}\" {}", script(random, below).replace('"', ""), run(random)),
        // Without any structure.
        _ => (0..random.next(9))
            .map(|_| {
                format!(
                    "{} {} ",
                    random.pick(&["(", ")", "\"", "'", ";", "|", "<", "\n", "`", "$(", "{", "#", "\\"]),
                    run(random)
                )
            })
            .collect(),
    }
}

/// The same reading whether or not words are left out, and whether or not the grammar is asked; whether words were
/// left out.
#[track_caller]
fn check(script: &str) -> bool {
    let with_all = Script::read_with(script, &mut Grammar::whole());
    let with_fewer = Script::read_with(script, &mut Grammar::of_all());
    assert_eq!(with_fewer, with_all, "{script:?}");
    let with_fewest = Script::read_with(script, &mut Grammar::boundless());
    assert_eq!(with_fewest, with_all, "{script:?} without the grammar");
    elide::Shorter::of(script).text != script
}

#[test]
fn random_scripts_read_the_same_when_the_grammar_is_given_fewer_words() {
    let mut shorter = 0;
    for seed in 0..SCRIPTS {
        shorter += usize::from(check(&script(&mut Random(seed), DEPTH)));
    }
    println!("{shorter} of {SCRIPTS} had words left out");
    assert!(shorter as u64 > SCRIPTS / 10, "{shorter}");
}

/// Words and joints as in most scripts, and now and then something that is not plain.
fn nearly_plain(random: &mut Random) -> String {
    const WORDS: [&str; 34] = [
        "a",
        "ls",
        "git",
        "-l",
        "--x=y",
        "src/b.py",
        "e=f",
        "'a b'",
        "'$x;|&'",
        "''",
        "\"\"",
        "\"a b\"",
        "\"a $x b\"",
        "\"${x}\"",
        "$x",
        "${x}",
        "a$x",
        "$x/b",
        "*.py",
        "a?",
        "\"\\\"\\\\\\$\"",
        "'a'\"b\"c",
        "测试",
        "'🦀'",
        "é",
        "100",
        "2",
        "a:b@c",
        "%+-.,_",
        "sh -c 'ls; wc a'",
        "env -i",
        "xargs",
        "find . -exec",
        "rm",
    ];
    const JOINTS: [&str; 12] = ["; ", " && ", " || ", " | ", "\n", "|", ";", "\n\n", " ;\n", " |\n", "&&", " && \n"];
    const REDIRECTS: [&str; 14] = [
        " 2>&1",
        " >a",
        " > a",
        " >>a",
        " 2> 'a b'",
        " &>a",
        " < a",
        " >/dev/null",
        " 2>/dev/null",
        " 1>&2",
        " >&2",
        " > $x",
        " >\"a\"",
        " > a*",
    ];
    const ODD: [&str; 66] = [
        "if",
        "then",
        "fi",
        "in",
        "do",
        "done",
        "for",
        "case",
        "time",
        "!",
        "{",
        "}",
        "{}",
        "[",
        "]",
        "[[",
        "(",
        ")",
        "#",
        "#a",
        "a#b",
        "~",
        "~/a",
        "a~b",
        "=",
        "==",
        "=~",
        "A=",
        "A=b",
        "A+=b",
        "\\",
        "\\ ",
        "\\;",
        "\\\n",
        "'",
        "\"",
        "`",
        "$",
        "\"$\"",
        "\"$ \"",
        "$1",
        "$?",
        "$@",
        "${x:-a}",
        "${#x}",
        "$(ls)",
        "$((1))",
        "$'a'",
        "$\"a\"",
        "&",
        ";;",
        "|&",
        ">&",
        "<&",
        ">|",
        "<>",
        "2>&-",
        "<<E\na\nE\n",
        "<<<a",
        "\u{a0}",
        "\u{3000}",
        "^",
        "export",
        "declare",
        "[a-c]*",
        "+(a)",
    ];
    let mut text = random.pick(&["", "", "", "", " ", "\n", "A=b ", "A= "]).to_owned();
    for _ in 0..=random.next(4) {
        if random.next(4) > 0 {
            text += random.pick(&["git ", "ls ", "./a ", "'a' ", "rm ", "\"a\" ", "sed\t", "a-b ", "sh -c "]);
        }
        for _ in 0..=random.next(5) {
            text += random.pick(&WORDS);
            text += random.pick(&[" ", " ", " ", "  ", "\t", ""]);
            if random.next(24) == 0 {
                text += random.pick(&ODD);
                text += random.pick(&[" ", ""]);
            }
        }
        for _ in 0..random.next(3).saturating_sub(random.next(2)) {
            text += random.pick(&REDIRECTS);
        }
        text += random.pick(&JOINTS);
    }
    if random.next(3) == 0 { text } else { text.trim_end_matches([' ', '\n', ';', '|', '&']).to_owned() }
}

fn is_plain(script: &str) -> bool {
    lex::lex(script).is_ok_and(|parts| plain::says(script, &parts))
}

#[test]
fn plain_scripts_read_the_same_without_the_grammar() {
    let mut plain = 0;
    let scripts = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(SCRIPTS);
    for seed in 0..scripts {
        let script = nearly_plain(&mut Random(seed));
        check(&script);
        plain += u64::from(is_plain(&script));
    }
    println!("{plain} of {scripts} take no grammar");
    assert!(plain > scripts / 10, "{plain}");
}

#[test]
fn the_labelled_commands_read_the_same_with_long_runs_of_words_anywhere_in_them() {
    let Some(cases) = cases() else {
        println!("skipped: no shell/commands.jsonl in CLOISTER_CASES or ../../shared/cases");
        return;
    };
    let mut shorter = 0;
    let mut random = Random(7);
    for Case { command, .. } in &cases {
        check(command);
        for _ in 0..SPLICES {
            let mut spliced = command.clone();
            for _ in 0..=random.next(2) {
                let places: Vec<_> = spliced.char_indices().map(|(at, _)| at).chain([spliced.len()]).collect();
                let at = places[random.next(places.len())];
                spliced.insert_str(at, &format!(" {} ", run(&mut random)));
            }
            shorter += usize::from(check(&spliced));
        }
    }
    println!("{shorter} had words left out");
    assert!(shorter > 100, "{shorter}");
}

fn reports(script: &str) -> usize {
    let mut grammar = Grammar::boundless();
    let _ = Script::read_with(script, &mut grammar);
    grammar.reports()
}

#[test]
fn honest_commands_stay_far_below_what_the_parser_may_take() {
    let long = [
        ("60 edits", (0..60).map(|n| format!("sed -i 's/a/b/' src/{n}.py; ")).collect::<String>()),
        ("61 stages", format!("git log{}", " | grep -v \"x\"".repeat(60))),
        ("30 stages", format!("git log{}", " | grep -v \"x\"".repeat(30))),
        ("a thousand files", format!("wc -l{}", " src/a.py".repeat(1_000))),
        ("200 quoted words", format!("echo{}", " 'a b'".repeat(200))),
        ("680 quoted, 680 expanded", format!("echo{}", " a 'b c' \"d $e\"".repeat(680))),
    ];
    for (name, script) in long {
        println!("{name}: {}", reports(&script));
    }
    let Some(cases) = cases() else {
        println!("skipped: no shell/commands.jsonl in CLOISTER_CASES or ../../shared/cases");
        return;
    };
    let mut most: Vec<_> =
        cases.iter().filter(|c| c.label == "harmless").map(|c| (reports(&c.command), &c.command)).collect();
    most.sort();
    println!("the labelled harmless: {:?}", &most[most.len().saturating_sub(5)..]);
    assert!(most.iter().all(|(reports, _)| reports * 4 < PARSE_REPORTS_MAX));
}
