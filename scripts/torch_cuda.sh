#!/usr/bin/env bash
# The LibTorch adapter with a LibTorch that has CUDA: compiles and links its tests, its example and the program for a card, and
# runs those whose libraries are there.
#
#   scripts/torch_cuda.sh BUILD           in whose build tree the tests are configured
#   scripts/torch_cuda.sh BUILD --whole   measures on this machine's GPU: losses, samples/s, bytes over the bus
#
# Ends with 77, and says what is missing, where there is no LibTorch with CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$(realpath "$1")
how=${2:-}
cmake "$build" >/dev/null # what was installed since
if ! grep -q '^UMBO_TORCH_HAS_CUDA:INTERNAL=YES' "$build/CMakeCache.txt"; then
  echo "torch-cuda: there is no LibTorch with CUDA, or not its headers. 'scripts/setup.sh torch-cuda' installs them into" \
    "build/engines, 2 GB; -DUMBO_TORCH_PACKAGE=FOLDER names another package" >&2
  exit 77
fi
MAKEFLAGS='' cmake --build "$build" --target umbo_torch_cuda

programs=$build/tests/engines
mkdir -p "$programs/run/torch_cuda"
cd "$programs/run/torch_cuda"
run() {
  local missing
  missing=$(ldd "$programs/$1" | awk '/not found/ { print $1 }' | sort -u | tr '\n' ' ')
  if [[ -n $missing ]]; then
    echo "torch-cuda: $1 is linked, and not run: there is no ${missing% }"
    return
  fi
  echo "==== $*"
  "$programs/$1" "${@:2}"
}
if [[ $how != --whole ]]; then
  run umbo_torch_cuda_test
  run umbo_torch_cuda_adapter
  run umbo_torch_cuda_example "$root/c_examples/data/digits" 2
fi
run umbo_torch_cuda_card ${how:+"$how"}
