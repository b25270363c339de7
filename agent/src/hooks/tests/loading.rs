//! What a file of hooks may say, and which hooks of a repository run.

use super::*;

fn parse(text: &str) -> Result<Hooks, HooksError> {
    Hooks::parse("hooks.toml", text, &|script| Ok(format!("text of {script}").into_bytes()))
}

#[track_caller]
fn refused(entry: &str, why: &str) {
    let error = parse(&format!("version = 1\n{entry}")).map(|_| ()).expect_err(entry).to_string();
    assert!(error.contains("hooks.toml") && error.contains(why), "{error}");
}

#[test]
fn a_file_of_hooks_is_read() {
    let hooks = parse(
        "version = 1\n[[hook]]\nid = 'a'\nevent = 'PreToolUse'\nmatcher = 'Bash|Edit.*'\nargv = ['python3', '{script}']\n\
         script = 'a.py'\nseconds_max = 5\non_error = 'open'\n[[hook]]\nid = 'b'\nevent = 'Stop'\nargv = ['b']\n",
    )
    .unwrap();
    let [a, b] = hooks.active.as_slice() else { panic!("{:?}", hooks.active) };
    assert_eq!((a.script.as_deref(), a.seconds_max, a.on_error), (Some("text of a.py"), 5, OnError::Open));
    assert_eq!((b.event, b.on_error, b.script.clone()), (Event::Stop, OnError::Closed, None));
    let call = call();
    assert_eq!(hooks.on(&Occasion::PreToolUse { call: &call }).count(), 1);
    assert_eq!(hooks.on(&Occasion::PreToolUse { call: &Call::RunTests }).count(), 0);
    assert_eq!(hooks.on(&Occasion::PostToolUse { call: &call, response: "" }).count(), 0);
}

#[test]
fn what_would_silently_never_block_is_refused() {
    let entry = |fields: &str| format!("[[hook]]\nid = 'a'\n{fields}");
    refused("hooks = []", "hooks");
    refused(&entry("event = 'PreToolUse'\nargv = ['a']\ntimeout = 3"), "timeout");
    refused(&entry("event = 'BeforeTool'\nargv = ['a']"), "BeforeTool");
    refused(&entry("event = 'Stop'"), "argv");
    refused(&entry("event = 'Stop'\nargv = []"), "argv is empty");
    refused(&entry("event = 'Stop'\nargv = ['']"), "argv is empty");
    refused(&entry("event = 'Stop'\nargv = 'a'"), "argv");
    refused(&entry("event = 'Stop'\nargv = ['a', '{script}']"), "script");
    refused(&entry("event = 'Stop'\nargv = ['a']\nscript = 'a.py'"), "script");
    refused(&entry("event = 'Stop'\nargv = ['a']\nseconds_max = 0"), "seconds_max");
    refused(&entry("event = 'Stop'\nargv = ['a']\non_error = 'ignore'"), "ignore");
    refused(&entry("event = 'PreToolUse'\nargv = ['a']\nmatcher = 'bash'"), "matches no tool");
    refused(&entry("event = 'PreToolUse'\nargv = ['a']\nmatcher = '^Ba(sh)?$'"), "matcher");
    refused(&entry("event = 'PreToolUse'\nargv = ['a']\nmatcher = 'Bash|'"), "matcher");
    refused("[[hook]]\nid = 'a b'\nevent = 'Stop'\nargv = ['a']", "an id is");
    let twice = entry("event = 'Stop'\nargv = ['a']\n").repeat(2);
    refused(&twice, "two hooks");
    assert!(parse("").is_err() && parse("version = 2").is_err());
    let missing = Hooks::load(std::path::Path::new("/no/such/hooks.toml"));
    assert!(matches!(missing, Err(HooksError::Read { .. })));
}

#[test]
fn a_matcher_means_tools_by_either_name() {
    let all = |text: &str| Matcher::parse(text).unwrap();
    for text in ["", "*", ".*", "Bash", "Edit|Bash", "Ba*", "run_command", "MultiEdit | run_.*"] {
        assert!(all(text).matches(&["Bash", "run_command"]), "{text}");
    }
    for text in ["Edit", "bash", "Bas", "Bash_"] {
        assert!(!all(text).matches(&["Bash", "run_command"]), "{text}");
    }
    assert!(all("anything").matches(&[]), "an event without a subject");
}

const THEIRS: &str = "version = 1\n[[hook]]\nid = 'theirs'\nevent = 'PostToolUse'\nargv = ['sh', '{script}']\nscript = '.cloister/x.sh'\n";

fn with_repository(pins: &str, theirs: &str, script: &str) -> Hooks {
    let mut hooks = parse(&format!("version = 1\n{pins}")).unwrap();
    hooks.add_repository(&|path| match path {
        ".cloister/hooks.toml" => Some(theirs.into()),
        ".cloister/x.sh" => Some(script.into()),
        _ => None,
    });
    hooks
}

#[test]
fn a_hook_of_a_repository_is_inert_until_entry_and_script_are_pinned() {
    let before = with_repository("", THEIRS, "exit 0");
    assert!(before.active.is_empty());
    let [inert] = before.inert.as_slice() else { panic!("{:?}", before.inert) };
    assert_eq!((inert.id.as_str(), inert.why.as_str()), ("theirs", "no administrator has pinned it"));
    let pinned = with_repository(&inert.pin, THEIRS, "exit 0");
    assert_eq!((pinned.active.len(), pinned.inert.len()), (1, 0), "{:?}", pinned.inert);
    assert_eq!(pinned.active[0].script.as_deref(), Some("exit 0"), "what was pinned is what runs");
    // Another script, another entry, and another way to write the same entry.
    assert!(with_repository(&inert.pin, THEIRS, "exit 0 ").active.is_empty());
    assert!(with_repository(&inert.pin, &THEIRS.replace("PostToolUse", "PreToolUse"), "exit 0").active.is_empty());
    assert!(with_repository(&inert.pin, &format!("{THEIRS}on_error = 'open'\n"), "exit 0").active.is_empty());
    assert_eq!(with_repository(&inert.pin, &format!("# words\n{THEIRS}"), "exit 0").active.len(), 1);
}

#[test]
fn a_repository_cannot_pin_itself_or_run_what_is_not_pinned() {
    let pin = with_repository("", THEIRS, "exit 0").inert[0].pin.clone();
    let itself = with_repository("", &format!("{THEIRS}{pin}"), "exit 0");
    assert!(itself.active.is_empty() && itself.inert[0].why.contains("only an administrator"), "{:?}", itself.inert);
    let without = "version = 1\n[[hook]]\nid = 'x'\nevent = 'Stop'\nargv = ['sh', '.cloister/x.sh']\n";
    let inert = &with_repository("", without, "exit 0").inert[0];
    assert!(inert.pin.is_empty() && inert.why.contains("needs `script`"), "{inert:?}");
    let outside = THEIRS.replace(".cloister/x.sh", "../x.sh");
    assert!(with_repository("", &outside, "exit 0").inert[0].pin.is_empty());
    let broken = with_repository("", "version = 1\n[[hook", "");
    assert!(broken.active.is_empty() && broken.inert[0].event.is_none());
}

#[test]
fn a_hook_of_a_repository_does_not_take_the_place_of_another() {
    let pin = with_repository("", THEIRS, "exit 0").inert[0].pin.clone();
    let ours = "[[hook]]\nid = 'theirs'\nevent = 'PreToolUse'\nargv = ['a']\n";
    let hooks = with_repository(&format!("{ours}{pin}"), THEIRS, "exit 0");
    assert_eq!(hooks.active.len(), 1);
    assert!(hooks.inert[0].why.contains("its id"), "{:?}", hooks.inert);
}

#[test]
fn scripts_are_read_beside_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hooks.toml");
    let text = "version = 1\n[[hook]]\nid = 'a'\nevent = 'Stop'\nargv = ['{script}']\nscript = 'a.sh'\n";
    std::fs::write(&file, text).unwrap();
    assert!(matches!(Hooks::load(&file), Err(HooksError::Read { .. })), "a script that is missing starts nothing");
    std::fs::write(directory.path().join("a.sh"), "exit 0").unwrap();
    assert_eq!(Hooks::load(&file).unwrap().active[0].script.as_deref(), Some("exit 0"));
    std::fs::write(directory.path().join("a.sh"), [0xff, 0xfe]).unwrap();
    assert!(matches!(Hooks::load(&file), Err(HooksError::Hook { .. })), "and so does one that is no text");
}
