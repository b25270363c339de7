//! What a policy file must not say.

use super::*;

#[track_caller]
fn refused(text: &str, expected: &str) {
    match Policy::parse("admin.toml", text) {
        Err(e) => assert_eq!(e.to_string(), expected),
        Ok(_) => panic!("loaded: {text}"),
    }
}

#[test]
fn a_policy_with_a_typo_does_not_load_and_the_error_names_file_line_key_and_rule() {
    refused(
        "version = 1\n\n[[path]]\nid = \"p\"\nverdict = \"deny\"\naccess = [\"read\"]\nglobs = [\"x\"]\n",
        "admin.toml:7: unknown field `globs`, expected one of `id`, `verdict`, `access`, `glob`, `why`, `instead`, `match`, `not_match` (key globs, rule p)",
    );
    refused(
        "version = 1\n[[command]]\nid = \"c\"\nverdict = \"denny\"\nargv = [\"ls\"]\n",
        "admin.toml:4: unknown variant `denny`, expected one of `allow`, `ask`, `deny` (key verdict, rule c)",
    );
    refused("version = 2\n", "admin.toml:1: version 2 is unknown, this program reads version 1 (key version)");
    refused(
        "version = 1\nx = 1\n",
        "admin.toml:2: unknown field `x`, expected one of `version`, `tool`, `path`, `command`, `host` (key x)",
    );
}

fn command(rest: &str) -> String {
    format!("version = 1\n\n[[command]]\nid = \"c\"\n{rest}\n")
}

#[test]
fn a_rule_that_fails_its_own_examples_does_not_load() {
    refused(
        &command("verdict = \"allow\"\nargv = [\"ls\"]\nmatch = [\"ls -l\", \"cat x\"]"),
        "admin.toml:4: rule c, key match: the rule does not match its own example \"cat x\"",
    );
    refused(
        &command("verdict = \"deny\"\nargv = [\"rm\"]\nnot_match = [\"ls | xargs rm\"]"),
        "admin.toml:4: rule c, key not_match: the rule matches \"ls | xargs rm\", which it must not",
    );
    refused(
        "version = 1\n[[path]]\nid = \"p\"\nverdict = \"deny\"\naccess = [\"read\"]\nglob = [\"*.pem\"]\nmatch = [\"a/b.pem\"]\n",
        "admin.toml:3: rule p, key match: the rule does not match its own example \"a/b.pem\"",
    );
}

#[test]
fn a_rule_that_contradicts_itself_does_not_load() {
    refused(
        &command("verdict = \"allow\"\nargv = [\"ls\"]\nwith = [\"-l\"]"),
        "admin.toml:4: rule c, key with: an allow rule has no `with`; name what it must not have with `without`",
    );
    refused(
        &command("verdict = \"deny\"\nargv = [\"ls\"]\nwithout = [\"-l\"]"),
        "admin.toml:4: rule c, key without: a deny rule is narrowed only with `with` and `with_leading`",
    );
    refused(
        &command("verdict = \"deny\"\nargv = []"),
        "admin.toml:4: rule c, key argv: it is empty or has an empty entry",
    );
    refused(
        &command("verdict = \"deny\"\nargv = [\"l*\"]"),
        "admin.toml:4: rule c, key argv: \"l*\" must be a word, words joined by |, {lines} or {script}",
    );
    refused(
        &command("verdict = \"allow\"\nargv = [\"ls\"]\nwithout = [\"l\"]"),
        "admin.toml:4: rule c, key without: \"l\" is not an option such as -o or --output",
    );
    refused(
        "version = 1\n[[tool]]\nid = \"t\"\nverdict = \"deny\"\ntools = [\"read\"]\n",
        "admin.toml:3: rule t, key tools: there is no tool read, only list_dir, read_file, search, grep, edit_file, write_file, run_command, run_tests, task, finish",
    );
    let twice =
        command("verdict = \"deny\"\nargv = [\"ls\"]\n[[command]]\nid = \"c\"\nverdict = \"deny\"\nargv = [\"x\"]");
    refused(&twice, "admin.toml:8: rule c, key id: another rule has this id");
}

#[test]
fn a_project_policy_only_tightens() {
    let allow = command("verdict = \"allow\"\nargv = [\"curl\"]");
    let error = shipped().tightened(".cloister/policy.toml", &allow).unwrap_err();
    assert_eq!(
        error.to_string(),
        ".cloister/policy.toml:4: rule c, key verdict: a project's policy can only tighten: use deny or ask, or ask the administrator to allow it"
    );
    let deny =
        command("verdict = \"deny\"\nargv = [\"pytest\"]\nwhy = \"it is slow here\"\ninstead = \"run make test\"");
    let policy = shipped().tightened(".cloister/policy.toml", &deny).unwrap();
    let judgement = judge(&policy, &run("pytest -q"), &Context::default());
    assert_eq!(
        judgement.message(),
        "[project policy, rule c] the command `pytest` is not allowed: it is slow here\nInstead: run make test"
    );
}

#[test]
fn policies_load_from_files_and_a_link_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path();
    assert!(Policy::load(None, workspace).is_ok(), "no project policy is no error");
    std::fs::create_dir(workspace.join(".cloister")).unwrap();
    let project = workspace.join(".cloister/policy.toml");
    std::fs::write(&project, "version = 1\ntypo = 1\n").unwrap();
    assert!(matches!(Policy::load(None, workspace), Err(PolicyError::Syntax { line: 2, .. })));
    std::fs::remove_file(&project).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &project).unwrap();
    assert!(matches!(Policy::load(None, workspace), Err(PolicyError::Read { .. })));
    std::fs::remove_file(&project).unwrap();
    let missing = workspace.join("none.toml");
    assert!(matches!(Policy::load(Some(&missing), workspace), Err(PolicyError::Read { .. })));
    let admin = workspace.join("admin.toml");
    std::fs::write(&admin, "version = 1\n").unwrap();
    assert!(Policy::load(Some(&admin), workspace).unwrap().allowed_commands().is_empty());
}

#[test]
fn a_host_rule_says_which_hosts_and_ports_and_is_tried_on_its_examples() {
    let host = |rest: &str| format!("version = 1\n[[host]]\nid = \"h\"\n{rest}\n");
    refused(
        &host("verdict = \"allow\"\nhost = [\"https://example.invalid\"]"),
        "admin.toml:3: rule h, key host: \"https://example.invalid\" is not a host name, an address or a pattern such as *.example.invalid",
    );
    refused(
        &host("verdict = \"allow\"\nhost = [\"*.example.invalid\"]\nport = [443]\nmatch = [\"example.invalid:443\"]"),
        "admin.toml:3: rule h, key match: the rule does not match its own example \"example.invalid:443\"",
    );
    refused(
        &host("verdict = \"deny\"\nhost = [\"example.invalid\"]\nport = [1]\nnot_match = [\"EXAMPLE.invalid.\"]"),
        "admin.toml:3: rule h, key not_match: the rule matches \"EXAMPLE.invalid.\", which it must not",
    );
    let allow = host("verdict = \"allow\"\nhost = [\"example.invalid\"]");
    assert!(shipped().tightened("p", &allow).is_err(), "a project opens no host");
}

#[test]
fn what_narrows_a_rule_belongs_to_its_verdict() {
    refused(
        &command("verdict = \"allow\"\nargv = [\"ls\"]\nmodes = [\"auto\"]"),
        "admin.toml:4: rule c, key modes: an allow rule holds in every mode; `modes` is for deny and ask",
    );
    refused(
        &command("verdict = \"deny\"\nargv = [\"ls\"]\nreads_only = true"),
        "admin.toml:4: rule c, key reads_only: only an allow rule says that a command only reads or takes only words",
    );
    refused(
        "version = 1\n[[path]]\nid = \"p\"\nverdict = \"deny\"\naccess = [\"read\"]\nglob = [\"/workspace/x\"]\n",
        "admin.toml:3: rule p, key glob: \"/workspace/x\" must be relative to the workspace, or absolute in the box, without backslashes, of at most 256 bytes",
    );
}
