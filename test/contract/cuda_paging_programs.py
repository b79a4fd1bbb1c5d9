"""Programs for test_cuda_paging.py that test/programs has not: what a program on a card does besides training. Each prints what it found as JSON."""

import json
import sys

import torch
from torch import nn

import tensorpager

MIB = 1 << 20


def tensors(count, mib=1):
    return [torch.full((mib * MIB // 4,), float(i), device="cuda") for i in range(count)]


def figures():
    """What torch.cuda says while twice the budget of 8 MiB is alive."""
    many = tensors(16)
    sums = [one.sum().item() / one.numel() for one in many]
    found = {
        "sums": sums,
        "allocated": torch.cuda.memory_allocated(),
        "most_allocated": torch.cuda.max_memory_allocated(),
        "backend": torch.cuda.memory.get_allocator_backend(),
        "reserved": torch.cuda.memory_reserved(),
    }
    del many
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.empty_cache()
    return found | {"allocated_after": torch.cuda.memory_allocated(), "most_after": torch.cuda.max_memory_allocated()}


def out_of_memory():
    """An op that needs more than the budget, in a forward pass, a backward pass and an optimizer; and what works afterwards."""
    many, errors = tensors(12), []
    for attempt in (
        lambda: torch.cat(many),
        lambda: torch.cat(many, out=torch.empty(0, device="cuda")),
        lambda: Doubled.apply(torch.ones(MIB // 4, device="cuda", requires_grad=True)).sum().backward(),
    ):
        try:
            attempt()
        except torch.OutOfMemoryError as error:
            errors.append(str(error).splitlines()[0])
    return {"errors": errors, "sums": [one.sum().item() / one.numel() for one in many]}


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return torch.cat([gradient] * 16)[: gradient.numel()]


def refusals():
    """What keeps addresses, and is refused."""
    errors = []
    for attempt in (
        lambda: torch.cuda.graph(torch.cuda.CUDAGraph()).__enter__(),
        lambda: torch.cuda.MemPool(),
        lambda: torch.ones(MIB, device="cuda").untyped_storage()._share_cuda_(),
    ):
        try:
            attempt()
        except RuntimeError as error:
            errors.append(str(error).splitlines()[0])
    return {"errors": errors, "sum": torch.ones(3, device="cuda").sum().item()}


def raw_access():
    """A tensor that is paged out, and code that wants its address."""
    many = tensors(16)
    pointers = [one.data_ptr() for one in many[:4]]  # pinned from now on
    for one in many:
        one.add_(1)
    return {
        "pointers_stay": [one.data_ptr() for one in many[:4]] == pointers,
        "sums": [one.sum().item() / one.numel() for one in many],
        "array": many[9].cpu().numpy()[:2].tolist(),
        "interface": many[3].__cuda_array_interface__["data"][0] == pointers[3],
    }


def failures():
    """A call of the runtime fails, and the op that needed it; the program goes on, and each tensor is what its ops made it."""
    errors = []

    def again(attempt, *arguments):
        """Until it succeeds, twice at most."""
        for _ in range(2):
            try:
                return attempt(*arguments)
            except RuntimeError as error:
                errors.append(str(error).splitlines()[0])
        return None

    many = [again(lambda value: torch.full((MIB // 4,), value, device="cuda"), float(i)) for i in range(16)]
    for _ in range(10):
        for one in many:
            again(one.add_, 1)
    right = [again(lambda x, value: bool((x == value).all()), one, i + 10) for i, one in enumerate(many)]
    return {"errors": errors, "right": right, "resident": torch.cuda.memory_allocated()}


def sessions():
    """Tensors that outlive sessions, and are computed with between them."""
    options = {"device": "cuda", "on_demand": True, "quiet": True}
    right = []
    tensorpager.enable("8MiB", **options)
    many = tensors(16)
    for one in many:
        one.add_(1)
    tensorpager.disable()
    for one in many:
        one.mul_(2)
    right.append([one.sum().item() / one.numel() for one in many] == [2 * i + 2 for i in range(16)])
    backend = torch.cuda.memory.get_allocator_backend()
    del many[8:]
    for one in many:
        one.add_(1)
    tensorpager.enable("8MiB", **options)
    more = tensors(12)
    for one in many:
        one.mul_(2)
    right.append([one.sum().item() / one.numel() for one in many] == [4 * i + 6 for i in range(8)])
    right.append([one.sum().item() / one.numel() for one in more] == list(range(12)))
    most = torch.cuda.max_memory_allocated()
    tensorpager.disable()
    try:
        tensorpager.enable("16MiB", **options)
    except ValueError as error:
        return {"right": right, "backend": backend, "most": most, "error": str(error)}


def workspaces():
    """Layers of 16 MiB under cuBLAS's workspaces of 32 MiB for each of two threads, which lie out of the way."""
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(6)]).cuda()
    optimizer, losses = torch.optim.SGD(model.parameters(), 1e-3), []
    x = torch.ones(64, 2048, device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return {"losses": losses, "most_allocated": torch.cuda.max_memory_allocated()}


def unannounced_writes():
    """Ops write the state of cuDNN's dropout and running statistics of 32 KiB, which their schemas do not say."""
    recurrent = nn.LSTM(32, 32, num_layers=2, dropout=0.5).cuda()
    normalization = nn.BatchNorm1d(8192).cuda()
    x, y = torch.randn(4, 8, 32, device="cuda"), torch.randn(16, 8192, device="cuda")
    sums = []
    for step in range(6):
        outputs = [recurrent(x)[0], normalization(y * step)]
        sums += [output.square().sum().item().hex() for output in outputs]
        torch.stack([output.square().mean() for output in outputs]).sum().backward()
    return {"sums": sums, "mean": normalization.running_mean.sum().item().hex()}


def hidden_shortage():
    """An op that would do otherwise if it ran out of memory, as cuDNN's convolutions take another algorithm."""
    library = torch.library.Library("hiding", "DEF")
    library.define("convolve(Tensor x) -> Tensor")

    def convolve(x):
        try:
            return x + torch.empty(64 << 20, device="cuda").numel()
        except torch.OutOfMemoryError:
            return x + 1

    library.impl("convolve", convolve, "CUDA")
    x = torch.ones(1 << 16, device="cuda")
    try:
        torch.ops.hiding.convolve(x)
    except RuntimeError as error:
        return {"error": str(error), "sum": x.sum().item()}


PROGRAMS = (
    figures, out_of_memory, raw_access, refusals, failures, sessions, workspaces, unannounced_writes, hidden_shortage,
)  # fmt: skip

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps(next(program for program in PROGRAMS if program.__name__ == sys.argv[1])()))
