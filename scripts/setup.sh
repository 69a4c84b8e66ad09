#!/usr/bin/env bash
# Installs what is missing to build, test or demonstrate Umbo.
#
#   scripts/setup.sh build|test|everything|docs|engines|torch-cuda|aarch64|riscv64|windows|musl|wasm|macos|conan
#   scripts/setup.sh sanitizers|fuzz|demo|movielens|mpi|bench|bench-engines|judges|bazel
#
# Asks the system first and touches the network only for what is not there. Uses
# apt-get as root or through sudo, and waits while another program has the lock of packages. Required tools that
# cannot be had end the script with an error; optional ones (OpenBLAS, the data set, valgrind, Open MPI) with a message.
# `everything` is all that `make test` can use: some 3 GB with PyTorch, LibTorch, JAX and clang. For build, which plain `make`
# asks for, it says what it would install, and installs with UMBO_SETUP=yes; for the others it installs unless UMBO_SETUP=no.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-build}
# CMake and ninja from pip land here; the Makefile puts them on PATH.
tools=$PWD/build/tools
export PATH=$tools/bin:$PATH:$HOME/.cargo/bin

say() { echo "setup: $*"; }
# Whether the purpose is one of these.
is() { [[ " $* " = *" $purpose "* ]]; }
have() { command -v "$1" >/dev/null 2>&1; }
have_openblas() {
  [ -n "$(find /usr/include /usr/local/include -name cblas.h -print -quit 2>/dev/null)" ]
}
have_data_set() { [ -e /usr/share/datasets/fashion-mnist ]; }
movielens=$PWD/build/movielens
have_movielens() { [ -e "$movielens/ml-100k.inter" ]; }

case $purpose in
  build) setup=${UMBO_SETUP:-ask} ;;
  *) setup=${UMBO_SETUP:-yes} ;;
esac
# may_install [WHAT]: whether the user wants it. One who has not been asked yet is told what it would be.
asks=no
may_install() {
  if [ "$setup" = ask ] && [ -n "${1:-}" ]; then
    asks=yes
    say "would install $1"
  fi
  [ "$setup" = yes ]
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo "$@"
  else
    return 1
  fi
}

# apt_get <argument>...: quiet and without questions. Another program has the lock of packages, of lists or of downloads for
# a while: it is waited for, ten minutes at most.
apt_get() {
  local said attempt
  for attempt in {1..300}; do
    if said=$(as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" 2>&1 >/dev/null); then return 0; fi
    [[ $said = *"Could not get lock"* || $said = *"Unable to lock"* ]] || return 1
    [ "$attempt" != 1 ] || say "waiting for another program that installs packages"
    sleep 2
  done
  return 1
}

updated=no
# apt_install <package>: refreshes the package list at most once.
apt_install() {
  have apt-get && may_install "$1 with apt-get, as root or with sudo" || return 1
  say "installing $1 with apt-get"
  apt_get install -y --no-install-recommends "$1" && return 0
  if [ $updated = no ]; then
    updated=yes
    apt_get update || true
    apt_get install -y --no-install-recommends "$1" && return 0
  fi
  say "apt-get could not install $1"
  return 1
}

# pip_install <package>: into build/tools, so that nothing outside this tree changes.
pip_install() {
  # One who is asked was told of apt-get's.
  { have python3 && ! { [ "$setup" = ask ] && have apt-get; } && may_install "$1 with pip into build/tools"; } || return 1
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
  have python3 && may_install "MovieLens-100k, of the Python package recbole, into build/movielens" || return 1
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
  may_install && have python3 || return 1
  say "installing MPICH 5 with pip into build/mpi"
  python3 -m pip install --quiet --ignore-installed --prefix "$mpich" 'mpich>=5' >/dev/null 2>&1 &&
    have_mpich
}

# What the tests in Python need, beside the system's packages: PyTorch is the system's.
python=$PWD/build/python
have_python_packages() {
  "$python/bin/python" -c "import cffi, jax, numpy, safetensors" >/dev/null 2>&1
}
install_python_packages() {
  may_install || return 1
  say "installing numpy, cffi, safetensors and jax with pip into build/python"
  local system=python3
  [ ! -x /usr/bin/python3 ] || system=/usr/bin/python3
  "$system" -c "import ensurepip" 2>/dev/null || apt_install python3-venv || true
  { "$system" -m venv --system-site-packages "$python" &&
    "$python/bin/python" -m pip install --quiet 'numpy>=2.1' cffi safetensors jax; } >/dev/null 2>&1 &&
    have_python_packages
}

# Headers and libraries out of Python packages: ggml and a newer LibTorch with the two libraries of CUDA that it wants.
# Nothing of PyTorch runs in Python there: its package has more dependencies, which take gigabytes.
engines=$PWD/build/engines/venv
have_in_engines() { [ -n "$(find "$engines" -name "$1" -print -quit 2>/dev/null)" ]; }
install_into_engines() {
  may_install || return 1
  say "installing ${*: -1} with pip into build/engines"
  python3 -c "import ensurepip" 2>/dev/null || apt_install python3-venv || true
  { [ -x "$engines/bin/python" ] || python3 -m venv "$engines"; } >/dev/null 2>&1 &&
    "$engines/bin/python" -m pip install --quiet "$@" >/dev/null 2>&1
}

lacks=no
# Who is asked is told of all that is missing; otherwise the first thing ends the script.
required() {
  say "$1 is required: $2" >&2
  lacks=yes
  [ "$setup" = ask ] || exit 1
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
  may_install "Rust with rustup into ~/.cargo and ~/.rustup" || return 1
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
  else
    required "Rust $oldest_rust" "install it from https://rustup.rs"
  fi
fi
have cc || have gcc || apt_install gcc || required "a C compiler" "install gcc or clang"
[ -e /usr/include/stdio.h ] || apt_install libc6-dev || true
have make || apt_install make || true
if is test everything; then
  have c++ || have g++ || apt_install g++ || required "a C++ compiler" "install g++ or clang++"
fi
cmake_is_new_enough || { apt_install cmake && cmake_is_new_enough; } ||
  { pip_install cmake && cmake_is_new_enough; } ||
  required "CMake $oldest_cmake" "install it from your distribution or with pip install cmake"
have ninja || apt_install ninja-build || pip_install ninja ||
  say "no ninja; building with make instead"

for processor in aarch64 riscv64; do
  is $processor || continue
  # The compiler comes without its C library.
  compiler=$processor-linux-gnu-gcc
  have $compiler || apt_install gcc-$processor-linux-gnu || true
  if ! have $compiler; then
    say "no cross compiler for $processor; its tests are skipped"
  elif [ ! -e "$($compiler -print-file-name=libc.so.6)" ]; then
    apt_install libc6-dev-${processor/aarch64/arm64}-cross || say "no C library for $processor; its tests are skipped"
  fi
  have qemu-$processor-static || have qemu-$processor || apt_install qemu-user-static ||
    say "no qemu for $processor; its tests are skipped"
done
if is windows everything; then
  have x86_64-w64-mingw32-gcc || apt_install gcc-mingw-w64-x86-64 || say "no MinGW; the tests for Windows are skipped"
  have wine64 || [ -x /usr/lib/wine/wine64 ] || apt_install wine64 || say "no wine; the tests for Windows are skipped"
fi
if is musl everything; then
  have musl-gcc || apt_install musl-tools || say "no musl; its tests are skipped"
fi
# With Java, some 300 MB: no part of everything.
if is bazel; then
  have bazel || apt_install bazel-bootstrap || say "no Bazel; its test is skipped"
fi
if is wasm everything; then
  [ -d "$(rustc --print target-libdir --target wasm32-wasip1)" ] ||
    { may_install && have rustup && rustup target add wasm32-wasip1 >/dev/null 2>&1; } ||
    say "Rust has no standard library for wasm32-wasip1; its tests are skipped"
  for module in wasmtime ziglang; do
    "$tools/bin/python" -c "import $module" >/dev/null 2>&1 || pip_install $module ||
      say "no $module; the tests for WebAssembly are skipped"
  done
  have chromium-headless-shell || have chromium || apt_install chromium-headless-shell ||
    say "no Chromium; the page of WebAssembly is not tried"
fi
if is macos test everything; then
  for target in aarch64-apple-darwin x86_64-apple-darwin; do
    [ -d "$(rustc --print target-libdir --target $target)" ] ||
      { may_install && have rustup && rustup target add $target >/dev/null 2>&1; } ||
      say "Rust has no standard library for $target; its check is skipped"
  done
fi
if is macos everything && [ -z "${SMALL:-}" ]; then
  have cargo-zigbuild || { pip_install ziglang && pip_install cargo-zigbuild; } ||
    say "no cargo-zigbuild; nothing is linked for macOS"
fi
if is conan; then
  have conan || pip_install conan || required "Conan 2" "install it with pip install conan"
fi
if is docs; then
  have doxygen || apt_install doxygen || required doxygen "it makes the pages"
  have python3 || apt_install python3 || required python3 "it makes headings searchable"
fi
if is test everything; then
  for component in rustfmt clippy; do
    cargo ${component/rust/} --version >/dev/null 2>&1 ||
      { may_install && rustup component add $component >/dev/null 2>&1; } ||
      required $component "install it with 'rustup component add $component'"
  done
  have doxygen || apt_install doxygen || say "no doxygen; the test of the pages is skipped"
  have valgrind || apt_install valgrind || say "no valgrind; its tests are skipped"
  have pkg-config || apt_install pkg-config || say "no pkg-config; its test is skipped"
  have abidiff || apt_install abigail-tools || say "no abidiff; its comparison of the ABI is skipped"
  have chromium-headless-shell || have chromium || apt_install chromium-headless-shell ||
    say "no Chromium; the test of a trace's page is skipped"
fi
if is everything; then
  have meson || pip_install meson || say "no Meson; its test is skipped"
  have tcc || apt_install tcc || say "no tcc; its test of the headers is skipped"
  have clang-19 || apt_install clang-19 || say "no clang 19; the tests of the kernels' PTX are skipped"
fi
if is engines bench-engines everything; then
  have c++ || have g++ || apt_install g++ || required "a C++ compiler" "install g++ or clang++"
  [ -e /usr/include/torch/csrc/api/include/torch/torch.h ] || apt_install libtorch-dev ||
    say "no LibTorch; its test is skipped"
  [ -e /usr/include/dlib/dnn.h ] || apt_install libdlib-dev || say "no dlib; its test is skipped"
  have_in_engines ggml-opt.h || install_into_engines libggml-python || say "no ggml; its test is skipped"
fi
if is engines everything; then
  have_in_engines libtorch_cpu.so || install_into_engines --no-deps torch==2.15.0 ||
    say "no torch of a Python package; its test is skipped"
  have_in_engines libcupti.so.13 || install_into_engines 'cuda-toolkit[cudart,cupti]==13.2.2' ||
    say "no libraries of CUDA for it; its test is skipped"
fi
if is torch-cuda; then
  have c++ || have g++ || apt_install g++ || required "a C++ compiler" "install g++ or clang++"
  # All that torch needs where there is a GPU to run it; elsewhere what compiling and linking need.
  whole=--no-deps gigabytes=3
  if ldconfig -p | grep -q 'libcuda\.so\.1 '; then whole='' gigabytes=10; fi
  if ! have_in_engines libtorch_cuda.so || { [ -z "$whole" ] && ! have_in_engines 'libcublas.so.*'; }; then
    if [ "$(df -Pk . | awk 'END { print int($4 / 1048576) }')" -lt $gigabytes ]; then
      say "no room for a LibTorch with CUDA, which takes $gigabytes GB in build/engines"
    else
      # shellcheck disable=SC2086  # no word where there is none
      install_into_engines $whole torch==2.15.0 || say "no LibTorch with CUDA could be installed"
    fi
  fi
  have_in_engines host_defines.h || install_into_engines 'cuda-toolkit[crt,cudart,cupti]==13.2.2' ||
    say "no headers of CUDA could be installed"
fi
if is bench-engines everything; then
  /usr/bin/python3 -c "import torch" 2>/dev/null || apt_install python3-torch ||
    say "no torch of the system's Python; neither DistributedDataParallel nor torch's optimizers are there to compare with"
fi
if is everything; then
  have_python_packages || install_python_packages || say "no packages for the tests in Python; they are skipped"
fi
if is sanitizers fuzz && may_install; then
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
if is fuzz && may_install; then
  have cargo-fuzz || cargo install --quiet --root "$tools" cargo-fuzz >/dev/null 2>&1 ||
    say "cargo could not install cargo-fuzz; parsers are not fuzzed"
fi
if is judges everything && may_install; then
  python3 -c "import ensurepip" 2>/dev/null || apt_install python3-venv ||
    required "a Python with venv" "install python3-venv; the judges are Python packages"
  [ -n "$(find /usr/lib -name 'libmpiwrap-*.so' -print -quit 2>/dev/null)" ] || apt_install valgrind-mpi ||
    say "no MPI wrapper of valgrind; it does not judge"
fi
if is everything && may_install; then
  say "installing those judges with pip into build/judges that take no gigabytes"
  tests/judges/run.py --install || say "they are skipped"
fi
if is bench; then
  python3 -c "import ensurepip" 2>/dev/null || apt_install python3-venv ||
    say "no Python with venv; the peers in Python cannot be measured"
  have c++ || have g++ || apt_install g++ || say "no C++ compiler; DeepSpeed cannot be measured"
  { have mpicc && have mpirun; } || { apt_install openmpi-bin && apt_install libopenmpi-dev; } ||
    say "no Open MPI; it cannot be measured"
fi
if is demo bench; then
  have_openblas || apt_install libopenblas-dev ||
    say "no OpenBLAS; the examples use their own, slower matrix product"
fi
if is demo; then
  have_data_set || apt_install dataset-fashion-mnist ||
    say "no Fashion-MNIST; the demonstration uses the small data set in c_examples/data"
fi
if is test everything mpi judges; then
  have_mpich || fetch_mpich || say "no MPICH 5; tests of MPI found at run time are skipped"
  { have mpicc && have mpirun; } || { apt_install openmpi-bin && apt_install libopenmpi-dev; } ||
    say "no Open MPI; tests of umbo_mpi.c over it are skipped"
fi
if is movielens; then
  have_movielens || fetch_movielens ||
    say "no MovieLens-100k; the program generates ratings instead"
fi
if [ $asks = yes ]; then say "nothing was installed; UMBO_SETUP=yes before the command installs this"; fi
[ $lacks = no ]
