#!/bin/sh
# Builds every fuzzer and runs each for so many seconds; fails when one of them finds something.
#
#     sh fuzz/run.sh SECONDS [TARGET…]
#
# Works with the stable toolchain: libFuzzer needs coverage counters, which are plain code generation options, and no
# sanitizer. Needs a C++ compiler. What is found new is kept in found/TARGET below the target directory, a crashing
# input in artifacts/TARGET; run it again with  TARGET_DIR/HOST/release/TARGET FILE.
set -eu
cd "$(dirname "$0")"

seconds=${1:?usage: sh fuzz/run.sh SECONDS [TARGET...]}
shift
[ $# -gt 0 ] || set -- shell_reader policy_file action_parser diff_applier log_reader

if ! command -v c++ >/dev/null 2>&1; then
	echo "libFuzzer is built with a C++ compiler:  apt-get install g++" >&2
	exit 1
fi
host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-$PWD/target}
coverage="-C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4"
coverage="$coverage -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table"
coverage="$coverage -C llvm-args=-sanitizer-coverage-trace-compares"

# With --target the options reach the fuzzers and the agent, and not build scripts, which could not be linked with them.
bins=""
for target in "$@"; do bins="$bins --bin $target"; done
# shellcheck disable=SC2086 # the names of fuzzers hold no blanks
RUSTFLAGS="$coverage --cfg fuzzing" CARGO_TARGET_DIR="$target_dir" cargo build --release --locked --target "$host" $bins

failed=""
for target in "$@"; do
	mkdir -p "$target_dir/found/$target" "$target_dir/artifacts/$target"
	printf '\n== %s, %s s\n' "$target" "$seconds"
	# 20,000 bytes reach past every limit of the shell reader; 10 s for one input is a hang.
	"$target_dir/$host/release/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=20000 \
		-print_final_stats=1 -artifact_prefix="$target_dir/artifacts/$target/" \
		"$target_dir/found/$target" "corpus/$target" 2>"$target_dir/artifacts/$target.log" || failed="$failed $target"
	grep -E '^(INFO: +[0-9]+ files|stat::|SUMMARY|==|thread|Test unit|ERROR)|panicked' "$target_dir/artifacts/$target.log" | tail -n 12 || true
done
if [ -n "$failed" ]; then
	printf '\nfound something:%s; the inputs are in %s/artifacts\n' "$failed" "$target_dir" >&2
	exit 1
fi
printf '\nall clean\n'
