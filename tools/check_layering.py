"""Reads the includes under src/tensorpager against the layering table of the design.

    tools/check_layering.py [ROOT]

Prints one line for each include that breaks the table, and exits 1 if there is any.
"""

import re
import sys
from pathlib import Path

# Folder -> folders that it may include besides itself.
MAY_INCLUDE = {
    "base": set(),
    "preload": set(),
    "trace": {"base"},
    "plan": {"base", "trace"},
    "arena": {"base"},
    "transfer": {"base"},
    "pager": {"base", "plan", "arena", "transfer"},
    "sim": {"base", "trace", "plan", "arena", "transfer", "pager"},
    "guide": {"base", "trace", "plan", "transfer", "pager"},
    "fit": {"base", "trace", "plan", "sim"},
    "report": {"base", "trace", "plan", "pager"},
    "fake_cuda": {"base"},
    "emulation": {"base", "fake_cuda"},
    "dry": {"base", "fake_cuda"},
    "cuda": {"base", "intercept"},
    "memory": {"base", "trace", "arena", "pager"},
    "intercept": {"base", "trace", "arena", "pager"},
    "replay": {"base", "trace", "arena", "pager"},
}
MAY_INCLUDE["session"] = set(MAY_INCLUDE)
MAY_INCLUDE["api"] = {"base", "dry", "pager", "intercept", "session"}
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
    "transfer": {"CUDA", "zstd/lz4", "liburing"},
    "report": {"JSON"},
    "memory": {"torch", "CUDA"},
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
    ("memory", "torch"): ("torch_allocator", "torch_storages", "storage_access"),
    ("transfer", "CUDA"): ("cuda_engine",),
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


def violations(root: Path) -> list[str]:
    found = []
    tree = root / "src" / "tensorpager"
    for source in sorted(path for path in tree.rglob("*") if path.suffix in SOURCES):
        folder = source.relative_to(tree).parts[0]
        if folder not in MAY_INCLUDE:
            found.append(f"{source.relative_to(root)}: {folder} is no folder of the table")
            continue
        text = source.read_text()
        for match in INCLUDE.finditer(text):
            rule = broken_rule(source, folder, match[1])
            if rule:
                line = text.count("\n", 0, match.start(1)) + 1
                found.append(f"{source.relative_to(root)}:{line}: {match[1]}: {rule}")
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
