#!/usr/bin/env bash
# killed_and_resumed.sh RESTART MPIEXEC PROGRAM DATA: a training of two processes is killed three times, each time one rank
# of it, and started again by the restart loop. It resumes from the newest checkpoint each time, and ends with the
# weights of a training that nobody killed, to the bit. One process resumes from what the two have saved.
set -euo pipefail
restart=$1 launcher=$2 program=$3 data=$4 interval=15 epochs=10
folder=$(mktemp -d)
loop=
finish() {
  [ -z "$loop" ] || kill -TERM "$loop" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

# The words "$folder/NAME" of its command line tell this test's processes from all others.
job() {
  echo "$launcher" -n 2 "$program" --workers mpi --data "$data" --replicas 1 --epochs $epochs --batch-size 32 \
    --checkpoint "$folder/$1" --save-every $interval --json-only
}
# The step of the newest checkpoint, 0 if there is none.
newest() {
  local last
  last=$(ls "$folder/$1" 2>/dev/null | sed -n 's/^step-0*\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1) || true
  echo "${last:-0}"
}
# One of the ranks: the processes of the program itself, not those that start it. It starts hardly a process, since
# the training continues meanwhile.
a_rank() {
  local process word words found=()
  for process in /proc/[0-9]*; do
    mapfile -d '' words 2>/dev/null <"$process/cmdline" || continue
    for word in "${words[@]}"; do
      if [ "$word" = "$folder/broken" ] && [ "$process/exe" -ef "$program" ]; then
        found+=("${process#/proc/}")
        break
      fi
    done
  done 2>/dev/null
  [ ${#found[@]} -lt "$1" ] || printf '%s\n' "${found[@]}" | sort -n | sed -n "$1p"
}

$(job unbroken) >"$folder/unbroken.json"
end=$(newest unbroken)
[ "$end" -gt $((8 * interval)) ] || { echo "the training is too short: $end steps"; exit 1; }

# The checkpoint of the last step is what the job comes to.
last=$(ls "$folder/unbroken" | grep '^step-[0-9]*\.safetensors$' | sort | tail -n 1)
"$restart" --end "$folder/broken/$last" $(job broken) --resume >"$folder/broken.json" 2>"$folder/said" &
loop=$!
goal=$interval
for kill in 1 2 3; do
  for _ in $(seq 1500); do
    [ "$(newest broken)" -lt $goal ] && kill -0 $loop 2>/dev/null || break
    sleep 0.02
  done
  # Each rank in its turn. It may be between two starts.
  victim=
  for _ in $(seq 3000); do
    victim=$(a_rank $((1 + kill % 2)))
    [ -z "$victim" ] && kill -0 $loop 2>/dev/null || break
    sleep 0.02
  done
  [ -n "$victim" ] && kill -9 "$victim" || { echo "there was no rank to be killed"; cat "$folder/said"; exit 1; }
  saved=$(newest broken)
  [ "$saved" -lt "$end" ] || { echo "the training had ended before kill $kill"; exit 1; }
  goal=$((saved + 2 * interval))
done
wait $loop || { echo "the job ended with $?"; cat "$folder/said"; exit 1; }
loop=
[ "$(grep -c 'restart_job: ended with' "$folder/said")" -eq 3 ] || { cat "$folder/said"; exit 1; }
[ "$(newest broken)" = "$end" ]
resumed=$(sed -n 's/.*"resumed_at": \([0-9]*\).*/\1/p' "$folder/broken.json" | tail -n 1)
# What was saved just before the kill counts, and may have come after it was looked at.
[ "$resumed" -ge "$saved" ] || { echo "resumed at $resumed, behind $saved"; exit 1; }
weights() { sed -n 's/.*"weights": "\([0-9a-f]*\)".*/\1/p' "$1" | tail -n 1; }
expected=$(weights "$folder/unbroken.json")
[ -n "$expected" ] && [ "$(weights "$folder/broken.json")" = "$expected" ] || { cat "$folder"/*.json; exit 1; }
# There is nothing left to train, so that it ends with what it has read.
"$program" --data "$data" --replicas 2 --epochs $epochs --batch-size 32 \
  --checkpoint "$folder/broken" --save-every $interval --json-only --resume >"$folder/alone.json"
[ "$(weights "$folder/alone.json")" = "$expected" ] || { cat "$folder"/*.json; exit 1; }
echo "killed three times, resumed at last at step $resumed of $end, the same weights at the end: $expected"
