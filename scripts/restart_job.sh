#!/usr/bin/env bash
# Starts a job again until it has come to its end: for trainings over several processes, of which one
# may die at any time and takes the job with it.
#
#   scripts/restart_job.sh --end FILE [--most N] COMMAND [ARGUMENT...]
#   scripts/restart_job.sh --end trained mpirun -n 4 ./train --workers mpi --checkpoint checkpoints --resume
#   scripts/restart_job.sh --end trained srun ./train --workers mpi --checkpoint checkpoints --resume # in a batch script
#
# FILE is what the job writes when it has come to its end: a file of its own, or the checkpoint of the last step.
# A code of 0 alone is not believed: a rank that ends by exit(0) amid the training ends the job with 0 under
# some launchers. If FILE is there before the job is started, nothing is left to do.
#
# The command resumes from its last checkpoint by itself. It is started again after any code but 0, and after 0 as
# long as FILE is not there, at most N times (default 10) without having run for ten minutes, so that a
# job that cannot run does not go round for ever; 1, 2, 4, ... at most 60 seconds lie between two starts.
# Signals are passed on, and end the loop.
set -uo pipefail
most=10
end=
while :; do
  case "${1:-}" in
    --most) most=${2:?--most needs a number} ;;
    --end) end=${2:?--end needs a file} ;;
    *) break ;;
  esac
  shift 2
done
if [ $# -eq 0 ] || [ -z "$end" ]; then
  echo "usage: restart_job.sh --end FILE [--most N] COMMAND [ARGUMENT...]" >&2
  echo "FILE is what the job writes when it has come to its end, which a code of 0 does not say for certain" >&2
  exit 2
fi
if [ -e "$end" ]; then
  echo "restart_job: $end is there, so the job has come to its end; remove it to begin anew" >&2
  exit 0
fi

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
  said="ended with $code"
  if [ "$code" -eq 0 ]; then
    [ ! -e "$end" ] || exit 0
    said="ended with 0 and without $end"
  fi
  [ -z "$stopped" ] || exit "$code"
  if [ $((SECONDS - begun)) -ge 600 ]; then
    failures=0
    pause=1
  fi
  failures=$((failures + 1))
  if [ "$failures" -gt "$most" ]; then
    echo "restart_job: $said, for the ${failures}th time without having run for long; given up" >&2
    exit $((code == 0 ? 1 : code))
  fi
  echo "restart_job: $said; start $failures of at most $most follows in $pause s" >&2
  sleep "$pause"
  [ -z "$stopped" ] || exit "$code"
  pause=$((pause * 2 > 60 ? 60 : pause * 2))
done
