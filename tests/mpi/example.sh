#!/usr/bin/env bash
# example.sh MPIEXEC PROGRAM DATA: the training of the examples reaches the same accuracy in one process with
# two replicas and in two processes with one each; and in three, with batches that leave some without rows.
set -euo pipefail
launcher=$1 program=$2 data=$3
accuracy() { tail -n 1 <<< "$1" | sed -n 's/.*"test_accuracy": \([0-9.]*\).*/\1/p'; }

alone=$("$program" --data "$data" --epochs 8 --replicas 2 --json-only)
together=$(timeout 200 "$launcher" -n 2 "$program" --workers mpi --data "$data" --epochs 8 --replicas 1 --json-only)
echo "$alone"
echo "$together"
[ "$(wc -l <<< "$together")" -eq 1 ] || { echo "more than one process prints"; exit 1; }
[ -n "$(accuracy "$alone")" ] && [ "$(accuracy "$alone")" = "$(accuracy "$together")" ] ||
  { echo "the accuracies differ"; exit 1; }
uneven=$(timeout 200 "$launcher" -n 3 "$program" --workers mpi --data "$data" --epochs 3 --replicas 1 \
  --batch-size 35 --json-only)
echo "$uneven"
awk -v accuracy="$(accuracy "$uneven")" 'BEGIN { exit !(accuracy >= 0.7) }' ||
  { echo "three processes have learnt little"; exit 1; }
