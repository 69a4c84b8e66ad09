#!/usr/bin/env bash
# Builds the fuzz targets as OSS-Fuzz does (oss-fuzz/build.sh), and runs each on its seeds and RUNS (1000) inputs more. Needs a nightly
# Rust and cargo-fuzz (scripts/setup.sh fuzz); skips, and says so, without.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/build/tools/bin:$PATH RUSTUP_TOOLCHAIN=nightly
cargo fuzz --version >/dev/null 2>&1 || {
  echo "fuzz-oss: SKIPPED: there is no nightly Rust with cargo-fuzz (scripts/setup.sh fuzz)"
  exit 0
}
folder=$PWD/build/oss-fuzz
rm -rf "$folder"
mkdir -p "$folder/src" "$folder/out"
ln -s "$PWD" "$folder/src/umbo"
# Where fuzz-parsers has them.
SRC=$folder/src OUT=$folder/out WORK=$PWD/build/fuzz oss-fuzz/build.sh
count=0
for seeds in "$folder"/out/*_seed_corpus.zip; do
  target=$(basename "$seeds" _seed_corpus.zip)
  mkdir "$folder/$target"
  python3 -m zipfile -e "$seeds" "$folder/$target"
  "$folder/out/$target" -runs="${RUNS:-1000}" -timeout=20 -artifact_prefix="$folder/" "$folder/$target" >"$folder/$target.log" 2>&1 || {
    tail -n 30 "$folder/$target.log" >&2
    exit 1
  }
  count=$((count + 1))
done
[ "$count" = "$(cargo fuzz list | wc -l)" ] || { echo "fuzz-oss: $count targets only" >&2; exit 1; }
echo "fuzz-oss: $count targets were built as OSS-Fuzz does, and ran"
