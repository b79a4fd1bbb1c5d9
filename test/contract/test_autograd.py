"""Autograd's uncommon ways: recomputation, higher order, functional transforms, hooks, functions and modes of the program's own."""

import bits
import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from training import BATCH, WIDTH, make_model

import tensorpager

pytestmark = pytest.mark.forked

SIDE = 96  # of a float matrix of 36 KiB


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def checkpointed(evict, use_reentrant):
    model = make_model()
    batch = torch.randn(BATCH, WIDTH, requires_grad=True)

    def part(x):
        for layer in model[:6]:
            x = torch.dropout(layer(x), 0.1, True)
            evict()
        return x

    hidden = checkpoint(part, batch, use_reentrant=use_reentrant)
    evict()
    loss = checkpoint_sequential(model[6:], 3, hidden, use_reentrant=use_reentrant).square().sum()
    evict()
    loss.backward()
    return loss, batch.grad, gradients(model), torch.get_rng_state()


def checkpoint_reentrant(evict):
    return checkpointed(evict, True)


def checkpoint_not_reentrant(evict):
    return checkpointed(evict, False)


def double_backward(evict):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Softplus(), nn.Conv2d(8, 3, 3))
    image = torch.randn(4, 3, 32, 32, requires_grad=True)
    evict()
    (first,) = torch.autograd.grad(model(image).square().sum(), image, create_graph=True)
    evict()
    penalty = (first.norm(2, dim=1) - 1).square().mean()
    penalty.backward()
    evict()
    return first, penalty, image.grad, gradients(model)


def third_order(evict):
    value = torch.randn(SIDE, SIDE, requires_grad=True)
    result = (value.sin() * value.exp()).sum()
    results = []
    for _ in range(3):
        evict()
        (derivative,) = torch.autograd.grad(result, value, create_graph=True)
        results.append(derivative)
        result = derivative.tanh().sum()
    return results


def functional_transforms(evict):
    matrix = torch.randn(SIDE, SIDE)
    weight = torch.randn(SIDE, SIDE)

    def loss(weight, row):
        return (row @ weight).tanh().square().sum()

    evict()
    each = vmap(grad(loss), in_dims=(None, 0))(weight, matrix[:24])
    evict()
    jacobians = [jacrev(lambda x: (x @ weight).sin())(matrix[0]), jacfwd(lambda x: (weight @ x).sin())(matrix[1])]
    evict()
    pushed = jvp(torch.tanh, (matrix,), (weight,))
    evict()
    value, pull = vjp(lambda x: x @ weight, matrix)
    evict()
    return each, jacobians, pushed, value, pull(matrix), hessian(lambda x: (x * weight[0]).cos().prod())(matrix[0] / 9)


def ensemble(evict):
    models = [make_model(seed, layers=2) for seed in range(3)]
    parameters, buffers = stack_module_state(models)
    batch = torch.randn(BATCH, WIDTH)

    def loss(parameters, buffers, x):
        return functional_call(models[0], (parameters, buffers), (x,)).square().mean()

    evict()
    gradients = vmap(grad(loss), in_dims=(0, 0, None))(parameters, buffers, batch)
    evict()
    drawn = vmap(lambda x: x + torch.rand_like(x), randomness="different")(batch)
    evict()
    return gradients, drawn, functional_call(models[1], {"0.weight": batch}, (batch,))


class Scale(torch.autograd.Function):
    """Saves an input, an output and a tensor that is neither; takes and gives back several."""

    @staticmethod
    def forward(ctx, x, y):
        noise = torch.rand_like(x)
        product = x * y + noise
        ctx.save_for_backward(x, y, product, noise)
        ctx.mark_non_differentiable(noise)
        return product, noise

    @staticmethod
    def backward(ctx, of_product, _):
        x, y, product, noise = ctx.saved_tensors
        return of_product * y + noise, of_product * x * product.sign()


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


def functions(evict):
    x, y = (torch.randn(SIDE, SIDE, requires_grad=True) for _ in range(2))
    evict()
    product, noise = Scale.apply(x, y)
    evict()
    result = InPlace.apply(product.clone()) * noise
    evict()
    result.square().sum().backward()
    return result, x.grad, y.grad


def hooks(evict):
    model = make_model(layers=3)
    seen = []
    model[0].register_forward_pre_hook(lambda module, args: seen.append(args[0].sum()) or (args[0] * 2,))
    model[1].register_forward_hook(lambda module, args, output: evict() or output + 1)
    model[2].register_full_backward_pre_hook(lambda module, gradients: evict() or (gradients[0] * 0.5,))
    model[2].register_full_backward_hook(
        lambda module, before, after: seen.append(before[0].norm()) or (before[0] + 1,)
    )
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: evict() or gradient.clamp(-0.1, 0.1))
        parameter.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.norm()))
    batch = torch.randn(BATCH, WIDTH, requires_grad=True)
    hidden = model[:2](batch)
    hidden.retain_grad()
    hidden.grad_fn.register_prehook(lambda gradients: (gradients[0] + 2,))
    torch.autograd.graph.register_multi_grad_hook(
        [model[0].weight, model[4].weight], lambda gradients: seen.extend(g.sum() for g in gradients)
    )
    model[2:](hidden).square().sum().backward()
    return seen, hidden.grad, batch.grad, gradients(model)


def saved_tensor_hooks(evict):
    model, batch = make_model(layers=3), torch.randn(BATCH, WIDTH)
    with saved_tensors_hooks(lambda x: (evict(), x.to(torch.bfloat16))[1], lambda x: (evict(), x.float())[1]):
        model(batch).square().sum().backward()
    first = gradients(model)
    with save_on_cpu():
        loss = model(batch).exp().sum()
    evict()
    loss.backward()
    return first, gradients(model)


def graph_used_often(evict):
    model, batch = make_model(layers=3), torch.randn(BATCH, WIDTH)
    loss = model(batch).square().sum()
    for _ in range(3):
        evict()
        loss.backward(retain_graph=True)
    evict()
    with torch.autograd.detect_anomaly(check_nan=True), torch.autograd.set_multithreading_enabled(False):
        loss.backward()
    return gradients(model)


def views_in_place(evict):
    base = torch.randn(SIDE, SIDE, requires_grad=True)
    value = base * 1
    evict()
    value[3:9].mul_(2)
    value.T[5].add_(value[7])
    evict()
    value.as_strided((40, 40), (97, 2)).mul_(0.5)
    evict()
    value.diagonal().zero_()
    evict()
    value.unfold(0, 3, 2).square().sum().backward()
    return value, base.grad


PIECES = [
    checkpoint_reentrant,
    checkpoint_not_reentrant,
    double_backward,
    third_order,
    functional_transforms,
    ensemble,
    functions,
    hooks,
    saved_tensor_hooks,
    graph_used_often,
    views_in_place,
]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.__name__)
def test_has_the_same_bits_under_pressure(spill, piece):
    bits.check(piece, spill)


def floor_of_a_checkpoint(spill, layers, use_reentrant):
    """Bytes that one op requires at most where `layers` layers are recomputed together."""
    with tensorpager.enable(budget="unlimited", spill=spill, quiet=True):
        model, batch = make_model(layers=layers), torch.randn(BATCH, WIDTH, requires_grad=True)
        checkpoint(model, batch, use_reentrant=use_reentrant).sum().backward()
        stats = tensorpager.stats()
    assert stats["need_bytes"] > layers * batch.nbytes
    return stats["floor_bytes"]


@pytest.mark.parametrize("use_reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_recomputation_requires_the_room_of_one_op_however_long_it_is(spill, use_reentrant):
    short, long = (floor_of_a_checkpoint(spill, layers, use_reentrant) for layers in (2, 20))
    assert long < short + (256 << 10)  # more small tensors, but not the activations of 36 more modules: 2.25 MiB
