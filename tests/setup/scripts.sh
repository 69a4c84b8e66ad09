#!/usr/bin/env bash
# Every script of the tree can be read by what runs it, and those in Python for people say how they are called.
#
#   scripts.sh SOURCES [PYTHON]
set -euo pipefail
cd "$1"
files() { find . -path ./build -prune -o -path ./target -prune -o -path ./.git -prune -o -name "$1" -print; }
count=0
while read -r file; do
  bash -n "$file"
  count=$((count + 1))
done < <(files '*.sh')
if [ -n "${2:-}" ]; then
  mapfile -t python < <(files '*.py')
  "$2" -c 'import ast, sys; [ast.parse(open(file).read(), file) for file in sys.argv[1:]]' "${python[@]}"
  count=$((count + ${#python[@]}))
  for file in scripts/bench_gloo.py scripts/check_scaling.py scripts/flaky.py benches/peers/run.py benches/engines/run.py; do
    PYTHONDONTWRITEBYTECODE=1 "$2" "$file" --help >/dev/null
  done
fi
[ $count -gt 20 ] || { echo "only $count scripts were found"; exit 1; }
