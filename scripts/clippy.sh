#!/bin/sh
# The RUSTC_WRAPPER of `make test`: Clippy's driver, which compiles as rustc does and looks at what it compiles, so that
# cargo clippy need not read all of it a second time. What is shipped, the library and the tool, is left to rustc, since the
# driver optimises less; Clippy sees their sources where their unit tests are compiled. Where there is no Clippy, rustc
# compiles all. What is compiled already is not looked at again: `make check` does that.
case " $* " in
  *" --test "*) ;;
  *" --crate-name umbo "* | *" --crate-name umbo_"*) exec "$@" -D warnings ;;
esac
exec $(command -v clippy-driver) "$@" -D warnings
