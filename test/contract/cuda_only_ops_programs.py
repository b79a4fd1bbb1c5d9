"""Programs on `cuda` that reach the ops for which only CUDA has kernels, each against the same arithmetic on the CPU.

Each function checks itself and returns tensors, whose digests are printed so that schedules can be compared. Random
draws are on the CPU, but for dropout.
"""

import copy
import hashlib
import json
import sys
import traceback

import cuda_only_attention  # noqa: F401  registers its programs
import emulated
import torch
import torch.nn.functional as F
from cuda_only_checks import PROGRAMS, close, program, same_on_cuda
from torch import nn


def recurrent(module, inputs, lengths=None):
    """Results and gradients of a module on cuda, equal to the CPU's to the bit where no dropout is."""

    def run(on, *tensors):
        data = tensors[0]
        if lengths is not None:
            data = nn.utils.rnn.pack_padded_sequence(data, lengths, batch_first=module.batch_first)
        output, state = on(data, *tensors[1:])
        output = output.data if lengths is not None else output
        loss = output.square().sum() + sum(s.sum() for s in (state if isinstance(state, tuple) else (state,)))
        loss.backward()
        return [output] + [t.grad for t in tensors if t.grad is not None] + [p.grad for p in on.parameters()]

    on_cuda = copy.deepcopy(module).cuda()
    expected = run(module, *(i.clone().requires_grad_() for i in inputs))
    results = run(on_cuda, *(i.cuda().requires_grad_() for i in inputs))
    for actual, wanted in zip(results, expected, strict=True):
        assert actual.shape == wanted.shape
        assert torch.equal(actual.cpu(), wanted), (module, (actual.cpu() - wanted).abs().max())
    return results


@program
def recurrent_networks():
    torch.manual_seed(0)
    results, data = [], torch.randn(5, 3, 6)
    results += recurrent(nn.LSTM(6, 4, num_layers=2, bidirectional=True), [data])
    results += recurrent(nn.LSTM(6, 4, batch_first=True), [data])
    results += recurrent(nn.LSTM(6, 8, num_layers=2), [data])
    results += recurrent(nn.LSTM(6, 4, proj_size=2, num_layers=2), [data])
    results += recurrent(nn.LSTM(6, 4, bias=False), [data])
    results += recurrent(nn.GRU(6, 4, num_layers=2), [data, torch.randn(2, 3, 4)])
    results += recurrent(nn.RNN(6, 4, nonlinearity="relu", bidirectional=True), [data])
    results += recurrent(nn.RNN(6, 4), [data])
    results += recurrent(nn.LSTM(6, 4, num_layers=2, bidirectional=True), [data], [5, 3, 2])
    results += recurrent(nn.GRU(6, 4), [data], [5, 5, 1])
    return results


@program
def recurrent_network_in_inference_and_in_half_precision():
    torch.manual_seed(0)
    lstm, data = nn.LSTM(6, 8, num_layers=2, dropout=0.3).eval(), torch.randn(5, 3, 6)
    with torch.no_grad():
        expected = lstm(data)[0]
        lstm.cuda()
        output = lstm(data.cuda())[0]
    with torch.inference_mode():
        assert torch.equal(output, lstm(data.cuda())[0])
    assert torch.equal(output.cpu(), expected)
    lstm.dropout = 0.0
    lstm.train()  # cuDNN differentiates in training mode only
    with torch.autocast("cuda", dtype=torch.float16):
        half = lstm(data.cuda())[0]
    assert half.dtype == torch.float16
    close(half, expected, 4e-3)
    half.float().sum().backward()
    assert lstm.weight_hh_l1.grad.norm().item() > 0
    return [output, half, lstm.weight_hh_l1.grad]


@program
def recurrent_network_keeps_memory_for_the_backward_pass():
    lstm, data = nn.LSTM(6, 4, batch_first=True).cuda(), torch.randn(3, 5, 6).cuda()
    output, *_, reserve, buffer = torch._VF._cudnn_rnn(
        data, lstm._flat_weights, 4, None, *(torch.zeros(1, 3, 4).cuda(),) * 2, 2, 4, 0, 1, True, 0.0, True, False, [],
        None,
    )  # fmt: skip
    assert output.shape == (3, 5, 4) and output.stride() == (4, 12, 1)  # time first
    assert reserve.dtype == torch.uint8 and reserve.numel() > 15 * 4 * 4 * 4
    assert buffer.numel() == sum(p.numel() for p in lstm.parameters())
    return [output]


@program
def lstm_with_dropout():
    """The backward pass has the forward pass's mask: its gradient agrees with a difference along a direction.

    The state of dropout is copied for each pass, so that all of them have one mask.
    """
    torch.manual_seed(0)
    lstm = nn.LSTM(6, 8, num_layers=2, dropout=0.3)
    lstm = lstm.double().cuda()
    data = torch.randn(5, 3, 6, dtype=torch.double).cuda().requires_grad_()
    state = torch._cudnn_init_dropout_state(0.3, True, 11, dtype=torch.uint8, device="cuda")
    zeros = torch.zeros(2, 3, 8, dtype=torch.double).cuda()

    def run(x):
        return torch._VF._cudnn_rnn(
            x, lstm._flat_weights, 4, None, zeros, zeros, 2, 8, 0, 2, False, 0.3, True, False, [], state.clone()
        )[0]

    output = run(data)
    assert torch.equal(output, run(data)) and not torch.equal(output, lstm.eval()(data)[0])
    direction = torch.randn(5, 3, 6, dtype=torch.double).cuda()
    (gradient,) = torch.autograd.grad(output.sum(), data)
    difference = (run(data + 1e-5 * direction) - run(data - 1e-5 * direction)).sum() / 2e-5
    torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-6, atol=1e-8)
    lstm.train()
    first, second = lstm(data)[0], lstm(data)[0]
    assert not torch.equal(first, second)  # each pass draws another mask
    first.square().sum().backward()
    return [output, gradient, first, second] + [p.grad for p in lstm.parameters()]


@program
def training_an_lstm_with_dropout():
    torch.manual_seed(0)
    lstm = nn.LSTM(6, 8, num_layers=2, dropout=0.3).cuda()
    optimizer = torch.optim.Adam(lstm.parameters(), lr=0.01)
    for _ in range(4):
        data = torch.randn(5, 3, 6).cuda()
        lstm(data)[0].square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return list(lstm.parameters())


@program
def recurrent_cells():
    torch.manual_seed(0)
    results = []
    for cell in (nn.LSTMCell(6, 4), nn.GRUCell(6, 4), nn.LSTMCell(6, 4, bias=False), nn.GRUCell(6, 4, bias=False)):
        weights = [p.detach().requires_grad_() for p in cell.parameters()]
        names = [name for name, _ in cell.named_parameters()]
        lstm = isinstance(cell, nn.LSTMCell)

        def run(x, h, *weights, cell=cell, names=names, lstm=lstm):
            return torch.func.functional_call(
                cell, dict(zip(names, weights, strict=True)), (x, (h, h * 2)) if lstm else (x, h)
            )

        leaves = [torch.randn(3, 6, requires_grad=True), torch.randn(3, 4, requires_grad=True)]
        results += same_on_cuda(run, [*leaves, *weights])
    return results


@program
def sync_batch_norm():
    """Two parts of a batch, with one's statistics for the other, against batch norm of the whole batch."""
    torch.manual_seed(0)
    whole, output_gradient = torch.randn(7, 4, 3, 5), torch.randn(7, 4, 3, 5)
    reference = nn.BatchNorm2d(4, eps=1e-4, momentum=0.2)
    nn.init.normal_(reference.weight)
    nn.init.normal_(reference.bias)
    leaf = whole.clone().requires_grad_()
    expected = reference(leaf)
    expected.backward(output_gradient)

    weight, bias = reference.weight.detach().cuda(), reference.bias.detach().cuda()
    mean, var = torch.zeros(4).cuda(), torch.ones(4).cuda()
    parts, parts_gradient = whole.cuda().split([3, 4]), output_gradient.cuda().split([3, 4])
    stats = [torch.batch_norm_stats(part, 1e-4) for part in parts]
    counts = torch.tensor([45.0, 60.0]).cuda()
    all_mean, all_invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], *(torch.stack(s) for s in zip(*stats, strict=True)), mean, var, 0.2, 1e-4, counts
    )
    close(mean, reference.running_mean)
    close(var, reference.running_var)
    output = torch.cat([torch.batch_norm_elemt(part, weight, bias, all_mean, all_invstd, 1e-4) for part in parts])
    close(output, expected)
    reduced = [
        torch.batch_norm_backward_reduce(g, part, all_mean, all_invstd, weight, True, True, True)
        for g, part in zip(parts_gradient, parts, strict=True)
    ]
    sum_dy, sum_dy_xmu, weight_gradient, bias_gradient = (sum(r) for r in zip(*reduced, strict=True))
    close(weight_gradient, reference.weight.grad, 1e-4)
    close(bias_gradient, reference.bias.grad, 1e-4)
    inputs_gradient = torch.cat([
        torch.batch_norm_backward_elemt(g, p, all_mean, all_invstd, weight, sum_dy, sum_dy_xmu, counts.int())
        for g, p in zip(parts_gradient, parts, strict=True)
    ])  # fmt: skip
    close(inputs_gradient, leaf.grad)
    equal = torch.batch_norm_gather_stats(parts[0], *(s[None] for s in stats[0]), None, None, 0.2, 1e-4, 45)
    close(equal[0], stats[0][0].cpu())
    close(equal[1], stats[0][1].cpu())
    half = torch.batch_norm_stats(parts[0].half(), 1e-4)
    assert half[0].dtype == torch.float32
    return [output, inputs_gradient, weight_gradient]


@program
def normalization():
    torch.manual_seed(0)
    results = []
    image, weight, bias = torch.randn(4, 6, 3, 3), torch.randn(6), torch.randn(6)
    for layout in (torch.contiguous_format, torch.channels_last):
        leaves = [image.to(memory_format=layout).requires_grad_(), weight.clone().requires_grad_(),
                  bias.clone().requires_grad_()]  # fmt: skip
        results += same_on_cuda(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), leaves, equal=True)
    on_cuda = image.cuda().to(memory_format=torch.channels_last)
    output = torch.cudnn_batch_norm(on_cuda, weight.cuda(), bias.cuda(), None, None, True, 0.1, 1e-5)
    assert output[0].is_contiguous(memory_format=torch.channels_last)
    leaves = [torch.randn(4, 6, 8, requires_grad=True), torch.randn(8, requires_grad=True)]
    results += same_on_cuda(lambda x, w: F.rms_norm(x, (8,), w), leaves)
    results += same_on_cuda(lambda x: F.rms_norm(x, (6, 8)), leaves[:1])
    return results


@program
def dropout():
    torch.manual_seed(3)
    x = torch.ones(1000).cuda().requires_grad_()
    output = F.dropout(x, 0.25)
    output.sum().backward()
    assert torch.equal(output, x.grad) and 650 < (output != 0).sum().item() < 850
    assert torch.equal(output[output != 0], torch.full_like(output[output != 0], 1 / 0.75))
    torch.manual_seed(3)
    assert torch.equal(F.dropout(x, 0.25), output)
    kept, mask = torch.ops.aten._fused_dropout(x.detach(), 0.75)
    assert mask.dtype == torch.uint8
    assert torch.equal(torch.ops.aten._masked_scale(x.detach(), mask, 1 / 0.75), kept)
    return [output, kept]


@program
def convolutions():
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 4, 7, 7), torch.randn(8, 1, 3, 3), torch.randn(8)
    expected = F.conv2d(x, w, b, 2, 1, 1, 4)
    assert torch.equal(torch.conv2d(x.cuda(), w.cuda(), b.cuda(), 2, 1, 1, 4).cpu(), expected)
    depthwise = torch.ops.aten._conv_depthwise2d(x.cuda(), w.cuda(), [3, 3], b.cuda(), [2, 2], [1, 1], [1, 1])
    close(depthwise, expected)
    volume, kernel = torch.randn(2, 4, 5, 6, 7), torch.randn(4, 1, 3, 3, 3)
    deep = torch.ops.aten.conv_depthwise3d(volume.cuda(), kernel.cuda(), [3] * 3, None, [1] * 3, [1] * 3, [1] * 3)
    close(deep, F.conv3d(volume, kernel, None, 1, 1, 1, 4))
    full, narrow = torch.randn(8, 4, 3, 3), torch.randn(4, 5, 3, 3)
    on_cuda = x.cuda().to(memory_format=torch.channels_last)
    plain = torch.cudnn_convolution(on_cuda, full.cuda(), [1, 1], [2, 2], [1, 1], 1, False, False, False)
    close(plain, F.conv2d(x, full, None, 2, 1))
    assert plain.is_contiguous(memory_format=torch.channels_last)
    relu = torch.cudnn_convolution_relu(x.cuda(), full.cuda(), b.cuda(), [1, 1], [1, 1], [1, 1], 1)
    close(relu, F.conv2d(x, full, b, 1, 1).relu())
    added = torch.cudnn_convolution_add_relu(x.cuda(), full.cuda(), relu, 0.5, b.cuda(), [1, 1], [1, 1], [1, 1], 1)
    close(added, (F.conv2d(x, full, b, 1, 1) + 0.5 * relu.cpu()).relu())
    up = torch.cudnn_convolution_transpose(x.cuda(), narrow.cuda(), [1, 1], [1, 1], [2, 2], [1, 1], 1, False, False,
                                           False)  # fmt: skip
    close(up, F.conv_transpose2d(x, narrow, None, 2, 1, 1))
    return [depthwise, deep, plain, relu, added, up]


@program
def matrix_products():
    torch.manual_seed(0)
    a, b, c = torch.randn(5, 8).half(), torch.randn(8, 6).half(), torch.randn(5, 6)
    left, right, added = a.cuda(), b.cuda(), c.cuda()
    expected = a.float() @ b.float()
    results = [
        torch.mm(left, right, out_dtype=torch.float32),
        torch.addmm(added, left, right, out_dtype=torch.float32, beta=2, alpha=3),
        torch.bmm(left[None], right[None], out_dtype=torch.float32),
        torch.baddbmm(added[None], left[None], right[None], out_dtype=torch.float32),
    ]
    wanted = [expected, 2 * c + 3 * expected, expected[None], (c + expected)[None]]
    for actual, reference in zip(results, wanted, strict=True):
        assert actual.dtype == torch.float32 and actual.shape == reference.shape
        close(actual, reference)
    return results


@program
def sampling():
    torch.manual_seed(0)
    x, theta = torch.randn(2, 3, 5, 5, requires_grad=True), torch.randn(2, 2, 3, requires_grad=True)

    def run(image, maps):
        if maps.is_cuda:
            grid = torch.cudnn_affine_grid_generator(maps, 2, 3, 4, 6)
            return torch.cudnn_grid_sampler(image, grid)
        return F.grid_sample(image, F.affine_grid(maps, (2, 3, 4, 6), align_corners=True), align_corners=True)

    return same_on_cuda(run, [x, theta])


@program
def ctc_loss():
    torch.manual_seed(0)
    logits, targets = torch.randn(12, 3, 5, requires_grad=True), torch.randint(1, 5, (9,), dtype=torch.int32)
    inputs, lengths = (12, 11, 10), (4, 3, 2)
    results = list(same_on_cuda(lambda x: F.ctc_loss(x.log_softmax(2), targets, inputs, lengths), [logits]))

    def run(x):
        loss = torch._cudnn_ctc_loss if x.is_cuda else None
        if loss is None:
            return F.ctc_loss(x.log_softmax(2), targets, inputs, lengths, reduction="none")
        return loss(x.log_softmax(2), targets, inputs, lengths, 0, False, False)[0]

    return results + list(same_on_cuda(run, [logits]))


def digest(tensors):
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()


def outcome(run):
    try:
        return digest(run())
    except Exception:
        return "failed: " + traceback.format_exc(limit=-3)


def main():
    emulation = emulated.Emulation()
    torch.set_num_threads(1)
    programs = {name: outcome(PROGRAMS[name]) for name in sys.argv[1:] or PROGRAMS}
    print(json.dumps({"programs": programs, "report": emulation.report(), "unmapped": emulation.unmapped()}))


if __name__ == "__main__":
    main()
