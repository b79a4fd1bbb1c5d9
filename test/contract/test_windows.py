"""Windows of real programs: which classes come out of what was recorded. Each program says so in a comment."""

import re

import pytest

PROGRAM = """
import torch
from training import BATCH, WIDTH, make_model

torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

def batch(rows=BATCH):
    return torch.randn(rows, WIDTH)

def loss_of(x, model=model):
    return (model(x) - x).square().mean()

def step(x):
    optimizer.zero_grad()
    loss_of(x).backward()
    optimizer.step()

"""
CLASS = re.compile(r"(\d+) windows? of (\d+) ops \(need ([0-9.]+) (\w+), floor ([0-9.]+) (\w+)\)")


@pytest.fixture
def classes(server, tmp_path):
    """The classes that the line at exit tells of, as pairs: how many windows of how many ops."""

    def run(text, **variables):
        trace = tmp_path / "step.trace"
        ended = server.start(
            tmp_path, PROGRAM + text, TENSORPAGER_BUDGET="unlimited", TENSORPAGER_TRACE=str(trace), **variables
        ).wait()
        assert ended.returncode == 0, ended.stderr
        lines = [line for line in ended.stderr.splitlines() if line.startswith(f"tensorpager: {trace}: ")]
        assert len(lines) == 1, ended.stderr
        run.line, run.stdout, run.stderr, run.trace = lines[0], ended.stdout, ended.stderr, trace
        return [(int(found[1]), int(found[2])) for found in CLASS.finditer(lines[0])]

    return run


def test_training_step_is_one_class_from_the_second_step_on(classes):
    assert [count for count, _ in classes("for _ in range(6): step(batch())")] == [5]


def test_need_and_floor_are_those_of_the_session(classes):
    classes("for _ in range(6): step(batch())")
    of_trace = CLASS.search(classes.line)
    of_session = re.search(
        r"tensorpager: need ([0-9.]+) (\w+), budget unlimited, .* \(floor ([0-9.]+) (\w+)\)", classes.stderr
    )
    assert of_trace[4] == of_session[2] and of_trace[6] == of_session[4]
    assert float(of_trace[3]) == pytest.approx(float(of_session[1]), rel=0.02)
    assert float(of_trace[5]) == pytest.approx(float(of_session[3]), rel=0.02)


def test_flops_are_those_that_torch_counts(classes):
    classes("""
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    step(batch())
for _ in range(4): step(batch())
print(counter.get_total_flops())
""")
    of_trace = sum(int(found) for found in re.findall(r" flops=(\d+)", classes.trace.read_text()))
    assert of_trace == int(classes.stdout)


def test_accumulation_has_classes_of_micro_steps(classes):
    # Gradients die between an update and the next micro-step, so these two are one window; the others are alike.
    found = classes("""
for _ in range(6):
    optimizer.zero_grad()
    for _ in range(4):
        loss_of(batch()).backward()
    optimizer.step()
""")
    assert sorted(count for count, _ in found) == [1, 4, 14]


def test_two_optimizers_in_turn_are_one_window_where_gradients_differ_between_them(classes):
    found = classes("""
other = make_model(1, layers=4)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for _ in range(6):
    step(batch())
    second.zero_grad()
    loss_of(batch(), other).backward()
    second.step()
""")
    assert [count for count, _ in found] == [5]


def test_evaluation_every_few_steps_is_a_class(classes):
    found = classes("""
for i in range(9):
    step(batch())
    if i % 3 == 2:
        with torch.no_grad():
            for _ in range(4):
                loss_of(batch())
""")
    assert len(found) == 2
    (train, evaluation) = sorted(found, key=lambda one: -one[1])
    assert train[0] >= 7 and evaluation[0] >= 9


def test_logging_leaves_most_steps_in_one_class(classes):
    found = classes("""
for i in range(12):
    step(batch())
    if i % 4 == 3:
        print([p.norm().item() for p in model.parameters()], torch.stack([p.mean() for p in model.parameters()]).sum())
""")
    assert found[0][0] >= 8 and len(found) <= 2


def test_epochs_with_and_without_loader_workers_are_two_classes(classes):
    found = classes("""
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    data = TensorDataset(torch.randn(4 * BATCH, WIDTH))
    for epoch in range(3):
        for (x,) in DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=epoch % 2):
            step(x)
""")
    # A worker's batches are in shared memory, which is not ours: an op less.
    assert found[0][0] >= 5 and found[1] == (pytest.approx(3, abs=1), found[0][1] - 1)


def test_shapes_that_change_are_classes_of_their_own(classes):
    found = classes("""
for i in range(16):
    step(batch(BATCH if i % 4 else 2 * BATCH))
""")
    assert len({ops for _, ops in found}) <= 2
    assert 2 <= len(found) <= 4 and found[0][0] >= 7


def test_loop_over_time_is_no_window(classes):
    found = classes("""
cell = torch.nn.LSTMCell(WIDTH, WIDTH)
sequence = torch.randn(20, BATCH, WIDTH)
recurrent = torch.optim.SGD(cell.parameters(), lr=0.1)
for _ in range(6):
    state = None
    recurrent.zero_grad()
    for x in sequence:
        state = cell(x, state)
    state[0].square().mean().backward()
    recurrent.step()
    with torch.no_grad():
        state = None
        for x in sequence:
            state = cell(x, state)
""")
    assert all(ops > 60 for _, ops in found) and len(found) <= 3


def test_marked_steps_do_for_an_optimizer(classes):
    found = classes("""
import tensorpager
for _ in range(6):
    loss_of(batch()).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 1e-3 * p.grad
            p.grad = None
    tensorpager.mark_step()
""")
    assert len(found) == 1 and found[0][0] >= 4


def test_threads_are_recorded_in_one_order(classes):
    classes("""
import threading
def train(seed):
    model = make_model(seed)
    mine = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        mine.zero_grad()
        loss_of(batch(), model).backward()
        mine.step()
threads = [threading.Thread(target=train, args=(seed,)) for seed in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for _ in range(6): step(batch())
""")


def test_program_that_never_repeats_is_told_so(classes):
    assert classes("kept = [batch() for _ in range(50)]") == []
    assert "nothing written: no window in" in classes.line and not classes.trace.exists()


def test_class_that_there_is_not_is_told(classes):
    classes("for _ in range(6): step(batch())", TENSORPAGER_TRACE_CLASS="9")
    assert "nothing written: there is no class 9; 1 class: " in classes.line and not classes.trace.exists()
