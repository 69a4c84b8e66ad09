#!/usr/bin/env bash
# Builds the library with a sanitizer and runs all C tests on it.
#
#   scripts/sanitize.sh address|thread [TEST...]
#
# Needs a nightly Rust with its source (scripts/setup.sh sanitizers); skips, and says so, without.
# AddressSanitizer looks for leaks too, where the system lets it. ThreadSanitizer has the standard
# library built with it, since it would take an uninstrumented one's locks for races.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:?address or thread}
shift
case $kind in
  address) short=asan ;;
  thread) short=tsan ;;
  *) echo "sanitize: address or thread, not $kind" >&2; exit 2 ;;
esac
skip() { echo "sanitize: SKIPPED ${kind}: $*"; exit 0; }

target=$(rustc +nightly -vV 2>/dev/null | sed -n 's/^host: //p') || true
[ -n "$target" ] || skip "there is no nightly Rust (rustup toolchain install nightly)"
libraries=$(rustc +nightly --print target-libdir)
runtime=$libraries/librustc-nightly_rt.$short.a
[ -e "$runtime" ] || skip "the nightly Rust has no runtime $runtime"
build=build/sanitizers/$kind
std=()
if [ "$kind" = thread ]; then
  [ -e "$libraries/../../src/rust/library/std/Cargo.toml" ] ||
    skip "the nightly Rust has no source (rustup component add rust-src --toolchain nightly)"
  std=(-Zbuild-std)
fi

echo "sanitize: building the library"
CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only \
  RUSTFLAGS="-Zsanitizer=$kind -Cforce-frame-pointers=yes" \
  cargo +nightly build --quiet --locked "${std[@]}" --package umbo --lib \
  --target "$target" --target-dir "$build"
library=$build/$target/debug/libumbo.a

echo "sanitize: building the programs"
programs=$build/programs
mkdir -p "$programs" "$build/run"
rustc --edition 2024 tests/c/generator/main.rs -o "$programs/generator"
for name in null_arguments matrix sequences; do
  "$programs/generator" "$name" include/umbo/all.h "$programs/$name.c"
done
compile() {
  # What the programs call is instrumented too; the runtime is Rust's, since there can be but one.
  local source objects=()
  for source in "${@:2}"; do
    objects+=("$programs/$1.$(basename "$source" .c).o")
    cc -std=c99 -O1 -g -fno-omit-frame-pointer -fsanitize="$kind" -Iinclude -Itests/c -UNDEBUG \
      -c "$source" -o "${objects[-1]}"
  done
  cc "${objects[@]}" "$library" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive \
    -Wl,--export-dynamic -o "$programs/$1" -lpthread -ldl -lm -lrt -lgcc_s -lresolv -lstdc++
}
all=("$@")
if [ $# -eq 0 ]; then
  for source in tests/c/test_*.c; do
    name=$(basename "$source" .c)
    all+=("${name#test_}")
  done
  all+=(null_arguments matrix sequences storm)
fi
for name in "${all[@]}"; do
  case $name in
    null_arguments | matrix | sequences) compile "$name" "$programs/$name.c" ;;
    storm) compile storm tests/c/storm/*.c ;;
    *) compile "$name" "tests/c/test_$name.c" ;;
  esac
done

export ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=${LEAKS:-1}:exitcode=66
export LSAN_OPTIONS=suppressions=$PWD/tests/c/leaks.txt:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=0:exitcode=66:history_size=4
failed=()
for name in "${all[@]}"; do
  case $name in
    nequals1) arguments=("$PWD/c_examples/data/digits") ;;
    matrix) arguments=(--patience 120) ;;
    sequences) arguments=(--seconds "${SECONDS_EACH:-20}") ;;
    storm) arguments=(--seconds "${SECONDS_EACH:-20}") ;;
    *) arguments=() ;;
  esac
  more=
  case $name in
    # A child of this one dies by a signal, as it should: a sanitizer would make an exit of it.
    stacks) more=:handle_segv=0 ;;
    # Their children start threads, which ThreadSanitizer refuses unless it is told otherwise.
    forks) [ "$kind" = address ] || more=:die_after_fork=0 ;;
  esac
  mkdir -p "$build/run/$name"
  if (cd "$build/run/$name" &&
    ASAN_OPTIONS="$ASAN_OPTIONS$more" TSAN_OPTIONS="$TSAN_OPTIONS$more" \
      timeout 900 "$OLDPWD/$programs/$name" "${arguments[@]}" >out.txt 2>&1); then
    echo "sanitize: $name: good"
  else
    echo "sanitize: $name: FAILED, see $build/run/$name/out.txt"
    grep -m 3 -E 'SUMMARY|WARNING: ThreadSanitizer|ERROR: ' "$build/run/$name/out.txt" ||
      tail -n 5 "$build/run/$name/out.txt"
    failed+=("$name")
  fi
done
echo "sanitize: $kind: ${#all[@]} programs, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
