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
check clang-tidy tools/clang_tidy.sh
check ruff .venv/bin/ruff check --quiet --output-format concise
check "file lengths" file_lengths
check "texts of mutations" .venv/bin/python tools/mutate.py --check
check layering .venv/bin/python tools/check_layering.py
if ((${#failed[@]})); then
  printf 'lint: failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "lint: passed"
