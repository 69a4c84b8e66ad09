#!/usr/bin/env bash
# Says that a test is skipped, and why; tests/skipped.txt has those that may be.
#
#   scripts/skip.sh NAME REASON
#
# Ends with 77, or, where nothing may be skipped, since a machine has all that can be installed (UMBO_NO_SKIPS), with 1. The
# file that UMBO_SKIPS names gets a line.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 reason=$2
echo "skipped: $name: $reason"
[ -z "${UMBO_SKIPS:-}" ] || echo "$name: $reason" >>"$UMBO_SKIPS"
if ! grep -q "^$name:" tests/skipped.txt; then
  echo "tests/skipped.txt does not have it" >&2
  exit 1
fi
if [ -n "${UMBO_NO_SKIPS:-}" ]; then
  echo "UMBO_NO_SKIPS: nothing may be skipped here; scripts/setup.sh everything installs what is missing" >&2
  exit 1
fi
exit 77
