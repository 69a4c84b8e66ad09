#!/usr/bin/env bash
# restart.sh SCRIPT: the restart loop starts again what has failed, and neither what has ended well nor
# what cannot run; signals go to the job.
set -euo pipefail
script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Fails twice, and says how often it was started.
cat > "$folder/job" <<'END'
#!/bin/sh
echo x >> "$1"
[ "$(wc -l < "$1")" -gt 2 ] || exit 7
END
chmod +x "$folder/job"
"$script" "$folder/job" "$folder/starts" 2>"$folder/said"
[ "$(wc -l < "$folder/starts")" -eq 3 ] || { echo "not started three times"; cat "$folder/said"; exit 1; }
grep -q "ended with 7; start 2 of at most 10" "$folder/said"

code=0
"$script" --most 1 sh -c "echo x >> $folder/never; exit 5" 2>"$folder/said" || code=$?
[ "$code" -eq 5 ] && [ "$(wc -l < "$folder/never")" -eq 2 ] || { echo "given up with $code"; exit 1; }

code=0
"$script" sh -c "trap 'exit 9' TERM; echo up > $folder/up; while :; do sleep 0.1; done" 2>/dev/null &
loop=$!
for _ in $(seq 100); do [ ! -e "$folder/up" ] || break; sleep 0.1; done
kill -TERM "$loop"
wait "$loop" || code=$?
[ "$code" -eq 9 ] || { echo "a signal ended it with $code"; exit 1; }
echo "as expected"
