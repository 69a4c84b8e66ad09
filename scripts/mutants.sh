#!/usr/bin/env bash
# Puts the mistakes of tests/mutants/mutants.txt into a copy of the library, one at a time, and
# demands that the optimizer's tests catch each: the quick ones, which are all but the products of
# every rule with every feature.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=build/mutants/tree
export CARGO_TARGET_DIR="$PWD/build/mutants/target"
export CARGO_PROFILE_DEV_DEBUG=false
rm -rf "$tree"
mkdir -p "$tree"
cp -r src tests benches tool build.rs Cargo.toml Cargo.lock "$tree"
# The tests link the Rust library alone; the C ones would be linked anew for each mutant.
sed -i 's/^crate-type = .*/crate-type = ["rlib"]/' "$tree/Cargo.toml"

check() {
  (cd "$tree" && cargo test --locked --quiet --test optimizer -- --skip every_rule_with_every_feature) \
    >build/mutants/log 2>&1
}

if ! check; then
  cat build/mutants/log
  echo "mutants: the tests fail without a mutant" >&2
  exit 1
fi
survivors=0
while IFS='|' read -r name file rest; do
  case $name in '' | '#'*) continue ;; esac
  cp "$file" "$tree/$file"
  sed -i "$rest" "$tree/$file"
  if cmp -s "$file" "$tree/$file"; then
    echo "mutants: $name changes nothing in $file: the code has moved" >&2
    exit 1
  fi
  if check; then
    echo "$name: SURVIVED"
    survivors=$((survivors + 1))
  elif grep -q '^error' build/mutants/log && ! grep -q 'test result: FAILED' build/mutants/log; then
    cat build/mutants/log
    echo "mutants: $name does not compile" >&2
    exit 1
  else
    echo "$name: caught by $(grep -c '^    [a-z_:]*$' build/mutants/log || true) tests"
  fi
  cp "$file" "$tree/$file"
done <tests/mutants/mutants.txt
exit $((survivors > 0))
