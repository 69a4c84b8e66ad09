#!/bin/sh
# check_resume.sh PROGRAM DATA FOLDER: trains once without a break, and once with the process killed several times in
# its middle and resumed. Both end with the same bytes, and each kill loses less than one interval.
set -eu
program=$1 data=$2 folder=$3 interval=25 epochs=12

train() {
  checkpoints=$1
  shift
  exec "$program" --data "$data" --epochs $epochs --batch-size 32 --checkpoint "$folder/$checkpoints" \
    --save-every $interval --json-only "$@"
}

# The step of the newest checkpoint, 0 if there is none.
newest() {
  last=$(ls "$folder/$1" 2>/dev/null | grep '^step-' | sort | tail -n 1 | tr -cd '0-9' | sed 's/^0*//')
  echo "${last:-0}"
}

# Trains without a break, and kills another training three times; whether it was killed before its end.
kill_thrice() {
  rm -rf "$folder"
  mkdir -p "$folder"
  (train unbroken) >"$folder/unbroken.json" || exit 1
  end=$(newest unbroken)
  kills=0 goal=$interval
  while [ $kills -lt 3 ]; do
    (train broken --resume) >"$folder/broken.json" 2>"$folder/errors" &
    process=$!
    while [ "$(newest broken)" -lt $goal ]; do
      kill -0 $process 2>/dev/null || break
      sleep 0.02
    done
    kill -9 $process 2>/dev/null || true
    wait $process 2>/dev/null || true
    [ -s "$folder/errors" ] && { cat "$folder/errors"; exit 1; }
    saved=$(newest broken)
    [ "$saved" -ge $goal ] || { echo "nothing was saved at step $goal; the newest is $saved"; exit 1; }
    [ "$saved" -lt "$end" ] || return 1
    goal=$((saved + 2 * interval)) kills=$((kills + 1))
  done
}

# Where others keep this script from its processor, the training has to be longer.
while ! kill_thrice; do
  epochs=$((epochs * 4))
  [ $epochs -lt 1000 ] || { echo "the training had ended before it was killed"; exit 1; }
done

(train broken --resume) >"$folder/broken.json"
grep -q "\"resumed_at\": $saved" "$folder/broken.json" || { cat "$folder/broken.json"; exit 1; }
[ "$(newest broken)" = "$end" ]
file=$(ls "$folder/unbroken" | sort | tail -n 1)
cmp "$folder/unbroken/$file" "$folder/broken/$file"
[ -z "$(ls -A "$folder/broken" | grep partial)" ] || { echo "a partial file is left"; exit 1; }
echo "killed $kills times, resumed at step $saved of $end, the same bytes at the end"
