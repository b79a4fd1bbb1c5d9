"""Ranks that torchrun starts under `tensorpager run`: each is paged, and `N%` is of the machine and not of each rank."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_command

from tensorpager import _core

SHORT = 2 << 20  # a budget below what a rank needs
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
PROGRAM = """\
import multiprocessing, os, sys
import torch
import torch.distributed as dist
from training import make_model, train

def child():
    import torch

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(make_model(), bucket_cap_mb=0.1)
    losses = train(model, seed=rank)
    if rank == 0:
        process = multiprocessing.get_context("spawn").Process(target=child)
        process.start()
        process.join()
    with open(sys.argv[1] + f"/{rank}", "w") as seen:
        print(os.environ.get("TENSORPAGER_BUDGET"), *losses, file=seen)
    dist.destroy_process_group()
"""


def losses(folder):
    return [(folder / str(rank)).read_text().split()[1:] for rank in range(2)]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("torchrun") / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def plain(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    done = subprocess.run([*TORCHRUN, program, folder], env=environment(), timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return losses(folder)


def run_ranks(command, program, folder, budget):
    options = ["--budget", budget, "--stats", folder / "stats.json"]
    done = run_command("run", *options, "--", *command, program, folder, seconds=120)
    assert done.returncode == 0, done.stderr
    return done, [json.loads((folder / f"stats.json.rank{rank}").read_text()) for rank in range(2)]


def test_ranks_divide_a_share_of_the_machine_and_each_says_its_own_line(plain, program, tmp_path):
    budget = f"{100 * 2 * SHORT / _core.parse_size('100%'):.9f}%"
    done, ranks = run_ranks(TORCHRUN, program, tmp_path, budget)
    assert losses(tmp_path) == plain
    assert (tmp_path / "0").read_text().split()[0] == budget  # the text reaches the ranks as it is
    for rank in ranks:
        assert abs(rank["budget_bytes"] - SHORT) < 100
        assert rank["page_outs"] > 0 and rank["peak_bytes"] <= rank["budget_bytes"]
    lines = [line for line in done.stderr.splitlines() if line.startswith("tensorpager: ")]
    assert sorted(line.split(" need ")[0] for line in lines) == ["tensorpager: rank 0:", "tensorpager: rank 1:"]
    # The launcher writes none, the child that a rank starts its own.
    names = {path.name for path in tmp_path.glob("stats.json*")}
    assert {"stats.json.rank0", "stats.json.rank1"} < names and len(names) == 3 and "stats.json" not in names


@pytest.mark.slow
def test_torchrun_by_its_script_and_a_budget_in_bytes_for_each_rank(plain, program, tmp_path):
    script = Path(sys.executable).with_name("torchrun")
    if not script.exists():
        script = tmp_path / "torchrun"
        script.write_text(f"#!{sys.executable}\nfrom torch.distributed.run import main\nmain()\n")
        script.chmod(0o755)
    _, ranks = run_ranks([script, *TORCHRUN[3:]], program, tmp_path, "2MiB")
    assert losses(tmp_path) == plain
    assert [rank["budget_bytes"] for rank in ranks] == [SHORT] * 2


@pytest.mark.slow
def test_rank_that_dies_ends_the_run_with_the_launchers_exit_code(program, tmp_path):
    program = tmp_path / "dies.py"
    program.write_text("import os, sys, torch\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    plain = subprocess.run([*TORCHRUN, program], env=environment(), timeout=120, capture_output=True)
    done = run_command("run", "--budget", "40%", "--", *TORCHRUN, program, seconds=120)
    assert done.returncode == plain.returncode != 0


def test_wrong_number_of_ranks_is_one_line(tmp_path):
    done = run_command("run", "--budget", "40%", "--", "true", variables={"LOCAL_WORLD_SIZE": "two"})
    assert (done.returncode, done.stderr) == (2, "tensorpager: LOCAL_WORLD_SIZE: 'two' is not a whole number\n")
