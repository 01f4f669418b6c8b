#!/bin/sh
# Records one program, for `cargo test`, `go test -exec` and whatever else starts tests through a runner:
#
#   export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=/path/to/runner.sh
#   export HITM_RECORDINGS=/path/to/an/existing/folder
#   cargo test
#
# Each program gets a recording of its own, NAME-NUMBER.hitm. HITM_MACHINE and hitm.toml choose the machine.
# Cargo runs tests in the folder of their package: HITM_RECORDINGS is absolute.
set -eu
name=$(basename "$1")
exec hitm record --quiet -o "${HITM_RECORDINGS:?names the folder for recordings}/$name-$$.hitm" -- "$@"
