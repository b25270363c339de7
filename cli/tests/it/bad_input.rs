//! Does everything that can be typed or found wrong have a clear error, and does it lose nothing?

use crate::home::{Home, boxes_work};
use crate::model_server::ModelServer;
use std::process::{Command, Stdio};

const MODELS: &str = "qwen2.5-coder-1.5b-instruct, qwen2.5-coder-0.5b-instruct, all-minilm-l6-v2";

/// Runs the binary and compares its exit code and everything it says on standard error; `{dir}` is the temporary directory.
#[track_caller]
fn check(home: &Home, args: &[&str], code: i32, expected: &str) {
    let dir = home.beside("");
    let dir = dir.to_str().unwrap().trim_end_matches('/');
    let args: Vec<String> = args.iter().map(|arg| arg.replace("{dir}", dir)).collect();
    let told = home.cloister(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        (told.code, told.err.replace(dir, "{dir}").as_str(), told.out.as_str()),
        (code, expected, ""),
        "{args:?}"
    );
    assert_nothing_started(home);
}

#[track_caller]
fn assert_nothing_started(home: &Home) {
    assert_eq!(home.names("sessions"), Vec::<String>::new(), "a session was begun");
    home.assert_no_box();
}

#[test]
fn no_arguments_print_the_help() {
    let home = Home::new();
    let told = home.cloister(&[]).expect(2);
    assert_eq!(told.out, "");
    let asked = home.cloister(&["--help"]).expect(0);
    assert_eq!(told.err, asked.out);
    for word in
        ["run", "serve", "index", "search", "models", "sessions", "doctor", "Exit codes:", "130  cancelled by Ctrl-C"]
    {
        asked.says(word);
    }
    assert!(!home.path().exists(), "asking for help makes no home");
}

#[test]
fn every_command_explains_itself() {
    let home = Home::new();
    let commands = [
        "run",
        "serve",
        "index",
        "search",
        "models",
        "models list",
        "models pull",
        "models verify",
        "models import",
        "models rm",
        "sessions",
        "sessions list",
        "sessions show",
        "sessions resume",
        "sessions verify",
        "doctor",
    ];
    for command in commands {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        home.cloister(&args).expect(0).says(&format!("Usage: cloister {command}"));
    }
}

#[test]
fn a_task_or_a_repository_that_is_not_there_is_refused() {
    let home = Home::new();
    let say = "error: the task is empty\n  what to do: say what to do: cloister run \"make the failing test pass\"\n";
    check(&home, &["run", " \n"], 4, say);
    check(&home, &["run", "-"], 4, say);
    check(
        &home,
        &["run", "fix it", "--repo", "{dir}/nowhere"],
        3,
        "error: {dir}/nowhere: No such file or directory (os error 2)\n  what to do: name an existing directory\n",
    );
    home.put("file.txt", "x");
    check(
        &home,
        &["run", "fix it", "--repo", "{dir}/repo/file.txt"],
        3,
        "error: {dir}/repo/file.txt is not a directory\n  what to do: name the directory of a repository\n",
    );
}

#[test]
fn a_policy_or_a_plan_with_a_typo_starts_nothing() {
    let home = Home::with_bug();
    std::fs::write(
        home.beside("policy.toml"),
        "version = 1\n\n[[tool]]\nid = \"mine\"\nverdikt = \"deny\"\ntools = [\"search\"]\n",
    )
    .unwrap();
    check(
        &home,
        &["run", "fix it", "--repo", "{dir}/repo", "--policy", "{dir}/policy.toml"],
        4,
        "error: {dir}/policy.toml:5: unknown field `verdikt`, expected one of `id`, `verdict`, `tools`, `why`, `instead`, `match`, `not_match` \
         (key verdikt, rule mine)\n  what to do: no session starts with a policy that does not load; correct the file\n",
    );
    home.put(
        ".cloister/policy.toml",
        "version = 1\n\n[[tool]]\nid = \"mine\"\nverdict = \"allow\"\ntools = [\"search\"]\n",
    );
    check(
        &home,
        &["run", "fix it", "--repo", "{dir}/repo"],
        4,
        "error: .cloister/policy.toml:4: rule mine, key verdict: a project's policy can only tighten: use deny or ask, or ask the \
         administrator to allow it\n  what to do: no session starts with a policy that does not load; correct the file\n",
    );
    std::fs::remove_file(home.repo().join(".cloister/policy.toml")).unwrap();
    std::fs::write(home.beside("verify.toml"), "tests = ['make']\n").unwrap();
    check(
        &home,
        &["run", "fix it", "--repo", "{dir}/repo", "--verify", "{dir}/verify.toml"],
        4,
        "error: {dir}/verify.toml: TOML parse error at line 1, column 1\n  |\n1 | tests = ['make']\n  | ^^^^^\n\
         unknown field `tests`, expected one of `test`, `seconds`, `build`, `lint`, `protected`\n\n  \
         what to do: it needs `test = [\"program\", \"argument\"]` and may have `seconds`, `build`, `lint` and `protected`\n",
    );
}

#[test]
fn a_typo_in_the_plan_of_the_repository_starts_nothing() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    home.put(".cloister/verify.toml", "test = ['make']\nsecond = 5\n");
    let server = ModelServer::start([crate::session::FINISH]);
    let told = home.run(&server.url, &[]).expect(4);
    assert!(told.err.contains(".cloister/verify.toml") && told.err.contains("unknown field `second`"), "{}", told.err);
    assert_nothing_started(&home);
}

#[test]
fn a_model_that_is_unknown_or_not_here_is_refused_by_run_and_by_serve() {
    let home = Home::with_bug();
    for command in [&["serve"][..], &["run", "fix it", "--repo", "{dir}/repo"]] {
        let unknown = [command, &["--model", "gpt-7"]].concat();
        check(
            &home,
            &unknown,
            3,
            &format!(
                "error: `gpt-7` is neither a model nor a .gguf file; the models are: {MODELS}\n  \
                what to do: `cloister models list` shows what there is\n"
            ),
        );
        let name = "qwen2.5-coder-1.5b-instruct";
        check(
            &home,
            command,
            3,
            &format!(
                "error: model `{name}` is not here; run `cloister models pull {name}`\n  \
                what to do: `cloister models list` shows what there is\n"
            ),
        );
    }
}

#[test]
fn a_file_that_is_no_whole_model_is_refused_by_run_and_by_serve() {
    let home = Home::with_bug();
    let random: Vec<u8> = (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let whole = gguf("mamba");
    std::fs::write(home.beside("random.gguf"), &random).unwrap();
    std::fs::write(home.beside("cut.gguf"), &whole[..whole.len() - 3]).unwrap();
    std::fs::write(home.beside("foreign.gguf"), &whole).unwrap();
    std::fs::write(home.beside("empty.gguf"), "").unwrap();
    let hint = |name: &str| format!("  what to do: `cloister models verify {name}` says whether the file is whole\n");
    let list = "  what to do: `cloister models list` shows what there is\n";
    let cases = [
        ("random", format!("error: {{dir}}/random.gguf is not a GGUF file: it does not begin with `GGUF`\n{list}")),
        ("empty", format!("error: {{dir}}/empty.gguf is not a GGUF file: it does not begin with `GGUF`\n{list}")),
        (
            "cut",
            format!(
                "error: {{dir}}/cut.gguf is truncated: a string in the header ends at byte {}, the file has {}\n{}",
                whole.len(),
                whole.len() - 3,
                hint("cut")
            ),
        ),
        (
            "foreign",
            format!("error: the model architecture \"mamba\" is not known; known are: qwen2\n{}", hint("foreign")),
        ),
    ];
    for (name, expected) in cases {
        let file = format!("{{dir}}/{name}.gguf");
        let loading = if matches!(name, "cut" | "foreign") { format!("loading {name}\n") } else { String::new() };
        check(&home, &["serve", "--listen", "127.0.0.1:0", "--model", &file], 3, &format!("{loading}{expected}"));
        if boxes_work() {
            check(&home, &["run", "fix it", "--repo", "{dir}/repo", "--model", &file], 3, &expected);
        }
    }
}

#[test]
fn an_import_of_the_wrong_file_under_a_name_of_the_catalogue_keeps_nothing() {
    let home = Home::new();
    std::fs::write(home.beside("wrong.gguf"), gguf("qwen2")).unwrap();
    let told = home
        .cloister(&["models", "import", home.beside("wrong.gguf").to_str().unwrap(), "qwen2.5-coder-1.5b-instruct"])
        .expect(3);
    assert!(told.err.contains("wrong.gguf is not model `qwen2.5-coder-1.5b-instruct`: "), "{}", told.err);
    for dir in ["store/models", "store/blobs", "store/partial"] {
        assert_eq!(home.names(dir), Vec::<String>::new(), "{dir}");
    }
    home.cloister(&["models", "list"]).expect(0).says("no; cloister models pull qwen2.5-coder-1.5b-instruct");
}

#[test]
fn a_session_or_a_head_that_is_not_there_is_refused() {
    let home = Home::new();
    let say =
        |id: &str| format!("error: there is no session `{id}`\n  what to do: `cloister sessions list` shows them\n");
    check(&home, &["sessions", "show", "nonsense"], 3, &say("nonsense"));
    check(&home, &["sessions", "verify", "../../etc"], 3, &say("../../etc"));
    check(&home, &["sessions", "resume", ""], 3, &say(""));
    assert_eq!(
        home.cloister(&["sessions", "list"]).expect(0).out,
        "no sessions yet; start one with `cloister run \"TASK\"`\n"
    );
}

#[test]
fn an_address_that_others_can_reach_is_refused_before_a_model_is_looked_for() {
    let home = Home::new();
    check(
        &home,
        &["serve", "--listen", "0.0.0.0:1"],
        3,
        "error: 0.0.0.0:1 can be reached from other machines, so it must ask for API keys; or use 127.0.0.1 or [::1]\n  \
         what to do: choose another address with --listen 127.0.0.1:PORT, or name those who may ask with --keys FILE\n",
    );
}

#[test]
fn keys_that_are_none_are_refused_before_a_model_is_looked_for() {
    let home = Home::new();
    std::fs::write(home.beside("keys"), "alice secret\n").unwrap();
    let told = home.cloister(&["serve", "--keys", home.beside("keys").to_str().unwrap()]).expect(4);
    assert!(told.err.starts_with("error: line 1 is no key: a SHA-256 is 64 hexadecimal digits\n"), "{}", told.err);
    assert!(told.err.contains("what to do: each line is a label and the SHA-256 of a key"), "{}", told.err);
    assert!(!told.err.contains("secret"), "what may be a key is not repeated: {}", told.err);
}

#[test]
fn a_port_that_is_taken_is_refused_before_a_model_is_loaded() {
    let home = Home::new();
    std::fs::write(home.beside("foreign.gguf"), gguf("mamba")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = home.beside("foreign.gguf");
    let told = home.cloister(&["serve", "--model", file.to_str().unwrap(), "--listen", &address]).expect(3);
    assert!(
        told.err.starts_with(&format!("error: cannot listen on {address}: Address already in use")),
        "{}",
        told.err
    );
}

#[test]
fn a_server_that_is_not_there_is_refused() {
    if !boxes_work() {
        return;
    }
    let home = Home::with_bug();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let told = home.run(&format!("http://127.0.0.1:{port}/v1"), &[]).expect(3);
    assert!(
        told.err.contains("Connection refused") && told.err.contains("what to do: start the server"),
        "{}",
        told.err
    );
    assert_nothing_started(&home);
}

#[test]
fn a_home_that_cannot_be_made_is_told() {
    let home = Home::new();
    std::fs::write(home.path(), "a file stands here").unwrap();
    let told = home.cloister(&["models", "list"]).expect(3);
    assert!(told.err.contains("set CLOISTER_HOME to a directory that may be written"), "{}", told.err);
}

#[test]
fn without_an_oci_runtime_nothing_starts_and_the_package_is_named() {
    let home = Home::with_bug();
    let server = ModelServer::start([crate::session::FINISH]);
    // The sandbox looks in /usr/sbin and the like whatever PATH is, so the runtimes are covered in a mount namespace.
    let hide = "for name in runc crun youki; do for dir in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do \
        if [ -e $dir/$name ]; then mount --bind /dev/null $(readlink -f $dir/$name) || exit 99; fi; done; done; exec \"$@\"";
    let run = home.run_command(&server.url, &[]);
    let is_root = rustix::process::geteuid().is_root();
    let mut hidden = Command::new("unshare");
    hidden.args(if is_root { &["-m"][..] } else { &["-rm"] }).args(["sh", "-c", hide, "sh"]);
    hidden
        .arg(run.get_program())
        .args(run.get_args())
        .env("CLOISTER_HOME", home.path())
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = match hidden.stdin(Stdio::null()).output() {
        Ok(output) if output.status.code() != Some(99) && !output.stderr.starts_with(b"unshare:") => output,
        _ => return eprintln!("SKIPPED: this user cannot cover the runtime in a mount namespace"),
    };
    let told = crate::home::Told::from(output).expect(3);
    assert_eq!(
        told.err,
        "error: no OCI runtime found (looked for runc, crun, youki); install one, on Debian with `apt-get install runc`\n  \
         what to do: `cloister doctor` says what is missing on this host\n"
    );
    assert!(server.calls().is_empty(), "the model was not asked");
    assert_nothing_started(&home);
}

/// The header of a model file with an architecture and nothing else, written by hand after the format's description.
fn gguf(architecture: &str) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let (version, tensors, keys, string) =
        (3u32.to_le_bytes(), 0u64.to_le_bytes(), 1u64.to_le_bytes(), 8u32.to_le_bytes());
    [&b"GGUF"[..], &version, &tensors, &keys, &text("general.architecture"), &string, &text(architecture)].concat()
}
