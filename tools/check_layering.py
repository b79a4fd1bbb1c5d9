"""Reads the includes under src/tensorpager against the layering table of the design.

    tools/check_layering.py [ROOT]

Prints one line for each include that breaks the table, and exits 1 if there is any.
"""

import re
import sys
from pathlib import Path

# Folder -> folders that it may include besides itself, directly or through other headers.
MAY_INCLUDE = {
    "base": set(),
    "preload": set(),
    "trace": {"base"},
    "machine": {"base", "trace"},
    "plan": {"base", "trace", "machine"},
    "planning": {"base", "trace", "machine", "plan"},
    "arena": {"base"},
    "device": {"base"},
    "transfer": {"base", "device"},
    "pager": {"base", "arena", "device", "transfer"},
    "follow": {"base", "trace", "machine", "plan", "arena", "device", "transfer", "pager"},
    "fake_cuda": {"base"},
    "roofline": {"base"},
    "emulation": {"base", "fake_cuda", "roofline"},
    "dry": {"base", "fake_cuda"},
}
MAY_INCLUDE["sim"] = {"base", "trace", "machine", "plan", "arena", "device", "transfer", "pager", "follow"}
MAY_INCLUDE["guide"] = MAY_INCLUDE["sim"] | {"planning"}
MAY_INCLUDE["fit"] = MAY_INCLUDE["sim"] | {"planning", "sim"}
MAY_INCLUDE["report"] = {"base", "trace", "machine", "plan"}
MAY_INCLUDE["memory"] = {
    "base",
    "trace",
    "arena",
    "device",
    "transfer",
    "pager",
}
MAY_INCLUDE["intercept"] = MAY_INCLUDE["memory"] | {"roofline"}
MAY_INCLUDE["replay"] = MAY_INCLUDE["intercept"] | {"intercept"}
MAY_INCLUDE["cuda"] = MAY_INCLUDE["replay"] | {"memory"}
MAY_INCLUDE["session"] = set(MAY_INCLUDE)
MAY_INCLUDE["api"] = set(MAY_INCLUDE)
MAY_INCLUDE["cli"] = set(MAY_INCLUDE) - {"api"}

# Library -> how its includes begin.
LIBRARIES = {
    "torch": ("torch/", "ATen/", "c10/", "caffe2/"),
    "CUDA": ("cuda", "cublas", "cudnn", "nccl", "nvrtc", "nvtx"),
    "pybind11": ("pybind11/", "Python.h"),
    "CLI11": ("CLI/",),
    "JSON": ("nlohmann/",),
    "zstd/lz4": ("zstd", "lz4"),
    "liburing": ("liburing",),
}
# Folder -> libraries that it may include. One that is not listed has the standard library and the system's headers only.
MAY_USE = {
    "transfer": {"zstd/lz4", "liburing"},
    "report": {"JSON"},
    "memory": {"torch", "CUDA"},
    "roofline": {"torch"},
    "intercept": {"torch", "CUDA"},
    "fake_cuda": {"CUDA"},
    "emulation": {"torch", "CUDA"},
    "dry": {"torch"},
    "cuda": {"torch", "CUDA"},
    "replay": {"torch", "CUDA"},
    "session": {"torch", "CUDA", "pybind11", "JSON"},
    "api": {"torch", "JSON"},
    "cli": {"CLI11", "JSON"},
}
# Folder and library -> the files, header and source, that may include it. The rest of memory is built without torch too.
ONLY_IN = {
    ("memory", "torch"): ("host_memory", "torch_allocator", "torch_storages", "storage_access"),
}

SOURCES = {".h", ".cpp", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def broken_rule(source: Path, folder: str, included: str) -> str | None:
    """What is wrong with `included` in `source`, a file of `folder`; None if nothing is."""
    if included.startswith("tensorpager/"):
        target = included.split("/")[1]
        if target not in MAY_INCLUDE:
            return f"{target} is no folder of the table"
        if target != folder and target not in MAY_INCLUDE[folder]:
            return f"{folder} may not include {target}"
        return None
    if (source.parent / included).exists():
        return 'write includes of our own as "tensorpager/FOLDER/FILE"'
    for library, beginnings in LIBRARIES.items():
        if not included.startswith(beginnings):
            continue
        if library not in MAY_USE.get(folder, set()):
            return f"{folder} may not include {library}"
        only_in = ONLY_IN.get((folder, library))
        if only_in and source.stem not in only_in:
            return f"in {folder} only {', '.join(only_in)} may include {library}"
    return None


class Tree:
    """The sources under ROOT/src/tensorpager, and which headers of ours each includes."""

    def __init__(self, root: Path):
        self.folder = root / "src"
        self.includes = {}  # path under src -> [(line, included)]
        for source in sorted((self.folder / "tensorpager").rglob("*")):
            if source.suffix in SOURCES:
                text = source.read_text()
                self.includes[str(source.relative_to(self.folder))] = [
                    (text.count("\n", 0, match.start(1)) + 1, match[1]) for match in INCLUDE.finditer(text)
                ]

    def reached_from(self, header: str) -> list[str]:
        """Our headers that `header` includes, directly or not, the nearest first."""
        reached, queue = [], [header]
        while queue:
            for _, included in self.includes.get(queue.pop(0), []):
                if included.startswith("tensorpager/") and included not in reached:
                    reached.append(included)
                    queue.append(included)
        return reached


def violations(root: Path) -> list[str]:
    tree = Tree(root)
    found = []
    for source, includes in tree.includes.items():
        folder = source.split("/")[1]
        if folder not in MAY_INCLUDE:
            found.append(f"src/{source}: {folder} is no folder of the table")
            continue
        for line, included in includes:
            place = f"src/{source}:{line}: {included}: "
            rule = broken_rule(tree.folder / source, folder, included)
            if rule:
                found.append(place + rule)
                continue
            allowed = MAY_INCLUDE[folder] | {folder}
            for header in tree.reached_from(included):
                target = header.split("/")[1]
                if target in MAY_INCLUDE and target not in allowed:
                    found.append(f"{place}{folder} may not include {target}, which comes by {header}")
                    break
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    if not (root / "src" / "tensorpager").is_dir():
        print(f"{root}: has no src/tensorpager", file=sys.stderr)
        return 2
    found = violations(root)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
