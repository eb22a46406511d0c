#!/bin/bash
# Fetches the Debian source packages that tests/real builds, into target/sources/<package>/, once.
# usage: tests/real/sources.sh
# It asks the mirror with a list and a state folder of its own, so neither root nor deb-src lines in the machine's
# sources are needed. DEBIAN_MIRROR names another mirror than http://deb.debian.org/debian.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD/target/sources
for package in hello; do
  ls "$top/$package"/*.dsc > /dev/null 2>&1 && { echo "$package: is there"; continue; }
  # shellcheck disable=SC1091
  . /etc/os-release
  state=$top/.apt
  mkdir -p "$state/lists/partial" "$top/$package.part"
  echo "deb-src ${DEBIAN_MIRROR:-http://deb.debian.org/debian} ${VERSION_CODENAME:-stable} main" > "$state/sources.list"
  options=(-qq -o "Dir::Etc::sourcelist=$state/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$state/lists"
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
  apt-get "${options[@]}" update
  (cd "$top/$package.part" && apt-get "${options[@]}" source --download-only "$package")
  rm -rf "${top:?}/$package" && mv "$top/$package.part" "$top/$package"
  echo "$package: fetched"
done
rm -rf "$top/.apt"
