#!/usr/bin/env bash
# launched.sh MPIRUN PAGE: the lines of a page that begin with `mpirun` and name a file of hosts start as many processes as they
# say on four machines of eight processors, which are this one. With a card for each process, each sees its own.
set -euo pipefail
launcher=$1 page=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The cards are those that a line gives.
unset CUDA_VISIBLE_DEVICES
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
# Several daemons on one machine may crash when each puts the machine's topology into shared memory.
export OMPI_MCA_rtc=^hwloc

# Open MPI starts a daemon on each machine by ssh, for which this stands: its first argument is the machine, which has a folder
# for temporary files of its own. Daemons that make theirs in one folder at the same time may fail.
cat >"$folder/agent" <<'AGENT'
#!/usr/bin/env bash
export TMPDIR=$0.$1
mkdir -p "$TMPDIR"
shift
exec bash -c "$*"
AGENT
cat >"$folder/train" <<'TRAIN'
#!/usr/bin/env bash
echo "process $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, card ${CUDA_VISIBLE_DEVICES:-none}"
TRAIN
chmod +x "$folder/agent" "$folder/train"
export OMPI_MCA_plm_rsh_agent=$folder/agent PRTE_MCA_plm_ssh_agent=$folder/agent
printf 'machine-%d slots=8\n' 1 2 3 4 >"$folder/hosts"
mkdir "$folder/bin"
ln -s "$(command -v "$launcher")" "$folder/bin/mpirun"

# A line is a shell's; a comment may follow.
mapfile -t lines < <(grep '^mpirun .*--hostfile hosts' "$page")
[ ${#lines[@]} -ge 2 ] || { echo "$page has ${#lines[@]} such lines"; exit 1; }
for line in "${lines[@]}"; do
  echo "$line"
  count=$(sed -n 's/^mpirun -n \([0-9]*\) .*/\1/p' <<<"$line")
  for ((process = 0; process < count; ++process)); do
    card=none
    case $line in *CUDA_VISIBLE_DEVICES*) card=$((process % 8)) ;; esac
    echo "process $process of $count, card $card"
  done | sort >"$folder/expected"
  (cd "$folder" && PATH=$folder/bin:$PATH timeout 100 bash -euc "$line") 2>"$folder/complaints" | sort >"$folder/found" ||
    { cat "$folder/complaints"; exit 1; }
  diff "$folder/expected" "$folder/found"
done
