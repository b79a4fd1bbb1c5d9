#!/usr/bin/env bash
# Formats C++ and Python in place; with --check, changes nothing and fails where it would.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t cpp < <(find src test bench examples \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) 2>/dev/null | sort)
if [[ ${1:-} == --check ]]; then
  failed=0
  .venv/bin/clang-format --dry-run -Werror "${cpp[@]}" || failed=1
  .venv/bin/ruff format --check --diff --quiet || failed=1
  exit "$failed"
fi
.venv/bin/clang-format -i "${cpp[@]}"
.venv/bin/ruff check --quiet --select I --fix
.venv/bin/ruff format --quiet
