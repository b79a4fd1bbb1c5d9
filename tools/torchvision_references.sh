#!/usr/bin/env bash
# Unpacks torchvision's reference training scripts, which its wheels lack, from Debian's source package of it, and prints their folder.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.14.1
hash=ced67e1cf1f97e168cdf271851a4d0b6d382ab7936e7bcbb39aaa87239c324b6
folder=$PWD/.deps/vision-$version/references
if [[ ! -d $folder ]]; then
  mkdir -p .deps
  archive=$(mktemp -p .deps)
  trap 'rm -f "$archive"' EXIT
  url=http://deb.debian.org/debian/pool/main/p/pytorch-vision/pytorch-vision_$version.orig.tar.gz
  python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$url" "$archive"
  echo "$hash  $archive" | sha256sum --check --status || { echo "$url is not the file that was expected" >&2; exit 1; }
  tar -xzf "$archive" -C .deps "vision-$version/references"
fi
echo "$folder"
