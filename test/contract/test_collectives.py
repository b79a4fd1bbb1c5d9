"""R4: what a collective touches stays where it is until the collective is done, though its op returned long ago."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launch import STABLE, environment, run_command
from marks import slow

HERE = Path(__file__).parent
NEED = {"ranks": 25 << 20, "every_collective": 28 << 20, "every_parallel": 12 << 20}  # bytes of each rank, about
SHARE = 0.4
BUDGET, FUZZ = ["--budget", "share"], ["--budget", "unlimited", "--fuzz"]


def seen(folder):
    return [(folder / str(rank)).read_text() for rank in range(2)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What the ranks of a program see without a session; each program runs once."""
    outputs = {}

    def output(program):
        if program not in outputs:
            folder = tmp_path_factory.mktemp(program)
            subprocess.run([sys.executable, HERE / f"{program}.py", folder], check=True, env=environment(), timeout=120)
            outputs[program] = seen(folder)
        return outputs[program]

    return output


def run_case(program, options, plain, folder):
    budget = int(SHARE * NEED[program])
    options = [budget if option == "share" else option for option in options]
    command = [sys.executable, HERE / f"{program}.py", folder]
    done = run_command("run", *options, "--stats", folder / "stats.json", "--", *command, seconds=300)
    assert done.returncode == 0, done.stderr
    assert seen(folder) == plain(program)
    ranks = [s for s in (json.loads(path.read_text()) for path in folder.glob("stats.json.*")) if s["ops"] > 0]
    assert len(ranks) == 2
    for rank in ranks:
        assert rank["page_outs"] > 0
        assert (rank["pins"], rank["export_bytes"]) == (0, 0)
        assert rank["records"] == rank["live_blocks"] or not STABLE  # a lease outlives its block
        if budget in options:
            assert 0.8 * NEED[program] < rank["need_bytes"] < 1.2 * NEED[program]
            assert rank["peak_bytes"] <= budget and rank["over_budget_bytes"] == 0


@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("ranks", BUDGET),
        slow("ranks", [*FUZZ, "1"]),
        slow("every_collective", BUDGET),
        ("every_collective", [*FUZZ, "1"]),
        pytest.param("every_parallel", BUDGET, marks=[pytest.mark.stable("buckets split the arena"), pytest.mark.slow]),
    ],
)
def test_two_ranks_in_a_part_of_their_need_see_the_same_bits(program, options, plain, tmp_path):
    run_case(program, options, plain, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2", "3", "4", "5"])
@pytest.mark.parametrize("options", [BUDGET, FUZZ[:2]], ids=["budget", "unlimited"])
@pytest.mark.parametrize("program", NEED)
def test_two_ranks_whose_blocks_leave_at_random_see_the_same_bits(program, options, seed, plain, tmp_path):
    run_case(program, [*options, "--fuzz", seed], plain, tmp_path)


def test_sharded_training_is_followed_at_every_op(plain, tmp_path):
    """Gloo's threads call ops, too, and the ops of sharded tensors are Python's: neither is an op of a plan."""
    options = ["--budget", 9 << 20, "--plan-sync", "--stats", tmp_path / "stats.json"]
    done = run_command("run", *options, "--", sys.executable, HERE / "sharded.py", tmp_path, seconds=300)
    assert done.returncode == 0, done.stderr
    assert seen(tmp_path) == plain("sharded")
    ranks = [json.loads(path.read_text()) for path in tmp_path.glob("stats.json.*")]
    assert len(ranks) == 2
    for stats in ranks:
        assert stats["page_outs"] > 0 and stats["peak_bytes"] <= 9 << 20 < stats["need_bytes"] / 2
        assert stats["plan_misses"] == 0 and stats["followed_windows"] >= 6
        assert stats["followed_ops"] >= 6 * stats["window_ops"]


# In the tests below this process is rank 0, and a fork of it rank 1.
SIDE = 400  # a float32 square of 640,000 bytes; two do not fit into a budget of SHORT
SHORT = 1 << 20


@contextlib.contextmanager
def other_rank(folder, body):
    """Joins a process group with a fork, which runs `body()` in it."""
    import torch.distributed as dist

    pid = os.fork()
    rank = 0 if pid else 1
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    if rank == 1:
        body()
        os._exit(0)
    yield dist
    os.waitpid(pid, 0)


def all_reduce_late():
    import torch
    import torch.distributed as dist

    time.sleep(1)
    dist.all_reduce(torch.ones(SIDE, SIDE))


@pytest.mark.forked
def test_wait_lets_go_of_what_the_collective_kept_before_any_other_op(spill, tmp_path):
    import torch

    import tensorpager
    from tensorpager import _core

    with other_rank(tmp_path, all_reduce_late) as dist:
        tensorpager.enable(budget=SHORT, spill=spill)
        absent, total = torch.ones(SIDE, SIDE), None
        _core.page_out_all()
        total = torch.ones(SIDE, SIDE)
        work = dist.all_reduce(total, async_op=True)
        assert tensorpager.stats()["export_bytes"] > 0
        work.wait()
        assert absent.tolist() == [[1.0] * SIDE] * SIDE  # a fault, which needs the room at once
        assert total.tolist() == [[2.0] * SIDE] * SIDE
        assert tensorpager.stats()["over_budget_bytes"] == 0


@pytest.mark.forked
def test_op_that_does_not_fit_waits_until_a_collective_is_done(spill, tmp_path):
    import torch

    import tensorpager

    with other_rank(tmp_path, all_reduce_late) as dist:
        tensorpager.enable(budget=SHORT, spill=spill)
        total = torch.ones(SIDE, SIDE)
        dist.all_reduce(total, async_op=True)
        assert tensorpager.stats()["export_bytes"] > 0
        other = torch.full((SIDE, SIDE), 3.0)
        assert total.sum() + other.sum() == 5 * SIDE * SIDE
        assert tensorpager.stats()["peak_bytes"] <= SHORT


@pytest.mark.forked
def test_message_that_nobody_waits_for_does_not_keep_an_op_from_being_refused(spill, tmp_path):
    import torch

    import tensorpager

    with other_rank(tmp_path, lambda: time.sleep(2)) as dist:
        tensorpager.enable(budget=SHORT, spill=spill)
        message = dist.irecv(torch.empty(SIDE, SIDE), 1)
        start = time.monotonic()
        with pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::ones"):
            torch.ones(SIDE, SIDE)
        assert time.monotonic() - start < 5
        del message
        assert torch.ones(SIDE, SIDE).sum() == SIDE * SIDE  # the program gave it up, so it is kept no longer
        assert tensorpager.stats()["export_bytes"] == 0


def reduce_scatter_late():
    import torch
    import torch.distributed as dist

    time.sleep(0.5)
    dist.reduce_scatter_tensor(torch.empty(SIDE // 2, SIDE), torch.ones(SIDE, SIDE))


@pytest.mark.forked
def test_copy_that_a_reduce_scatter_works_in_is_kept_until_the_program_drops_its_work(spill, tmp_path):
    import torch

    import tensorpager
    from tensorpager import _core

    with other_rank(tmp_path, reduce_scatter_late) as dist:
        tensorpager.enable(budget="1GiB", spill=spill, fuzz=1)  # fills what is paged out with NaN
        part = torch.empty(SIDE // 2, SIDE)
        work = dist.reduce_scatter_tensor(part, torch.ones(SIDE, SIDE), async_op=True)
        _core.page_out_all()
        work.wait()
        assert part.eq(2).all()
        del work
        assert tensorpager.stats()["export_bytes"] == 0


@pytest.mark.forked
def test_rank_that_dies_in_a_collective_leaves_the_other_an_error_and_no_pins(spill, tmp_path):
    import torch
    from training import make_model, train

    import tensorpager

    expected = train(make_model())

    def die():
        time.sleep(0.5)
        os._exit(1)

    with other_rank(tmp_path, die) as dist:
        tensorpager.enable(budget=SHORT, spill=spill)
        total = torch.ones(SIDE, SIDE)
        work = dist.all_reduce(total, async_op=True)
        with pytest.raises(RuntimeError, match="Connection"):
            work.wait()
        del work
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(SIDE // 2, SIDE))
        assert tensorpager.stats()["export_bytes"] == 0
        del total
        assert train(make_model()) == expected
