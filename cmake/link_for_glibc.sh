#!/bin/sh
# Links in the place of a C compiler, for an old glibc and all later ones, by zig, which has the symbols of each.
#
#   $UMBO_ZIG         zig
#   $UMBO_ZIG_TARGET  what it links for, such as x86_64-linux-gnu.2.17
#   $UMBO_CC          the compiler whose libgcc_s is taken
#
# Zig has an unwinder of its own, which must not meet that of a program: the exception of a callback goes through both. So the one
# of the system, libgcc_s, stays a shared library that is looked for when the library is loaded.
set -eu
for argument in "$@"; do
  shift
  case $argument in
    # Zig chooses its linker and what it links by itself, and knows no such optimisation.
    -fuse-ld=* | -B* | -m64 | -nodefaultlibs | -Wl,-O1) ;;
    # This machine's libgcc_s may need a later glibc than the library itself.
    -lgcc_s) set -- "$@" "$("$UMBO_CC" -print-file-name=libgcc_s.so.1)" -Wl,--allow-shlib-undefined ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "$UMBO_ZIG" cc -target "$UMBO_ZIG_TARGET" "$@"
