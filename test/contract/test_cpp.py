"""C++ programs under `tensorpager run`: what the preload library adds to those that have libtorch, and to all others nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_command

BUILT = Path(__file__).resolve().parents[2] / "build" / "cpp"
BUDGET = 3 << 20
MODES = ["statics", "exit_code", "thread_at_exit", "save", "system_calls"]


def unaware(mode, folder, **options):
    """The program by itself, and under a budget that it does not fit in."""
    program = [BUILT / "cpp_unaware", mode, folder / "file"]
    plain = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=60)
    words = ["--budget", BUDGET, "--spill", folder, "--stats", folder / "stats.json", *options.pop("words", [])]
    return plain, run_command("run", *words, "--", *program, **options)


def stats_of(folder, pid=None):
    return json.loads((folder / ("stats.json" if pid is None else f"stats.json.{pid}")).read_text())


RAW = {"save", "system_calls"}  # addresses: torch::save's, and the program's own


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[pytest.mark.stable("raw addresses")] if mode in RAW else []) for mode in MODES],
)
def test_unaware_program_prints_the_same_and_ends_the_same(mode, tmp_path):
    plain, paged = unaware(mode, tmp_path)
    assert (paged.returncode, paged.stdout) == (plain.returncode, plain.stdout)
    assert plain.stdout and "DIFFERENT" not in plain.stdout
    stats = stats_of(tmp_path)
    assert stats["peak_bytes"] <= BUDGET < stats["need_bytes"] and stats["page_outs"] > 0
    assert (stats["over_budget_bytes"], stats["pins"], stats["export_bytes"]) == (0, 0, 0)


def test_one_line_at_the_end_sums_up_and_quiet_drops_it(tmp_path):
    (line,) = unaware("exit_code", tmp_path)[1].stderr.splitlines()
    counts = stats_of(tmp_path)
    assert line.startswith("tensorpager: need ") and "budget 3.00 MiB" in line
    assert f"{counts['page_outs']} page-outs" in line and f"{counts['page_ins']} page-ins" in line
    assert unaware("exit_code", tmp_path, words=["--quiet"])[1].stderr == ""


def test_statistics_have_the_names_that_those_of_python_programs_have(tmp_path):
    unaware("exit_code", tmp_path, variables={"TENSORPAGER_CURVE": "1"})
    ours = stats_of(tmp_path)
    program = [sys.executable, "-c", "import torch; torch.ones(1 << 20)"]
    done = run_command("run", "--budget", "1GiB", "--stats", tmp_path / "python.json", "--", *program)
    assert done.returncode == 0, done.stderr
    theirs = json.loads((tmp_path / "python.json").read_text())
    assert set(ours) - {"curve"} == set(theirs) - {"foreign_before_bytes"}
    assert len(ours["curve"]["op"]) == len(ours["curve"]["live_bytes"]) == len(ours["curve"]["charged_bytes"]) > 10
    assert max(ours["curve"]["live_bytes"]) == ours["need_bytes"]


def test_op_that_does_not_fit_is_caught_by_the_program_and_changes_nothing(tmp_path):
    plain, paged = unaware("out_of_memory", tmp_path)
    assert paged.returncode == 0, paged.stderr
    first, *caught, last = paged.stdout.splitlines()
    assert [first, last] == [plain.stdout.splitlines()[0], plain.stdout.splitlines()[-1]]
    assert caught == ["caught Tensorpager: aten::ones()"] * 3
    assert plain.stdout.splitlines()[1:-1] == ["fits"] * 3


def test_error_that_nobody_catches_ends_the_program_with_its_text(tmp_path):
    _, paged = unaware("not_caught", tmp_path)
    assert paged.returncode == -6
    assert "Tensorpager: aten::ones(): out of memory under the budget: 16.0 MiB asked for" in paged.stderr


def test_fork_is_paged_and_writes_its_own_statistics(tmp_path):
    plain, paged = unaware("forks", tmp_path)
    pid = re.search(r"child (\d+)", paged.stdout)[1]
    assert paged.stdout.replace(pid, "") == re.sub(r"child \d+", "child ", plain.stdout)
    child, parent = stats_of(tmp_path, pid), stats_of(tmp_path)
    assert child["peak_bytes"] <= BUDGET and parent["peak_bytes"] <= BUDGET
    assert child["page_outs"] > 0 and parent["page_outs"] > 0
    assert len(paged.stderr.splitlines()) == 1  # the parent's line


def test_rank_of_torchrun_prints_its_own_line_and_writes_its_own_file(tmp_path):
    variables = {"RANK": "3", "LOCAL_WORLD_SIZE": "4"}
    (line,) = unaware("exit_code", tmp_path, variables=variables)[1].stderr.splitlines()
    assert line.startswith("tensorpager: rank 3: need ")
    assert [path.name for path in tmp_path.glob("stats.json*")] == ["stats.json.rank3"]


def test_bad_setting_is_one_line_and_exit_code_2():
    variables = {"TENSORPAGER_FUZZ_EVICTIONS": "many", "TENSORPAGER_BUDGET": "1GiB"}
    package = Path(run_command("--cmake-dir").stdout.strip()).parent
    variables["LD_PRELOAD"] = str(package / "lib" / "libtensorpager_preload.so")
    program = [BUILT / "cpp_unaware", "exit_code"]
    done = subprocess.run(program, env=environment(**variables), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tensorpager: TENSORPAGER_FUZZ_EVICTIONS: 'many' is not a whole number\n"


# --- programs that are not linked to our libtorch


def run_other(*program, **variables):
    return run_command("run", "--budget", "1GiB", "--quiet", "--", *program, variables=variables)


def torch_library():
    import importlib.util

    return Path(importlib.util.find_spec("torch").origin).parent / "lib" / "libtorch_cpu.so"


def test_other_programs_get_no_library_but_the_preloaded_one():
    done = run_other("cat", "/proc/self/maps")
    libraries = {Path(line.split()[-1]).name for line in done.stdout.splitlines() if ".so" in line}
    assert "libtensorpager_preload.so" in libraries
    assert not [name for name in libraries if re.match(r"libtorch|libc10|libtensorpager\.so|libstdc", name)]
    assert done.stderr == ""


def test_what_the_environment_preloads_comes_before_ours(tmp_path):
    done = run_other("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=str(BUILT / "old" / "libtorch_cpu.so"))
    theirs, ours = done.stdout.strip().split(":")
    assert theirs.endswith("old/libtorch_cpu.so") and ours.endswith("/libtensorpager_preload.so")


def test_program_with_an_address_sanitizer_starts(tmp_path):
    (tmp_path / "program.cpp").write_text("int main() { return *new int(6); }")
    words = ["g++", "-fsanitize=address", tmp_path / "program.cpp", "-o", tmp_path / "program"]
    built = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    done = run_other(tmp_path / "program", ASAN_OPTIONS="detect_leaks=0")
    assert (done.returncode, done.stderr) == (6, "")


@pytest.mark.parametrize(
    ("version", "text"), [("new", "its torch is 9.1.2 ("), ("old", "its torch is older than 2.9 (")]
)
def test_torch_of_another_version_is_told_and_left_alone(version, text):
    done = run_other("true", LD_PRELOAD=str(BUILT / version / "libtorch_cpu.so"))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 0
    assert line.startswith(f"tensorpager: true is not paged: {text}") and f"/{version}/libtorch_cpu.so)" in line
    assert "was built for torch 2." in line and "run `make build`" in line


def test_torch_that_is_linked_into_the_program_is_told():
    done = run_other(BUILT / "cpp_torch_inside")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 4
    assert "is not paged: libtorch is linked into it; link it with the shared libraries of torch 2." in line


def test_torch_that_comes_by_dlopen_is_told_at_the_end_and_the_advice_works():
    library = torch_library()
    done = run_other(BUILT / "cpp_late", library)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 3
    advice = f"start it with LD_PRELOAD={library}"
    assert line.endswith(f"is not paged: it loaded libtorch after its start, by dlopen(); {advice}")
    followed = run_command(
        "run", "--budget", "1GiB", "--", BUILT / "cpp_late", library, variables={"LD_PRELOAD": str(library)}
    )
    assert (followed.returncode, followed.stdout) == (3, "")
    assert followed.stderr == "tensorpager: budget 1.00 GiB; no tensors in this process\n"
    assert run_other(BUILT / "cpp_late").stderr == ""


def test_python_that_ignores_the_hook_is_told():
    done = run_other(sys.executable, "-I", "-c", "import torch; print(torch.ones(2).sum().item())")
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert "is not paged: its Python ignores PYTHONPATH (-E, -I or -S?); call tensorpager.enable() in it" in line


EMBEDDED = """\
import ctypes, os, torch, tensorpager
from tensorpager import _core
x = [torch.rand(256, 256) for _ in range(40)]
array = x[0].numpy()
assert tensorpager.stats()["export_bytes"] == 256 << 10
print(tensorpager.stats()["page_outs"] > 0, len([line for line in open("/proc/self/maps") if "libtensorpager.so" in line]) > 0)
"""


def test_process_with_libtorch_and_python_has_one_session_that_serves_both(tmp_path):
    """As in a C++ program with a Python inside: libtorch is there before Python starts."""
    options = ["--budget", BUDGET, "--spill", tmp_path, "--stats", tmp_path / "stats.json"]
    program = [sys.executable, "-c", EMBEDDED]
    done = run_command("run", *options, "--", *program, variables={"LD_PRELOAD": str(torch_library())})
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
    assert len(done.stderr.splitlines()) == 1  # one session, one line
    assert stats_of(tmp_path)["page_outs"] > 0


RAW_ADDRESS = """\
import ctypes, os, torch, training
from tensorpager import _core
libc = ctypes.CDLL(None, use_errno=True)
tensor = torch.arange(1 << 18, dtype=torch.float32)
address = tensor.data_ptr()
copy = torch.empty_like(tensor)
target = copy.data_ptr()
file = os.open("file", os.O_RDWR | os.O_CREAT)
_core.page_out_all()
assert libc.write(file, ctypes.c_void_p(address), tensor.nbytes) == tensor.nbytes, os.strerror(ctypes.get_errno())
_core.page_out_all()
assert libc.pread(file, ctypes.c_void_p(target), ctypes.c_size_t(tensor.nbytes), ctypes.c_long(0)) == tensor.nbytes
print(copy.equal(tensor))
"""


def test_raw_address_in_a_python_program_may_be_handed_to_a_system_call(tmp_path):
    options = ["--budget", "8MiB", "--spill", tmp_path, "--quiet"]
    done = run_command("run", *options, "--", sys.executable, "-c", RAW_ADDRESS, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
