#!/usr/bin/env bash
# loop.sh MPICC MPIEXEC LIBRARY SOURCES: c_examples/loops/mpi.c learns the same with its patch as without it, on one to three
# ranks; with replicas_in_sync all numbers of ranks have the same weights, bit for bit. The lines are those of
# docs/from-elsewhere.md.
set -euo pipefail
compiler=$1 launcher=$2 library=$3 sources=$4
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$sources/c_examples/loops/mpi.c" "$folder/before.c"
patch --silent -o "$folder/after.c" "$folder/before.c" "$sources/c_examples/loops/mpi.diff"
sed 's/\.replicas = 1,/.replicas_in_sync = 4,/' "$folder/after.c" >"$folder/in_sync.c"
! cmp -s "$folder/after.c" "$folder/in_sync.c"

flags=(-std=gnu11 -O2 -Wall -Wextra -Werror "-I$sources/include" "-I$sources/adapters/mpi")
"$compiler" "${flags[@]}" "$folder/before.c" -o "$folder/before"
for name in after in_sync; do
  "$compiler" "${flags[@]}" "$folder/$name.c" "$sources/adapters/mpi/umbo_mpi.c" "$library" "-Wl,-rpath,$(dirname "$library")" \
    -o "$folder/$name"
done

# loss NAME RANKS: the loss that a program prints; its weights go to a file.
loss() { timeout 100 "$launcher" -n "$2" "$folder/$1" 5 128 "$folder/$1.$2" | sed -n 's/^loss \([0-9.]*\),.*/\1/p'; }

expected=$(loss before 1)
[ -n "$expected" ] || { echo "the program says no loss"; exit 1; }
for ranks in 1 2 3; do
  for name in before after in_sync; do
    got=$(loss $name $ranks)
    echo "$name, $ranks ranks: loss $got"
    [ "$got" = "$expected" ] || { echo "it is $expected with one rank and without Umbo"; exit 1; }
  done
  cmp "$folder/in_sync.1" "$folder/in_sync.$ranks"
done

added=$(($(grep -c '^+' "$sources/c_examples/loops/mpi.diff") - 1)) removed=$(($(grep -c '^-' "$sources/c_examples/loops/mpi.diff") - 1))
grep -q "adds $added lines and removes $removed\." "$sources/docs/from-elsewhere.md" ||
  { echo "docs/from-elsewhere.md does not say: adds $added lines and removes $removed."; exit 1; }
