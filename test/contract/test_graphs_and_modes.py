"""Programs that are not plain calls of ops: scripted, traced and symbolic graphs, subclasses, dispatch modes, ops of the program's own."""

import warnings

import bits
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from training import BATCH, WIDTH, make_model, train

import tensorpager

pytestmark = [
    pytest.mark.forked,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated"),
    pytest.mark.filterwarnings("ignore:.*is not supported in Python"),
]


class Network(nn.Module):
    """Control flow, a buffer that changes, and batch norm."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("mean", torch.zeros(64, WIDTH))

    def forward(self, x):
        for _ in range(3):
            x = self.norm(self.first(x)).relu()
            if bool(x.mean() > 0.1):
                x = self.second(x)
        if self.training:
            self.mean.lerp_(x[:64].detach(), 0.1)
        return x - self.mean[0]


class Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.second(self.first(x).tanh()).sigmoid() * x


def scripted(evict):
    model = torch.jit.script(Network())
    evict()
    return train(model), model


def scripted_saved_and_frozen(evict):
    model = torch.jit.script(Network())
    train(model, steps=1)
    evict()
    torch.jit.save(model, "scripted.pt")
    evict()
    loaded = torch.jit.load("scripted.pt")
    batch = torch.randn(BATCH, WIDTH)
    results = [train(loaded)]
    frozen = torch.jit.freeze(loaded.eval())
    for _ in range(3):  # the second run is profiled, the third optimized
        evict()
        results.append(frozen(batch))
    evict()
    return results, torch.jit.optimize_for_inference(frozen)(batch), loaded


def traced(evict):
    original, batch = Straight(), torch.randn(BATCH, WIDTH)
    evict()
    model = torch.jit.trace(original, batch)
    evict()
    torch.jit.save(model, "traced.pt")
    evict()
    return train(model), model(batch), train(torch.jit.load("traced.pt"))


def forked_sum(x: torch.Tensor):
    waiting = [torch.jit.fork(torch.matmul, x, x + i) for i in range(4)]
    return torch.stack([torch.jit.wait(each) for each in waiting])


def scripted_fork(evict):
    x = torch.randn(WIDTH, WIDTH)
    evict()
    return torch.jit.script(forked_sum)(x)


def symbolic(evict):
    model = torch.fx.symbolic_trace(Straight())
    for node in model.graph.nodes:
        if node.target == "sigmoid":
            node.target = "relu"
    model.recompile()
    evict()
    losses = train(model)
    evict()
    return losses, torch.fx.Interpreter(model).run(torch.randn(BATCH, WIDTH)), model


class Counted(torch.Tensor):
    """A subclass by `__torch_function__`, as the documentation shows it."""

    calls = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_function__(function, types, args, kwargs or {})


def function_subclass(evict):
    weight = torch.randn(WIDTH, WIDTH).as_subclass(Counted).requires_grad_()
    evict()
    result = (weight @ weight.T + torch.ones(WIDTH)).tanh()
    evict()
    result.sum().backward()
    evict()
    return result, weight.grad, isinstance(result, Counted), Counted.calls > 0


class Scaled(torch.Tensor):
    """A wrapper without a storage of its own, by `__torch_dispatch__`: the op that is called sees no block, those that it is made of do."""

    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unwrapped = tree_map(lambda x: x.inner * x.scale if isinstance(x, Scaled) else x, (args, kwargs or {}))
        result = function(*unwrapped[0], **unwrapped[1])
        return tree_map(lambda x: Scaled(x, 1.0) if isinstance(x, torch.Tensor) else x, result)


def dispatch_subclass(evict):
    wrapped = Scaled(torch.randn(WIDTH, WIDTH), 2.0)
    evict()
    result = (wrapped @ wrapped).relu() + torch.ones(WIDTH)
    evict()
    return result.inner, result.sum(0).inner


class Recording(TorchDispatchMode):
    def __init__(self, evict):
        super().__init__()
        self.names, self.evict = [], evict

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.evict()
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Replacing(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.tanh:
            function = torch.Tensor.sin
        return function(*args, **(kwargs or {}))


def modes(evict):
    with Recording(evict) as recording:
        losses = train(model := make_model())
    with Replacing(), torch.inference_mode():
        replaced = Straight()(torch.randn(BATCH, WIDTH))
    return losses, model, recording.names, replaced.clone()


@torch.library.custom_op("contract_graphs::blend", mutates_args=("state",))
def blend(state: torch.Tensor, x: torch.Tensor, weight: float) -> torch.Tensor:
    kept = [x * i for i in range(6)]
    state.add_(kept[3])
    return sum(kept) * weight + state


blend.register_fake(lambda state, x, weight: torch.empty_like(x))


@torch.library.custom_op("contract_graphs::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() ** 3)


cube.register_autograd(
    lambda ctx, gradient: gradient * 3 * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)
cube.register_vmap(lambda info, dims, x: (cube(x), dims[0]))


def custom_ops(evict):
    x, state = torch.randn(WIDTH, WIDTH, requires_grad=True), torch.zeros(WIDTH, WIDTH)
    evict()
    results = [blend(state, x.detach(), 0.5)]
    evict()
    value = cube(x)
    evict()
    value.sum().backward()
    evict()
    return results, state, x.grad, torch.vmap(cube)(x)


PIECES = [
    scripted,
    scripted_saved_and_frozen,
    traced,
    scripted_fork,
    symbolic,
    function_subclass,
    dispatch_subclass,
    modes,
    custom_ops,
]

SAVING = [scripted_saved_and_frozen, traced]  # torch.jit.save() reads storages in C++


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.__name__)
def test_has_the_same_bits_under_pressure(spill, tmp_path, monkeypatch, piece):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bits.check(piece, spill, outside_ops=piece in SAVING)


def test_ops_inside_torch_dispatch_are_admitted_and_refused_as_others(spill):
    tensorpager.enable(budget=1 << 20, spill=spill)
    wrapped = Scaled(torch.ones(300, 256), 3.0)  # 300 KiB, of which four do not fit
    others = [torch.zeros(100, 256) for _ in range(8)]
    assert torch.equal((wrapped * 2).inner, torch.full((300, 256), 6.0))
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError, match=r"Tensorpager: aten::addcmul\((Float\[300, 256\](, )?){3}\)"):
            torch.addcmul(wrapped, wrapped, wrapped)
    assert torch.equal(wrapped.sum(0).inner, torch.full((256,), 900.0))
    stats = tensorpager.stats()
    assert stats["pins"] == stats["over_budget_bytes"] == 0 and len(others) == 8


def test_body_of_torch_dispatch_keeps_no_temporaries_resident(spill):
    class Long(Scaled):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            kept = [args[0].inner + step for step in range(20)]  # five budgets
            return sum(kept[1:], kept[0])

    with tensorpager.enable(budget=1 << 20, spill=spill, quiet=True):
        result = Long(torch.ones(256, 256), 1.0).relu()
        assert result.min() == result.max() == 20 + sum(range(20))
        stats = tensorpager.stats()
    assert stats["need_bytes"] > 5 << 20 and stats["over_budget_bytes"] == 0
    if bits.STABLE:
        assert stats["faults"] == 0
