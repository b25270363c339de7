//! Holes in what is known about files: where commands write, and what they may not even read.

use super::*;

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
