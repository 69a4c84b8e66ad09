#!/usr/bin/env bash
# example.sh MPIEXEC PROGRAM DATA: the training of the examples comes to the same in one process with some replicas and
# in as many processes with one each: in two, and in three, with batches that leave some without rows.
set -euo pipefail
launcher=$1 program=$2 data=$3
# The accuracy, and what bits the weights have, which the example in C says, too.
result() { tail -n 1 <<< "$1" | grep -o '"\(test_accuracy\|weights\)": "\?[0-9a-f.]*'; }

# same PROCESSES OPTION...
same() {
  local processes=$1 alone together
  shift
  alone=$("$program" --data "$data" --replicas "$processes" --json-only "$@")
  together=$(timeout 200 "$launcher" -n "$processes" "$program" --workers mpi --data "$data" --replicas 1 \
    --json-only "$@")
  echo "$alone"
  echo "$together"
  [ "$(wc -l <<< "$together")" -eq 1 ] || { echo "more than one process prints"; exit 1; }
  [ "$(result "$alone")" = "$(result "$together")" ] || { echo "the results differ"; exit 1; }
  awk '{ exit !($2 >= 0.7) }' <<< "$(result "$together")" || { echo "they have learnt little"; exit 1; }
}

same 2 --epochs 3
same 3 --epochs 1 --batch-size 35
