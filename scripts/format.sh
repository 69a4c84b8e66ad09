#!/usr/bin/env bash
# Checks the format of all Rust sources: rustfmt's, and that no line is wider than 100 characters.
# Around a line that it cannot break, such as a long string, rustfmt leaves the whole expression as
# it is and says nothing; its option error_on_line_overflow needs a nightly compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
# CMake compiles this one, so that cargo does not know it.
rustfmt --edition 2024 --check tests/c/generator/main.rs
wide=$(find . \( -name target -o -name build -o -name '.?*' \) -prune -o -name '*.rs' -print0 |
  LC_ALL=C.UTF-8 xargs -0 grep -nE '^.{101,}$' || true)
if [ -n "$wide" ]; then
  printf '%s\n' "$wide" 'These lines are wider than 100 characters.' >&2
  exit 1
fi
