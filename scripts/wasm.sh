#!/usr/bin/env bash
# Builds the library for WebAssembly with the first preview of WASI, compiles programs in C with zig, and runs them in wasmtime:
# one learns digits without any files, and its weights are compared with those of this machine's library. The same program
# draws what it learns on a page, which Chromium opens: build/wasm/page.html.
#
#   scripts/wasm.sh [small]   small: the library and the digits
set -euo pipefail
cd "$(dirname "$0")/.."
how=${1:-whole}
target=wasm32-wasip1
# What there can be without files of arrays, other processes and GPUs.
features=checkpoints,checks,rules-extra,tensorflow,trace
python=$PWD/build/tools/bin/python
"$python" -c 'import wasmtime, ziglang' 2>/dev/null || {
  echo "wasm: SKIPPED: there is no wasmtime or no zig (scripts/setup.sh wasm)"
  exit 0
}
[ -d "$(rustc --print target-libdir --target $target)" ] || rustup target add $target || {
  echo "wasm: SKIPPED: Rust has no standard library for $target"
  exit 0
}
work=$PWD/build/wasm
mkdir -p "$work"
rust=$(rustc --print sysroot)/lib/rustlib
host=$(rustc -vV | sed -n 's/^host: //p')
linked=$rust/$target/lib/self-contained
# compile NAME SOURCE: zig compiles. It links, too, but takes a minute for what Rust's linker and C library do in a second.
compile() {
  "$python" -m ziglang cc -target wasm32-wasi -std=c99 -D_GNU_SOURCE -O2 -ffp-contract=off -Iinclude "-I$work" \
    -c "$2" -o "$work/$1.o"
  "$rust/$host/bin/rust-lld" -flavor wasm "$linked/crt1-command.o" "$work/$1.o" target/$target/debug/libumbo.a \
    "-L$linked" -lc -z stack-size=8388608 --stack-first --gc-sections --strip-all -o "$work/$1.wasm"
}
# run NAME [ARGUMENT...]: with a folder of its own
run() {
  local name=$1
  shift
  rm -rf "$work/run/$name"
  mkdir -p "$work/run/$name"
  timeout 600 "$python" scripts/wasi.py --folder "$work/run/$name" "$work/$name.wasm" "$@" >"$work/run/$name.txt" 2>&1 || {
    cat "$work/run/$name.txt"
    echo "$name failed"
    exit 1
  }
  echo "$name: passed"
}

echo "==== The library for WebAssembly"
cargo rustc --quiet --locked --lib --package umbo --no-default-features --features $features \
  --crate-type staticlib --target $target

echo "==== Digits without files"
tests/wasm/pictures.py >"$work/pictures.h"
compile digits tests/wasm/digits.c
timeout 600 "$python" scripts/wasi.py "$work/digits.wasm" | tee "$work/digits.txt"
grep -q '^two replicas: UNIMPLEMENTED: .* this system has none; use one replica' "$work/digits.txt" || {
  echo "two replicas are not refused as they should be"
  exit 1
}
expected=$(<tests/wasm/expected.txt)
[ "$(tail -n 1 "$work/digits.txt")" = "$expected" ] || {
  echo "the weights are others than $expected"
  exit 1
}
ls -l "$work/digits.wasm"

echo "==== Digits on a page"
tests/wasm/page.py "$work/digits.wasm" "$work/page.html"
browser=$(command -v chromium-headless-shell || command -v chromium || true)
if [ -n "$browser" ]; then
  timeout 600 tests/wasm/page.py --try "$browser" "$work/page.html" "$work/page" >"$work/page.txt"
  grep '^others' "$work/page.txt"
  grep -qx "$expected" "$work/page.txt" || {
    echo "the weights are others than $expected"
    exit 1
  }
else
  echo "wasm: SKIPPED: the page; there is no Chromium (apt-get install chromium)"
fi
if [ "$how" = small ]; then exit 0; fi

echo "==== The same on this machine"
cargo build --quiet --locked --lib --package umbo
cc -std=c99 -O2 -ffp-contract=off -Iinclude "-I$work" tests/wasm/digits.c -o "$work/digits" target/debug/libumbo.a \
  -lm -lpthread -ldl
[ "$("$work/digits" | tail -n 1)" = "$expected" ] || { echo "other weights"; exit 1; }
echo "the same on both"

echo "==== The lints"
cargo clippy --quiet --locked --package umbo --no-default-features --features $features --target $target -- -D warnings

echo "==== An example, with a folder for its file"
compile 12_trainer c_examples/12_trainer.c
run 12_trainer
