//! What do traps that a job, a repository or a caller's environment lays do to the host or to the next job?

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use sandbox::{BoxSpec, Job, Sandbox};

use crate::harness::{everywhere, run, sh, snapshot, text};

/// Where an engine mounts the parts of containers.
const ENGINE: [&str; 3] = ["/overlay2/", "/containers/", "/netns/"];

fn mounts() -> String {
    // An engine mounts the workspaces of its boxes where the host sees them, those of other tests too.
    let told = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let engines = |line: &str| {
        line.contains("/volumes/cloister-") || line.contains("/stage/") || ENGINE.iter().any(|part| line.contains(part))
    };
    told.lines().filter(|line| !engines(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_mount_and_no_file_outside_comes_of_a_symlink_where_something_is_mounted() {
    everywhere(|_, sandbox| {
        let outside = tempfile::tempdir().expect("outside");
        fs::write(outside.path().join("secret"), "secret").expect("file");
        let before = (snapshot(outside.path()), mounts());
        let at = outside.path().display();
        let plant = format!(
            "ln -s {at} link; ln -s {at}/secret file; rm -r src; ln -s /proc/self/root src; mkdir d; ln -s ../../../../../..{at} d/up
             ln -s /etc/passwd d/passwd; ln -s d/loop d/loop; mkfifo pipe"
        );
        sh(sandbox, &plant);
        let hidden = [
            "link",
            "link/secret",
            "link/new/deep",
            "file",
            "src/etc",
            "d/up/secret",
            "d/passwd",
            "d/loop",
            "pipe",
            "none/x",
        ];
        for path in hidden {
            let job = Job { hidden: vec![path.into()], ..Job::new(["/bin/sh", "-c", "echo runs"]) };
            if let Ok(outcome) = sandbox.run(&job, &AtomicBool::new(false)) {
                assert_eq!(text(&outcome), "runs\n", "{path}");
            }
            assert_eq!((snapshot(outside.path()), mounts()), before, "{path}");
        }
    });
}

#[test]
fn a_repository_of_symlinks_moves_no_mount_of_the_box() {
    everywhere(|yard, first| {
        let outside = tempfile::tempdir().expect("outside");
        for (name, target) in [("usr", "/"), ("proc", "/sys"), ("etc", "/etc"), ("upper", ".."), ("rootfs", "/")] {
            symlink(target, yard.repo().join(name)).expect("link");
        }
        symlink(outside.path(), yard.repo().join("tmp")).expect("link");
        let before = mounts();
        let sandbox = Sandbox::open_on_footing(&yard.spec(), first.footing().clone()).expect("box");
        let told = text(&sh(
            &sandbox,
            "(echo x > tmp/x) 2>/dev/null; readlink usr proc etc upper rootfs | tr '\\n' ' '; ls /usr | grep -c '^bin$'",
        ));
        assert_eq!(told, "/ /sys /etc .. / 1\n");
        assert_eq!(fs::read_dir(outside.path()).expect("outside").count(), 0);
        assert_eq!(mounts(), before);
    });
}

#[test]
fn a_file_of_the_repository_that_is_also_elsewhere_is_not_written_through_its_hard_link() {
    everywhere(|yard, sandbox| {
        let elsewhere = yard.repo().with_file_name("elsewhere");
        fs::hard_link(yard.repo().join("README.md"), &elsewhere).expect("hard link");
        sh(sandbox, "echo more >> README.md; chmod 777 README.md; ln README.md again");
        let changes = sandbox.view().changes(|_| true).expect("changes");
        assert_eq!(fs::read_to_string(&elsewhere).expect("elsewhere"), "read me\n");
        sandbox::apply(&changes, &yard.repo(), &yard.state().with_file_name("journals")).expect("apply");
        assert_eq!(fs::read_to_string(&elsewhere).expect("elsewhere"), "read me\n");
        assert_eq!(fs::read_to_string(yard.repo().join("again")).expect("again"), "read me\nmore\n");
    });
}

#[test]
fn what_a_job_does_to_git_stays_in_the_box_whatever_its_owner_is() {
    everywhere(|yard, sandbox| {
        for (path, content) in
            [("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n"), ("hooks/pre-commit", "#!/bin/sh\n")]
        {
            let path = yard.repo().join(".git").join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::write(path, content).expect("file");
        }
        let before = snapshot(&yard.repo());
        let script = "printf '[core]\\nfsmonitor = touch /tmp/pwned\\n' > .git/config; echo evil > .git/hooks/pre-commit; rm .git/HEAD
            mount -o remount,rw . 2>/dev/null; for f in /workspace/.git/*; do chmod 777 $f; done; rm -rf .git";
        sh(sandbox, script);
        assert_eq!(snapshot(&yard.repo()), before);
        for change in sandbox.view().changes(|_| true).expect("changes") {
            let journals = yard.state().with_file_name("journals");
            assert!(sandbox::apply(&[change], &yard.repo(), &journals).is_err());
        }
        assert_eq!(snapshot(&yard.repo()), before);
    });
}

const LOADED: [&str; 24] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "NODE_OPTIONS",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "GIT_DIR",
    "GIT_CONFIG_GLOBAL",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH_COMMAND",
    "PAGER",
    "LESSOPEN",
    "EDITOR",
    "RUSTC_WRAPPER",
    "SSH_AUTH_SOCK",
    "AWS_SECRET_ACCESS_KEY",
    "DOCKER_HOST",
    "GCONV_PATH",
];
const ENVIRONMENT_TO: &str = "SANDBOX_TEST_ENVIRONMENT_TO";

/// Not a test of its own: the next one starts it with a loaded environment.
#[test]
fn loaded_process() {
    let Ok(dir) = std::env::var(ENVIRONMENT_TO) else { return };
    let dir = PathBuf::from(dir);
    fs::create_dir(dir.join("repo")).expect("repository");
    let sandbox = Sandbox::open(BoxSpec::new(dir.join("repo"), dir.join("boxes"))).expect("box");
    let told = text(&sh(&sandbox, "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/1/environ; env"));
    fs::write(dir.join("told"), told).expect("told");
}

#[test]
fn no_variable_of_the_host_arrives_in_a_box() {
    everywhere(|_, _| {
        let dir = tempfile::tempdir().expect("directory");
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args(["--exact", "escapes::planted::loaded_process"]).env(ENVIRONMENT_TO, dir.path());
        // A path that does not exist: the loader of the child itself only grumbles about it.
        command.envs(LOADED.iter().map(|name| (*name, "/no/such/evil-value")));
        let output = command.output().expect("child");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let told = fs::read_to_string(dir.path().join("told")).expect("told");
        assert!(told.contains("HOME=/home/agent"), "{told}");
        assert!(!told.contains("evil-value"), "{told}");
        assert!(!LOADED.iter().any(|name| told.lines().any(|line| line.starts_with(&format!("{name}=")))), "{told}");
    });
}

#[test]
fn no_variable_or_start_up_file_of_one_job_arrives_in_the_next() {
    everywhere(|_, sandbox| {
        let before = text(&sh(sandbox, "env | sort"));
        let plant = "export LD_PRELOAD=/workspace/x.so BASH_ENV=/workspace/x GIT_DIR=/workspace/x
            for f in .bashrc .profile .bash_profile .zshenv .gitconfig .npmrc .vimrc .lesskey; do echo 'touch /workspace/pwned' > ~/$f; done
            d=$(python3 -c 'import site; print(site.getusersitepackages())' 2>/dev/null || echo ~/.local/lib); mkdir -p \"$d\"
            echo \"open('/workspace/pwned', 'w')\" | tee \"$d/usercustomize.py\" \"$d/x.pth\" > /tmp/x; mkdir -p ~/.config/git ~/.cargo
            echo x > /dev/shm/x; (sleep 600 &)";
        sh(sandbox, plant);
        let after = text(&sh(
            sandbox,
            "env | sort; bash -lc true 2>/dev/null; sh -lc true; python3 -c 1 2>/dev/null; ls -A ~ /tmp /dev/shm | grep -v :; ls pwned 2>/dev/null; pgrep sleep",
        ));
        assert_eq!(after.trim_end(), before.trim_end());
    });
}

#[test]
fn a_box_has_no_way_to_its_own_directory_on_the_host() {
    everywhere(|yard, sandbox| {
        let state = fs::canonicalize(yard.state()).expect("state");
        let at = |path: &Path| path.display().to_string();
        let script = format!(
            "ls {0} {0}/{1} {0}/{1}/layers 2>/dev/null; cat {0}/{1}/box.json 2>/dev/null; ls -d /workspace/../../boxes 2>/dev/null; echo end",
            at(&state),
            sandbox.id()
        );
        assert_eq!(text(&sh(sandbox, &script)), "end\n");
        assert!(!run(sandbox, &Job::new(["/bin/sh", "-c", "grep -q . /workspace/work"])).ending.succeeded());
    });
}
