#!/bin/sh
# Fails at once, and says so, where a file cannot be written that will be written after minutes of measuring.
#
#   scripts/writable.sh FILE
set -eu
folder=$(dirname "$1")
mkdir -p "$folder" 2>/dev/null || true
if [ -e "$1" ]; then
  [ -f "$1" ] && [ -w "$1" ] && exit 0
else
  [ -d "$folder" ] && [ -w "$folder" ] && exit 0
fi
echo "$1 cannot be written; nothing was installed or measured" >&2
exit 1
