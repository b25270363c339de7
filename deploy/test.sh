#!/bin/sh
# Runs the tests: with nextest where it is installed, else with cargo's own runner.
set -eu
if cargo nextest --version >/dev/null 2>&1; then
	exec cargo nextest run --workspace --locked --no-fail-fast "$@"
fi
exec cargo test --workspace --locked --no-fail-fast "$@"
