#!/bin/sh
# Records the tests of a project, writes their findings as one comment, and is a gate.
#
#   record-tests.sh cargo|ctest|go|pytest|program FOLDER GATE [ARGUMENTS]
#
# FOLDER is new or empty: it gets a recording for each test program, and comment.md. GATE is that of
# `hitm report --fail-on`; none for no gate. ARGUMENTS go to the test command; for `program` they are the command.
# Exit code: 0; 1 if a gate fails; that of the tests if they fail.
set -u
kind=$1
gate=$3
mkdir -p "$2"
HITM_RECORDINGS=$(cd "$2" && pwd)
export HITM_RECORDINGS
shift 3
runner=$(cd "$(dirname "$0")" && pwd)/runner.sh
# Longest comment on GitHub: 65,536 characters.
comment_max=60000

case $kind in
    cargo)
        host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
        env "CARGO_TARGET_${host}_RUNNER=$runner" cargo test "$@"
        ;;
    go) go test -exec "$runner" "$@" ;;
    # These start tests themselves: all of their processes are in one recording.
    ctest) hitm record --quiet -o "$HITM_RECORDINGS/ctest.hitm" -- ctest "$@" ;;
    pytest) hitm record --quiet -o "$HITM_RECORDINGS/pytest.hitm" -- python3 -X perf -m pytest "$@" ;;
    program) hitm record --quiet -o "$HITM_RECORDINGS/program.hitm" -- "$@" ;;
    *)
        echo "record-tests.sh: found $kind, expected cargo, ctest, go, pytest or program" >&2
        exit 2
        ;;
esac
tests=$?
if [ "$tests" -ne 0 ]; then
    echo "record-tests.sh: the tests ended with exit code $tests" >&2
    exit "$tests"
fi

comment=$HITM_RECORDINGS/comment.md
: > "$comment"
failed=0
left_out=0
for recording in "$HITM_RECORDINGS"/*.hitm; do
    if [ ! -e "$recording" ]; then
        echo "record-tests.sh: no test program was recorded" >&2
        exit 2
    fi
    part=$recording.md
    if [ "$gate" = none ]; then
        hitm report -i "$recording" --format markdown > "$part"
    else
        hitm report -i "$recording" --format markdown --fail-on "$gate" > "$part"
    fi
    code=$?
    # A gate that cannot tell is no success.
    if [ "$code" -gt "$failed" ]; then
        failed=$code
    fi
    if [ "$(($(wc -m < "$comment") + $(wc -m < "$part")))" -gt "$comment_max" ]; then
        left_out=$((left_out + 1))
    else
        printf '### %s\n\n' "$(basename "$recording" .hitm | sed 's/-[0-9]*$//')" >> "$comment"
        cat "$part" >> "$comment"
        echo >> "$comment"
    fi
    rm -f "$part"
done
if [ "$left_out" -gt 0 ]; then
    echo "$left_out more recordings are in the artefacts." >> "$comment"
fi
exit "$failed"
