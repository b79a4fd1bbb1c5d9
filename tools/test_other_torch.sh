#!/usr/bin/env bash
# Builds against another minor version of torch, and runs the unit, contract and program tests with it. All is in
# build/torch-VERSION: about 6 GB, which `make clean` removes. Skipped, with the reason, where it cannot be downloaded.
#
#   tools/test_other_torch.sh [VERSION]
set -euo pipefail
cd -P "$(dirname "$0")/.."
version=${1:-2.15.0}  # the newest that was tested
place=$PWD/build/torch-$version
python=$place/venv/bin/python

if [[ ! -e $place/installed ]]; then
  mkdir -p "$place"
  if (($(df --output=avail -B1G "$place" | tail -1) < 12)); then
    echo "torch $version: skipped: less than 12 GB free for it in build"
    exit 0
  fi
  echo "torch $version: downloading and installing into $place/venv"
  .venv/bin/python -m venv "$place/venv"
  # The other packages as for the tests with our own torch.
  mapfile -t others < <(grep -E '^(numpy|pytest|pytest-xdist|ipykernel|transformers|accelerate|safetensors)==' tools/requirements.txt)
  if ! "$python" -m pip install --disable-pip-version-check --no-cache-dir --progress-bar off \
    "torch==$version" "${others[@]}" >"$place/install.log" 2>&1; then
    echo "torch $version: skipped: it cannot be installed here: $(tail -1 "$place/install.log")"
    exit 0
  fi
  touch "$place/installed"
fi

cmake -G Ninja -S . -B "$place/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_PREFIX_PATH="$PWD/.deps/usr" \
  -DCMAKE_INSTALL_PREFIX="$place/venv" -DCMAKE_INSTALL_MESSAGE=LAZY \
  -DPython_EXECUTABLE="$python" -DPython_INCLUDE_DIR="$PWD/.deps/python_headers"
cmake --build "$place/build"
cmake --install "$place/build"
ctest --test-dir "$place/build" --output-on-failure
"$python" -m pytest -q -n "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" --maxprocesses 4 --dist loadfile -p no:cacheprovider \
  test/contract test/programs/test_programs.py
echo "torch $version: passed"
