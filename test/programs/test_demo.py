"""The pieces of the demo that need neither the dataset nor a built Tensorpager."""

import gzip
import pathlib
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import bytes_over_time
import demo
import fashion_mnist
import step_over_time

MIB = 1 << 20


def write_idx(path, array, header_shape=None):
    shape = header_shape or array.shape
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


def test_idx_reader_returns_the_array_that_was_written(tmp_path):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    write_idx(tmp_path / "images.gz", images)
    assert np.array_equal(fashion_mnist.read_idx(tmp_path / "images.gz"), images)


def test_idx_reader_refuses_a_file_shorter_than_its_header_says(tmp_path):
    write_idx(tmp_path / "short.gz", np.zeros(5, np.uint8), header_shape=(6,))
    with pytest.raises(ValueError, match="short.gz: 5 bytes of data, its header says 6"):
        fashion_mnist.read_idx(tmp_path / "short.gz")


def picture(held, resident, need, budget):
    ops = list(range(len(held)))
    return bytes_over_time.Picture(
        held=bytes_over_time.Curve(ops, held),
        resident=bytes_over_time.Curve(ops, resident),
        need=need,
        budget=budget,
        ops=len(ops),
        title="losses < 1 & equal",
        subtitle="",
        caption="",
    )


def level(svg, name):
    (line,) = (e for e in svg.iter() if e.get("id") == name)
    assert line.get("y1") == line.get("y2")
    return float(line.get("y1"))


def test_picture_is_well_formed_and_draws_the_budget_to_scale():
    source = picture(held=[100 * MIB, 400 * MIB], resident=[90 * MIB, 100 * MIB], need=400 * MIB, budget=100 * MIB)
    svg = ElementTree.fromstring(bytes_over_time.render(source))
    zero = bytes_over_time.BOTTOM
    assert level(svg, "budget") < zero
    assert zero - level(svg, "need") == pytest.approx(4 * (zero - level(svg, "budget")), abs=0.05)
    assert svg.find("{*}title").text == "losses < 1 & equal"


def test_curve_of_the_picture_touches_the_need_at_its_highest_op():
    source = picture(held=[10 * MIB, 400 * MIB, 20 * MIB], resident=[MIB] * 3, need=400 * MIB, budget=100 * MIB)
    plot = bytes_over_time.Plot(source.ops, source.highest)
    assert f"L{plot.x(1)} {plot.y(400 * MIB)} H{plot.x(2)}" in bytes_over_time.render(source)


def simulated(step_seconds, curve, **more):
    """What `simulate --json --curve` says of a step of equally long ops."""
    starts = [step_seconds * op / len(curve) for op in range(len(curve))]
    figures = dict(overhead=0.0, stall_seconds=0.0, recompute_seconds=0.0, page_out_bytes=0, **more)
    return {**figures, "need_bytes": max(curve), "step_seconds": step_seconds, "curve": curve, "op_starts": starts}


def test_picture_over_time_ends_each_step_when_it_ends():
    plain = simulated(0.5, [MIB, 8 * MIB, MIB])
    planned = {"pages": simulated(2.0, [MIB, 2 * MIB, MIB]), "hybrid": simulated(1.0, [MIB, 2 * MIB, 2 * MIB, MIB])}
    svg = ElementTree.fromstring(step_over_time.render("a < b", "m", plain, planned, 2 * MIB))
    ends = [float(e.get("x1")) for e in svg.iter() if e.get("stroke") == step_over_time.INK]
    left = step_over_time.LEFT
    assert len(ends) == 2 and ends[0] - left == pytest.approx(2 * (ends[1] - left), abs=0.05)
    assert level(svg, "budget-hybrid") - level(svg, "budget-pages") == step_over_time.APART
    assert svg.find("{*}title").text == "One training step of a < b in 25 % of its memory"


def run_of(losses, digest="d"):
    run = demo.Run()
    for step, loss in enumerate(losses):
        run.read(f"step {step} loss {loss:.6f} {loss.hex()}\n")
    run.read(f"digest {digest}\n")
    return run


def test_comparison_flags_one_changed_bit_of_one_loss():
    losses = [2.25, 1.5, 0.75]
    changed = [2.25, float(np.nextafter(1.5, 2)), 0.75]
    assert demo.differences(run_of(losses), run_of(losses)) == []
    (found,) = demo.differences(run_of(losses), run_of(changed))
    assert found.startswith("loss of step 1:")


@pytest.mark.parametrize(
    "paged", [run_of([2.25, 1.5], digest="e"), run_of([2.25]), demo.Run()], ids=["parameters", "a step less", "nothing"]
)
def test_comparison_flags_other_parameters_and_missing_steps(paged):
    assert demo.differences(run_of([2.25, 1.5]), paged)


def test_two_runs_without_output_are_no_proof_of_equality():
    assert demo.differences(demo.Run(), demo.Run())


@pytest.mark.parametrize(
    "floor, expected", [(50 * MIB, 100 * MIB), (200 * MIB, 220 * MIB)], ids=["a quarter", "above the floor"]
)
def test_budget_is_a_quarter_of_the_need_but_above_the_floor(floor, expected):
    assert demo.choose_budget(400 * MIB, floor)[0] == expected


@pytest.mark.parametrize("program", ["demo.py", "fashion_mnist.py"])
def test_missing_data_is_one_clear_line(program, tmp_path):
    options = ["--tensorpager", "unused"] if program == "demo.py" else []
    command = [sys.executable, EXAMPLES / program, "--data", tmp_path / "nowhere", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "train-images-idx3-ubyte.gz" in line and "nowhere" in line
