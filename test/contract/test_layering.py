"""The includes under src/tensorpager keep to the layering table."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(root):
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "check_layering.py", root], capture_output=True, text=True, timeout=60
    )


def plant(root, source, text):
    path = root / "src" / "tensorpager" / source
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_tree_keeps_to_the_table():
    done = check(ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("source", "include", "rule"),
    [
        ("base/a.h", '"tensorpager/pager/pager.h"', "base may not include pager"),
        ("plan/a.cpp", '"tensorpager/planning/planner.h"', "plan may not include planning"),
        ("pager/a.h", '"tensorpager/plan/plan.h"', "pager may not include plan"),
        ("memory/torch_allocator.h", '"tensorpager/intercept/frame.h"', "memory may not include intercept"),
        ("arena/a.h", "<torch/torch.h>", "arena may not include torch"),
        ("pager/a.cpp", "<ATen/ATen.h>", "pager may not include torch"),
        ("transfer/a.cpp", '"c10/core/Allocator.h"', "transfer may not include torch"),
        ("transfer/a.cpp", "<cuda_runtime.h>", "transfer may not include CUDA"),
        (
            "memory/fault_handler.cpp",
            "<c10/core/Allocator.h>",
            "in memory only host_memory, torch_allocator, torch_storages, storage_access may include torch",
        ),
        ("base/a.h", "<nlohmann/json.hpp>", "base may not include JSON"),
        ("pager/a.h", '"tensorpager/misc/a.h"', "misc is no folder of the table"),
        ("pager/a.h", '"../arena/slabs.h"', 'write includes of our own as "tensorpager/FOLDER/FILE"'),
        ("preload/a.cpp", '"tensorpager/base/bytes.h"', "preload may not include base"),
        ("session/a.cpp", '"tensorpager/api/report.h"', "session may not include api"),
        ("misc/a.h", "<vector>", "misc is no folder of the table"),
    ],
)
def test_a_planted_violation_is_named(tmp_path, source, include, rule):
    plant(tmp_path, "arena/slabs.h", "#pragma once\n")
    plant(tmp_path, source, f"#pragma once\n# include {include}\n")
    done = check(tmp_path)
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"src/tensorpager/{source}:") and line.endswith(rule)


def test_an_include_through_other_headers_is_named(tmp_path):
    plant(tmp_path, "arena/a.h", '#include "tensorpager/transfer/b.h"\n')
    plant(tmp_path, "transfer/b.h", "#pragma once\n")
    plant(tmp_path, "pager/c.h", '#include "tensorpager/arena/a.h"\n')
    plant(tmp_path, "base/d.h", '#include "tensorpager/base/e.h"\n')
    plant(tmp_path, "base/e.h", '#include "tensorpager/pager/c.h"\n')
    lines = check(tmp_path).stdout.splitlines()
    through = "src/tensorpager/base/d.h:1: tensorpager/base/e.h: base may not include pager, which comes by tensorpager/pager/c.h"
    assert through in lines


def test_what_the_table_allows_passes(tmp_path):
    plant(tmp_path, "pager/a.h", '#include "tensorpager/arena/a.h"\n#include "tensorpager/pager/b.h"\n')
    plant(tmp_path, "memory/torch_allocator.cpp", '#include <c10/core/Allocator.h>\n#include "tensorpager/pager/a.h"\n')
    plant(tmp_path, "cuda/a.cpp", "#include <cuda_runtime.h>\n")
    plant(tmp_path, "cli/main.cpp", '#include <CLI/CLI.hpp>\n#include "install_layout.h"\n')
    plant(tmp_path, "base/a.h", "// #include <torch/torch.h>\n")
    done = check(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_tree_without_sources_is_refused_and_not_passed(tmp_path):
    assert check(tmp_path).returncode == 2
