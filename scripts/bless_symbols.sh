#!/usr/bin/env bash
# Writes tests/abi/symbols.txt from the library that was built last in build/release.
set -euo pipefail
cd "$(dirname "$0")/.."
library=$(find "${1:-build/release}/lib" -name 'libumbo.so.*.*.*' -type f | head -n 1)
if [ -z "$library" ]; then
  echo "bless_symbols: no library in ${1:-build/release}/lib; run make first" >&2
  exit 1
fi
cmake -DBLESS=1 -DNM=nm -DLIBRARY="$library" -DEXPECTED="$PWD/tests/abi/symbols.txt" \
  -P tests/abi/symbols.cmake
