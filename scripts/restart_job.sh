#!/usr/bin/env bash
# Starts a job again until it has come to its end: for trainings over several processes, of which one
# may die at any time and takes the job with it.
#
#   scripts/restart_job.sh [--most N] COMMAND [ARGUMENT...]
#   scripts/restart_job.sh mpirun -n 4 ./train --workers mpi --checkpoint checkpoints --resume
#   scripts/restart_job.sh srun ./train --workers mpi --checkpoint checkpoints --resume     # in a batch script
#
# The command goes on from its last checkpoint by itself. It is started again after any code but 0, at
# most N times (default 10) without having run for ten minutes, so that a job that cannot run does not
# go round for ever; 1, 2, 4, ... at most 60 seconds lie between two starts. Signals are passed on, and
# end the loop.
set -uo pipefail
most=10
if [ "${1:-}" = --most ]; then
  most=${2:?--most needs a number}
  shift 2
fi
[ $# -gt 0 ] || { echo "usage: restart_job.sh [--most N] COMMAND [ARGUMENT...]" >&2; exit 2; }

job=
stopped=
pass_on() {
  stopped=$1
  [ -z "$job" ] || kill -s "$1" "$job" 2>/dev/null
}
trap 'pass_on TERM' TERM
trap 'pass_on INT' INT

failures=0
pause=1
while :; do
  begun=$SECONDS
  "$@" &
  job=$!
  # One that came while the job was started.
  [ -z "$stopped" ] || kill -s "$stopped" "$job" 2>/dev/null
  # A signal that comes just before a wait would be seen only after it, so that none is long.
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.5 &
    wait $!
  done
  wait "$job"
  code=$?
  job=
  [ "$code" -ne 0 ] || exit 0
  [ -z "$stopped" ] || exit "$code"
  if [ $((SECONDS - begun)) -ge 600 ]; then
    failures=0
    pause=1
  fi
  failures=$((failures + 1))
  if [ "$failures" -gt "$most" ]; then
    echo "restart_job: ended with $code for the ${failures}th time; given up" >&2
    exit "$code"
  fi
  echo "restart_job: ended with $code; start $failures of at most $most follows in $pause s" >&2
  sleep "$pause"
  [ -z "$stopped" ] || exit "$code"
  pause=$((pause * 2 > 60 ? 60 : pause * 2))
done
