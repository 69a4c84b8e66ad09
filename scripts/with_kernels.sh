#!/bin/sh
# Runs a command with OpenBLAS's kernels for this processor, where OpenBLAS does not know the processor and chooses old ones.
#
#   scripts/with_kernels.sh UMBO COMMAND...
#
# UMBO is the installed tool, which says what OpenBLAS has chosen and what mends it. What the command computes with is
# printed to standard error. OpenBLAS reads OPENBLAS_CORETYPE when it is loaded; a value that is set already stays.
set -eu
umbo=$1
shift
ask() {
  LD_PRELOAD=libopenblas.so.0 "$umbo" doctor 2>/dev/null | grep -o 'OpenBLAS (.*' | head -n 1 || true
}
said=$(ask)
core=$(printf %s "$said" | sed -n 's/.*Set OPENBLAS_CORETYPE=\([A-Za-z0-9]*\).*/\1/p')
if [ -z "${OPENBLAS_CORETYPE:-}" ] && [ -n "$core" ]; then
  export OPENBLAS_CORETYPE="$core"
  said="$(ask) (OPENBLAS_CORETYPE=$core, since it does not know this processor)"
fi
echo "${said:-no OpenBLAS was found for this command}" >&2
exec "$@"
