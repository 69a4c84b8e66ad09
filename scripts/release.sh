#!/usr/bin/env bash
# Makes the sources those of a release: writes its day into CHANGELOG.md and README.md, and freezes headers, examples, and the names
# and versions of the functions.
#
#   scripts/release.sh YYYY-MM-DD
#   scripts/release.sh --freeze ARCHIVE   only archives these
#
# From then on `ctest -R abi.released` compiles and links those examples as they were then, and runs them with the library as it is.
# The rest is for people: `make test-all`, `make dist`, a commit and a tag.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# freeze ARCHIVE: the same sources give the same bytes.
freeze() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=u,go-w --mtime=@0 -c \
    include/umbo/*.h include/umbo/inline/*.h c_examples/*.c cmake/umbo.map tests/abi/symbols.txt tests/abi/experimental.txt | xz -9 >"$1"
}

if [ "${1:-}" = --freeze ]; then
  freeze "${2:?the file of the archive}"
  exit
fi
day=${1:-}
if ! [[ $day =~ ^20[0-9]{2}-[0-9]{2}-[0-9]{2}$ ]]; then
  echo "scripts/release.sh: '$day' is not a day; give it as 2027-01-31" >&2
  exit 1
fi
heading="## [$version] - YYYY-MM-DD"
if ! grep -qxF "$heading" CHANGELOG.md; then
  echo "CHANGELOG.md has no line '$heading': $version was released already, or Cargo.toml has another version" >&2
  exit 1
fi
sed -i "s/^## \[$version\] - YYYY-MM-DD$/## [$version] - $day/" CHANGELOG.md
sed -i "s/^[0-9.]*, \(not released\|released on [0-9-]*\)\./$version, released on $day./; s/umbo-[0-9.]*-Linux/umbo-$version-Linux/g" README.md
grep -q "^$version, released on $day\." README.md || { echo "README.md does not say which version was released when" >&2; exit 1; }
mkdir -p tests/abi/released
freeze "tests/abi/released/$version.tar.xz"
echo "CHANGELOG.md, README.md and tests/abi/released/$version.tar.xz are those of $version, $day"
