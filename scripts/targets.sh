#!/usr/bin/env bash
# Runs the targets of `make help`. A new one has to be named in `run`, if it runs in a few seconds with SMALL=yes, or in
# `reason`, if it cannot.
#
#   scripts/targets.sh small|whole [TARGET...]
#
# small: each with SMALL=yes, after `make test`; those whose tools are missing, or that have no small form, are named.
# whole: all but clean, setup and flaky. Documents are written into build/targets, where the output of each is, too.
set -euo pipefail
cd "$(dirname "$0")/.."
how=${1:?small or whole}
shift
logs=build/targets/$how
mkdir -p "$logs"
mapfile -t known < <(make --no-print-directory help | sed -n 's/^ *make \([a-z0-9-]*\).*/\1/p')
[ ${#known[@]} -gt 20 ] || { echo "targets: make help names ${#known[@]} targets only" >&2; exit 1; }
# The environment of the make that runs this is not that of those below.
unset MAKEFLAGS MAKELEVEL MFLAGS

# Why a target is not run; nothing, if it is.
reason() {
  case $how.$1 in
    *.test-all) echo "it runs all others" ;;
    small.test) echo "it runs this" ;;
    small.check) echo "it is a part of make test" ;;
    small.mutants) echo "make test runs it as it is" ;;
    small.judges) echo "ctest runs a small case of each judge" ;;
    small.one-sha) echo "ctest runs a part of its settings" ;;
    small.fuzz-parsers) echo "cargo test --test fuzz runs its targets without a fuzzer" ;;
    small.fuzz-oss) echo "it builds fuzzers, which takes minutes; cargo test --test fuzz runs them without one" ;;
    small.bench-check) echo "it compares figures of a quiet machine, in minutes" ;;
    small.test-torch-cuda) echo "it compiles for minutes; ctest runs its programs on CPUs" ;;
    small.test-aarch64 | small.test-riscv64 | small.test-conan | small.asan | small.tsan | small.miri)
      echo "it builds the library anew, which takes minutes" ;;
    whole.test-card) ldconfig -p | grep -q libcuda.so.1 || echo "there is no GPU" ;;
    whole.clean | whole.setup | whole.flaky | whole.bench-check) echo "it is left to a person" ;;
  esac
}

# The tool that a target cannot do without, if that is not there.
missing() {
  case $1 in
    test-windows)
      command -v x86_64-w64-mingw32-gcc >/dev/null || echo MinGW
      command -v wine64 >/dev/null || [ -x /usr/lib/wine/wine64 ] || echo wine
      ;;
    test-musl) command -v musl-gcc >/dev/null || echo musl-gcc ;;
    test-wasm)
      [ -d "$(rustc --print target-libdir --target wasm32-wasip1)" ] || echo "standard library of Rust for WebAssembly"
      build/tools/bin/python -c 'import wasmtime, ziglang' 2>/dev/null || echo "wasmtime or zig"
      ;;
    check-macos)
      [ -d "$(rustc --print target-libdir --target aarch64-apple-darwin)" ] || echo "standard library of Rust for macOS"
      ;;
    docs) command -v doxygen >/dev/null || echo doxygen ;;
    demo-mpi) [ -x build/mpi/mpich/bin/mpiexec ] || echo "MPICH 5" ;;
    test-engines) [ -n "$(find build/engines/venv -name ggml-opt.h -print -quit 2>/dev/null)" ] || echo ggml ;;
    one-sha | bench-peers | bench-check | bench-loops | bench-engines | adoption | flaky | dist | sbom | wheel | simulate)
      command -v python3 >/dev/null || echo python3
      ;;
  esac
}

run() {
  case $how.$1 in
    small.clean)
      # In a folder that it may empty.
      rm -rf "$logs/cleaned"
      mkdir -p "$logs/cleaned/build" "$logs/cleaned/target"
      make -C "$logs/cleaned" -f "$PWD/Makefile" clean && [ -z "$(ls "$logs/cleaned")" ]
      ;;
    small.help | small.setup | small.install | small.demo | small.demo-mpi | small.movielens | small.docs | \
      small.cases | small.test-mpi | small.test-gpu | small.test-card | small.test-loom | small.test-protocol | small.simulate | \
      small.test-engines | small.test-windows | small.test-musl | small.test-wasm | small.test-least | small.check-macos | \
      small.faults | small.matrix | small.storm | small.fuzz | small.flaky | small.test-large | small.bench | \
      small.pictures | small.dist | small.sbom | small.wheel | small.bench-peers | small.bench-loops | small.bench-engines | small.adoption)
      make --no-print-directory "$1" SMALL=yes ${INSTALLED:+INSTALLED=$INSTALLED}
      ;;
    small.*)
      echo "targets: scripts/targets.sh has no small form of $1"
      return 1
      ;;
    whole.*) make --no-print-directory "$1" DOCUMENTS=build/targets/docs ;;
  esac
}

# What git knows of, with what was changed before.
tree() { git status --porcelain 2>/dev/null || true; git diff 2>/dev/null || true; }

# Which targets are run one after another; each of these groups is run beside the others, which leave processors idle. The
# library is installed before, for all of them. `cargo` runs cargo's programs and nothing of build/, and `measured` what
# compares with peers and needs no more of build/ than the installed library.
group() {
  case $how.$1 in
    small.help | small.setup | small.install) echo before ;;
    small.cases | small.test-gpu | small.test-card | small.test-loom | small.test-protocol | small.simulate | small.test-large | \
      small.test-windows | small.test-musl | small.test-wasm | small.test-least | small.check-macos | small.bench | small.dist | small.sbom | small.wheel | \
      small.docs) echo cargo ;;
    small.bench-peers | small.bench-loops | small.bench-engines | small.adoption) echo measured ;;
    *) echo others ;;
  esac
}

# Runs these targets one after another, and keeps in files what came of them.
run_all() {
  local target why tool
  for target; do
    why=$(reason "$target")
    if [ -z "$why" ] && [ $how = small ]; then
      tool=$(missing "$target")
      if [ -n "$tool" ]; then
        why="there is no $tool"
        [ -z "${UMBO_NO_SKIPS:-}" ] || echo "$target: $why" >>"$logs/failed"
      fi
    fi
    if [ -n "$why" ]; then
      echo "make $target: $why" >>"$logs/left_out"
      continue
    fi
    SECONDS=0
    if run "$target" >"$logs/$target.txt" 2>&1; then
      echo "make $target: $SECONDS s"
    else
      tail -n 20 "$logs/$target.txt"
      echo "make $target: FAILED after $SECONDS s, see $logs/$target.txt"
      echo "$target" >>"$logs/failed"
    fi
    echo "$target" >>"$logs/ran"
  done
}

before=$(tree)
: >"$logs/failed"
: >"$logs/left_out"
: >"$logs/ran"
declare -A targets_of
for target in "${@:-${known[@]}}"; do
  targets_of[$(group "$target")]+=" $target"
done
# shellcheck disable=SC2086 # names of targets
run_all ${targets_of[before]:-}
if grep -qx install "$logs/ran" && ! grep -qx install "$logs/failed"; then export INSTALLED=yes; fi
running=()
for name in cargo measured others; do
  # shellcheck disable=SC2086
  run_all ${targets_of[$name]:-} &
  running+=($!)
done
for process in "${running[@]}"; do wait "$process"; done
mapfile -t failed <"$logs/failed"
while read -r line; do
  echo "$line; it was not run"
  [ -z "${UMBO_SKIPS:-}" ] || echo "$line" >>"$UMBO_SKIPS"
done <"$logs/left_out"
if [ "$(tree)" != "$before" ]; then
  git status --short
  failed+=("files of the tree were changed")
fi
echo "targets: $(wc -l <"$logs/ran") ran, ${#failed[@]} failed"
[ ${#failed[@]} = 0 ] || { printf 'targets: %s\n' "${failed[@]}"; exit 1; }
