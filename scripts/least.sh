#!/usr/bin/env bash
# Builds the smallest library, without any optional part, as CMake's MinSizeRel, and a program with it that learns digits. Their
# sizes are at most those below, the weights are those of every other build, and parts that were left out say so.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/least
# In kilobytes. The pictures in the program have 117.
most_program=1415
most_library=2410

echo "==== The smallest library"
cmake -S . -B "$work" -DCMAKE_BUILD_TYPE=MinSizeRel -DUMBO_FEATURES= -DUMBO_BUILD_TOOL=OFF -DUMBO_BUILD_TESTS=OFF \
  -DUMBO_BUILD_EXAMPLES=OFF "-DUMBO_CARGO_TARGET_DIR=$PWD/target" >"$work.txt"
cmake --build "$work" >>"$work.txt" 2>&1 || {
  tail -n 30 "$work.txt"
  exit 1
}
cmake --install "$work" --prefix "$work/prefix" >>"$work.txt"
libraries=$(dirname "$(find "$work/prefix" -name libumbo.a)")
export PKG_CONFIG_PATH=$libraries/pkgconfig

# at_most FILE KILOBYTES
at_most() {
  local bytes
  bytes=$(stat -c %s "$1")
  echo "$(basename "$1"): $bytes bytes"
  [ "$bytes" -le $(($2 * 1000)) ] || {
    echo "at most $2 kB are expected"
    exit 1
  }
}
at_most "$(readlink -f "$libraries/libumbo.so")" $most_library

# compile NAME SOURCE...: a program with the static library
compile() {
  local name=$1
  shift
  # shellcheck disable=SC2046
  cc -std=c99 -D_GNU_SOURCE -Os -ffp-contract=off -ffunction-sections "-I$work" "$@" -o "$work/$name" \
    $(pkg-config --static --cflags --libs umbo | sed 's/-lumbo/-l:libumbo.a/') -Wl,--gc-sections -s -no-pie
}

echo "==== Digits"
tests/wasm/pictures.py >"$work/pictures.h"
compile digits tests/wasm/digits.c
at_most "$work/digits" $most_program
[ "$("$work/digits")" = "$(<tests/wasm/expected.txt)" ] || {
  echo "the weights are others than those of tests/wasm/expected.txt"
  exit 1
}

echo "==== The parts that were left out"
compile features tests/c/test_features.c
(cd "$work" && ./features)
