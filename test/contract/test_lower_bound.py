"""The bound that a linear program gives is an oracle: no plan is quicker, and our own bound is not above it."""

import json
import sys
from pathlib import Path

import pytest
from launch import run_command

highspy = pytest.importorskip("highspy", reason="needs highspy: tools/requirements.txt")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from bound.program import lower_bound
from bound.rates import Machine

DATA = Path(__file__).parents[1] / "data"
MACHINE = """\
tensorpager-machine 1
name oracle
ops bytes_per_second=921.6e9 launch_ns=3000 float32=4.2e13 bfloat16=4.2e13
link out bytes_per_second=24e9
link in bytes_per_second=24e9
end
"""


def chain(layers: int, megabytes: list[int]) -> str:
    """Forward and backward through so many layers, each with a weight."""
    sizes = [megabytes[i % len(megabytes)] << 20 for i in range(layers)]
    storages = [f"storage {i} bytes=1048576 entry" for i in range(layers)]
    storages += [f"storage {layers + i} bytes={size}" for i, size in enumerate(sizes)]
    ops = []
    for i in range(layers):
        reads = f"{i},{layers + i - 1}" if i else f"{i}"
        ops.append(f"op forward reads={reads} births={layers + i} moved={4 * sizes[i]} pure")
    for i in reversed(range(layers)):
        ops.append(f"op back reads={i},{layers + i} writes={i} deaths={layers + i} moved={6 * sizes[i]}")
    return "\n".join(["tensorpager-trace 1", "granule 4096", *storages, *ops, "end"]) + "\n"


def simulated(trace: Path, machine: Path, percent: int, planner: str) -> dict:
    arguments = ("simulate", trace, "--budget", f"{percent}%", "--machine", machine, "--json", "--planner", planner)
    done = run_command(*arguments, "--reserve", "0", "--link-share", "100")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(trace: Path, machine: Path, percents: list[int], grid: int) -> list[tuple[float, float, float]]:
    """Overheads in percent: our bound, the program's, the plan's. Ours looks at 400 ops; where the program looks at
    fewer it may be the weaker of the two, and is only held against the plan."""
    found = []
    for percent in percents:
        figures = simulated(trace, machine, percent, "pages")
        compute = figures["step_seconds"] / (1 + figures["overhead"])
        rates = Machine.parse(machine.read_text())
        bound = lower_bound(trace.read_text(), rates, figures["need_bytes"] * percent // 100, grid)
        ours = compute * (1 + figures["lower_bound_overhead"])
        if grid >= trace.read_text().count("\nop "):
            assert ours <= bound * 1.0001, f"our bound at {percent} %"
        assert bound <= figures["step_seconds"] * 1.0001, f"the plan at {percent} %"
        found.append(tuple(100 * (time / compute - 1) for time in (ours, bound, figures["step_seconds"])))
    return found


@pytest.fixture
def machine(tmp_path):
    path = tmp_path / "oracle.machine"
    path.write_text(MACHINE)
    return path


@pytest.mark.parametrize("megabytes", [[16], [64, 8, 1, 32], [1, 1, 96]], ids=["even", "uneven", "peaks"])
def test_no_plan_of_a_chain_is_quicker_than_the_program_allows(tmp_path, machine, megabytes):
    trace = tmp_path / "chain.trace"
    trace.write_text(chain(30, megabytes))
    found = check(trace, machine, [90, 70, 50, 40], grid=60)
    assert found[-1][1] > 1, "the budget must be felt"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "unet", "gpt2", "recorded/gpt", "recorded/resnet"])
def test_no_plan_of_a_real_trace_is_quicker_than_the_program_allows(machine, name):
    print(check(DATA / f"{name}.trace", machine, [75, 50], grid=60))


def check_with_replays(trace: Path, machine: Path, percent: int) -> tuple[float, float]:
    """Seconds: with replays the bound is lower, and the plan is above it."""
    hybrid = simulated(trace, machine, percent, "hybrid")
    rates, budget = Machine.parse(machine.read_text()), hybrid["need_bytes"] * percent // 100
    without, bound = (lower_bound(trace.read_text(), rates, budget, 48, replays) for replays in (False, True))
    assert bound <= without * 1.0001
    assert bound <= hybrid["step_seconds"] * 1.0001, f"at {percent} %"
    return bound, without


@pytest.mark.parametrize("megabytes", [[16], [64, 8, 1, 32]], ids=["even", "uneven"])
def test_no_plan_with_replays_is_quicker_than_the_program_allows(tmp_path, machine, megabytes):
    trace = tmp_path / "chain.trace"
    trace.write_text(chain(30, megabytes))
    for percent in (70, 40):
        bound, without = check_with_replays(trace, machine, percent)
    assert bound < 0.9 * without, "replays must be worth it"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "unet", "gpt2"])
def test_no_plan_with_replays_of_a_real_trace_is_quicker(machine, name):
    for percent in (75, 50, 33):
        check_with_replays(DATA / f"{name}.trace", machine, percent)
