#!/usr/bin/env bash
# Builds the library for another processor with Debian's cross compiler, and runs tests of it under qemu on this machine: the
# examples, the bits of a training beside those of this machine's library, and Rust's tests.
#
#   scripts/cross.sh aarch64|riscv64 [examples]        examples: those and the bits alone, without Rust's tests
#   scripts/cross.sh aarch64|riscv64 one-sha EXPECTED  the training of tests/one_sha alone (make one-sha)
set -euo pipefail
cd "$(dirname "$0")/.."
processor=${1:-}
case $processor in
  aarch64) target=aarch64-unknown-linux-gnu package=arm64 ;;
  riscv64) target=riscv64gc-unknown-linux-gnu package=riscv64 ;;
  *) echo "cross: '$processor'; known are aarch64 and riscv64" >&2 && exit 2 ;;
esac
qemu=$(command -v qemu-$processor-static || command -v qemu-$processor || true)
compiler=$processor-linux-gnu-gcc
for tool in "$compiler" "${qemu:-qemu-$processor-static}"; do
  command -v "$tool" >/dev/null || {
    echo "$processor: SKIPPED: there is no $tool (Debian: gcc-$processor-linux-gnu, qemu-user-static)"
    exit 0
  }
done
[ -e "$($compiler -print-file-name=libc.so.6)" ] || {
  echo "$processor: SKIPPED: $compiler has no C library (Debian: libc6-dev-$package-cross)"
  exit 0
}
[ -d "$(rustc --print target-libdir --target $target)" ] || rustup target add $target || {
  echo "$processor: SKIPPED: Rust has no standard library for $target"
  exit 0
}
root=$(dirname "$(dirname "$(realpath "$($compiler -print-file-name=libc.so.6)")")")
variable=$(tr a-z- A-Z_ <<<"CARGO_TARGET_$target")
export "${variable}_LINKER=$compiler" "${variable}_RUNNER=$qemu -L $root"
export CARGO_PROFILE_DEV_DEBUG=false

echo "==== The library, for $processor"
cargo build --locked --lib --package umbo --target $target

work=$PWD/build/$processor
rm -rf "$work"
mkdir -p "$work/there" "$work/here"
# Programs find the library by its SONAME.
ln -s "$PWD/target/$target/debug/libumbo.so" "$work/there/libumbo.so.0.1"
flags=(-std=c99 -O2 -ffp-contract=off -Iinclude)
if [ "${2:-}" = one-sha ]; then
  echo "==== One training"
  $compiler "${flags[@]}" -D_GNU_SOURCE tests/one_sha/one_sha.c tests/ranks/ranks.c tests/ranks/wire.c \
    -o "$work/there/one_sha" "$work/there/libumbo.so.0.1" -lm -lpthread
  mkdir -p build/one_sha
  cd build/one_sha
  UMBO_INSTRUCTION_SET=baseline "$qemu" -L "$root" -E "LD_LIBRARY_PATH=$work/there" "$work/there/one_sha" $processor "$3" threads
  exit 0
fi
echo "==== The library, for this machine"
cargo build --locked --lib --package umbo
ln -s "$PWD/target/debug/libumbo.so" "$work/here/libumbo.so.0.1"

echo "==== The examples under qemu"
for source in c_examples/*.c; do
  name=$(basename "$source" .c)
  $compiler "${flags[@]}" "$source" -o "$work/there/$name" "$work/there/libumbo.so.0.1" -lm
  (cd "$work/there" && "$qemu" -L "$root" -E "LD_LIBRARY_PATH=$work/there" "./$name" >"$name.txt") || {
    cat "$work/there/$name.txt"
    echo "$name failed"
    exit 1
  }
  echo "$name"
done

echo "==== The bits of a training"
# Shuffles, draws initial values, trains with Adam and saves all of it.
cc "${flags[@]}" c_examples/07_checkpoint.c -o "$work/here/07_checkpoint" "$work/here/libumbo.so.0.1" -lm
(cd "$work/here" && LD_LIBRARY_PATH=$work/here ./07_checkpoint >/dev/null)
cmp "$work/here/07_in_one_go.safetensors" "$work/there/07_in_one_go.safetensors"
echo "the same on both"

[ "${2:-}" != examples ] || exit 0
# What of the tests runs in some minutes when it is emulated; all others run on this machine as it is, since they look at the
# sources (documents, header), start themselves again, for which the system would have to know of qemu (alone, strict),
# interpret kernels for GPUs (cuda, gpu), or train for hours in so many combinations.
tests=(--lib)
for name in ffi ffi_gradients strategy; do
  tests+=(--test $name)
done
echo "==== Rust's tests under qemu"
# Named, they run on CPUs alone; else the program starts itself again for GPUs.
UMBO_CASES=$(printf '%s:' "$PWD"/tests/cases/data/*.json)
export UMBO_CASES=${UMBO_CASES%:}
# So do tests that compare the sets of instructions of a processor.
again=$(sed -n 's/.*same_in_every_set("\([a-z0-9_:]*\)".*/\1/p' tests/*.rs tests/*/*.rs)
# Of these two programs a part looks at the sources, and a part measures time.
skips=(--skip function_names:: --skip shared_devices::)
# And those that need a process of their own.
again+=" run::the_deepest_nest_goes_through_run_reduce_and_gather"
for name in $again; do
  echo "$processor: $name is left out: it starts itself again"
  skips+=(--skip "$name")
done
# Threads wait for each other more often than on processors of their own. The cases are a program that takes no names.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-2}
cargo test --locked --package umbo-tests --target $target --test cases
cargo test --locked $(printf -- '--package %s ' crates/* | sed 's#crates/##g') --package umbo --package umbo-tests \
  --target $target "${tests[@]}" -- "${skips[@]}"
