"""A program that is interrupted or fails anywhere goes on with the bits it would have had: no pin stays, no byte is lost."""

import copy
import random
import signal
import time

import pytest
import torch
from marks import slow
from torch.utils.data import DataLoader, TensorDataset
from training import BATCH, SHORT, WIDTH, digest, evict, make_model, train

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked(seconds=240)

INTERRUPTS = 100


class Failure(Exception):
    pass


def fail(*_):
    raise Failure


class FailingFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, where):
        ctx.where = where
        return fail() if where == "forward" else x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return fail() if ctx.where == "backward" else gradient, None


class Snapshot:
    """A model and its optimizer as they are now, to begin from again."""

    def __init__(self, model, optimizer):
        self._model, self._optimizer = model, optimizer
        self._state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))

    def restore(self):
        weights, state = copy.deepcopy(self._state)  # an optimizer would go on with the very tensors that it loads
        self._model.load_state_dict(weights)
        self._optimizer.load_state_dict(state)


def begun(steps=1):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train(model, steps=steps, optimizer=optimizer)
    return model, optimizer, Snapshot(model, optimizer)


def step_from(snapshot, model, optimizer):
    snapshot.restore()
    return train(model, steps=1, seed=5, optimizer=optimizer), digest(*model.parameters())


def check_balance():
    stats = tensorpager.stats()
    assert stats["pins"] == stats["over_budget_bytes"] == 0


@pytest.mark.parametrize("fuzz", [None, 1], ids=["budget", "fuzz"])
def test_interrupts_at_random_points_leave_no_pin_and_the_next_step_has_the_same_bits(spill, fuzz):
    model, optimizer, snapshot = begun()
    expected = step_from(snapshot, model, optimizer)
    tensorpager.enable(budget=SHORT, spill=spill, fuzz=fuzz)
    model, optimizer, snapshot = begun()
    started = time.monotonic()
    for _ in range(3):
        assert step_from(snapshot, model, optimizer) == expected
    length = (time.monotonic() - started) / 3  # seconds of a step and its reset

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    dice = random.Random(3)
    interrupted = 0
    for _ in range(INTERRUPTS * 20):
        if interrupted == INTERRUPTS:
            break
        try:
            signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.02, 1) * length)
            step_from(snapshot, model, optimizer)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            torch.set_grad_enabled(True)  # torch's own contexts may be left unfinished
            interrupted += 1
            check_balance()
            if interrupted % 10 == 0:
                assert step_from(snapshot, model, optimizer) == expected
    assert interrupted == INTERRUPTS
    assert step_from(snapshot, model, optimizer) == expected


def test_signals_during_transfers_change_nothing(spill):
    expected = train(make_model(), steps=6)
    tensorpager.enable(budget=SHORT, spill=spill)
    caught = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    losses = train(make_model(), steps=6)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert losses == expected
    assert len(caught) > 20
    check_balance()


def fail_in_forward(model, optimizer, batch):
    FailingFunction.apply(model(batch), "forward")


def fail_in_a_module(model, optimizer, batch):
    handle = model[6].register_forward_hook(fail)
    try:
        model(batch)
    finally:
        handle.remove()


def fail_in_backward(model, optimizer, batch):
    FailingFunction.apply(model(batch), "backward").sum().backward()


def fail_in_a_gradient_hook(model, optimizer, batch):
    handle = model[0].weight.register_hook(fail)
    try:
        model(batch).sum().backward()
    finally:
        handle.remove()


def fail_in_a_hook_of_saved_tensors(model, optimizer, batch):
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, fail):
        loss = model(batch).sum()
    loss.backward()


def fail_in_the_optimizer(model, optimizer, batch):
    model(batch).sum().backward()
    handle = optimizer.register_step_post_hook(fail)
    try:
        optimizer.step()
    finally:
        handle.remove()


def fail_in_an_op(model, optimizer, batch):
    try:
        model(batch) @ torch.zeros(3, 3)
    except RuntimeError as error:
        raise Failure from error


def fail_in_vmap(model, optimizer, batch):
    torch.vmap(lambda row: fail(row.sin()))(batch)


def fail_in_checkpoint(model, optimizer, batch):
    calls = []

    def part(x):
        calls.append(1)
        return model(x) if len(calls) == 1 else fail()

    torch.utils.checkpoint.checkpoint(part, batch.requires_grad_(), use_reentrant=False).sum().backward()


def fail_in_a_thread(model, optimizer, batch):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda place: fail(model[:place](batch)), range(1, 5)))


class FailingDataset(torch.utils.data.Dataset):
    data = None

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            raise Failure
        return self.data[index] * 2


def fail_in_a_dataset(model, optimizer, batch):
    FailingDataset.data = batch
    for rows in DataLoader(FailingDataset(), batch_size=2):
        model(rows)


def fail_in_a_loader_worker(model, optimizer, batch):
    FailingDataset.data = batch
    for rows in DataLoader(FailingDataset(), batch_size=2, num_workers=2, multiprocessing_context="fork"):
        model(rows)


def leave_a_loader_early(model, optimizer, batch):
    for (rows,) in DataLoader(TensorDataset(batch), batch_size=8, num_workers=2, multiprocessing_context="fork"):
        model(rows)
        raise Failure


FAILURES = [
    fail_in_forward,
    fail_in_a_module,
    fail_in_backward,
    fail_in_a_gradient_hook,
    fail_in_a_hook_of_saved_tensors,
    fail_in_the_optimizer,
    fail_in_an_op,
    fail_in_vmap,
    fail_in_checkpoint,
    fail_in_a_thread,
    fail_in_a_dataset,
    slow(fail_in_a_loader_worker),  # torch itself waits for such workers, 5 s for each
    leave_a_loader_early,
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.__name__)
def test_exception_leaves_no_pin_and_the_next_step_has_the_same_bits(spill, failure):
    model, optimizer, snapshot = begun()
    expected = step_from(snapshot, model, optimizer)
    tensorpager.enable(budget=SHORT, spill=spill)
    model, optimizer, snapshot = begun()
    for _ in range(3):
        optimizer.zero_grad()
        evict()
        with pytest.raises(Failure):
            failure(model, optimizer, torch.randn(BATCH, WIDTH))
        check_balance()
        _core.page_out_all()
        assert step_from(snapshot, model, optimizer) == expected
