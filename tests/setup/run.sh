#!/usr/bin/env bash
# Runs setup.sh where all programs are stand-ins but those of a plain system.
#
#   run.sh SETUP lock|cross_compiler|nothing|asks
set -euo pipefail
setup=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
for name in bash sh env id sed grep sort head tail find dirname mktemp rm mkdir sleep cat chmod; do
  ln -s "$(command -v $name)" "$work/bin/$name"
done

# stand_in <name> <line>...: a program of these lines.
stand_in() {
  printf '%s\n' '#!/usr/bin/env bash' "${@:2}" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
stand_in cargo 'echo "cargo 99.0.0"'
stand_in cmake 'echo "cmake version 99.0.0"'
for name in cc make ninja; do stand_in $name true; done
# Installs as root, and says what.
stand_in id 'echo 0'
export WORK=$work
stand_in apt-get 'echo "$*" >>"$WORK/asked"' "source \"$work/apt-get.sh\""
: >"$work/asked"

setup() { env -i PATH="$work/bin" HOME="$work" WORK="$work" "${@:2}" bash "$setup" "$1"; }
fails() { echo "$*"; cat "$work/asked"; exit 1; }

case $2 in
  lock)
    # Another program has the lock when it is asked for the first and the second time.
    cat >"$work/apt-get.sh" <<'END'
if [ "$(wc <"$WORK/asked")" -lt 3 ]; then
  echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt)" >&2
  exit 100
fi
printf '#!/bin/sh\n' >"$WORK/bin/doxygen"
chmod +x "$WORK/bin/doxygen"
END
    stand_in wc 'mapfile -t lines; echo ${#lines[@]}'
    said=$(setup docs) || fails "it gave up: $said"
    [ "$(grep -c "install.*doxygen" "$work/asked")" = 3 ] || fails "it did not ask until the lock was free"
    grep -q "waiting for another program" <<<"$said" || fails "it does not say why it waits: $said"
    ;;
  cross_compiler)
    stand_in qemu-aarch64-static true
    # Asked for a file that it has not, a compiler answers with the name alone.
    stand_in aarch64-linux-gnu-gcc 'if [ -e "$WORK/libc" ]; then echo "$WORK/libc"; else echo libc.so.6; fi'
    echo '[[ $* != *libc6-dev-arm64-cross* ]] || : >"$WORK/libc"' >"$work/apt-get.sh"
    setup aarch64 >/dev/null
    grep -q "install.*libc6-dev-arm64-cross" "$work/asked" || fails "the C library is not asked for"
    : >"$work/asked"
    said=$(setup aarch64)
    [ ! -s "$work/asked" ] || fails "it asks for what is there"
    [ -z "$said" ] || fails "all is there, and it says: $said"
    ;;
  nothing)
    echo 'exit 1' >"$work/apt-get.sh"
    said=$(setup aarch64 UMBO_SETUP=no)
    grep -q "no cross compiler" <<<"$said" || fails "it does not say what is missing: $said"
    [ ! -s "$work/asked" ] || fails "it asked for packages"
    ;;
  asks)
    # A plain build installs if the user says so, and else names all that is missing; a demo installs.
    rm "$work/bin/cmake" "$work/bin/ninja" "$work/bin/cargo"
    stand_in rustup 'exit 1'
    echo '[[ $* != *cmake* ]] || { echo "echo cmake version 99.0.0" >"$WORK/bin/cmake"; chmod +x "$WORK/bin/cmake"; }' >"$work/apt-get.sh"
    if said=$(setup build 2>&1); then fails "it succeeds without a compiler of Rust: $said"; fi
    for missing in "would install Rust" "would install cmake" "would install ninja-build" "nothing was installed"; do
      grep -q "$missing" <<<"$said" || fails "it does not say '$missing': $said"
    done
    [ ! -s "$work/asked" ] || fails "it asked for packages"
    stand_in cargo 'echo "cargo 99.0.0"'
    for asked in "build UMBO_SETUP=yes" demo; do
      rm -f "$work/bin/cmake" "$work/asked"
      # shellcheck disable=SC2086 # two words
      said=$(setup $asked 2>&1) || fails "$asked fails: $said"
      grep -q "install.*cmake" "$work/asked" || fails "$asked does not install what is missing"
    done
    ;;
esac
