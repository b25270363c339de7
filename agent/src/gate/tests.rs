//! What the gate must do, as cases.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::budget::Which;

mod attacks;
mod bash;
pub(super) mod cases;
mod histories;
mod holes;
mod loading;
mod modes;
mod redteam;
mod reports;

fn shipped() -> Policy {
    static SHIPPED: LazyLock<Policy> = LazyLock::new(|| Policy::shipped().unwrap());
    SHIPPED.clone()
}

fn run(command: &str) -> Action {
    Action::RunCommand { command: command.to_owned() }
}

fn read(path: &str) -> Action {
    Action::ReadFile { path: path.to_owned() }
}

fn write(path: &str) -> Action {
    Action::WriteFile { path: path.to_owned() }
}

fn judged(action: &Action) -> Judgement {
    judge(&shipped(), action, &Context::default())
}

/// The verdict, the layer and the rule that the shipped policy gives.
#[track_caller]
fn check(action: Action, expected: (Verdict, Layer, Option<&str>)) {
    let judgement = judged(&action);
    let found = (judgement.verdict, judgement.layer, judgement.rule.as_deref());
    assert_eq!(found, expected, "{action:?}: {}", judgement.message());
}

#[track_caller]
fn check_command(command: &str, expected: Verdict) {
    let judgement = judged(&run(command));
    assert_eq!(judgement.verdict, expected, "{command:?}: {}", judgement.message());
}

#[test]
fn a_program_and_its_words_need_no_shell() {
    for (command, words) in [
        ("git status", Some(&["git", "status"][..])),
        ("cargo test --  --exact 'a b' \"c\"\\'d", Some(&["cargo", "test", "--", "--exact", "a b", "c'd"])),
        ("nice ./run.sh ''", Some(&["nice", "./run.sh", ""])),
        ("ls *.py", None),
        ("ls '*.py'", Some(&["ls", "*.py"])),
        ("ls $HOME", None),
        ("A=b env", None),
        ("ls 2>&1", None),
        ("ls >/dev/null", None),
        ("ls | wc", None),
        ("ls # all", None),
        ("cd src", None),
        ("echo a", None),
        ("ls 'a", None),
        ("ls `a`", None),
        ("", None),
    ] {
        let alone = program_alone(command);
        let words = words.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(alone, words, "{command}");
    }
}

#[test]
fn tests_and_reading_commands_are_allowed() {
    let allowed = [
        "python3 -m unittest discover -s tests -v",
        "python -m pytest -x tests/test_a.py::T::test_b",
        "pytest -k 'a or b'",
        "cargo test",
        "cd /workspace && python3 -m unittest 2>&1 | tail -n 20",
        "ls -la",
        "cat src/a.py | head -50",
        "grep -rn \"def foo(\" src",
        "grep -n '/api/v1' src/app.py",
        "find . -name '*.py' | xargs_is_not_this || true",
        "git diff --stat; git status",
        "sed -n '1,5p' a.py",
        "ls *.py",
        "cat /workspace/src/a.py",
        "python3 tests/run.py --fast",
        "wc -l src/*.rs",
        "ls src\nls tests\n",
        "python3 -m unittest >/dev/null",
        "grep \"x$\" a.py",
        "git log --oneline -5 HEAD~3..HEAD",
        "go test ./...",
        "echo 'it''s' \"a\\\"b\"",
    ];
    for command in allowed {
        let expected = if command.contains("xargs_is_not_this") { Verdict::Deny } else { Verdict::Allow };
        check_command(command, expected);
    }
}

#[test]
fn a_command_no_rule_speaks_for_is_denied_and_the_refusal_lists_what_is_allowed() {
    check(run("frobnicate --all"), (Verdict::Deny, Layer::Commands, None));
    let judgement = judged(&run("frobnicate --all"));
    assert!(judgement.reason.contains("no rule allows the command `frobnicate --all`"), "{}", judgement.reason);
    assert!(
        judgement.instead.contains("python3 -m unittest, python3 -m pytest, pytest, python3 FILE.py"),
        "{}",
        judgement.instead
    );
    let near = judged(&run("tail -f x"));
    assert_eq!(near.instead, "these commands are allowed: tail (without -f, -F, --follow, --retry)");
}

#[test]
fn a_refusal_names_layer_rule_and_what_to_do_instead() {
    let judgement = judged(&run("git status && git reset --hard"));
    assert_eq!(
        judgement.message(),
        "[command policy, rule danger.git-changes] the command `git` is not allowed: it changes the repository\n\
         Instead: change files with edit_file; the difference is collected for you. git status, git diff, git log and git show are allowed"
    );
    let judgement = judged(&read("config/.env"));
    assert_eq!(
        judgement.message(),
        "[path policy, rule paths.secrets] reading `config/.env` is not allowed: the file can hold secrets\n\
         Instead: work without it; if its format matters, read an example such as .env.example"
    );
}

#[test]
fn paths_are_judged_by_the_strictest_rule_in_every_spelling() {
    let secrets = (Verdict::Deny, Layer::Paths, Some("paths.secrets"));
    for path in [
        ".env",
        "./a//.env",
        "/workspace/.env",
        ".ENV",
        "keys/server.PEM",
        "id_rsa",
        ".env.",
        ".ssh/config",
        "a/.env/b",
    ] {
        check(read(path), secrets);
    }
    let git = (Verdict::Deny, Layer::Paths, Some("paths.git"));
    for path in [".git/hooks/pre-commit", ".GIT/hooks/x", "sub/.git/HEAD", ".git./hooks/x", ".gitattributes", ".git"] {
        check(write(path), git);
    }
    check(write(".github/workflows/ci.yml"), (Verdict::Deny, Layer::Paths, Some("paths.ci")));
    check(read(".github/workflows/ci.yml"), (Verdict::Allow, Layer::Tools, Some("tools.look")));
    check(write(".cloister/policy.toml"), (Verdict::Deny, Layer::Paths, Some("paths.cloister")));
    check(write("src/new.py"), (Verdict::Allow, Layer::Tools, Some("tools.change")));
    check(Action::ListDir { path: ".".into() }, (Verdict::Allow, Layer::Tools, Some("tools.look")));
    for path in ["../x", "/etc/passwd", "a/../../b", "~/.bashrc", "a\0b", "a\x1b[0m", "a\\b", ".g\u{200B}it/x"] {
        check(read(path), (Verdict::Deny, Layer::Paths, None));
    }
}

#[test]
fn words_of_commands_are_judged_by_the_path_rules() {
    let secrets = (Verdict::Deny, Layer::Paths, Some("paths.secrets"));
    let commands = [
        "cat .env",
        "cat ./config/.env",
        "head -n1 /workspace/.env",
        "grep -rn x .env",
        "git show HEAD:.env",
        "grep --file=.env x",
        "grep -f.env x",
        "cat .e*",
        "cat .en?",
        "cat '.env'",
        "cat .\"env\"",
        "cat certs/*",
        "wc -l < id_rsa",
        "tail id_rs[a]",
        "diff a.py .ENV",
    ];
    for command in commands {
        let judgement = judged(&run(command));
        assert!(judgement.trace.iter().any(|s| s.rule.as_deref() == secrets.2), "{command}: {}", judgement.message());
        assert_eq!(judgement.verdict, Verdict::Deny);
    }
    check(run("cat .env"), secrets);
    check(run("cat /etc/passwd"), (Verdict::Deny, Layer::Paths, None));
    check(run("cat ../../x"), (Verdict::Deny, Layer::Paths, None));
    check(run("ls > .git/hooks/x"), (Verdict::Deny, Layer::Paths, Some("paths.git")));
    check(run("ls > out.txt"), (Verdict::Deny, Layer::Commands, None));
    check(run("grep -e x /etc/passwd"), (Verdict::Deny, Layer::Paths, None));
}

#[test]
fn what_is_cleared_is_in_normal_form_and_carries_its_judgement() {
    let cleared = clear(&shipped(), read("/workspace//src/./a.py"), &Context::default()).unwrap();
    assert_eq!(cleared.action(), &read("src/a.py"));
    assert_eq!(cleared.judgement().verdict, Verdict::Allow);
    let refused = clear(&shipped(), read(".env"), &Context::default()).unwrap_err();
    assert_eq!((refused.action, refused.judgement.verdict), (read(".env"), Verdict::Deny));
}

#[test]
fn ask_becomes_deny_when_nobody_is_there() {
    let project =
        "version = 1\n[[path]]\nid = \"p\"\nverdict = \"ask\"\naccess = [\"write\"]\nglob = [\"migrations/**\"]\n";
    let policy = shipped().tightened("p.toml", project).unwrap();
    let action = write("migrations/1.sql");
    let present = Context { mode: Mode::Ask, person_present: true, ..Context::default() };
    assert_eq!(judge(&policy, &action, &present).verdict, Verdict::Ask);
    assert!(clear(&policy, action.clone(), &present).is_err(), "a question is not a permission");
    let alone = judge(&policy, &action, &Context::default());
    assert_eq!((alone.verdict, alone.layer, alone.rule.as_deref()), (Verdict::Deny, Layer::Project, Some("p")));
    assert!(alone.trace.contains(&Step { layer: Layer::Project, verdict: Verdict::Ask, rule: Some("p".into()) }));
    assert_eq!(judge(&policy, &write("src/a.py"), &Context::default()).verdict, Verdict::Allow);
}

#[test]
fn a_project_rule_does_not_speak_for_what_the_administrator_is_silent_on() {
    let project = "version = 1\n[[command]]\nid = \"p\"\nverdict = \"ask\"\nargv = [\"frobnicate\"]\n";
    let policy = shipped().tightened("p.toml", project).unwrap();
    let present = Context { person_present: true, ..Context::default() };
    assert_eq!(judge(&policy, &run("frobnicate"), &present).verdict, Verdict::Deny);
}

#[test]
fn a_spent_budget_leaves_only_finish() {
    let context = Context { exhausted: Some(Exhausted { which: Which::Calls, limit: 3 }), ..Context::default() };
    let judgement = judge(&shipped(), &read("a.py"), &context);
    assert_eq!((judgement.verdict, judgement.layer), (Verdict::Deny, Layer::Budget));
    assert!(judgement.reason.contains("the limit of 3 actions is reached"));
    assert_eq!(judge(&shipped(), &Action::Finish, &context).verdict, Verdict::Allow);
}

#[test]
fn a_policy_without_rules_denies_everything() {
    let empty = Policy::parse("empty", "version = 1").unwrap();
    for action in
        [read("a"), write("a"), run("ls"), Action::RunTests, Action::Finish, Action::Search { query: "x".into() }]
    {
        assert_eq!(judge(&empty, &action, &Context::default()).verdict, Verdict::Deny);
    }
}

#[test]
fn limits_of_the_reader_are_denied_with_their_reason() {
    let many = "ls; ".repeat(65);
    let long = format!("echo {}", "x".repeat(17 << 10));
    let cases = [
        (many.as_str(), "more than 64 parts"),
        (long.as_str(), "longer than 16384 bytes"),
        ("echo 'x", "not valid shell syntax"),
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("ls\r\n", "control or invisible"),
        ("ls \u{200B}", "control or invisible"),
        ("ls &", "background"),
        ("ls $(x", "not valid shell syntax"),
        ("ls $x", "$ (an expansion)"),
        ("ls $((1))", "arithmetic"),
        ("(ls)", "parentheses"),
        ("A=b ls", "variable assignment"),
        ("ls \\\n-l", "end of a line"),
        ("cat ~/x", "leads out"),
        ("ls {a,b}", "braces"),
        ("! ls", "uses !"),
    ];
    for (command, expected) in cases {
        let judgement = judged(&run(command));
        assert_eq!(judgement.verdict, Verdict::Deny);
        assert!(judgement.reason.contains(expected), "{command:?}: {}", judgement.reason);
    }
}

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("ls"),
        Just("git"),
        Just("status"),
        Just("rm"),
        Just("-rf"),
        Just("cat"),
        Just(".env"),
        Just("a.py"),
        Just("&&"),
        Just("|"),
        Just(";"),
        Just("env"),
        Just("sh"),
        Just("-c"),
        Just("'rm x'"),
        Just("$(ls)"),
        Just("*"),
        Just("python3"),
        Just("-m"),
        Just("unittest"),
        Just(">"),
        Just("find"),
        Just("-delete"),
        Just("\""),
        Just("echo"),
        Just("src/x"),
        Just("<<E\n"),
    ];
    proptest::collection::vec(word, 0..8).prop_map(|w| w.join(" "))
}

fn deny_rules() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec!["ls", "git", "cat", "rm", "python3|echo", "find"])
            .prop_map(|name| format!("[[command]]\nid = \"x\"\nverdict = \"deny\"\nargv = [\"{name}\"]\n")),
        proptest::sample::select(vec!["**", "src/**", "*.py", "**/x", "a.py"]).prop_map(|glob| format!(
            "[[path]]\nid = \"x\"\nverdict = \"deny\"\naccess = [\"read\", \"write\"]\nglob = [\"{glob}\"]\n"
        )),
        proptest::sample::select(Action::NAMES.to_vec())
            .prop_map(|tool| format!("[[tool]]\nid = \"x\"\nverdict = \"deny\"\ntools = [\"{tool}\"]\n")),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let path = || {
        prop_oneof![Just("src/a.py"), Just(".env"), Just("a.py"), Just("../x"), Just("src/x")].prop_map(str::to_owned)
    };
    prop_oneof![
        words().prop_map(|command| Action::RunCommand { command }),
        path().prop_map(|path| Action::ReadFile { path }),
        path().prop_map(|path| Action::EditFile { path }),
        path().prop_map(|path| Action::Grep { pattern: "x".into(), path }),
        Just(Action::RunTests),
        Just(Action::Finish),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn adding_a_deny_rule_never_loosens(action in actions(), rule in deny_rules(), person_present: bool) {
        let context = Context { person_present, ..Context::default() };
        let base = shipped();
        let before = judge(&base, &action, &context).verdict;
        let as_project = base.tightened("p", &format!("version = 1\n{rule}")).unwrap();
        prop_assert!(judge(&as_project, &action, &context).verdict >= before);
        let as_administrator = Policy::parse("a", &format!("{SHIPPED_POLICY}\n{rule}")).unwrap();
        prop_assert!(judge(&as_administrator, &action, &context).verdict >= before);
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_judgement(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for action in [run(&text), read(&text), write(&text)] {
            let judgement = judged(&action);
            prop_assert!(judgement.verdict == Verdict::Allow || !judgement.instead.is_empty());
        }
    }

    #[test]
    fn any_mixture_of_shell_words_gives_a_judgement_and_rm_is_never_allowed(command in words()) {
        let judgement = judged(&run(&command));
        let deletes = command.split([';', '|', '&']).any(|part| part.trim_start().starts_with("rm "));
        prop_assert!(!(deletes && judgement.verdict == Verdict::Allow), "{}", command);
    }
}
