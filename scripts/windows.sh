#!/usr/bin/env bash
# Builds the library for Windows with MinGW and runs tests of it under wine on this machine: portable ones in C,
# examples of a CMake project that finds the installed library, and Rust's unit tests of umbo-system.
#
#   scripts/windows.sh [small]           small: the library, some tests in C and an example, without CMake
#   scripts/windows.sh one-sha EXPECTED  the training of tests/one_sha alone, with each instruction set (make one-sha)
set -euo pipefail
cd "$(dirname "$0")/.."
how=${1:-whole}
target=x86_64-pc-windows-gnu
compiler=x86_64-w64-mingw32-gcc
wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2>/dev/null || command -v wine || true)
for tool in "$compiler" "${wine:-wine64}"; do
  command -v "$tool" >/dev/null || {
    echo "windows: SKIPPED: there is no $tool (Debian: gcc-mingw-w64-x86-64, wine64)"
    exit 0
  }
done
[ -d "$(rustc --print target-libdir --target $target)" ] || rustup target add $target || {
  echo "windows: SKIPPED: Rust has no standard library for $target"
  exit 0
}
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$compiler CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$wine
work=$PWD/build/windows
mkdir -p "$work/bin"
# A registry and drives of its own, in which it needs no display. They are not in build/: one of the drives is the whole file
# system, into which cargo would look for files of the package.
WINEPREFIX=$(mktemp -d)
trap '"$wine" wineboot --kill >/dev/null 2>&1 || true; sleep 1; rm -rf "$WINEPREFIX" || { sleep 5; rm -rf "$WINEPREFIX"; } || true' EXIT
export WINEPREFIX WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=
export WINEPATH="Z:${work//\//\\}\\bin"

section() { echo "==== $1"; }
failed=()
# run NAME PROGRAM [ARGUMENT...]: in a folder of its own, with a console. What it prints is shown if it fails.
run() {
  local name=$1
  shift
  rm -rf "$work/run/$name"
  mkdir -p "$work/run/$name"
  local command
  command=$(printf '%q ' "$wine" "$@")
  if (cd "$work/run/$name" && timeout 600 script -qec "$command" output.txt >/dev/null </dev/null); then
    echo "$name: passed"
  else
    echo "$name: FAILED with exit status $?"
    tail -n 20 "$work/run/$name/output.txt"
    failed+=("$name")
  fi
}

section "The library for Windows"
cargo build --locked --lib --package umbo --target $target
cp "target/$target/debug/umbo.dll" "$work/bin/"
"$wine" wineboot --init >/dev/null 2>&1
# Rust's standard library has its random numbers from there. Wine before version 9 has no such library.
$compiler -shared -O2 tests/windows/random_numbers.c -o "$work/bin/bcryptprimitives.dll" -ladvapi32

compile() {
  $compiler -std=gnu11 -O2 -ffp-contract=off -Wall -include tests/windows/posix.h -Iinclude -Itests/c "$2" \
    -o "$work/bin/$1.exe" "target/$target/debug/libumbo.dll.a" -lm -static -lpthread
}
if [ "$how" = one-sha ]; then
  section "One training"
  compile one_sha tests/one_sha/one_sha.c
  mkdir -p build/one_sha
  cd build/one_sha
  for set in baseline avx2 avx512; do
    code=0
    UMBO_INSTRUCTION_SET=$set timeout 900 "$wine" "$work/bin/one_sha.exe" windows "$2" threads </dev/null || code=$?
    [ $code = 0 ] || [ $code = 77 ] || exit 1
    [ $code = 0 ] || echo "windows $set: SKIPPED: the processor lacks it"
  done
  exit 0
fi

section "Tests in C under wine"
# These need forks, dlopen, limits of stacks, sets of processors as Linux has them, or threads whose keys outlive what
# libraries keep for them.
left_out=" check no_threads processors shutdown stacks thread_exit "
small=" files handles checkpoint checkpoint_manager trainer_epochs trainer_resume "
for source in tests/windows/test_*.c tests/c/test_*.c; do
  name=$(basename "$source" .c)
  [[ $left_out != *" ${name#test_} "* ]] || continue
  [ "$how" != small ] || [[ $small == *" ${name#test_} "* ]] || continue
  compile "$name" "$source" || { failed+=("$name"); continue; }
  arguments=()
  [ "$name" != test_nequals1 ] || arguments=("Z:$PWD/c_examples/data/digits")
  run "$name" "$work/bin/$name.exe" "${arguments[@]}"
done

if [ "$how" = small ]; then
  section "An example under wine"
  compile 12_trainer c_examples/12_trainer.c
  run 12_trainer "$work/bin/12_trainer.exe"
else
  section "Rust's unit tests under wine"
  cargo test --locked --target $target --lib --package umbo-system || failed+=(umbo-system)

  section "Examples of a project that finds the installed library"
  cmake -S . -B "$work/cmake" -DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake -DCMAKE_BUILD_TYPE=Debug \
    -DUMBO_CARGO_TARGET_DIR="$PWD/target" -DUMBO_BUILD_EXAMPLES=OFF >/dev/null
  cmake --build "$work/cmake" >/dev/null
  rm -rf "$work/prefix"
  cmake --install "$work/cmake" --prefix "$work/prefix" >/dev/null
  cp "$work/bin/bcryptprimitives.dll" "$work/prefix/bin/"
  export WINEPATH="Z:${work//\//\\}\\prefix\\bin"
  run umbo_version "$work/prefix/bin/umbo.exe" --version
  run umbo_devices "$work/prefix/bin/umbo.exe" devices
  for shared in ON OFF; do
    cmake -S c_examples -B "$work/c_examples_$shared" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/mingw.cmake" \
      -DCMAKE_PREFIX_PATH="$work/prefix" -DBUILD_SHARED_LIBS=$shared -DUMBO_EXAMPLES_NATIVE=OFF >/dev/null
    cmake --build "$work/c_examples_$shared" --target 01_hello 07_checkpoint 12_trainer >/dev/null
    for name in 01_hello 07_checkpoint 12_trainer; do
      run "${name}_$shared" "$work/c_examples_$shared/$name.exe"
    done
  done
fi
[ ${#failed[@]} -eq 0 ] || { echo "windows: failed: ${failed[*]}"; exit 1; }
