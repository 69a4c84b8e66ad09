#!/usr/bin/env bash
# tutorial.sh MPIEXEC SOURCES LIBRARY_FOLDER COMPILER CMAKE: the tutorial's program for many machines, taken from the document,
# compiled without MPI and run by two and by three processes, prints what it prints alone, with their number.
set -euo pipefail
launcher=$1 sources=$2 libraries=$3 compiler=$4 cmake=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in tutorial_4.cpp tutorial_4.txt; do
  "$cmake" "-DDOCUMENT=$sources/docs/tutorial.md" "-DNAME=$name" "-DOUTPUT=$folder/$name" \
    -P "$sources/scripts/extract_block.cmake"
done
"$compiler" -std=c++17 -O1 "-I$sources/include" "$folder/tutorial_4.cpp" -o "$folder/tutorial_4" \
  "$libraries/libumbo.so" "-Wl,-rpath,$libraries"
for ranks in 2 3; do
  printed=$(timeout 100 "$launcher" -n $ranks "$folder/tutorial_4" mpi)
  expected=$(sed "s/processes: 1/processes: $ranks/" "$folder/tutorial_4.txt")
  echo "$printed"
  [ "$printed" = "$expected" ] || { echo "expected: $expected"; exit 1; }
done
