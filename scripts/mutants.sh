#!/usr/bin/env bash
# Puts the mistakes of tests/mutants/mutants.txt into a copy of the library, one at a time, and
# demands that the tests of what the optimizer promises catch each: those of the modules `contract`, `rows_contract`
# and `neighbours_contract`, which take a second.
#
# The copy is built once, with all of the mistakes in it; UMBO_MISTAKE names the one that is made.
set -euo pipefail
cd "$(dirname "$0")/.."
mutants=tests/mutants/mutants.txt
tree=build/mutants/tree
# With `--workspace` dependencies are those of all tests, and built only once. Another version keeps the copy of the library
# apart from the library itself, whose builds would replace each other in the same folder; the other packages are the
# same, as cargo sees by their names and the times of their files, and what was built of them is used.
export CARGO_TARGET_DIR="$PWD/target"
rm -rf "$tree"
mkdir -p "$tree"
cp -r --preserve=timestamps src crates macros tests benches tool build.rs Cargo.toml Cargo.lock "$tree"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Compiling the crates for speed takes longer than all their tests here.
sed -i "s/^version = \"$version\"/version = \"$version-mistakes\"/
  s/^\(umbo.* = { version = \)\"$version\"/\1\"$version-mistakes\"/
  /^codegen-units = 4/,/^\[/ {/^opt-level/d; s/^codegen-units = 4/opt-level = 0/}" "$tree/Cargo.toml"

# Crates that the optimizer does not need are left out, and with them the C layer.
unneeded='check\|checkpoint\|metrics'
sed -i "/^umbo-\($unneeded\)\.workspace/d" "$tree/crates/umbo-core/Cargo.toml"
sed -i 's:"umbo-checkpoint/[a-z]*"\(, \)\?::; s:"umbo-check/[a-z]*"::' "$tree/crates/umbo-core/Cargo.toml"
sed -i "/^pub use umbo_\($unneeded\) as/d; /^pub mod training;/d; /^        \(checkpoint\|equivalence\)::FEATURES,/d" \
  "$tree/crates/umbo-core/src/lib.rs"
sed -i '/^umbo\.workspace/d' "$tree/tests/Cargo.toml"
for crate in umbo-kernels umbo-optim; do
  sed -i '1i #![allow(warnings)]' "$tree/crates/$crate/src/lib.rs"
  cat >>"$tree/crates/$crate/src/lib.rs" <<'END'

/// Whether the mistake of this name is made.
fn mistake(name: &str) -> bool {
    static MADE: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    MADE.get_or_init(|| std::env::var("UMBO_MISTAKE").ok()).as_deref() == Some(name)
}
END
done

names=()
while IFS='|' read -r name file place wrong; do
  case $name in '' | '#'*) continue ;; esac
  before=${place%%«*} after=${place##*»} right=${place#*«}
  right=${right%»*}
  text=$(<"$tree/$file")
  changed=${text/"$before$right$after"/"$before(if crate::mistake(\"$name\") { $wrong } else { $right })$after"}
  if [ "$changed" = "$text" ]; then
    echo "mutants: $name changes nothing in $file: the code has moved" >&2
    exit 1
  fi
  printf '%s\n' "$changed" >"$tree/$file"
  names+=("$name")
done <"$mutants"

if ! (cd "$tree" && cargo test --release --workspace --no-run --test optimizer) >build/mutants/log 2>&1; then
  cat build/mutants/log
  echo "mutants: the library with mistakes does not compile" >&2
  exit 1
fi
tests=$(sed -n 's/^ *Executable.*(\(.*\))$/\1/p' build/mutants/log)

# check <mistake>: whether the tests find nothing.
check() {
  (cd "$tree" && UMBO_MISTAKE=$1 "$tests" --quiet contract::) \
    >build/mutants/log 2>&1
}

if ! check ''; then
  cat build/mutants/log
  echo "mutants: the tests fail without a mistake" >&2
  exit 1
fi
survivors=0
for name in "${names[@]}"; do
  if check "$name"; then
    echo "$name: SURVIVED"
    survivors=$((survivors + 1))
  else
    echo "$name: caught by $(grep -c '^    [a-z_:]*$' build/mutants/log || true) tests"
  fi
done
exit $((survivors > 0))
