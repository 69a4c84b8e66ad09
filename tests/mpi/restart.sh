#!/usr/bin/env bash
# restart.sh SCRIPT: the restart loop starts again what has failed and what has ended without having come to its
# end, and neither what has come to its end nor what cannot run; signals go to the job.
set -euo pipefail
script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Fails, then ends with 0 without having come to its end, and says how often it was started.
cat > "$folder/job" <<'END'
#!/bin/sh
echo x >> "$1"
case "$(wc -l < "$1")" in
  1) exit 7 ;;
  2) exit 0 ;;
  *) : > "$2" ;;
esac
END
chmod +x "$folder/job"
"$script" --end "$folder/end" "$folder/job" "$folder/starts" "$folder/end" 2>"$folder/said"
[ "$(wc -l < "$folder/starts")" -eq 3 ] || { echo "not started three times"; cat "$folder/said"; exit 1; }
grep -q "ended with 7; start 1 of at most 10" "$folder/said"
grep -q "ended with 0 and without $folder/end; start 2 of at most 10" "$folder/said"
"$script" --end "$folder/end" "$folder/job" "$folder/starts" "$folder/end" 2>"$folder/said"
[ "$(wc -l < "$folder/starts")" -eq 3 ] || { echo "what had come to its end was started"; exit 1; }
grep -q "has come to its end" "$folder/said"

code=0
"$script" true 2>"$folder/said" || code=$?
[ "$code" -eq 2 ] && grep -q "usage" "$folder/said" || { echo "without --end: $code"; exit 1; }

code=0
"$script" --end "$folder/none" --most 1 sh -c "echo x >> $folder/empty" 2>"$folder/said" || code=$?
[ "$code" -eq 1 ] && [ "$(wc -l < "$folder/empty")" -eq 2 ] || { echo "given up with $code"; exit 1; }

code=0
"$script" --end "$folder/none" --most 1 sh -c "echo x >> $folder/never; exit 5" 2>"$folder/said" || code=$?
[ "$code" -eq 5 ] && [ "$(wc -l < "$folder/never")" -eq 2 ] || { echo "given up with $code"; exit 1; }

code=0
"$script" --end "$folder/none" sh -c "trap 'exit 9' TERM; echo up > $folder/up; while :; do sleep 0.1; done" 2>/dev/null &
loop=$!
for _ in $(seq 600); do [ ! -e "$folder/up" ] || break; sleep 0.1; done
kill -TERM "$loop"
wait "$loop" || code=$?
[ "$code" -eq 9 ] || { echo "a signal ended it with $code"; exit 1; }
echo "as expected"
