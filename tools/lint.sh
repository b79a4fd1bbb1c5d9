#!/usr/bin/env bash
# All checks that run no test: format, clang-tidy on the std-only sources, ruff, lengths of files, texts of mutations, layering. Says at the end which failed.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()

check() {
  local name=$1
  shift
  echo "lint: $name"
  "$@" || failed+=("$name")
}

# The std-only sources, because these compile in seconds and hold most of the logic.
std_only_sources() {
  .venv/bin/python - <<'PYTHON'
import json
import pathlib

for entry in json.loads(pathlib.Path("build/std/compile_commands.json").read_text()):
    if pathlib.Path(entry["file"]).is_relative_to(pathlib.Path("src").resolve()):
        print(entry["file"], end="\0")
PYTHON
}

# Its standard error holds one line of statistics a file, and what went wrong when it could not run.
clang_tidy() {
  cmake --preset std >build/lint.log 2>&1 &&
    std_only_sources | xargs -0 -n 1 -P "$(nproc)" .venv/bin/clang-tidy -p build/std --quiet 2>build/lint.log && return
  cat build/lint.log
  return 1
}

# Over 300 lines is a question, over 500 is split.
file_lengths() {
  local too_long=0 file lines
  while read -r file; do
    lines=$(wc -l <"$file")
    if ((lines > 500)); then
      echo "$file: $lines lines, over 500: split it"
      too_long=1
    elif ((lines > 300)); then
      echo "note: $file: $lines lines, over 300"
    fi
  done < <(find src test python tools bench examples \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.py' -o -name '*.sh' \) 2>/dev/null | sort)
  return "$too_long"
}

mkdir -p build
check format tools/format.sh --check
check clang-tidy clang_tidy
check ruff .venv/bin/ruff check --quiet --output-format concise
check "file lengths" file_lengths
check "texts of mutations" .venv/bin/python tools/mutate.py --check
check layering .venv/bin/python tools/check_layering.py
if ((${#failed[@]})); then
  printf 'lint: failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "lint: passed"
