//! What happens when the model, or the repository, does not mean well?

use crate::home::{FIXED, Home, boxes_work};
use crate::model_server::ModelServer;
use crate::session::{FINISH, FIX, GREP, READ};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

#[test]
fn what_the_policy_forbids_is_refused_with_a_verdict_in_the_log_and_the_rule_named() {
    if !boxes_work() {
        return;
    }
    let refused = [
        (command("curl http://x"), Some("danger.network")),
        (command("cat .env"), Some("paths.secrets")),
        (command("ls; rm -rf ."), Some("danger.delete")),
        (command("cat ../../etc/passwd"), None),
        (read(".env"), Some("paths.secrets")),
        (read("../../etc/passwd"), None),
        (read("/etc/passwd"), None),
        ("write_file .git/hooks/post-checkout\n```sh\ntouch /tmp/x\n```\n".into(), Some("paths.git")),
    ];
    for batch in refused.chunks(4) {
        // Few enough in a row that the session does not give up, and then the work is done as if nothing had been.
        let home = Home::with_bug();
        home.put(".env", "TOKEN=correct-horse-battery\n");
        let script = batch.iter().map(|(reply, _)| reply.as_str()).chain([READ, FIX]);
        let server = ModelServer::start(script);
        home.run(&server.url, &["--mode", "strict"]).expect(0);
        let verdicts = home.records("verdict");
        for (at, (reply, rule)) in batch.iter().enumerate() {
            let judgement = &verdicts[at]["judgement"];
            assert_eq!(judgement["verdict"], "deny", "{reply}");
            assert_eq!(judgement["rule"].as_str(), *rule, "{reply}: {judgement}");
            let told = server.told(at + 1);
            assert!(told.starts_with("That reply was not carried out: ["), "{told}");
            assert!(told.contains("Instead: ") && rule.is_none_or(|rule| told.contains(rule)), "{told}");
        }
        assert_eq!(home.records("observed").len(), 2, "nothing that was denied was done");
        let log = std::fs::read_to_string(home.log(&home.session())).unwrap();
        assert!(!log.contains("correct-horse") && !log.contains("root:x:"), "a secret came into the log");
    }
}

#[test]
fn a_secret_is_not_shown_by_looking_around_it() {
    check_secret(&[&call("grep", "pattern", "correct-h"), &call("search", "query", "TOKEN correct horse battery")]);
}

#[test]
fn a_secret_is_not_shown_by_a_command_that_reads_everything() {
    check_secret(&[&command("grep -r TOKEN .")]);
}

#[test]
fn a_secret_is_not_shown_by_a_program_of_the_repository() {
    check_secret(&[&command("python3 peek.py")]);
}

/// Whatever these actions show, it is not what is in `.env`.
#[track_caller]
fn check_secret(actions: &[&str]) {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    home.put(".env", "TOKEN=correct-horse-battery\n");
    home.put("peek.py", "print(open('.en' + 'v').read())\n");
    let server = ModelServer::start(actions.iter().copied().chain([READ, FIX]));
    home.run(&server.url, &[]).expect(0);
    for (at, action) in actions.iter().enumerate() {
        let told = server.told(at + 1);
        assert!(!told.contains("horse-battery"), "after {action}: {told}");
    }
}

#[test]
fn an_edit_of_the_tests_does_not_count() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    let before = home.snapshot();
    let look = read("test_calc.py");
    let cheat = "edit_file test_calc.py\n```python\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        \
        pass\n\n    def test_double(self):\n        pass\n```\n";
    let server = ModelServer::start([look.as_str(), cheat, FINISH]);
    let told = home.run(&server.url, &["--apply", "--json"]).expect(1);
    let report = &told.events().into_iter().find(|event| event["event"] == "verified").unwrap()["report"];
    assert_eq!(report["dropped"], serde_json::json!(["test_calc.py"]));
    assert_eq!(report["rungs"][0]["mark"], "failed", "without the test file nothing is changed");
    assert_eq!(home.snapshot(), before);

    // With a real fix beside it the fix counts, and the test file is left as it was.
    let server = ModelServer::start([look.as_str(), cheat, READ, FIX, FINISH]);
    let told = home.run(&server.url, &["--apply"]).expect(0);
    told.says("test_calc.py: put back");
    assert_eq!(home.text("calc.py"), FIXED);
    let test = home.repo().join("test_calc.py");
    assert!(
        home.snapshot().iter().any(|entry| entry.0 == test && before.contains(entry)),
        "the test file is as it was"
    );
}

#[test]
fn a_fix_that_only_works_with_litter_in_the_box_is_not_verified() {
    if !boxes_work() {
        return;
    }
    // The program writes a file that makes the tests pass, and the file is one that the verifier puts back.
    let home = Home::with_bug();
    home.put("cheat.py", "open('conftest.py', 'w').write('')\nopen('sitecustomize.py', 'w').write('import calc\\ncalc.add = lambda a, b: a + b\\n')\n");
    let server = ModelServer::start([command("python3 cheat.py").as_str(), FINISH]);
    let told = home.run(&server.url, &["--apply", "--json"]).expect(1);
    assert_ne!(told.event("ended")["ending"]["name"], "verified");
    assert!(!home.repo().join("sitecustomize.py").exists());
}

#[test]
fn odd_files_in_the_repository_do_not_hurt() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    home.put("picture.bin", [0u8, 159, 146, 150, 0, 1]);
    home.put("latin.py", b"name = 'caf\xe9'  # not UTF-8\n");
    home.put("name with spaces.py", "x = 1\n");
    home.put("empty.py", "");
    std::fs::File::create(home.repo().join("big.dat")).unwrap().set_len(200 << 20).unwrap();
    symlink("loop_b", home.repo().join("loop_a")).unwrap();
    symlink("loop_a", home.repo().join("loop_b")).unwrap();
    symlink(".", home.repo().join("self")).unwrap();
    symlink("/etc/passwd", home.repo().join("passwd")).unwrap();
    let before = home.snapshot();
    let odd = ["picture.bin", "latin.py", "big.dat", "loop_a", "passwd"].map(read);
    let script = odd.iter().map(String::as_str).chain([
        "{\"name\": \"list_dir\", \"arguments\": {\"path\": \".\"}}\n",
        GREP,
        READ,
        FIX,
    ]);
    let server = ModelServer::start(script);
    home.run(&server.url, &[]).expect(0);
    let expected = [
        "picture.bin is a binary file of 6 bytes",
        "caf\u{fffd}",
        "big.dat has 209715200 bytes, more than the limit",
        "loop_a is a symbolic link, which is not followed",
        "passwd is a symbolic link, which is not followed",
    ];
    for (at, words) in expected.into_iter().enumerate() {
        let told = server.told(at + 1);
        assert!(told.contains(words), "`{words}` is not in: {told}");
    }
    assert_eq!(home.snapshot(), before);
    home.assert_no_box();
}

#[test]
fn a_name_with_control_characters_reaches_neither_the_model_nor_the_terminal() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    home.put("red \u{1b}[31m.py", "def add_red():\n    pass\n");
    home.put("two\nlines.py", "def add_two():\n    pass\n");
    let server = ModelServer::start([&call("list_dir", "path", "."), GREP, READ, FIX]);
    let told = home.run(&server.url, &[]).expect(0);
    assert!(!told.out.contains('\u{1b}'), "{}", told.out);
    for at in 0..server.calls().len() {
        let told = server.told(at);
        assert!(!told.contains('\u{1b}') && !told.contains("two\nlines"), "call {at}: {told}");
    }
}

#[test]
fn an_unreadable_directory_is_left_out_for_an_ordinary_user() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    home.put("locked/secret.py", "x = 1\n");
    let locked = home.repo().join("locked");
    // Root can read everything, so the binary runs as nobody; the home and the repository are theirs.
    let root = std::fs::metadata("/proc/self").is_ok() && run("id", &["-u"]).trim() == "0";
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    let everything = home.beside("");
    if root {
        run("chown", &["-R", "65534:65534", everything.to_str().unwrap()]);
    }
    let server = ModelServer::start([READ, FIX]);
    let mut command = home.run_command(&server.url, &[]);
    if root {
        command = as_nobody(&command, &home);
    }
    let told = crate::home::end_of(command.spawn().unwrap(), 60);
    let _ = std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700));
    if told.code == 3 && told.err.contains("namespace") || told.code == 126 {
        eprintln!("SKIPPED: an ordinary user can make no box here: {}", told.err);
        return;
    }
    told.expect(0).says("ending: verified");
    home.assert_no_box();
}

fn as_nobody(command: &Command, home: &Home) -> Command {
    let mut nobody = Command::new("setpriv");
    nobody
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(command.get_program())
        .args(command.get_args());
    nobody.env("CLOISTER_HOME", home.path()).current_dir(home.repo());
    nobody.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    nobody
}

fn run(program: &str, args: &[&str]) -> String {
    String::from_utf8(Command::new(program).args(args).output().expect(program).stdout).expect("UTF-8")
}

fn read(path: &str) -> String {
    call("read_file", "path", path)
}

fn command(line: &str) -> String {
    call("run_command", "command", line)
}

fn call(name: &str, key: &str, value: &str) -> String {
    let arguments: Value = serde_json::json!({ key: value });
    serde_json::json!({ "name": name, "arguments": arguments }).to_string() + "\n"
}
