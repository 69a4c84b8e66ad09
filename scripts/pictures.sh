#!/usr/bin/env bash
# Draws the pictures of the documents with the installed tool, from a training and measurements of this machine, which
# should have nothing else to do. `make pictures` trains beforehand.
#
#   scripts/pictures.sh PREFIX WORK PICTURES [OPTION...]
#
# WORK has the training's history and the examples' programs; the options are for `umbo bench break-even`. DATA are options
# of the training.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$(realpath "${1:?where Umbo is installed}")
umbo=$prefix/bin/umbo
built=${2:?where the examples are built}
pictures=${3:?where the pictures go}
work=$built/pictures
scripts/writable.sh "$pictures/history.svg"
mkdir -p "$work"
with_kernels() { scripts/with_kernels.sh "$umbo" "$@"; }

echo "==== The history of a training"
"$umbo" plot "$built/history.csv" -o "$pictures/history.svg"

echo "==== What a step is"
docs/step.py "$pictures/anatomy.svg"

echo "==== A step of the first program"
cmake -DDOCUMENT=docs/start.md -DNAME=first.cpp "-DOUTPUT=$work/first.cpp" -P scripts/extract_block.cmake
c++ -std=c++17 -O2 "$work/first.cpp" -o "$work/first" -I"$prefix/include" -L"$prefix/lib" -lumbo -Wl,-rpath,"$prefix/lib"
UMBO_TRACE=$work/step.json "$work/first"
"$umbo" trace "$work/step.json" --plot "$pictures/step.svg"

echo "==== A trace after the first steps, of batches so small that its report has something to say"
UMBO_TRACE=$work/trace.json with_kernels "$built/c_examples/03_train_fashion_mnist" --epochs 1 --batch-size 16 ${DATA:-}
"$umbo" trace "$work/trace.json" --html "$work/trace.html" --from 40 --most 110
browser=$(command -v chromium-headless-shell || command -v chromium || true)
if [ -n "$browser" ]; then
  "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,480 \
    --user-data-dir="$work/profile" --virtual-time-budget=5000 --screenshot="$pictures/trace.png" "file://$PWD/$work/trace.html" \
    >/dev/null 2>&1
  echo "$pictures/trace.png"
else
  echo "pictures: there is no Chromium; $pictures/trace.png stays as it is"
fi

echo "==== A measurement"
"$umbo" bench break-even --plot "$pictures/break-even.svg" "${@:4}"
