"""A CUDA device is paged, on the emulated card: unmodified programs keep their bits under a budget in every order of kernels, no two accesses
race, and what is charged stays within the budget.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import TORCH, card_of
from launch import HERE, emulated_python, run_command
from marks import needs_emulated_card, slow

import tensorpager

sys.path.insert(0, str(HERE.parent / "programs"))
from cases import PROGRAMS as NAMES

pytestmark = needs_emulated_card
PROGRAMS = HERE.parent / "programs"
CPP = HERE.parents[1] / "build" / "cpp" / "cpp_programs"
MIB = 1 << 20
# As a rule cuBLAS takes 32 MiB of a GPU of this kind for each thread and stream, more than these programs have.
SMALL_WORKSPACES = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}


PLAIN = {}  # what programs without a budget did, of which several tests ask the same


def run(folder, program, *arguments, budget=None, schedule="now", options=(), variables=SMALL_WORKSPACES, seconds=100):
    """Its standard output, its statistics and what it said."""
    case = (program, arguments, schedule, tuple(options), tuple(variables.items()))
    if not budget and case in PLAIN:
        return PLAIN[case]
    stats = folder / f"{program.stem}-{budget}-{schedule}.json"
    if budget:
        options = ["--device", "cuda", "--budget", budget, *options]
    card = ["--emulate", "h100-80g", "--emulate-seed", schedule, "--stats", stats]
    words = (*card, *options, "--", *emulated_python(), program, *arguments)
    done = run_command("run", *words, variables=variables, seconds=seconds)
    assert done.returncode == 0, done.stderr[-3000:]
    found = done.stdout, json.loads(stats.read_text()), done.stderr
    if not budget:
        PLAIN[case] = found
    return found


def check_paged(stats, budget):
    emulation = stats["emulation"]
    assert (emulation["races"], emulation["first_race"]) == (0, "")
    assert stats["budget_bytes"] == budget
    assert emulation["max_allocated_bytes"] <= stats["peak_bytes"] <= budget
    assert stats["floor_bytes"] <= stats["peak_bytes"]
    assert stats["over_budget_bytes"] == 0 and stats["failed_actions"] == 0
    assert stats["page_ins"] > 0 and stats["page_outs"] > 0


def share_of(need, share):
    return int(need["emulation"]["max_allocated_bytes"] * share) // 4096 * 4096


# Of each program what of its need is enough with one arena that its blocks share.
SHARES = {
    "gpt": 0.5,
    "transformer_encoder": 0.5,
    "checkpointing": 0.5,
    "unet": 0.5,
    "hugging_face_gpt2": 0.6,
}


@pytest.mark.parametrize(
    "program", ["gpt", "unet", *map(slow, ["transformer_encoder", "checkpointing", "hugging_face_gpt2"])]
)
@pytest.mark.parametrize("schedule", ["now", "1"])
def test_a_training_program_is_followed_with_the_same_bits(program, schedule, tmp_path):
    arguments = [PROGRAMS / f"{program}.py", "--device", "cuda", "--steps", 12]
    plain, need, _ = run(tmp_path, *arguments)
    budget = share_of(need, SHARES[program])
    paged, stats, said = run(tmp_path, *arguments, budget=budget, schedule=schedule, options=["--plan-sync"])
    assert paged == plain
    check_paged(stats, budget)
    assert "tensorpager: plan active: step of" in said
    assert stats["followed_windows"] >= 5
    # Where kernels are late, a thread of torch's engine frees what a backward pass held now earlier, now later.
    if schedule == "now":
        assert stats["windows_as_planned"] == stats["followed_windows"]
    assert stats["spill"] == "pinned memory"


@pytest.mark.parametrize(
    "program, budget", [("gpt", 12 * MIB), ("cnn", 3_500_000), ("lstm", 2_300_000), ("two_streams", 2_800_000)]
)
@pytest.mark.parametrize("schedule", ["1", "threads", *map(slow, ["now", "late", "2", "3", "4", "5", "6"])])
def test_on_demand_the_bits_are_the_same_in_every_order_of_kernels(program, budget, schedule, tmp_path):
    arguments = [HERE / "paging_programs.py", program, 0]
    plain, need, _ = run(tmp_path, *arguments)
    paged, stats, _ = run(tmp_path, *arguments, budget=budget, schedule=schedule, options=["--on-demand"])
    assert json.loads(paged)["digest"] == json.loads(plain)["digest"]
    assert json.loads(paged)["max_allocated"] <= budget < need["emulation"]["max_allocated_bytes"]
    check_paged(stats, budget)


# What ops of these need at once, between others that stay, is more than half.
LARGE_FLOORS = {"lstm": 0.8, "packed_lstm": 0.9, "unet": 0.6, "hugging_face_gpt2": 0.6}


@pytest.mark.slow
@pytest.mark.parametrize("program", NAMES)
@pytest.mark.parametrize("schedule", ["2", "3"])
def test_every_program_keeps_its_bits(program, schedule, tmp_path):
    arguments = [PROGRAMS / f"{program}.py", "--device", "cuda", "--steps", 3]
    plain, need, _ = run(tmp_path, *arguments)
    budget = share_of(need, LARGE_FLOORS.get(program, 0.5))
    paged, stats, _ = run(tmp_path, *arguments, budget=budget, schedule=schedule, options=["--on-demand"])
    assert paged == plain
    check_paged(stats, budget)


@pytest.mark.skipif(not CPP.exists(), reason="the C++ programs are not built")
@pytest.mark.parametrize("name", ["resnet", "transformer"])
def test_a_cpp_program_keeps_its_bits(name, tmp_path):
    card, stats = ["--emulate", "h100-80g", "--emulate-seed", "1"], tmp_path / "stats.json"
    program = ["--", CPP, name, 3, "cuda"]
    plain = run_command("run", *card, *program, variables=SMALL_WORKSPACES)
    paged = run_command(
        "run", *card, "--device", "cuda", "--budget", 16 * MIB, "--stats", stats, *program, variables=SMALL_WORKSPACES
    )
    assert (paged.returncode, paged.stdout) == (0, plain.stdout), paged.stderr
    check_paged(json.loads(stats.read_text()), 16 * MIB)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["gpt", "two_streams", "cnn", "lstm"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_random_evictions_change_nothing(program, seed, tmp_path):
    arguments = [HERE / "paging_programs.py", program, 0]
    plain, _, _ = run(tmp_path, *arguments)
    options = ["--on-demand", "--fuzz", seed]
    paged, stats, _ = run(tmp_path, *arguments, budget=64 * MIB, schedule=str(seed), options=options)
    assert json.loads(paged)["digest"] == json.loads(plain)["digest"]
    assert stats["emulation"]["races"] == 0 and stats["fuzz_page_outs"] > 100


@pytest.mark.slow
# Two threads of a rank have a workspace of 128 KiB for cuBLAS and one for cuBLASLt. What a sharded step needs depends on
# how far a rank is ahead of the other.
@pytest.mark.parametrize("way, need, budget", [("data_parallel", r"16\.2", 9), ("fully_sharded", r"7\.\d\d", 5)])
def test_ranks_have_a_budget_each(way, need, budget, tmp_path):
    torchrun = Path(sys.executable).with_name("torchrun")
    command = ["--", torchrun, "--nproc-per-node", 2, HERE / "cuda_paging_ranks.py", way]
    card = ["--emulate", "h100-80g", "--emulate-seed", "1"]
    paged = ["--device", "cuda", "--budget", budget * MIB, "--on-demand"]
    plain = run_command("run", *card, *command, variables=SMALL_WORKSPACES, seconds=200)
    done = run_command("run", *card, *paged, *command, variables=SMALL_WORKSPACES, seconds=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert len(done.stdout.splitlines()) == 2
    for rank in range(2):
        figures = re.search(rf"rank {rank}: need {need} MiB, budget {budget}\.00 MiB, .*; (\d+) page-outs", done.stderr)
        assert figures and int(figures[1]) > 20, done.stderr[-3000:]
    assert done.stderr.count(" 0 races") >= 2


def found(folder, name, budget, **options):
    printed, stats, _ = run(folder, HERE / "cuda_paging_programs.py", name, budget=budget, **options)
    return json.loads(printed), stats


def test_torch_says_what_is_resident(tmp_path):
    figures, stats = found(tmp_path, "figures", 8 * MIB)
    check_paged(stats, 8 * MIB)
    assert figures["sums"] == list(range(16))
    assert figures["backend"] == "tensorpager"
    assert figures["allocated"] <= figures["most_allocated"] <= figures["reserved"] == 8 * MIB
    assert figures["most_allocated"] == stats["peak_bytes"]
    assert figures["most_after"] == figures["allocated_after"] <= MIB


def test_what_is_paged_out_beyond_the_pinned_memory_is_staged(tmp_path):
    program = [PROGRAMS / "gpt.py", "--device", "cuda", "--steps", 10]
    plain, _, _ = run(tmp_path, *program)
    options = ["--plan-sync", "--pinned", MIB]
    paged, stats, said = run(tmp_path, *program, budget=20 * MIB, schedule="2", options=options)
    check_paged(stats, 20 * MIB)
    assert paged == plain
    assert stats["windows_as_planned"] > 2
    # Of it half are the two buffers, which are taken with the first copies that are staged.
    assert stats["pinned_bytes"] == MIB and "; pinned 1.00 MiB" in said


def test_budget_may_be_a_share_of_the_card(tmp_path):
    small, stats = card_of(tmp_path, 32 * MIB), tmp_path / "stats.json"
    program = ["--", sys.executable, HERE / "cuda_paging_programs.py", "figures"]
    for share, budget in [("25%", 8 * MIB), ("12.5%", 4 * MIB)]:
        options = ["--emulate", small, "--budget", f"cuda={share}", "--stats", stats]
        done = run_command("run", *options, *program, variables=SMALL_WORKSPACES)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["sums"] == list(range(16))
        check_paged(json.loads(stats.read_text()), budget)
    refused = run_command("run", "--emulate", small, "--budget", "cuda=120%", *program, variables=SMALL_WORKSPACES)
    assert refused.returncode != 0
    assert f"cannot use {round(1.2 * 32 * MIB) // 512 * 512} bytes of the device's memory" in refused.stderr


def test_a_device_needs_a_budget(tmp_path):
    program = ["--", sys.executable, HERE / "cuda_paging_programs.py", "figures"]
    small = card_of(tmp_path, 32 * MIB)
    done = run_command("run", "--emulate", small, "--device", "cuda", "--budget", "unlimited", *program)
    assert done.returncode != 0
    assert "a CUDA device needs a budget" in done.stderr and "cuda=100%" in done.stderr


def test_what_does_not_fit_is_an_error_of_torch_and_nothing_is_lost(tmp_path):
    out, _ = found(tmp_path, "out_of_memory", 8 * MIB)
    assert out["sums"] == list(range(12))
    assert len(out["errors"]) == 3
    for error, op in zip(out["errors"], ["aten::cat(", "aten::cat.out(", "aten::cat("]):
        assert error.startswith(f"Tensorpager: {op}"), error
        assert "budget of 8.00 MiB" in error and "try a larger --budget" in error


@pytest.mark.parametrize("seed", [1, 2])
def test_writes_of_which_no_schema_says_are_not_lost(seed, tmp_path):
    plain, _ = found(tmp_path, "unannounced_writes", None)
    paged, stats = found(tmp_path, "unannounced_writes", 64 * MIB, options=["--on-demand", "--fuzz", seed])
    assert paged == plain
    assert stats["fuzz_page_outs"] > 20


def test_code_that_wants_an_address_keeps_the_tensor_there(tmp_path):
    access, stats = found(tmp_path, "raw_access", 8 * MIB)
    assert access["pointers_stay"] and access["interface"]
    assert access["sums"] == [i + 1 for i in range(16)]
    assert access["array"] == [10, 10]
    assert stats["emulation"]["races"] == 0


def test_what_needs_lasting_addresses_is_refused_with_what_to_do(tmp_path):
    refused, _ = found(tmp_path, "refusals", 16 * MIB)
    assert len(refused["errors"]) == 3
    assert all(error.startswith("Tensorpager: ") for error in refused["errors"])
    assert refused["sum"] == 3


CALLS = [
    "cudaHostAlloc",
    "cudaMemcpyAsync",
    "cudaEventCreateWithFlags",
    "cudaEventRecord",
    "cudaStreamWaitEvent",
    "cudaEventQuery",
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("number", [1, 9, *map(slow, [2, 3, 4, 5, 40, 100])])
def test_a_call_that_fails_is_one_error_and_nothing_is_lost(call, number, tmp_path):
    variables = SMALL_WORKSPACES | {"TENSORPAGER_EMULATE_FAIL": f"{call}:{number}"}
    failed, stats = found(tmp_path, "failures", 8 * MIB, variables=variables, options=["--on-demand"])
    assert failed["right"] == [True] * 16
    assert len(failed["errors"]) <= 1
    for error in failed["errors"]:  # of ours, or of torch if the call was one of torch's own
        assert (error.startswith("Tensorpager: aten::") and call in error) or error.startswith("CUDA error: "), error
    assert failed["resident"] <= 8 * MIB and stats["emulation"]["races"] == 0


@pytest.mark.parametrize("schedule", ["2", "threads"])
def test_tensors_outlive_sessions(schedule, tmp_path):
    outlived, stats = found(tmp_path, "sessions", None, schedule=schedule)
    assert outlived["right"] == [True] * 3
    assert outlived["backend"] == "native" and outlived["most"] <= 8 * MIB
    assert "cannot grow within a process" in outlived["error"]
    assert (stats["emulation"]["races"], stats["emulation"]["first_race"]) == (0, "")


def test_workspaces_of_libraries_lie_out_of_the_way(tmp_path):
    plain, need, _ = run(tmp_path, HERE / "cuda_paging_programs.py", "workspaces", variables={})
    budget = 64 * MIB + share_of(need, 0.5)
    paged, stats = found(tmp_path, "workspaces", budget, variables={}, schedule="1", options=["--on-demand"])
    assert paged["losses"] == json.loads(plain)["losses"]
    check_paged(stats, budget)
    if TORCH < (2, 15):  # later, a product's workspace is a temporary of that op
        assert stats["slab_bytes"] >= 64 * MIB


def test_plans_know_the_workspaces_of_libraries(tmp_path):
    arguments = [PROGRAMS / "gpt.py", "--device", "cuda", "--steps", 12]
    large = {"CUBLAS_WORKSPACE_CONFIG": ":256:8"}  # 2 MiB: much against this program's tensors
    plain, need, _ = run(tmp_path, *arguments, variables=large)
    budget = share_of(need, 0.6)
    paged, stats, _ = run(tmp_path, *arguments, budget=budget, options=["--plan-sync"], variables=large)
    assert paged == plain
    check_paged(stats, budget)
    assert stats["live_blocks"] == 0  # what libraries keep is none, or it would split the arena
    assert stats["windows_as_planned"] == stats["followed_windows"] >= 5


def test_no_op_does_otherwise_because_the_budget_is_short(tmp_path):
    printed, _ = found(tmp_path, "hidden_shortage", 16 * MIB)
    assert "256 MiB asked for" in printed["error"] and "budget of 16.0 MiB" in printed["error"]
    assert printed["sum"] == 1 << 16


def test_libraries_that_are_loaded_by_name_show_functions_with_c_linkage_only():
    folder = Path(tensorpager.__file__).parent / "lib"
    for library in ("libtensorpager_cuda.so", "libtensorpager_emulation.so"):
        listed = subprocess.run(["nm", "-D", "--defined-only", folder / library], capture_output=True, text=True)
        names = [line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()]
        assert names and all(name.startswith("tensorpager_") for name in names)


def test_a_budget_may_name_its_device(tmp_path):
    program = HERE / "cuda_paging_programs.py"
    done = run_command(
        "run",
        "--emulate",
        "h100-80g",
        "--budget",
        "cuda=8MiB",
        "--",
        sys.executable,
        program,
        "figures",
        variables=SMALL_WORKSPACES,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backend"] == "tensorpager"
    assert "budget 8.00 MiB" in done.stderr


def test_a_budget_of_the_cpu_does_not_hide_that_the_program_used_a_card():
    program = "import torch; torch.ones(9, device='cuda')"
    done = run_command("run", "--emulate", "h100-80g", "--budget", "1GiB", "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert "for the device's, add --device cuda" in done.stderr


def test_a_program_that_uses_no_cuda_says_so(tmp_path):
    done = run_command(
        "run",
        "--emulate",
        "h100-80g",
        "--device",
        "cuda",
        "--budget",
        "1GiB",
        "--",
        sys.executable,
        "-c",
        "import torch; torch.ones(9)",
    )
    assert done.returncode == 0
    assert "did not use CUDA" in done.stderr
