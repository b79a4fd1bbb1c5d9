"""An op that no eviction can make fit is refused before it runs, with torch's own error; the program may catch it and go on."""

import os
import re
import resource

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from training import BATCH, SHORT, WIDTH, digest, evict, make_model, train

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked

BUDGET = 2560 << 10  # two and a half of the tensors below, and no room for slabs beyond a few chunks
SHAPE = (1024, 256)
ONE = 1 << 20


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, y):
        context.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(context, gradient):
        x, y = context.saved_tensors
        return gradient * y, gradient * x


def forward(rows):
    x = torch.zeros(rows, 256)
    return (x + x).sigmoid_() * x


def backward(rows):
    x = torch.zeros(rows, 256, requires_grad=True)
    y = x.sigmoid()
    y.backward(torch.ones(rows, 256))


def optimizer_step(rows):
    x = torch.zeros(rows, 256, requires_grad=True)
    x.grad = torch.ones(rows, 256)
    torch.optim.Adam([x], foreach=True).step()


def function_forward(rows):
    Product.apply(*(torch.zeros(rows, 256, requires_grad=True) for _ in range(2)))


def function_backward(rows):
    x = torch.zeros(rows, 256, requires_grad=True)
    y = torch.zeros(1, 256, requires_grad=True)  # so that forward needs two and backward three
    Product.apply(x, y).backward(torch.ones(rows, 256))


def checkpointed(rows):
    x = torch.zeros(rows, 256, requires_grad=True)
    checkpoint(torch.sigmoid, x, use_reentrant=False).backward(torch.ones(rows, 256))


def checkpointed_reentrant(rows):
    x = torch.zeros(rows, 256, requires_grad=True)
    checkpoint(torch.sigmoid, x, use_reentrant=True).backward(torch.ones(rows, 256))


@pytest.mark.parametrize(
    ("work", "op"),
    [
        (forward, "aten::mul"),
        (backward, "aten::sigmoid_backward"),
        (optimizer_step, "aten::(_foreach_)?addcdiv_"),
        (function_forward, "aten::mul"),
        (function_backward, "aten::mul"),
        (checkpointed, "aten::sigmoid_backward"),
        (checkpointed_reentrant, "aten::sigmoid_backward"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_op_over_the_budget_is_named_with_its_shapes_and_bytes_and_a_smaller_batch_fits(spill, work, op):
    tensorpager.enable(budget=BUDGET, spill=spill)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        work(SHAPE[0])
    text = str(caught.value)
    assert re.match(f"Tensorpager: {op}", text), text
    assert "Float[1024, 256]" in text
    assert re.search(r"[12].00 MiB asked for and .* MiB pinned are \d+ bytes more than the budget of 2.50 MiB", text), (
        text
    )
    assert tensorpager.stats()["pins"] == 0
    del caught
    work(SHAPE[0] // 4)
    stats = tensorpager.stats()
    assert (stats["pins"], stats["over_budget_bytes"]) == (0, 0)
    assert stats["peak_bytes"] <= BUDGET


def test_refused_op_has_changed_nothing(spill):
    tensorpager.enable(budget=BUDGET, spill=spill)
    torch.manual_seed(1)
    x, y, z = (torch.randn(SHAPE) for _ in range(3))
    before = (digest(x), x._version)
    with pytest.raises(torch.OutOfMemoryError, match=r"aten::addcmul_\(Float\[1024, 256\], Float"):
        x.addcmul_(y, z)
    assert (digest(x), x._version) == before


def test_refused_allocation_of_an_op_names_the_op_too(spill):
    tensorpager.enable(budget=BUDGET, spill=spill)
    with pytest.raises(torch.OutOfMemoryError, match=r"aten::empty.*\(\): .* 4.00 MiB asked for"):
        torch.empty(4 * SHAPE[0], SHAPE[1])
    x = torch.ones(SHAPE[0], 1)
    with pytest.raises(torch.OutOfMemoryError, match=r"aten::mul.*\(Float\[1024, 1\], Float\[1, 1024\]\): .* 4.00 MiB"):
        x * x.T


def test_refused_op_on_lists_shows_some_of_their_tensors(spill):
    tensorpager.enable(budget=BUDGET, spill=spill)
    tensors = [torch.zeros(64, 256) for _ in range(60)]
    with pytest.raises(torch.OutOfMemoryError, match=r"aten::cat\((Float\[64, 256\], ){8}\.\.\. 60 tensors in all\)"):
        torch.cat(tensors)
    assert torch.stack([tensor.sum() for tensor in tensors]).sum() == 0


def test_losses_after_a_caught_error_have_the_bits_of_a_run_without_it(spill):
    model = make_model()
    torch.manual_seed(5)
    expected = train(model, steps=2) + train(model, steps=2, seed=1)
    tensorpager.enable(budget=SHORT, spill=spill)
    model = make_model()
    losses = train(model, steps=2)
    with pytest.raises(torch.OutOfMemoryError):
        model(torch.empty(16 * BATCH, WIDTH))
    assert losses + train(model, steps=2, seed=1) == expected


def test_error_is_the_same_under_other_modes(spill):
    tensorpager.enable(budget=BUDGET, spill=spill)
    x = torch.zeros(SHAPE)
    y = torch.zeros(SHAPE)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::mul"):
            x * y
    with pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::"):
        torch.vmap(torch.mul)(x, y)


def fill(spill_bytes):
    """Makes tensors until an op is refused: them, and the text."""
    tensors = []
    with pytest.raises(torch.OutOfMemoryError) as caught:
        while len(tensors) < 100:
            tensors.append(torch.full((64, 256), float(len(tensors))))
    assert len(tensors) * (64 << 10) > spill_bytes
    return tensors, str(caught.value)


def check_survival(tensors, text, spill, reason):
    assert re.match(r"Tensorpager: aten::.*: cannot write 65536 bytes to the spill file in ", text), text
    assert f"{spill} (pwrite: {reason}); free some room there or choose another directory with --spill" in text
    assert tensorpager.stats()["pins"] == 0
    values = list(range(len(tensors)))
    del tensors[::2], values[::2]
    for value, tensor in zip(values, tensors):
        assert tensor.min() == tensor.max() == value
    more = tensors[0] + tensors[-1]
    assert more.min() == more.max() == values[0] + values[-1]


def test_spill_file_over_the_limit_refuses_the_op_and_loses_nothing(spill):
    limit = 512 << 10
    tensorpager.enable(budget=SHORT, spill=spill)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    tensors, text = fill(limit)
    check_survival(tensors, text, spill, "File too large")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_full_spill_directory_refuses_the_op_and_loses_nothing(spill):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_rec, ms_private = 0x20000, 0x4000, 0x40000
    if libc.unshare(clone_newns) or libc.mount(None, b"/", None, ms_rec | ms_private, None):
        pytest.skip("only root can mount a small file system")
    if libc.mount(b"tmpfs", os.fsencode(spill), b"tmpfs", 0, b"size=512k"):
        pytest.skip("no tmpfs can be mounted")
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors, text = fill(512 << 10)
    check_survival(tensors, text, spill, "No space left on device")


def test_full_spill_directory_leaves_training_able_to_go_on(spill):
    expected = train(make_model(), steps=3)
    model = make_model()
    tensorpager.enable(budget=SHORT, spill=spill)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, resource.RLIM_INFINITY))
    with pytest.raises(torch.OutOfMemoryError, match="spill file"):
        train(make_model(), steps=3)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert train(model, steps=3) == expected
    evict()
    assert _core.active()


def test_disk_that_fills_under_a_plan_loses_nothing_and_the_plan_goes_on(spill, monkeypatch):
    def make_step():
        torch.manual_seed(0)
        layers = [layer for _ in range(6) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
        model, batch = torch.nn.Sequential(*layers), torch.randn(512, 256)
        optimizer = torch.optim.Adam(model.parameters())

        def step(limit=resource.RLIM_INFINITY):
            optimizer.zero_grad()
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                loss = model(batch).square().mean()
                loss.backward()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            optimizer.step()
            return loss.item()

        return step

    plain = make_step()
    expected = [plain() for _ in range(20)]
    monkeypatch.setenv("TENSORPAGER_PLAN_SYNC", "1")
    with tensorpager.enable(budget="unlimited", spill=spill):
        step = make_step()
        assert [step(), step()] == expected[:2]
        need = tensorpager.stats()["need_bytes"]
        del step
    tensorpager.enable(budget=need * 6 // 10, spill=spill)
    step = make_step()
    losses = [step() for _ in range(8)]
    assert tensorpager.stats()["plans"] >= 1
    for _ in range(3):
        with pytest.raises(
            torch.OutOfMemoryError, match=r"cannot write \d+ bytes to the spill file .* File too large"
        ) as caught:
            step(limit=4096)
        assert "\n" not in str(caught.value).strip()
    followed = tensorpager.stats()["followed_ops"]
    losses += [step() for _ in range(12)]
    assert losses == expected
    stats = tensorpager.stats()
    assert stats["over_budget_bytes"] == 0 and stats["peak_bytes"] <= stats["budget_bytes"]
    assert stats["followed_ops"] - followed >= 8 * stats["window_ops"]


class UpdatedInPart(Exception):
    pass


class Hog:
    """Arrays that keep all of the budget but `free` bytes, so that what comes next does not fit."""

    def __init__(self, free):
        self._free, self._arrays = free, []

    def __enter__(self):
        _core.page_out_all()
        size = 32 << 10
        while True:
            stats = tensorpager.stats()
            if stats["budget_bytes"] - stats["slab_bytes"] - stats["export_bytes"] < self._free + size:
                return
            self._arrays.append(torch.zeros(size // 4).numpy())

    def __exit__(self, *_):
        self._arrays.clear()


def refused(step, name):
    with pytest.raises(torch.OutOfMemoryError, match=rf"Tensorpager: aten::{name}.*\(.*\d KiB asked for .* bytes more"):
        step()
    assert tensorpager.stats()["pins"] == 0


@pytest.mark.parametrize("fused", [False, True], ids=["per tensor", "fused"])
def test_error_for_want_of_memory_is_survived_in_each_part_of_a_step(spill, fused):
    def run(beside=lambda *_: None):
        torch.manual_seed(0)
        model = make_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
        for _ in range(3):
            batch = torch.randn(BATCH, WIDTH)
            optimizer.zero_grad()
            beside("forward", lambda: model(batch), model, optimizer)  # noqa: B023
            loss = (model(batch) - batch).square().mean()
            beside("backward", lambda: loss.backward(retain_graph=True), model, optimizer)  # noqa: B023
            optimizer.zero_grad()
            loss.backward()
            beside("optimizer", optimizer.step, model, optimizer)
            optimizer.step()
        return digest(*model.parameters())

    names = {"forward": "(addmm|linear)", "backward": "", "optimizer": "_fused_adamw_" if fused else ""}
    parts = []

    def refuse(part, step, model, optimizer):
        weights = digest(*model.parameters())
        with Hog(free=100 << 10):  # the least of these ops requires two tensors of 64 KiB
            refused(step, names[part])
        if part == "optimizer" and not fused:
            raise UpdatedInPart  # as in torch
        assert digest(*model.parameters()) == weights
        for entry in optimizer.state.values():  # torch counts a fused step before the op that makes it
            entry["step"].fill_(parts.count("optimizer"))
        parts.append(part)

    expected = run()
    tensorpager.enable(budget=SHORT, spill=spill)
    if fused:
        assert run(refuse) == expected
        assert parts == 3 * ["forward", "backward", "optimizer"]
    else:
        with pytest.raises(UpdatedInPart):
            run(refuse)
        assert parts == ["forward", "backward"]
        assert run() == expected
