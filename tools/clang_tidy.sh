#!/usr/bin/env bash
# clang-tidy on the std-only sources, because these compile in seconds and hold most of the logic. With CHECKS it runs these instead of
# .clang-tidy's: the static analyzer takes several times as long as all others together, and is a part of `make test-full` only.
#
#   tools/clang_tidy.sh [CHECKS]
set -euo pipefail
cd "$(dirname "$0")/.."

std_only_sources() {
  .venv/bin/python - <<'PYTHON'
import json
import pathlib

for entry in json.loads(pathlib.Path("build/tidy/compile_commands.json").read_text()):
    if pathlib.Path(entry["file"]).is_relative_to(pathlib.Path("src").resolve()):
        print(entry["file"], end="\0")
PYTHON
}

mkdir -p build
# Each source by itself and without precompiled headers, which are g++'s: so each must include what it uses.
# Standard error holds one line of statistics a file, and what went wrong when clang-tidy could not run.
if ! { cmake --preset std -B build/tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_UNITY_BUILD=OFF >build/clang_tidy.log 2>&1 &&
  std_only_sources | xargs -0 -n 1 -P "$(nproc)" .venv/bin/clang-tidy -p build/tidy --quiet ${1:+"--checks=$1"} 2>build/clang_tidy.log; }; then
  cat build/clang_tidy.log
  exit 1
fi
