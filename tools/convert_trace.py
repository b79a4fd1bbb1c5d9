"""Makes a trace file from a recording whose sizes are affine in the batch.

    tools/convert_trace.py RECORDING[.gz] BATCH OUTPUT [--precision bfloat16]

A recording's first line holds the numbers of ops and storages. A line a storage follows: `persistent A B`, for
A + B * batch bytes; then a line an op: `name random list backward FLOPS_A FLOPS_B BYTES_A BYTES_B`, and three lists,
each with its length before it: read, new, and mutated storages. What is not persistent dies after its last use.

Ops are marked as pure by their names: all but those that draw, work on lists, or write what is persistent. Batch norm
writes its running statistics only, and so runs again on clones of them.
"""

import argparse
import gzip
from pathlib import Path

GRANULE = 512
SCRATCH = {"native_batch_norm", "cudnn_batch_norm"}
# Made without values, or summed in no fixed order on a card.
NEVER = {
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "embedding_dense_backward",
    "max_pool2d_with_indices_backward",
}


def affine(words: list[str], batch: int) -> int:
    return max(0, round(float(words[0]) + float(words[1]) * batch))


def lists(words: list[str]) -> list[list[int]]:
    found = []
    while words:
        count = int(words[0])
        found.append([int(word) for word in words[1 : 1 + count]])
        words = words[1 + count :]
    return found


def field(key: str, ids: list[int]) -> str:
    return f" {key}={','.join(map(str, ids))}" if ids else ""


def convert(lines: list[str], batch: int, precision: str) -> str:
    op_count, storage_count = map(int, lines[0].split())
    storages = [line.split() for line in lines[1 : 1 + storage_count]]
    ops = [line.split() for line in lines[1 + storage_count : 1 + storage_count + op_count]]
    touched = [lists(words[8:]) for words in ops]
    persistent = [words[0] == "1" for words in storages]
    last_use = {storage: i for i, groups in enumerate(touched) for ids in groups for storage in ids}

    # What no op touches is left out: the recording has no life for it.
    kept = [s for s in range(storage_count) if s in last_use or persistent[s]]
    number = {storage: i for i, storage in enumerate(kept)}
    out = ["tensorpager-trace 1", f"granule {GRANULE}"]
    for i, storage in enumerate(kept):
        out.append(
            f"storage {i} bytes={affine(storages[storage][1:], batch)}" + f" entry identity={i}" * persistent[storage]
        )

    alive = {s for s in kept if persistent[s]}
    for i, (words, (reads, new, mutated)) in enumerate(zip(ops, touched)):
        births = [s for s in dict.fromkeys(new + mutated + reads) if s not in alive]
        alive.update(births)
        deaths = [s for s in dict.fromkeys(reads + new + mutated) if last_use[s] == i and not persistent[s]]
        ids = [("reads", [s for s in dict.fromkeys(reads) if s not in births])]
        ids += [("writes", [s for s in dict.fromkeys(mutated + new) if s not in births])]
        ids += [("births", births), ("deaths", deaths)]
        line = f"op {words[0]}" + "".join(field(key, [number[s] for s in group]) for key, group in ids)
        flops, moved = affine(words[4:6], batch), affine(words[6:8], batch)
        line += f" flops={flops}" * (flops > 0) + f" moved={moved}" * (moved > 0)
        line += f" precision={precision}" * (precision != "float32" and flops > 0)
        writes_persistent = any(persistent[s] for s in mutated + new if s not in births)
        if words[0] in SCRATCH:
            line += " scratch"
        elif not writes_persistent and words[0] not in NEVER and words[1:3] == ["0", "0"]:
            line += " pure"
        line += "".join(f" {name}" for name, on in zip(("random", "list", "backward"), words[1:4]) if on == "1")
        alive.difference_update(deaths)
        out.append(line)
    return "\n".join(out) + "\nend\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("batch", type=int)
    parser.add_argument("output", type=Path)
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args()
    packed = options.recording.read_bytes()
    text = gzip.decompress(packed) if options.recording.suffix == ".gz" else packed
    options.output.write_text(convert(text.decode().splitlines(), options.batch, options.precision))


if __name__ == "__main__":
    main()
