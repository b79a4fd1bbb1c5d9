#!/usr/bin/env bash
# Builds the folders that need no torch with a preset (std, asan or tsan), and runs their tests.
#
#   tools/test_std_only.sh PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

tools/debian_package.sh libgtest-dev libgmock-dev

# g++ 12's ThreadSanitizer stops at once where the kernel randomises addresses in 32 bits. The build runs the tests too, to list them.
fixed_addresses=()
if [[ $preset == tsan ]] && setarch -R true 2>/dev/null; then
  fixed_addresses=(setarch -R)
fi
cmake --preset "$preset"
"${fixed_addresses[@]}" cmake --build --preset "$preset"
"${fixed_addresses[@]}" ctest --preset "$preset"
