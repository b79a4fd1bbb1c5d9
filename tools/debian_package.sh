#!/usr/bin/env bash
# Makes the files of Debian packages available without root: what is not installed is unpacked under .deps (.deps/usr/include, ...).
# apt keeps lists of its own in .deps/apt, and checks signatures and hashes as it does for the system. Dependencies are not followed.
#
#   tools/debian_package.sh PACKAGE...
#
# TENSORPAGER_IGNORE_INSTALLED=1 unpacks a package even where the system has it.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=$PWD/.deps
apt=$deps/apt

apt_get() {
  apt-get -o Dir::State="$apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$apt/cache" \
    -o APT::Sandbox::User="$(id -un)" -o Acquire::GzipIndexes=true -o Acquire::Languages=none \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@"
}

# A source that does not answer is no failure yet: the package may come from another one.
update_lists() {
  echo "apt: reading package lists into .deps (once, about 10 MB)"
  rm -rf "$apt" && mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  apt_get update >"$apt/update.log" 2>&1 || true
}

download() {
  rm -rf "$apt/deb" && mkdir -p "$apt/deb"
  (cd "$apt/deb" && apt_get download "$1") >"$apt/download.log" 2>&1
}

is_installed() {
  [[ -z ${TENSORPAGER_IGNORE_INSTALLED:-} ]] && dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

mkdir -p "$deps"
exec 9>"$deps/lock" && flock 9 # two of these may run at once

for package in "$@"; do
  stamp=$deps/unpacked/$package
  if [[ -e $stamp ]] || is_installed "$package"; then
    continue
  fi
  if ! command -v apt-get dpkg-deb >/dev/null; then
    echo "$package is not installed and this machine has no apt: install it by hand" >&2
    exit 1
  fi
  [[ -e $apt/update.log ]] || update_lists
  echo "apt: $package: downloading and unpacking into .deps"
  # Lists that are months old name files that are gone; new lists help.
  if ! download "$package" && ! { update_lists && download "$package"; }; then
    cat "$apt/update.log" "$apt/download.log" >&2
    echo "$package could not be downloaded; if you are root, try: apt-get update && apt-get install $package" >&2
    exit 1
  fi
  dpkg-deb -x "$apt/deb"/*.deb "$deps"
  rm -r "$apt/deb"
  mkdir -p "$deps/unpacked" && touch "$stamp"
done
