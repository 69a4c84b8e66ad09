#!/usr/bin/env bash
# Installs what is missing to build, test or demonstrate Umbo.
#
#   scripts/setup.sh build|test|docs|engines|aarch64|conan|sanitizers|demo|movielens|mpi|bench|bench-engines
#
# Asks the system first and touches the network only for what is not there. Uses
# apt-get as root or through sudo. Required tools that cannot be had end the script
# with an error; optional ones (OpenBLAS, the data set, valgrind, Open MPI) with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-build}
# CMake and ninja from pip land here; the Makefile puts them on PATH.
tools=$PWD/build/tools
export PATH=$tools/bin:$PATH:$HOME/.cargo/bin

say() { echo "setup: $*"; }
have() { command -v "$1" >/dev/null 2>&1; }
have_openblas() {
  [ -n "$(find /usr/include /usr/local/include -name cblas.h -print -quit 2>/dev/null)" ]
}
have_data_set() { [ -e /usr/share/datasets/fashion-mnist ]; }
movielens=$PWD/build/movielens
have_movielens() { [ -e "$movielens/ml-100k.inter" ]; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo "$@"
  else
    return 1
  fi
}

updated=no
# apt_install <package>: quiet, without questions, refreshing the package list at most once.
apt_install() {
  have apt-get || return 1
  say "installing $1 with apt-get"
  if as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends "$1" >/dev/null 2>&1; then
    return 0
  fi
  if [ $updated = no ]; then
    updated=yes
    as_root apt-get update -qq >/dev/null 2>&1 || true
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends "$1" >/dev/null 2>&1 && return 0
  fi
  say "apt-get could not install $1"
  return 1
}

# pip_install <package>: into build/tools, so that nothing outside this tree changes.
pip_install() {
  have python3 || return 1
  say "installing $1 with pip into build/tools"
  if [ ! -x "$tools/bin/python" ]; then
    python3 -m venv "$tools" >/dev/null 2>&1 ||
      python3 -m venv --without-pip "$tools" >/dev/null 2>&1 || return 1
  fi
  "$tools/bin/python" -m pip install --quiet "$1" >/dev/null 2>&1 ||
    python3 -m pip --python "$tools/bin/python" install --quiet "$1" >/dev/null 2>&1 || {
    say "pip could not install $1"
    return 1
  }
}

# The ratings of MovieLens-100k, out of a Python package that has them as an example.
fetch_movielens() {
  have python3 || return 1
  say "fetching MovieLens-100k from the Python package recbole into build/movielens"
  mkdir -p "$movielens"
  local file=recbole/dataset_example/ml-100k/ml-100k.inter
  python3 -m pip download --quiet --no-deps --dest "$movielens" \
    recbole==1.2.1 >/dev/null 2>&1 &&
    python3 - "$movielens" "$file" <<'END'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
wheel = next(folder.glob("recbole-*.whl"))
(folder / "ml-100k.inter").write_bytes(zipfile.ZipFile(wheel).read(sys.argv[2]))
wheel.unlink()
END
}

# An MPI with the standard ABI, out of a Python package that has nothing of Python in it.
mpich=$PWD/build/mpi/mpich
have_mpich() { [ -e "$mpich/lib/libmpi_abi.so.1" ]; }
fetch_mpich() {
  have python3 || return 1
  say "installing MPICH 5 with pip into build/mpi"
  python3 -m pip install --quiet --ignore-installed --prefix "$mpich" 'mpich>=5' >/dev/null 2>&1 &&
    have_mpich
}

required() {
  say "$1 is required: $2" >&2
  exit 1
}

# at_least <version> <line>: whether the first version in the line is this one or newer.
at_least() {
  local found
  found=$(sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p' <<<"$2")
  [ -n "$found" ] && [ "$(printf '%s\n' "$1" "$found" | sort -V | head -n 1)" = "$1" ]
}
# What CMakeLists.txt and Cargo.toml ask for.
oldest_cmake=3.19
oldest_rust=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml)
cmake_is_new_enough() { have cmake && at_least $oldest_cmake "$(cmake --version)"; }
rust_is_new_enough() { have cargo && at_least "$oldest_rust" "$(cargo --version 2>/dev/null)"; }

# Rust through rustup, the distribution's or else the one that the Rust project gives out. It lies in ~/.cargo and
# ~/.rustup; nobody's PATH is changed, since the Makefile and CMake look there.
rustup_address=https://sh.rustup.rs
install_rust() {
  if have rustup || apt_install rustup; then
    say "installing Rust with rustup into ~/.rustup"
    rustup toolchain install stable --profile minimal >/dev/null 2>&1 && rustup default stable >/dev/null 2>&1
    return
  fi
  have curl || have wget || { apt_install ca-certificates && apt_install curl; } || return 1
  say "installing Rust with the installer from $rustup_address into ~/.cargo and ~/.rustup"
  local work
  work=$(mktemp -d)
  if { if have curl; then curl -sSf --proto '=https' --connect-timeout 30 $rustup_address; else
    wget -nv -O- $rustup_address; fi; } >"$work/installer" 2>"$work/said" &&
    sh "$work/installer" -y --quiet --profile minimal --no-modify-path >"$work/said" 2>&1; then
    rm -rf "$work"
  else
    say "the installer of Rust failed: $(tail -n 1 "$work/said")"
    rm -rf "$work"
    return 1
  fi
}

have cargo || install_rust || true
if ! rust_is_new_enough; then
  if have cargo && cargo --version >/dev/null 2>&1; then
    required "Rust $oldest_rust" "$(command -v cargo) says '$(cargo --version)'. 'rustup update stable' \
(https://rustup.rs) brings a newer one, which has to be the first on PATH"
  fi
  required "Rust $oldest_rust" "install it from https://rustup.rs"
fi
have cc || have gcc || apt_install gcc || required "a C compiler" "install gcc or clang"
[ -e /usr/include/stdio.h ] || apt_install libc6-dev || true
have make || apt_install make || true
if [ "$purpose" = test ]; then
  have c++ || have g++ || apt_install g++ || required "a C++ compiler" "install g++ or clang++"
fi
cmake_is_new_enough || { apt_install cmake && cmake_is_new_enough; } ||
  { pip_install cmake && cmake_is_new_enough; } ||
  required "CMake $oldest_cmake" "install it from your distribution or with pip install cmake"
have ninja || apt_install ninja-build || pip_install ninja ||
  say "no ninja; building with make instead"

if [ "$purpose" = aarch64 ]; then
  have aarch64-linux-gnu-gcc || { apt_install gcc-aarch64-linux-gnu && apt_install libc6-dev-arm64-cross; } ||
    say "no cross compiler for AArch64; its tests are skipped"
  have qemu-aarch64-static || have qemu-aarch64 || apt_install qemu-user-static ||
    say "no qemu for AArch64; its tests are skipped"
fi
if [ "$purpose" = conan ]; then
  have conan || pip_install conan || required "Conan 2" "install it with pip install conan"
fi
if [ "$purpose" = docs ]; then
  have doxygen || apt_install doxygen || required doxygen "it makes the pages"
fi
if [ "$purpose" = test ]; then
  for component in rustfmt clippy; do
    cargo ${component/rust/} --version >/dev/null 2>&1 || rustup component add $component >/dev/null 2>&1 ||
      required $component "install it with 'rustup component add $component'"
  done
  have doxygen || apt_install doxygen || say "no doxygen; the test of the pages is skipped"
  have valgrind || apt_install valgrind || say "no valgrind; its tests are skipped"
  have pkg-config || apt_install pkg-config || say "no pkg-config; its test is skipped"
  have chromium-headless-shell || have chromium || apt_install chromium-headless-shell ||
    say "no Chromium; the test of a trace's page is skipped"
fi
if [ "$purpose" = engines ] || [ "$purpose" = bench-engines ]; then
  have c++ || have g++ || apt_install g++ || required "a C++ compiler" "install g++ or clang++"
  [ -e /usr/include/torch/csrc/api/include/torch/torch.h ] || apt_install libtorch-dev ||
    say "no LibTorch; its test is skipped"
  [ -e /usr/include/dlib/dnn.h ] || apt_install libdlib-dev || say "no dlib; its test is skipped"
  # ggml's headers and libraries are a Python package.
  engines=$PWD/build/engines/venv
  if [ -z "$(find "$engines" -name ggml-opt.h -print -quit 2>/dev/null)" ]; then
    say "installing libggml-python with pip into build/engines"
    python3 -c "import ensurepip" 2>/dev/null || apt_install python3-venv || true
    { python3 -m venv "$engines" && "$engines/bin/python" -m pip install --quiet libggml-python; } \
      >/dev/null 2>&1 || say "pip could not install libggml-python; the test of ggml is skipped"
  fi
fi
if [ "$purpose" = bench-engines ]; then
  /usr/bin/python3 -c "import torch" 2>/dev/null || apt_install python3-torch ||
    say "no torch of the system's Python; DistributedDataParallel is not measured"
fi
if [ "$purpose" = sanitizers ]; then
  # Sanitizers and Miri are parts of nightly Rust; scripts that find none of it skip, and say so.
  if have rustup; then
    rustup toolchain list | grep -q '^nightly' ||
      rustup toolchain install nightly --profile minimal >/dev/null 2>&1 ||
      say "rustup could not install a nightly Rust"
    rustup component add rust-src miri --toolchain nightly >/dev/null 2>&1 ||
      say "rustup could not add rust-src and miri to the nightly Rust"
  else
    say "no rustup; sanitizers and Miri are skipped"
  fi
fi
if [ "$purpose" = bench ]; then
  python3 -c "import ensurepip" 2>/dev/null || apt_install python3-venv ||
    say "no Python with venv; the peers in Python cannot be measured"
  have c++ || have g++ || apt_install g++ || say "no C++ compiler; DeepSpeed cannot be measured"
  { have mpicc && have mpirun; } || { apt_install openmpi-bin && apt_install libopenmpi-dev; } ||
    say "no Open MPI; it cannot be measured"
fi
if [ "$purpose" = demo ] || [ "$purpose" = bench ]; then
  have_openblas || apt_install libopenblas-dev ||
    say "no OpenBLAS; the examples use their own, slower matrix product"
fi
if [ "$purpose" = demo ]; then
  have_data_set || apt_install dataset-fashion-mnist ||
    say "no Fashion-MNIST; the demonstration uses the small data set in c_examples/data"
fi
if [ "$purpose" = test ] || [ "$purpose" = mpi ]; then
  have_mpich || fetch_mpich || say "no MPICH 5; tests of MPI found at run time are skipped"
  { have mpicc && have mpirun; } || { apt_install openmpi-bin && apt_install libopenmpi-dev; } ||
    say "no Open MPI; tests of umbo_mpi.c over it are skipped"
fi
if [ "$purpose" = movielens ]; then
  have_movielens || fetch_movielens ||
    say "no MovieLens-100k; the program generates ratings instead"
fi
