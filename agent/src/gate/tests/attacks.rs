//! Ways in which commands have got past somebody's reader.

use super::super::shell::{Doubt, Script};
use super::*;

/// The danger is found and named, not merely doubted.
#[track_caller]
fn found(command: &str, rule: &str) {
    let judgement = judged(&run(command));
    assert_eq!(judgement.verdict, Verdict::Deny, "{command:?}");
    let named = judgement.trace.iter().any(|s| s.verdict == Verdict::Deny && s.rule.as_deref() == Some(rule));
    assert!(named, "{command:?}: {}\n{:?}", judgement.message(), judgement.trace);
}

#[test]
fn the_forbidden_command_is_found_wherever_it_hides() {
    let hidden = [
        "ls $(rm x)",
        "ls `rm x`",
        "cat <(rm x)",
        "ls & rm x",
        "ls\nrm x",
        "ls; rm x",
        "ls | rm x",
        "ls || rm x",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "for f in *; do rm $f; done",
        "while rm x; do :; done",
        "case a in a) rm x;; esac",
        "f() { rm x; }; f",
        "A=b rm x",
        "! rm x",
        "\"rm\" x",
        "r\"m\" x",
        "r''m x",
        "\\rm x",
        "'r'm x",
        "/bin/rm x",
        "echo \"$(rm x)\"",
        "x=$(rm x)",
        "[ $(rm x) ]",
        "cat <<E\n$(rm x)\nE",
        "> /dev/null rm x",
        "2>&1 rm x",
        "export A=$(rm x)",
    ];
    for command in hidden {
        found(command, "danger.delete");
    }
}

#[test]
fn the_forbidden_command_is_found_behind_wrappers_and_in_shells() {
    let hidden = [
        "env rm x",
        "env -i A=b rm x",
        "sudo -u root rm x",
        "nice -n 19 rm x",
        "timeout 5 rm x",
        "nohup rm x",
        "setsid rm x",
        "stdbuf -o0 rm x",
        "xargs -I{} rm {}",
        "command rm x",
        "builtin rm x",
        "exec rm x",
        "busybox rm x",
        "time rm x",
        "env sudo nice timeout 5 nohup rm x",
        "sh -c 'rm x'",
        "bash -lc 'rm x'",
        "bash -c \"sh -c 'rm x'\"",
        "eval 'rm x'",
        "eval rm x",
        "sh <<< 'rm x'",
        "sh <<E\nrm x\nE",
        "echo 'rm x' | sh",
        "env sh -c 'rm x'",
        "find . -exec rm {} ';'",
        "find . -exec sh -c 'rm x' ';'",
        "trap 'rm x' EXIT",
        "sudo sh -c 'ls; rm x'",
        "watch 'rm x'",
        "parallel rm ::: x",
        "script -c 'rm x'",
        "ssh localhost 'rm x'",
        "bash -c rm",
    ];
    for command in hidden {
        found(command, "danger.delete");
    }
    let nested =
        |levels| (0..levels).fold("rm x\n".to_owned(), |inner, level| format!("sh <<E{level}\n{inner}E{level}\n"));
    found(&nested(8), "danger.delete");
    assert_eq!(Script::read(&nested(9)).proven, Err(Doubt::TooDeep), "nine shells are one too many");
    let quoted = (0..3).fold("rm x".to_owned(), |inner, _| format!("sh -c '{}'", inner.replace('\'', r"'\''")));
    found(&quoted, "danger.delete");
}

#[test]
fn git_is_recognised_behind_its_global_options() {
    for command in [
        "git reset --hard",
        "git -C . reset",
        "git -c a=b reset",
        "git --no-pager -C . reset",
        "git --git-dir x reset",
        "/usr/bin/git reset",
    ] {
        found(command, "danger.git-changes");
    }
}

/// None of these is a read-only command, whatever their names look like.
#[test]
fn options_that_write_or_run_take_a_reading_command_out_of_its_rule() {
    let commands = [
        "python -c 'x'",
        "python3 -Ic 'x'",
        "perl -e x",
        "awk 'BEGIN{system(\"id\")}'",
        "sed -n '1e id' a",
        "sed 's/a/b/e' a",
        "sed -n '1w x' a",
        "sed -n -f x a",
        "vim -c q",
        "make SHELL=x test",
        "make test SHELL=x",
        "find . -fprintf x y",
        "tar --checkpoint-action=exec=id",
        "rg --pre id x",
        "rg --pr=id x",
        "git -c core.pager=id log",
        "git grep -Oid x",
        "git diff --ext-diff",
        "git log --output=x",
        "git log --out=x",
        "sort -o x a",
        "sort -no x a",
        "sort --out x a",
        "sort -T /tmp a",
        "uniq a b",
        "uniq *",
        "tee x",
        "dd of=x",
        "install a b",
        "cp a b",
        "ln -s a b",
        "rsync -e id a b",
        "split --filter=id a",
        "less a",
        "man ls",
        "go test -exec id ./...",
        "tail -F a",
        "cat a >b",
        "cat a >>b",
        "cat a &>b",
        "cat a >|b",
        "cat a >&b",
        "cat a <>b",
        "rg x *",
        "sort *",
        "alias ls=rm",
        "source a",
        ". a",
        "export A=b",
        "hash -p x ls",
        "enable -n echo",
        "function ls { x; }",
        "cd src && ls",
        "cd .git",
        "pushd src",
        "cat $HOME/x",
        "cat ~root/x",
        "cat //etc/passwd",
        "cat /workspace/../etc/passwd",
        "cat /proc/self/cwd/.env",
        "ls $IFS x",
        "cat $'a'",
        "cat $\"a\"",
        "ls ${x}",
        "ls $((1))",
        "l{s,s}",
        "ls @(a)",
        "time ls",
        "coproc ls",
        "[[ a ]]",
        "((1))",
        "ls ;; ls",
        "| ls",
        "&& ls",
        "ls &&",
        "ls |& cat",
        "/workspace/ls",
        "./ls",
        "git",
        "git --exec-path=x log",
        "cat <<<x",
        "python3 -",
        "python3",
        "python3 -m pip install x",
        "ls \u{202E}x",
    ];
    for command in commands {
        check_command(command, Verdict::Deny);
    }
}

#[test]
fn a_quoted_operator_is_only_a_word() {
    for command in [
        "echo 'a; rm x'",
        "echo \"a && rm x\"",
        "grep -n 'a|b' a.py",
        "echo a\\;b",
        "grep -n \"(x)\" a.py",
        "echo '$(rm x)'",
        "echo \"#\" a#b",
    ] {
        check_command(command, Verdict::Allow);
    }
}

#[test]
fn a_very_nested_script_ends_in_a_judgement() {
    for (open, close) in
        [("(", ")"), ("$(", ")"), ("\"$(", ")\""), ("{ ", "; }"), ("if ", ""), ("`", ""), ("<<a ", ""), ("a|", "")]
    {
        let command = format!("{}ls{}", open.repeat(2000), close.repeat(2000));
        check_command(&command, Verdict::Deny);
    }
    check_command(&format!("env {}", "find -exec ".repeat(1000)), Verdict::Deny);
    for words in ["*/".repeat(2000), "a/*b ".repeat(3000), "*".repeat(16000), "a=b:".repeat(3000), "'' ".repeat(5000)] {
        let _ = judged(&run(&format!("cat {words}")));
    }
}
