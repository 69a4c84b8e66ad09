"""Prints where the library and what belongs to it are, for build systems."""
import argparse

import umbo

PLACES = {"--cmake-dir": umbo.cmake_dir, "--include-dir": umbo.include_dir, "--library": umbo.library,
          "--library-dir": umbo.library_dir, "--pkgconfig-dir": umbo.pkgconfig_dir}


def main():
    parser = argparse.ArgumentParser(prog="python -m umbo", description=__doc__)
    parser.add_argument("--version", action="version", version=umbo.__version__)
    for name, place in PLACES.items():
        parser.add_argument(name, dest="asked", action="append_const", const=place, help=place.__doc__)
    asked = parser.parse_args().asked
    if not asked:
        parser.error(f"name one or more of {', '.join(PLACES)}")
    for place in asked:
        print(place())


if __name__ == "__main__":
    main()
