"""What training programs put around forward and backward: optimizers, schedules, averages, scaling, parametrizations, decompositions."""

import bits
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim import lr_scheduler, swa_utils
from training import BATCH, WIDTH, make_model

pytestmark = pytest.mark.forked

OPTIMIZERS = {
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr_decay=0.1),
    "Adam, amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True, maximize=True),
    "Adamax": lambda p: torch.optim.Adamax(p),
    "ASGD": lambda p: torch.optim.ASGD(p, t0=1),
    "LBFGS": lambda p: torch.optim.LBFGS(p, max_iter=4, line_search_fn="strong_wolfe"),
    "Muon": lambda p: torch.optim.Muon([x for x in p if x.dim() == 2]),
    "NAdam": lambda p: torch.optim.NAdam(p, decoupled_weight_decay=True, weight_decay=0.1),
    "RAdam": lambda p: torch.optim.RAdam(p),
    "RMSprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
    "Rprop": lambda p: torch.optim.Rprop(p),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
}


def steps(evict, model, optimizer, count=3, after=lambda: None):
    losses = []
    for _ in range(count):
        batch = torch.randn(BATCH, WIDTH)

        def closure():
            optimizer.zero_grad()
            loss = (model(batch) - batch).square().mean()  # noqa: B023
            evict()
            loss.backward()
            evict()
            return loss

        losses.append(optimizer.step(closure).detach())
        after()
    return losses


@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_optimizer_has_the_same_bits_under_pressure(spill, make_optimizer):
    def piece(evict):
        model = make_model()
        optimizer = make_optimizer(list(model.parameters()))
        return steps(evict, model, optimizer), model, optimizer

    bits.check(piece, spill)


def scaled(evict, dtype):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=2.0**40, growth_interval=1
    )  # so high that the first step is skipped
    losses = []
    for _ in range(4):
        batch = torch.randn(BATCH, WIDTH)
        with torch.autocast("cpu", dtype):
            loss = F.mse_loss(model(batch), batch)
        evict()
        scaler.scale(loss).backward()
        evict()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        evict()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss)
    return losses, model, optimizer, scaler.state_dict()


def autocast_bfloat16(evict):
    return scaled(evict, torch.bfloat16)


def autocast_float16(evict):
    return scaled(evict, torch.float16)


def averages(evict):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mean = swa_utils.AveragedModel(model)
    moving = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True)
    schedule = swa_utils.SWALR(optimizer, swa_lr=0.05)

    def after():
        evict()
        mean.update_parameters(model)
        moving.update_parameters(model)
        schedule.step()

    losses = steps(evict, model, optimizer, after=after)
    evict()
    swa_utils.update_bn([torch.randn(BATCH, WIDTH) for _ in range(2)], mean)
    return losses, model, mean, moving, schedule.state_dict()


def schedules(evict):
    model = make_model(layers=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1), momentum=0.9)
    warm_up = lr_scheduler.LinearLR(optimizer, total_iters=2)
    cosine = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2)
    chain = lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [2])
    losses = steps(evict, model, optimizer, count=5, after=chain.step)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    plateau.step(losses[-1])
    return losses, model, optimizer, chain.get_last_lr(), plateau.state_dict()


def parametrized(evict):
    model = make_model(layers=3)
    parametrizations.orthogonal(model[0])
    parametrizations.spectral_norm(model[2])
    parametrizations.weight_norm(model[4])
    prune.l1_unstructured(model[4], "bias", amount=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    evict()
    with parametrize.cached():
        losses = steps(evict, model, optimizer, count=1)
    losses += steps(evict, model, optimizer)
    parametrize.remove_parametrizations(model[0], "weight")
    evict()
    return losses, model, model[0].weight


def model_surgery(evict):
    model = make_model(layers=3)
    optimizer = torch.optim.Adam(model.parameters())
    losses = steps(evict, model, optimizer)
    for make in (nn.Module.double, nn.Module.half, nn.Module.float, nn.Module.bfloat16, nn.Module.float):
        make(model)
        evict()
    model.to(memory_format=torch.contiguous_format).share_memory()
    evict()
    torch.utils.swap_tensors(model[0].weight, nn.Parameter(torch.randn(WIDTH, WIDTH)))
    model[2].weight.data = model[2].weight.data.T.contiguous()
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) * 0.9, model.parameters())
    evict()
    optimizer = torch.optim.Adam(model.parameters())
    return losses + steps(evict, model, optimizer), model, optimizer


def decompositions(evict):
    matrix = torch.randn(96, 96, requires_grad=True)
    positive = matrix @ matrix.T + 50 * torch.eye(96)
    evict()
    results = [
        torch.linalg.cholesky(positive),
        torch.linalg.inv(positive),
        torch.linalg.eigvalsh(positive),
        torch.linalg.svdvals(matrix),
        torch.linalg.qr(matrix)[0],
        torch.linalg.solve(positive, matrix),
        torch.linalg.matrix_exp(matrix / 20),
        torch.logdet(positive),
        torch.einsum("ij,kj,kl->il", matrix, matrix, positive) / 1e4,
    ]
    evict()
    sum(result.square().sum() for result in results).backward()
    return results, matrix.grad


def networks(evict):
    results = []
    batch, images = torch.randn(4, 50, 64, requires_grad=True), torch.randn(4, 4, 28, 28, requires_grad=True)
    lstm = nn.LSTM(64, 64, 2, bidirectional=True, batch_first=True, dropout=0.1)
    attention = nn.TransformerEncoderLayer(64, 4, batch_first=True)
    convolution = nn.Sequential(nn.Conv2d(4, 16, 3), nn.GroupNorm(4, 16), nn.MaxPool2d(2), nn.ConvTranspose2d(16, 4, 5))
    for network, value in ((lstm, batch), (attention, batch), (convolution, images)):
        evict()
        result = network(value)
        result = result[0] if isinstance(result, tuple) else result
        evict()
        result.square().mean().backward()
        results += [result, network, [parameter.grad for parameter in network.parameters()]]
    with torch.inference_mode():
        evict()
        fast = attention.eval()(batch.detach(), src_key_padding_mask=torch.rand(4, 50) > 0.8)
    return results, batch.grad, images.grad, fast.clone()


PIECES = [
    autocast_bfloat16,
    autocast_float16,
    averages,
    schedules,
    parametrized,
    model_surgery,
    decompositions,
    networks,
]


@pytest.mark.filterwarnings("ignore:Detected call of")  # schedules before the optimizer: the first step is skipped
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.__name__)
def test_has_the_same_bits_under_pressure(spill, piece):
    bits.check(piece, spill)
