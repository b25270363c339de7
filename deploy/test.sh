#!/bin/sh
# Runs the tests: with nextest where it is installed, else with cargo's own runner. The slow ones get what they need first.
set -eu
if [ -n "${CLOISTER_SLOW:-}" ] && { [ -z "${CLOISTER_TEST_JS_MODULES:-}" ] || [ -z "${CLOISTER_TEST_CLIENTS:-}" ]; }; then
	runners="${CLOISTER_HOME:-$HOME/.cloister}/test-runners"
	clients="${CLOISTER_HOME:-$HOME/.cloister}/test-clients"
	sh "$(dirname "$0")/test-deps.sh" "$runners" "$clients"
	export CLOISTER_TEST_JS_MODULES="${CLOISTER_TEST_JS_MODULES:-$runners/node_modules}"
	export CLOISTER_TEST_CLIENTS="${CLOISTER_TEST_CLIENTS:-$clients/bin/python}"
fi
if [ -n "${CLOISTER_SLOW:-}" ] && [ -z "${CLOISTER_TEST_DOCKER:-}" ] && [ "$(id -u)" -eq 0 ]; then
	if engine=$(sh "$(dirname "$0")/test-docker.sh" "${CLOISTER_HOME:-$HOME/.cloister}/test-docker"); then
		export CLOISTER_TEST_DOCKER="$engine"
	else
		echo "SKIPPED: the tests of the docker tier, as no engine starts here" >&2
	fi
fi
if cargo nextest --version >/dev/null 2>&1; then
	exec cargo nextest run --workspace --locked --no-fail-fast "$@"
fi
exec cargo test --workspace --locked --no-fail-fast "$@"
