#!/usr/bin/env bash
# Runs every ctest and every Rust test so many times, half of them beside three busy loops, and
# prints what has failed and how often.
#
#   scripts/flaky.sh [TIMES] [BUILD]
#
# FILTER= is a regular expression for ctest (-R) and RUST_FILTER= a part of the names of Rust tests.
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:-200}
build=${2:-build/release}
log=build/flaky
rm -rf "$log"
mkdir -p "$log"
busy=()
stop() { [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true; busy=(); }
trap stop EXIT
start() { for _ in 1 2 3; do (while :; do :; done) & busy+=($!); done; }

# Models try every order of their threads each time.
rust=(cargo test --quiet --locked --workspace --exclude models)
"${rust[@]}" --no-run
for round in $(seq "$times"); do
  [ $((round * 2)) -gt "$times" ] && [ ${#busy[@]} -eq 0 ] && start
  (cd "$build" && ctest --parallel 2 --label-exclude valgrind ${FILTER:+-R "$FILTER"}) \
    >"$log/ctest" 2>&1 || true
  sed -n 's/^[[:space:]]*[0-9]* - \([^ ]*\) (\(.*\)).*/ctest \1 (\2)/p' "$log/ctest" |
    grep -v 'Not Run\|Skipped' >>"$log/failures" || true
  "${rust[@]}" --no-fail-fast -- ${RUST_FILTER:-} >"$log/rust" 2>&1 || true
  sed -n 's/^---- \(.*\) stdout ----$/rust \1/p' "$log/rust" >>"$log/failures"
  grep -E 'signal: [0-9]+' "$log/rust" >>"$log/failures" || true
  cp "$log/rust" "$log/rust.last"
  printf '\rflaky: round %d of %d, %d failures ' "$round" "$times" \
    "$(wc -l <"$log/failures" 2>/dev/null || echo 0)"
done
stop
echo
if [ -s "$log/failures" ]; then
  echo "flaky: failures in $times rounds, the second half of them beside busy loops:"
  sort "$log/failures" | uniq -c | sort -rn
  exit 1
fi
echo "flaky: no failures in $times rounds, the second half of them beside busy loops"
