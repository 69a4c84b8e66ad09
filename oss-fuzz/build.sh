#!/bin/bash -eu
# Builds the fuzz targets for OSS-Fuzz or ClusterFuzzLite, whose images have a nightly Rust and cargo-fuzz, and set SRC, OUT and WORK.
# `make fuzz-oss` runs this on any machine that has both, and each fuzzer on its seeds.
cd "$SRC/umbo"
cargo fuzz build --target-dir "$WORK/target"
cargo run --quiet --manifest-path fuzz/Cargo.toml --target-dir "$WORK/seeds" --bin seeds -- "$WORK/corpus"
host=$(rustc -vV | sed -n 's/^host: //p')
for target in $(cargo fuzz list); do
  cp "$WORK/target/$host/release/$target" "$OUT/"
  # Inputs that once failed are seeds, too.
  [ ! -d "fuzz/regressions/$target" ] || cp -r "fuzz/regressions/$target/." "$WORK/corpus/$target/"
  (cd "$WORK/corpus/$target" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" ./*)
done
