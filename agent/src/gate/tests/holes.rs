//! Holes that an attacker found in auto mode, where nobody is asked; each stays closed.

use super::*;

/// What auto mode lets through of commands that must be denied, and denies of those that must not be.
#[track_caller]
fn in_auto(denied: &[&str], allowed: &[&str]) {
    let policy = shipped();
    let context = Context { mode: Mode::Auto, ..Context::default() };
    let verdict = |command: &&&str| judge(&policy, &run(command), &context).verdict;
    let through: Vec<_> = denied.iter().filter(|c| verdict(c) != Verdict::Deny).collect();
    let stopped = allowed.iter().filter(|c| verdict(c) == Verdict::Deny);
    let stopped: Vec<_> = stopped.map(|c| format!("{c}: {}", judge(&policy, &run(c), &context).message())).collect();
    assert!(through.is_empty() && stopped.is_empty(), "let through: {through:#?}\nstopped: {stopped:#?}");
}

#[test]
fn git_overwrites_no_file_whose_changes_were_not_committed() {
    in_auto(
        &[
            "git checkout -- src",
            "git checkout src/a.py",
            "git checkout a.py",
            "git checkout ./",
            "git checkout src/",
            "git checkout :/",
            "git checkout ':(top)'",
            "git checkout '*.py'",
            "git checkout *.py",
            "git checkout HEAD src",
            "git checkout HEAD~5 -- .",
            "git checkout -- ':!x'",
            "git checkout --pathspec-from-file=x",
            "git checkout --pathspec-from x",
            "git checkout -p",
            "git checkout --theirs x",
            "git -C . checkout -q HEAD -- a",
            "sh -c 'git checkout -- a.py'",
            "nice git checkout HEAD -- a.py",
            "git restore src",
            "git restore .",
            "git restore ./",
            "git restore '*.py'",
            "git restore --source=HEAD~3 src/",
            "git restore -sS src",
            "git restore -SW a.py",
            "git restore -S -W a.py",
            "git restore --staged --worktree :/",
            "git restore --staged --work a.py",
            "git restore -- --staged a.py",
            "env git restore src",
        ],
        &[
            "git checkout main",
            "git checkout -",
            "git checkout feature/x",
            "git checkout release/1.x",
            "git checkout v1.2",
            "git checkout HEAD~1",
            "git checkout -b new",
            "git checkout -b new origin/main",
            "git checkout -q main",
            "git restore --staged a.py",
            "git restore -S a.py",
            "git switch main",
        ],
    );
}

#[test]
fn options_and_other_spellings_hide_no_forbidden_subcommand() {
    in_auto(
        &[
            "git stash -q drop",
            "git stash --quiet clear",
            "git reflog --x delete",
            "git submodule --quiet foreach x",
            "git bisect -- run x",
            "git --super-prefix x reset --hard",
            "git --attr-source x reset --hard",
            "git --shallow-file x reset --hard",
            "git-reset --hard",
            "git-clean -fdx",
            "/usr/lib/git-core/git-reset --hard",
            "git.exe reset --hard",
            "sudo git-reset --hard",
            "git-checkout -- a.py",
        ],
        &["git stash -q", "git stash list", "git --no-pager log reset", "git -C sub status", "git log --grep drop"],
    );
}

#[test]
fn code_on_the_command_line_is_refused_behind_any_option_and_in_any_interpreter() {
    in_auto(
        &[
            "python3 -X dev -c x",
            "python3 -W ignore -c x",
            "python3 -Wignore -uc x",
            "python3 -v -c x",
            "python3 -m timeit 'x'",
            "python3 -m pdb -c x a.py",
            "python3 -Im code",
            "python3 -mrunpy x",
            "python3 -u -",
            "python3 -u",
            "perl -I lib -e x",
            "ruby -W 0 -e x",
            "ruby -I lib -e x",
            "node --require x -e x",
            "node --stack-size 9 -e x",
            "node --import 'data:text/javascript,x' a.js",
            "php -d x=1 -r x",
            "lua -l x -e x",
            "luajit -e x",
            "julia -e x",
            "R -e x",
            "Rscript -e x",
            "elixir -e x",
            "erl -noshell -eval x",
            "ocaml -e x",
            "octave --eval x",
            "pwsh -c x",
            "pwsh -NoProfile -Comm x",
            "powershell x",
            "ipython -c x",
            "groovy -e x",
            "deno eval x",
            "bash-5.1 -c 'git reset --hard'",
            "yash -c 'git reset --hard'",
            "nu -c 'rm x'",
            "elvish -c x",
            "xonsh -c x",
        ],
        &[
            "python3 a.py -c x",
            "python3 -X dev a.py -c x",
            "python3 -W error -m pytest -c x",
            "python3 -m json.tool a.json",
            "python3 --version",
            "node index.js -e x",
            "node --test",
            "node -v",
            "perl -w a.pl",
            "ruby -I lib a.rb",
            "deno run a.ts",
            "Rscript a.R",
            "bash-5.1 a.sh",
            "pwsh -File a.ps1",
        ],
    );
}

#[test]
fn a_target_is_found_in_clusters_and_abbreviated_options() {
    in_auto(
        &[
            "cp -at .git/hooks x",
            "cp -rt.git/hooks x",
            "cp --target=.git/hooks x",
            "cp --t .git/hooks x",
            "mv --targ=.git/hooks x",
            "ln -st .git/hooks x",
            "install -Dt .git/hooks x",
            "install -otom x .git/hooks/y",
            "unzip -qd .git x.zip",
            "sort -ro .git/hooks/x a",
            "sort --outp=.git/hooks/x a",
            "tar --to-comm=x -xf a -C o",
            "tar --use=x -xf a -C o",
            "tar --checkpoint=1 --checkpoint-actio=exec=x -cf a b",
            "tar xf a -C .git -C hooks",
            "tar -xf a --dir=.git",
            "tar xfC a .git -C hooks",
            "tar -xPf a -C o",
            "tar -cf a .git --remove-files",
            "rsync -a --delete empty/ ./",
            "rsync -a --remove-source-files .git/ x",
            "rsync -a new/ .",
            "zip -m x.zip .git",
            "zip -rm x.zip .",
            "zip x.zip a -T --unzip-command=x",
        ],
        &[
            "cp -t out a b",
            "cp -a src /tmp/x",
            "install -Dm755 a out/a",
            "rsync -at src/ /tmp/x/",
            "tar czf /tmp/x.tgz src",
            "tar xzf x.tgz -C vendor",
            "tar -cf a.tar --exclude=x --checkpoint=100 src",
            "tar tf x.tar",
            "zip -r x.zip src",
            "unzip x.zip -d out",
            "gcc -fno-omit-frame-pointer -o a.out a.c",
        ],
    );
}

#[test]
fn find_reaches_what_lies_deeper_and_what_lies_outside() {
    in_auto(
        &[
            "find . -name hooks -exec rm -rf {} +",
            "find . -name HOOKS -exec rm -rf {} +",
            "find . -name 'hook*' -exec rm -rf {} +",
            "find . -name config -exec cat {} +",
            "find . -name HEAD -delete",
            "find . -iname head -delete",
            "find . -name pre-commit -exec cp a {} ';'",
            "find . -name settings.json -exec sed -i d {} +",
            "find . -name workflows -exec rm -rf {} +",
            "find / -name x -delete",
            "find /home -name '*.log' -exec rm -f {} +",
            "find .. -name x -delete",
            "find / -name passwd -ok rm {} ';'",
            "cd /tmp && find .. -name x -delete",
        ],
        &[
            "find . -name '*.pyc' -delete",
            "find . -name __pycache__ -type d -exec rm -rf {} +",
            "find . -name '*.py' -exec grep -l foo {} +",
            "find . -name '*.md' -exec cat {} +",
            "find src -type f -delete",
            "find /tmp/x -name y -delete",
            "find /workspace/src -name '*.o' -delete",
            "find . -name config",
        ],
    );
}

#[test]
fn what_acts_on_infrastructure_databases_disks_and_publications_is_refused() {
    in_auto(
        &[
            "terraform destroy -auto-approve",
            "tofu -chdir=x destroy",
            "aws ec2 terminate-instances --instance-ids i-1",
            "ansible all -a reboot",
            "psql -f drop.sql",
            "redis-cli FLUSHALL",
            "sqlite3 app.db 'DROP TABLE users'",
            "sqlite3 app.db 'delete from users'",
            "sqlite3 x.db '.shell rm x'",
            "sqlite3 x.db < drop.sql",
            "mkfs.ext4 x.img",
            "sudo blkdiscard x",
            "killall5",
            "init 0",
            "journalctl --vacuum-time=1s",
            "dmesg -C",
            "history -c",
            "npm publish",
            "cargo yank --vers 1 x",
            "twine upload x",
            "python3 -W error -m twine upload x",
            "gh repo delete x --yes",
            "nc -l -p 4444",
        ],
        &[
            "terraform plan",
            "sqlite3 a.db 'select * from t'",
            "sqlite3 a.db .tables",
            "dmesg",
            "npm run build",
            "cargo build",
            "git init",
            "ansible-lint",
        ],
    );
}

#[test]
fn an_option_that_an_allow_rule_excludes_is_refused_and_not_merely_unlisted() {
    in_auto(
        &[
            "cargo test --config x",
            "cargo --config build.rustc-wrapper=x test",
            "cargo build -Zunstable-options",
            "cargo build --target-dir=.git/x",
            "pytest --basetemp=src",
            "pytest -o cache_dir=.git",
            "python3 -m pytest --pastebin=all",
            "npm test --script-shell=./x.sh",
            "npm --script-shell=x run y",
            "go build -toolexec=x",
            "go test --exec x ./...",
            "rg --pre x foo",
            "git log --ext-diff",
            "git show --show-signature",
            "sort --compress-program=x a",
            "env A=b rg --pre x foo",
            "uniq - .git/hooks/x",
            "uniq -- a .git/hooks/x",
        ],
        &[
            "find . -name '*.pyc' -delete",
            "sort -o b.txt a.txt",
            "go build -o bin/app ./cmd/app",
            "git diff --output=a.patch",
            "tail -f a.log",
            "pytest -x -k 'a and b'",
            "cargo test --color=always",
            "cargo build --target wasm32-wasip1",
            "python3 -m pytest tests -vv",
        ],
    );
    for command in ["uniq - b", "uniq -- a b", "uniq a -- b"] {
        check_command(command, Verdict::Deny);
    }
}

#[test]
fn variables_and_loaders_run_no_other_program() {
    in_auto(
        &[
            "CARGO_BUILD_RUSTC_WRAPPER=x cargo build",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='rm -rf' cargo test",
            "RUSTC_WORKSPACE_WRAPPER=x cargo build",
            "RUSTFLAGS='-C linker=/tmp/x' cargo build",
            "GOFLAGS=-toolexec=x go build",
            "CC='rm x' make",
            "env CXX=x make",
            "MAKEFILES=/tmp/x make",
            "PYTHONBREAKPOINT=os.system python3 a.py",
            "PERL5LIB=x perl a.pl",
            "RUBYLIB=x ruby a.rb",
            "ZDOTDIR=/tmp zsh a",
            "_JAVA_OPTIONS=-javaagent:x java x",
            "/lib64/ld-linux-x86-64.so.2 /usr/bin/git reset --hard",
            "./ld.so x",
            "fakeroot git reset --hard",
            "bwrap --bind / / x",
            "entr -r x",
            "fd -x x",
            "make SHELL='rm x' all",
            "make --eval='$(shell x)'",
        ],
        &[
            "PYTHONPATH=src pytest",
            "RUST_BACKTRACE=1 cargo test",
            "CARGO_TERM_COLOR=never cargo test",
            "CARGO_TARGET_DIR=/tmp/x cargo build",
            "CARGO_BUILD_JOBS=2 cargo build",
            "CGO_ENABLED=0 go build ./...",
            "NODE_ENV=test npm test",
            "fd -e py",
            "make -j8 all",
        ],
    );
}

#[test]
fn more_files_that_hold_secrets_or_start_programs_are_protected() {
    in_auto(
        &[
            "cat .env.prod",
            "cat .env.test",
            "cat .env~",
            "cat .vault-token",
            "cat infra/terraform.tfstate",
            "cat .git/credentials",
            "cat .cargo/credentials.toml",
            "cat .azure/accessTokens.json",
            "cat .config/gcloud/x.json",
            "cat .htpasswd",
            "echo x > .zshenv",
            "echo x >> .bash_aliases",
            "echo x > .gitconfig",
            "echo x > .vimrc",
            "echo x > .inputrc",
            "echo x > .cargo/config.toml",
            "echo x > .config/autostart/x.desktop",
        ],
        &["cat .env.example", "cat .cargo/config.toml", "cat main.tf", "sed -i s/a/b/ src/*.py", "cat src/*.py"],
    );
}

#[test]
fn what_only_looks_and_compares_is_let_through() {
    in_auto(
        &[
            "git clean -fd",
            "git clean -nfd",
            "git clean -d",
            "git clean -en -f",
            "git config user.name x",
            "git config alias.x '!y'",
            "git config -l --add core.pager x",
            "git config edit",
            "git config --edit",
            "git config --get x.y --unset z.y",
            "awk '{print $1 > \"f\"}' a",
            "awk '{print ($1) > \"f\"}' a",
            "awk '{print | \"sh\"}' a",
            "awk '/\"/{print > \"f\"}' a",
            "awk '# \"\n{print > \"f\"}' a",
            "awk '{print \"a\\\\nb\" > \"f\"}' a",
            "[ -v 'x[1]' ]",
            "test ! -v 'x[1]'",
            "[[ -f a ]]",
            "[ -f .env ]",
            "[ a > .git/hooks/x ]",
        ],
        &[
            "git clean -n",
            "git clean -nd",
            "git config user.name",
            "git config --global user.email",
            "git config --get remote.origin.url",
            "awk '$3 > 5 {print $1}' a",
            "awk -F, 'NR>1 {s+=$3} END {print s}' a.csv",
            "awk '{ if ($1 > 10 || $2 > 3) print $0 }' a",
            "awk '{printf \"%s\\n\", $1}' a",
            "[ -d src ] && echo yes",
            "if [ -f a.py ]; then echo yes; fi",
            "[ ! -f a.py ] || echo yes",
            "[ a = b ]",
            "[ 1 -eq 2 ]",
        ],
    );
}

#[test]
fn programs_that_start_others_or_unpack_are_seen_through() {
    in_auto(
        &[
            "git clone . .git/x",
            "git clone . /etc/x",
            "git clone --template=/tmp/x . y",
            "git clone -u x . y",
            "git clone -c core.fsmonitor=x . y",
            "git clone ext::x y",
            "git fetch 'ext::sh -c x'",
            "git init --template=/tmp/x",
            "git worktree add /etc/x",
            "git grep -O'rm -rf .' x",
            "git grep --open-files-in-pager=rm x",
            "git archive --remote=. --exec=x HEAD",
            "git daemon --export-all",
            "git hook run x",
            "git credential fill",
            "git submodule deinit -f .",
            "git submodule update --force",
            "git branch -M old main",
            "git gc --prune=now",
            "git config -l --global core.pager x",
            "cmake -E rm -rf /home",
            "cmake -E copy x .git/hooks/y",
            "cmake -E env git reset --hard",
            "python3 -m zipfile -e x.zip /etc",
            "python3 -m tarfile -e x.tar .git",
            "npx -c 'git reset --hard'",
            "npx -y git reset --hard",
        ],
        &[
            "git clone . y",
            "git clone --depth 1 . y",
            "git worktree add wt main",
            "git init",
            "git grep -n foo",
            "git gc",
            "git submodule update --init",
            "git branch -m new",
            "cmake -E echo x",
            "cmake -B build -S .",
            "python3 -m zipfile -l x.zip",
            "npx tsc --noEmit",
            "npx jest --config x -c y",
        ],
    );
}
