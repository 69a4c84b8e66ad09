#!/usr/bin/env bash
# many_machines.sh MPIEXEC PROGRAM: the example's weights have the same bits alone and with two processes, of which one
# prints. (More processes than processors spin for seconds; what three do is in run.sh and example.sh.)
set -euo pipefail
launcher=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
alone=$("$program")
echo "$alone"
grep -q 'weights [0-9a-f]\{16\}' <<<"$alone"
together=$(timeout 100 "$launcher" -n 2 "$program" mpi)
echo "$together"
grep -q 'processes: 2$' <<<"$together" || { echo "not two processes"; exit 1; }
[ "$(tail -n 1 <<<"$together")" = "$(tail -n 1 <<<"$alone")" ] && [ "$(wc -l <<<"$together")" -eq 2 ] ||
  { echo "other weights, or more than one process prints"; exit 1; }
