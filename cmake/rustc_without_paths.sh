#!/bin/sh
# The RUSTC_WRAPPER of a build by CMake: rustc, which writes no folder of this machine into what it compiles, so that builds in
# two folders give the same bytes. The folder of a crate is its name and version there, wherever its sources lie. No flag of
# cargo's does that: cargo would name its files by flags which differ from folder to folder.
[ -z "${CARGO_MANIFEST_DIR:-}" ] || {
  crate=$CARGO_PKG_NAME-$CARGO_PKG_VERSION
  set -- "$@" --remap-path-prefix "$(pwd -P)=umbo" --remap-path-prefix "$CARGO_MANIFEST_DIR=$crate"
  [ -z "${OUT_DIR:-}" ] || set -- "$@" --remap-path-prefix "$OUT_DIR=$crate/out"
}
# That of the user, if there is one, such as sccache.
exec ${UMBO_RUSTC_WRAPPER:-} "$@"
