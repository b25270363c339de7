#!/bin/sh
# Installs the Debian packages that building and running need, or says which line installs them.
set -eu

missing=""
need() { # need PROGRAM PACKAGE
	command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"
}
need cc gcc
need make make
need pkg-config pkg-config
need protoc protobuf-compiler
need runc runc
# The box shows the host's /usr and nothing else: its Python must be Debian's.
[ -x /usr/bin/python3 ] || missing="$missing python3"
# The init of a warm box is linked statically.
[ -n "$(ls /usr/lib/*/libc.a /usr/lib/libc.a /usr/lib64/libc.a 2>/dev/null)" ] || missing="$missing libc6-dev"
# protoc's own definitions, which lance's build reads.
[ -e /usr/include/google/protobuf/any.proto ] || missing="$missing libprotobuf-dev"

if ! command -v cargo >/dev/null 2>&1; then
	echo "cargo is missing: install a Rust toolchain of version 1.95 or newer, then run this again" >&2
	exit 1
fi
[ -z "$missing" ] && exit 0
line="apt-get update && apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -ne 0 ]; then
	echo "These packages are missing:$missing" >&2
	echo "Run this line, then make again:  sudo sh -c '$line'" >&2
	exit 1
fi
echo "installing:$missing"
DEBIAN_FRONTEND=noninteractive sh -c "$line" >/dev/null
