#!/usr/bin/env bash
# Fuzzes the parsers of what comes from outside (fuzz/README.md).
#
#   scripts/fuzz.sh [TARGET [OPTIONS OF LIBFUZZER...]]
#
# Without a target: each. It takes a minute or RUNS executions, or as long as the options say. Needs a nightly Rust and
# cargo-fuzz (scripts/setup.sh fuzz); skips, and says so, without.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/build/tools/bin:$PATH
cargo +nightly fuzz --version >/dev/null 2>&1 || {
  echo "fuzz: SKIPPED: there is no nightly Rust with cargo-fuzz (scripts/setup.sh fuzz)"
  exit 0
}
limit=(-max_total_time=60)
[ $# -lt 2 ] || limit=()
[ -z "${RUNS:-}" ] || limit=(-runs="$RUNS")
targets=("${1:-}")
if [ $# -eq 0 ]; then
  mapfile -t targets < <(cargo +nightly fuzz list)
else
  shift
fi
mkdir -p build/fuzz
cargo run --quiet --manifest-path fuzz/Cargo.toml --target-dir build/fuzz/seeds --bin seeds -- build/fuzz/corpus
for target in "${targets[@]}"; do
  mkdir -p "fuzz/regressions/$target"
  echo "fuzz: $target"
  cargo +nightly fuzz run --target-dir build/fuzz/target "$target" \
    "build/fuzz/corpus/$target" "fuzz/regressions/$target" -- \
    -artifact_prefix="fuzz/regressions/$target/" -rss_limit_mb=4096 -timeout=20 -print_final_stats=1 \
    "${limit[@]}" "$@" 2>&1 | grep -E '^(stat::number_of_executed_units|stat::average_exec|==|SUMMARY|thread|Done)|panicked|ERROR|cov:' | tail -n 12
done
