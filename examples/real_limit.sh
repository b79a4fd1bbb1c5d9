#!/usr/bin/env bash
# A limit that the kernel enforces: under one `ulimit -d` the plain program dies and the same program under a budget finishes.
#
#   examples/real_limit.sh [BATCH]        default 1024
#
# The limit is base + need / 2, the budget need / 4. Base is the data segment of Python and torch after a tiny step (thread
# stacks too). What is paged out does not count against the limit: its addresses are mapped without access.
# DATA, PYTHON and TENSORPAGER name other places. Exit code 0: the plain run failed and the paged one finished.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
tensorpager=${TENSORPAGER:-$(dirname "$python")/tensorpager}
batch=${1:-1024}
out=$here/../out/real_limit
mkdir -p "$out"

for command in "$python" "$tensorpager"; do
  command -v "$command" >/dev/null || { echo "real_limit: no $command; run \`make build\`" >&2; exit 1; }
done
data=${DATA:-}
if [[ -z $data ]]; then
  data=$("$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import demo; print(demo.find_data(None))' "$here")
fi
program=("$here/fashion_mnist.py" --data "$data" --test-images 0)

mib() { echo "$(($1 >> 20)) MiB"; }
last_line() { tail -n 1 "$1" 2>/dev/null || true; }

base_kib=$("$python" -c '
import re, runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(re.search(r"VmData:\s+(\d+)", open("/proc/self/status").read())[1])' "${program[@]}" --batch 8 --steps 1 | tail -n 1)
base=$((base_kib * 1024))

"$tensorpager" run --budget unlimited --stats "$out/need.json" -- "$python" "${program[@]}" --batch "$batch" --steps 1 \
  >"$out/need.log" 2>&1 || { echo "real_limit: measuring the need failed: $(last_line "$out/need.log")" >&2; exit 1; }
need=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["need_bytes"])' "$out/need.json")
limit=$((base + need / 2)) budget=$((need / 4))
echo "batch $batch: base $(mib $base), need $(mib "$need"); ulimit -d $(mib $limit), budget $(mib $budget)"

# run_limited NAME COMMAND...: a subshell takes the limit; prints how it ended and sets `code`.
run_limited() {
  local name=$1
  shift
  code=0
  (ulimit -d $((limit / 1024)) && exec "$@") >"$out/$name.out" 2>"$out/$name.err" || code=$?
  if ((code)); then
    echo "$name: died with exit code $code: $(last_line "$out/$name.err")"
  else
    echo "$name: finished: $(grep '^step' "$out/$name.out" | last_line /dev/stdin)"
  fi
}

run_limited plain "$python" "${program[@]}" --batch "$batch" --steps 2
plain=$code
run_limited paged "$tensorpager" run --budget $budget -- "$python" "${program[@]}" --batch "$batch" --steps 2
((plain != 0 && code == 0))
