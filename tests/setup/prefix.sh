#!/usr/bin/env bash
# `make install PREFIX=FOLDER` installs into a folder that is named in full, and into one that is named from here.
#
#   prefix.sh SOURCES
set -euo pipefail
cd "$1"
expect() {
  said=$(env -u MAKEFLAGS make --dry-run --no-print-directory install "PREFIX=$1")
  case $said in
    *"--install build/release --prefix \"$2\""*) ;;
    *) echo "PREFIX=$1 does not install into $2:"; echo "$said"; exit 1 ;;
  esac
}
expect /opt/umbo /opt/umbo
expect "/opt/with a space" "/opt/with a space"
expect build/other "$PWD/build/other"
