#!/usr/bin/env bash
# Runs the tests of GPU code on this machine's card, which stands for as many as a test wants (tests/one_card).
#
#   scripts/card.sh BUILD    after `make build-c`, in whose build tree BUILD the C programs are
#
# UMBO_CARD_DRIVER is the driver, if it is not the one that is installed. Left out is what lets calls of the driver fail,
# counts them, or needs cards that differ: only the tests' own driver does that. SMALL=yes: one test over that driver, which
# shows that what lies between works.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
installed() { ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.* => //p' | head -n 1; }
driver=${UMBO_CARD_DRIVER:-$(installed)}
[[ -z ${SMALL:-} ]] || driver=$(find target -path '*/deps/libfake_cuda.so' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
[[ -n $driver ]] || { echo "card: no CUDA driver was found" >&2; exit 1; }

folder=$PWD/build/one_card
mkdir -p "$folder/work"
${CC:-cc} -std=c11 -O1 -Wall -Wextra -Wpedantic -Werror -D_DEFAULT_SOURCE -shared -fPIC -Wl,-soname,libcuda.so.1 \
  -o "$folder/libcuda.so.1" tests/one_card/one_card.c -ldl -lpthread
ln -sf libcuda.so.1 "$folder/libcuda.so"
export UMBO_TEST_DRIVER=$folder ONE_CARD_DRIVER=$(realpath "$driver")

if [[ -n ${SMALL:-} ]]; then
  test=(cargo test --quiet --release --locked --workspace --test cuda as_ptx::fills)
  if ONE_CARD_DRIVER=none "${test[@]}" >"$folder/none" 2>&1 || ! grep -q "one_card: ONE_CARD_DRIVER" "$folder/none"; then
    echo "card: the tests do not go through tests/one_card" >&2
    exit 1
  fi
  exec "${test[@]}"
fi
only_the_tests_own=(faults:: fail kept:: bus::weights_go_up external::streams_and_pools external::what_a_pool
  external::questions let_go::cards memory::memory_has_limits memory::a_pool_keeps trace::without_a_trace trace::a_trace
  lost nccl::)
cargo test --release --locked --workspace --test cuda as_ptx
cargo test --release --locked --workspace --test gpu -- "${only_the_tests_own[@]/#/--skip=}"
cargo test --release --locked --workspace --test together -- "${only_the_tests_own[@]/#/--skip=}" on_gpus
cargo test --release --locked --workspace --test cases

cd "$folder/work"
run() { echo "==== $*"; FAKE_CUDA_DEVICES=2 LD_LIBRARY_PATH=$folder:$build/lib "$build/tests/$@"; }
run gpu/umbo_c_gpu
run gpu/umbo_c_gpu_rule
run gpu/umbo_c_gpu_ranks
run c/umbo_c_storm --seconds 4 --gpus 0
run c/umbo_c_storm --seconds 4 --gpus 7
run c/umbo_c_sequences --seconds 4
run c/umbo_c_matrix --gpus 0 --contexts 8
# A training in C with cuBLAS, on the card's own driver: the losses agree, and the rates are the card's. Where there is no
# cuBLAS the program says so and trains on CPU:0.
if [[ -x $build/c_examples/13_gpu_fashion_mnist ]]; then
  for options in CPU:0 "" --tf32; do
    echo "==== 13_gpu_fashion_mnist $options"
    # shellcheck disable=SC2086 # none or one
    "$build/c_examples/13_gpu_fashion_mnist" --epochs 5 $options
  done
fi
"$build/bin/umbo" doctor --gpu

# LibTorch needs the whole of a driver, and so the machine's own.
cd "$OLDPWD"
unset UMBO_TEST_DRIVER ONE_CARD_DRIVER
scripts/torch_cuda.sh "$build" --whole || [[ $? = 77 ]]
