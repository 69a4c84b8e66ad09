#!/usr/bin/env bash
# Runs under Miri what it can reach and where unsafe code and memory orders matter most: the handle
# table, hazard records, the slabs of tensors, the protocol of steps, and what a step lends without counting it.
#
#   scripts/miri.sh [PACKAGE/FILTER...]
set -euo pipefail
cd "$(dirname "$0")/.."
cargo +nightly miri --version >/dev/null 2>&1 || {
  echo "miri: SKIPPED: there is no Miri (rustup component add miri --toolchain nightly)"
  exit 0
}
filters=("$@")
[ $# -gt 0 ] ||
  filters=(umbo/handle umbo/hazard umbo-tensor/slab umbo-strategy/protocol umbo-strategy/lending umbo-strategy/slot)
# Handles are numbers in the place of pointers, and are never dereferenced.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks"
for seed in 0 1 2 3; do
  for filter in "${filters[@]}"; do
    echo "miri: $filter, seed $seed"
    MIRIFLAGS="$MIRIFLAGS -Zmiri-seed=$seed" \
      cargo +nightly miri test --quiet --locked --package "${filter%/*}" --lib --target-dir build/miri "${filter#*/}"
  done
done
