#!/usr/bin/env bash
# A test that is skipped is named; where nothing may be skipped, it fails, and so does one that skipped.txt does not have.
# A target without a small form fails, too.
#
#   skips.sh SOURCES
set -euo pipefail
sources=$1
said=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$said" "$work"' EXIT
export UMBO_SKIPS=$said
unset UMBO_NO_SKIPS

# ends <status> <command>...
ends() {
  local status=0
  "${@:2}" >/dev/null 2>&1 || status=$?
  [ $status = "$1" ] || { echo "ended with $status, not $1: ${*:2}"; exit 1; }
}
ends 77 "$sources/scripts/skip.sh" valgrind "it is not there"
grep -qx "valgrind: it is not there" "$said"
ends 1 "$sources/scripts/skip.sh" nobody "it is not in the list"
ends 1 env UMBO_NO_SKIPS=1 "$sources/scripts/skip.sh" valgrind "it is not there"

mkdir "$work/scripts"
cp "$sources/scripts/targets.sh" "$work/scripts"
cp "$sources/Makefile" "$work"
ends 0 "$work/scripts/targets.sh" small help
printf 'brand-new: ## Do something new\n\t@true\n' >>"$work/Makefile"
make --no-print-directory -C "$work" help | grep -q "make brand-new"
ends 1 "$work/scripts/targets.sh" small brand-new
