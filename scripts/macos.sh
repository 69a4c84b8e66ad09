#!/usr/bin/env bash
# Checks the library, the tool and the tests for macOS, on processors of both kinds, and links library and tool with zig.
# Nothing of it can run here.
#
#   scripts/macos.sh [small]     small: the crate that knows the system alone, and no linking
set -euo pipefail
cd "$(dirname "$0")/.."
how=${1:-whole}
for target in aarch64-apple-darwin x86_64-apple-darwin; do
  [ -d "$(rustc --print target-libdir --target $target)" ] || {
    echo "macos: SKIPPED: Rust has no standard library for $target (rustup target add $target)"
    continue
  }
  if [ "$how" = small ]; then
    cargo clippy --quiet --locked --package umbo-system --lib --profile test --target $target -- -D warnings
    echo "$target: what knows the system passes"
    continue
  fi
  cargo clippy --quiet --locked --workspace --all-targets --target $target -- -D warnings
  cargo clippy --quiet --locked --workspace --lib --profile test --target $target -- -D warnings
  echo "$target: library, tool and tests pass"
  command -v cargo-zigbuild >/dev/null || {
    echo "macos: SKIPPED: nothing links for $target without cargo-zigbuild (pip install cargo-zigbuild ziglang)"
    continue
  }
  # Without debug information, which takes as much again.
  CARGO_PROFILE_DEV_DEBUG=false cargo zigbuild --quiet --locked --package umbo --package umbo-tool --target $target
  library=target/$target/debug/libumbo.dylib
  said=$(scripts/macho.py $library)
  grep -v '^exports ' <<<"$said"
  grep -qE '^install name @rpath/libumbo\.[0-9.]+\.dylib$' <<<"$said"
  # Zig's linker exports whatever is visible between crates, too: Apple's has a list from rustc.
  missing=$(LC_ALL=C comm -13 <(sed -n 's/^exports _//p' <<<"$said" | LC_ALL=C sort) <(LC_ALL=C sort tests/abi/symbols.txt))
  [ -z "$missing" ] || { echo "not exported: $missing"; exit 1; }
  ls -l $library target/$target/debug/umbo
done
