#!/bin/sh
# Starts a Docker engine for the slow tests, with everything of it in the directory $1, and prints the address of its socket. Installs
# Debian's where there is none. An engine that this script has started and that still answers is used again.
#   deploy/test-docker.sh DIR        start, or find it started
#   deploy/test-docker.sh DIR stop   stop it
set -eu

dir=$1
socket=$dir/docker.sock

running() { # whether the process that was started here lives
	pid=$(cat "$dir/docker.pid" 2>/dev/null) || return 1
	tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "--data-root $dir/data "
}

if [ "${2:-start}" = stop ]; then
	running || exit 0
	kill "$pid"
	while running; do sleep 0.1; done
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "An engine for the tests needs root: run deploy/test-docker.sh as root, or name one with CLOISTER_TEST_DOCKER=unix:///path" >&2
	exit 1
fi
PATH=$PATH:/usr/sbin:/sbin
if ! command -v dockerd >/dev/null 2>&1; then
	# Debian's package has the name of a registry's host, and no file here names one.
	engine=docker
	echo "installing: $engine.io" >&2
	apt-get update >/dev/null
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$engine.io" >/dev/null
fi
mkdir -p "$dir"
if ! running; then
	# No bridge and no packet filter: containers of the tests have no network.
	setsid dockerd --data-root "$dir/data" --exec-root "$dir/run" --pidfile "$dir/docker.pid" -H "unix://$socket" \
		--iptables=false --bridge=none >"$dir/log" 2>&1 </dev/null &
fi
n=0
while ! docker -H "unix://$socket" version >/dev/null 2>&1; do
	n=$((n + 1))
	if [ $n -gt 300 ]; then
		echo "the engine did not start within 30 s; the end of $dir/log:" >&2
		tail -n 5 "$dir/log" >&2
		exit 1
	fi
	sleep 0.1
done
echo "unix://$socket"
