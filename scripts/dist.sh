#!/usr/bin/env bash
# Makes an archive of the sources at HEAD with all crates that a build needs: umbo-VERSION.tar.gz, which builds without a
# network. Then it unpacks the archive elsewhere, and there, with an empty cargo home and no network, builds and installs the
# library, and trains an example that finds it by find_package. Crates of library, attributes and tool are packed, too, and built
# from what was packed. Next to it come what cpack makes of that build, the archive of the install tree and Debian packages, and the
# wheel. With SMALL=yes nothing is built: cargo finds all crates in the archive.
#
# The archive has the library's bill of materials in it, umbo.cdx.json, which lies next to it, too. SHA256SUMS has the sums of all.
# It is made twice, in two folders and with two masks of rights, and has to be the same byte by byte; so do the libraries that
# are built from it in two folders.
#
#   scripts/dist.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/dist}
name=umbo-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
cargo package --quiet --locked --allow-dirty ${SMALL:+--no-verify} $(printf -- "--package %s " $(sed -n 's/^name = "\(umbo[a-z-]*\)"$/\1/p' crates/*/Cargo.toml)) --package umbo-macros --package umbo --package umbo-tool
# Built alone, a crate lacks features of others that only its neighbours turn on. This one needs none of them, and is quick.
[ -z "${SMALL:-}" ] || cargo package --quiet --locked --allow-dirty --package umbo-macros
rm -rf "$folder"
mkdir -p "$folder/tried"
folder=$(cd "$folder" && pwd)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# pack FOLDER: the archive and the bill of materials into that folder. The same commit gives the same bytes.
pack() {
  mkdir -p "$1/$name"
  git archive HEAD | tar x -C "$1/$name"
  (
    cd "$1/$name"
    mkdir .cargo
    cargo vendor --locked >.cargo/config.toml 2>vendor.log || { cat vendor.log >&2; exit 1; }
    rm vendor.log
    scripts/sbom.py umbo.cdx.json
    cp umbo.cdx.json ..
  )
  tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=u,go-w --mtime="@$SOURCE_DATE_EPOCH" \
    -C "$1" -c "$name" | gzip -n >"$1/$name.tar.gz"
  rm -rf "${1:?}/$name"
}
pack "$folder"
(umask 077 && pack "$folder/again/elsewhere" >/dev/null)
for file in "$name.tar.gz" umbo.cdx.json; do cmp "$folder/$file" "$folder/again/elsewhere/$file"; done
rm -rf "$folder/again"
echo "two archives, made in two folders, are equal"
# The sums of all files in the folder.
sums() {
  (cd "$folder" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
}
sums
echo "$folder/$name.tar.gz, $(du -h "$folder/$name.tar.gz" | cut -f 1)"

tar xzf "$folder/$name.tar.gz" -C "$folder/tried"
CARGO_HOME=$(cd "$folder/tried" && pwd)/home
export CARGO_HOME CARGO_NET_OFFLINE=true
cd "$folder/tried/$name"
cargo metadata --locked --format-version 1 >/dev/null
echo "cargo finds all crates in the archive"
[ -z "${SMALL:-}" ] || exit 0
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DUMBO_BUILD_TESTS=OFF -DUMBO_BUILD_EXAMPLES=OFF >/dev/null
cmake --build build
cmake --install build --prefix "$PWD/prefix" >/dev/null
# The same in another folder gives the same bytes, in which there is no path of either.
again="$folder/tried again"
mkdir "$again"
tar xzf "$folder/$name.tar.gz" -C "$again"
cmake -S "$again/$name" -B "$again/build" -DCMAKE_BUILD_TYPE=Release -DUMBO_BUILD_TESTS=OFF -DUMBO_BUILD_EXAMPLES=OFF >/dev/null
cmake --build "$again/build"
for file in "$(basename "$(realpath build/lib/libumbo.so)")" libumbo.a; do
  cmp "build/lib/$file" "$again/build/lib/$file"
  if grep -qaF "$folder" "build/lib/$file"; then
    echo "$file names the folder in which it was built" >&2
    exit 1
  fi
done
rm -rf "$again"
echo "two builds, in two folders, are equal, and name neither"
cmake -S c_examples -B build/examples -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$PWD/prefix" >/dev/null
cmake --build build/examples --target 03_train_fashion_mnist
build/examples/03_train_fashion_mnist --data c_examples/data/digits --epochs 3 --seed 1
cpack --config build/CPackConfig.cmake -B "$folder/packages" >/dev/null
find "$folder/packages" -maxdepth 1 -type f -exec mv -t "$folder" {} +
rm -rf "$folder/packages"
scripts/wheel.py "$PWD/prefix" "$folder"
sums
cat "$folder/SHA256SUMS"
