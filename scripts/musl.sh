#!/usr/bin/env bash
# Builds the library for musl and runs programs that are linked with it, without shared libraries and with libumbo.so.
#
#   scripts/musl.sh [small]           small: the library and an example in both forms, without CMake
#   scripts/musl.sh one-sha EXPECTED  the training of tests/one_sha alone, with each instruction set (make one-sha)
set -euo pipefail
cd "$(dirname "$0")/.."
how=${1:-whole}
target=x86_64-unknown-linux-musl
compiler=musl-gcc
command -v $compiler >/dev/null || {
  echo "musl: SKIPPED: there is no $compiler (Debian: musl-tools)"
  exit 0
}
[ -d "$(rustc --print target-libdir --target $target)" ] || rustup target add $target || {
  echo "musl: SKIPPED: Rust has no standard library for $target"
  exit 0
}
work=$PWD/build/musl
mkdir -p "$work"

section() { echo "==== $1"; }
# run NAME PROGRAM [ARGUMENT]: in a folder of its own. What it prints is shown if it fails.
run() {
  local name=$1
  shift
  rm -rf "$work/run/$name"
  mkdir -p "$work/run/$name"
  (cd "$work/run/$name" && timeout 600 "$@" >output.txt 2>&1) || {
    cat "$work/run/$name/output.txt"
    echo "$name failed"
    exit 1
  }
  echo "$name: passed"
}

section "The library for musl"
cargo build --locked --lib --package umbo --target $target
library=target/$target/debug/libumbo.a
flags=(-std=c99 -D_GNU_SOURCE -O2 -ffp-contract=off -Iinclude)

if [ "$how" = one-sha ]; then
  section "One training"
  $compiler "${flags[@]}" tests/one_sha/one_sha.c tests/ranks/ranks.c tests/ranks/wire.c -o "$work/one_sha" \
    -static -Wl,--eh-frame-hdr $library -lm -lpthread
  mkdir -p build/one_sha
  cd build/one_sha
  for set in baseline avx2 avx512; do
    for ranks in "threads 1 8 1 3" "processes 1 8 2 3"; do
      code=0
      # shellcheck disable=SC2086 # words
      UMBO_INSTRUCTION_SET=$set "$work/one_sha" musl "$2" $ranks || code=$?
      [ $code = 0 ] || [ $code = 77 ] || exit 1
    done
    [ $code = 0 ] || echo "musl $set: SKIPPED: the processor lacks it"
  done
  exit 0
fi
if [ "$how" = small ]; then
  section "An example"
  $compiler "${flags[@]}" c_examples/12_trainer.c -o "$work/trainer_static" \
    -static -Wl,--eh-frame-hdr $library -lm
  run trainer_static "$work/trainer_static"
  $compiler -shared -o "$work/libumbo.so" -Wl,--whole-archive $library -Wl,--no-whole-archive
  $compiler "${flags[@]}" c_examples/12_trainer.c -o "$work/trainer_shared" "$work/libumbo.so" -lm "-Wl,-rpath,$work"
  run trainer_shared "$work/trainer_shared"
  exit 0
fi

section "Examples of a project that finds the installed library"
cmake -S . -B "$work/cmake" -DCMAKE_C_COMPILER=$compiler -DUMBO_RUST_TARGET=$target -DCMAKE_BUILD_TYPE=Debug \
  -DUMBO_CARGO_TARGET_DIR="$PWD/target" -DUMBO_BUILD_TESTS=OFF -DUMBO_BUILD_EXAMPLES=OFF >/dev/null
cmake --build "$work/cmake" >/dev/null
rm -rf "$work/prefix"
cmake --install "$work/cmake" --prefix "$work/prefix" >/dev/null
run umbo_version "$work/prefix/bin/umbo" --version
for shared in ON OFF; do
  linker_flags=
  [ $shared = ON ] || linker_flags=-static
  cmake -S c_examples -B "$work/c_examples_$shared" -DCMAKE_C_COMPILER=$compiler -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DBUILD_SHARED_LIBS=$shared -DUMBO_EXAMPLES_NATIVE=OFF \
    -DCMAKE_EXE_LINKER_FLAGS=$linker_flags >/dev/null
  for source in c_examples/[0-9]*.c; do
    name=$(basename "$source" .c)
    cmake --build "$work/c_examples_$shared" --target "$name" >/dev/null
    run "${name}_$shared" "$work/c_examples_$shared/$name"
  done
done
