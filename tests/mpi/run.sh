#!/usr/bin/env bash
# run.sh MPIEXEC PROGRAM PART[:RANKS...]...: runs the parts of ranks_of_mpi.c under a launcher, with two ranks or with
# each of these numbers of ranks.
set -euo pipefail
launcher=$1 program=$2
shift 2
# Open MPI's, for machines with few processors and for containers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# All ranks say that they are as expected, and the job ends in time. Its code counts only where a job
# that has failed is not the point.
expect() {
  local ranks=$1 part=$2 code=0 output
  output=$(timeout 100 "$launcher" -n "$ranks" "$program" "$part" 2>&1) || code=$?
  local said
  said=$(grep -c "is as expected" <<< "$output" || true)
  case $part in
    lost | gives_up)
      if [ "$code" -eq 0 ] || [ "$code" -eq 124 ]; then
        echo "$part with $ranks ranks: the job ended with $code"; echo "$output"; exit 1
      fi ;;
    late | mixed | bytes | torn)
      if [ "$code" -eq 124 ] || [ "$said" -ne "$ranks" ]; then
        echo "$part with $ranks ranks: $said are as expected, code $code"; echo "$output"; exit 1
      fi ;;
    *)
      if [ "$code" -ne 0 ] || [ "$said" -ne "$ranks" ]; then
        echo "$part with $ranks ranks: $said are as expected, code $code"; echo "$output"; exit 1
      fi ;;
  esac
  echo "$part with $ranks ranks: as expected"
}

for part in "$@"; do
  IFS=: read -r -a words <<< "$part"
  [ ${#words[@]} -gt 1 ] || words+=(2)
  for ranks in "${words[@]:1}"; do expect "$ranks" "${words[0]}"; done
done
