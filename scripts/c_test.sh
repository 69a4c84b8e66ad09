#!/usr/bin/env bash
# Builds the library for debugging and runs a test in C or C++ on it: what `make test` does for one test, in seconds.
#
#   scripts/c_test.sh tests/c/test_run.c [ARGUMENT...]
#   UNDER="gdb --args" scripts/c_test.sh tests/cpp/test_views.cpp
#
# A test in C is compiled as C99 and as C++17, and run as both. UNDER is a program that runs the test, such as
# "valgrind --quiet".
set -euo pipefail
test=$(realpath "${1:?a file of tests/c or tests/cpp}")
shift
cd "$(dirname "$0")/.."
root=$PWD
build=$root/build/c_test
name=$(basename "${test%.*}")
run=$build/run/$name
mkdir -p "$run"

# `cargo test` alone leaves the library of yesterday in target/debug.
cargo build --quiet --locked --package umbo
target=$(cargo metadata --format-version 1 --no-deps --locked | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

# The arguments that CMake gives to the test.
if [ $# -eq 0 ]; then
  given=$(sed -n "s|^set(UMBO_ARGUMENTS_${name#test_} \"\${UMBO_SOURCE_DIR}/\(.*\)\")$|\1|p" tests/CMakeLists.txt)
  set -- ${given:+"$root/$given"}
fi

compile_and_run() {
  local program=$build/$name.$1 needed
  shift
  "$@" -g -UNDEBUG -Wall -Wextra -Wpedantic -Werror -Iinclude -Itests/c -Itests/cpp "$test" -o "$program" \
    -L"$target/debug" -Wl,-rpath,"$build" -lumbo -lpthread -lm -ldl
  needed=$(ldd "$program" | awk '/libumbo/ { print $1 }')
  ln -sf "$target/debug/libumbo.so" "$build/$needed"
  (cd "$run" && ${UNDER:-} "$program" "${arguments[@]}")
}
arguments=("$@")

case $test in
  *.c)
    compile_and_run c "${CC:-cc}" -std=c99
    compile_and_run cpp "${CXX:-c++}" -std=c++17 -x c++
    ;;
  *) compile_and_run cpp "${CXX:-c++}" -std=c++17 ;;
esac
echo "c_test: $name passed"
