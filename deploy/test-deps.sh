#!/bin/sh
# Installs what the slow tests need. For the verifier: go, node, Maven and Gradle of Debian, and the runners of JavaScript into the
# directory $1, outside of the clone. For the model server: the official Python clients into a virtual environment in $2. Fails
# where something cannot be had.
set -eu

# Pinned, and without a lock file: what they depend on is as new as the mirror has it.
clients="openai==3.57.0 anthropic==2.14.0"
runners="jest@29.7.0 vitest@3.2.4 mocha@11.7.4"

missing=""
need() { # need PATH PACKAGE
	[ -e "$1" ] || missing="$missing $2"
}
plugins=/usr/share/maven-repo/org/apache/maven/plugins
need /usr/bin/python3 python3
need /usr/share/doc/python3-venv python3-venv
need /usr/bin/go golang-go
need /usr/bin/node nodejs
need /usr/lib/python3/dist-packages/pip python3-pip
need /usr/bin/npm npm
need /usr/bin/javac default-jdk-headless
need /usr/bin/mvn maven
need /usr/bin/gradle gradle
need /usr/share/java/junit4.jar junit4
need /usr/share/maven-repo/org/junit/jupiter/junit-jupiter junit5
need $plugins/maven-surefire-plugin libsurefire-java
need $plugins/maven-compiler-plugin libmaven-compiler-plugin-java
need $plugins/maven-resources-plugin libmaven-resources-plugin-java
if [ -n "$missing" ]; then
	line="apt-get update && apt-get install -y --no-install-recommends$missing"
	if [ "$(id -u)" -ne 0 ]; then
		echo "The slow tests need these packages:$missing" >&2
		echo "Run this line, then make again:  sudo sh -c '$line'" >&2
		exit 1
	fi
	echo "installing:$missing" >&2
	DEBIAN_FRONTEND=noninteractive sh -c "$line" >/dev/null
fi

if [ "$(cat "$2/installed" 2>/dev/null || true)" != "$clients" ]; then
	echo "installing: $clients" >&2
	rm -rf "$2"
	/usr/bin/python3 -m venv "$2"
	# shellcheck disable=SC2086
	"$2/bin/pip" install --quiet --disable-pip-version-check $clients >&2
	echo "$clients" >"$2/installed"
fi

[ "$(cat "$1/installed" 2>/dev/null || true)" = "$runners" ] && exit 0
echo "installing: $runners" >&2
rm -rf "$1"
mkdir -p "$1"
cd "$1"
echo '{"private": true}' >package.json
# shellcheck disable=SC2086
npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts $runners >&2
echo "$runners" >installed
