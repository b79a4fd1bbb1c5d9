"""Prints sizes, strides, types and storage bytes of the results of many ops and of their gradients, a line each: the same
in a dry run as in a real one."""

import torch
import torch.nn.functional as F

CHANNELS_LAST = torch.channels_last


def numbers(*sizes, type=torch.float32, last=False):
    made = torch.rand(*sizes, dtype=type)
    return (made.to(memory_format=CHANNELS_LAST) if last else made).requires_grad_()


def convolutions():
    shapes = {
        "3x3": ((8, 16, 32, 32), (32, 16, 3, 3), {"padding": 1}),
        "1x1": ((8, 16, 32, 32), (32, 16, 1, 1), {"stride": 2}),
        "patches": ((8, 3, 64, 64), (96, 3, 16, 16), {"stride": 16}),
        "depthwise": ((8, 32, 32, 32), (32, 1, 3, 3), {"groups": 32}),
        "dilated": ((8, 16, 32, 32), (32, 16, 3, 3), {"dilation": 2}),
        "one image": ((1, 16, 32, 32), (32, 16, 3, 3), {}),
    }
    for name, (image, weight, options) in shapes.items():
        for type in (torch.float32, torch.float64, torch.bfloat16):
            for last in ((False, False), (True, True), (True, False)):
                inputs = numbers(*image, type=type, last=last[0]), numbers(*weight, type=type, last=last[1])
                yield f"convolution {name} {type} {last}", lambda x, w, o=options: F.conv2d(x, w, **o), inputs
    yield "1-d", F.conv1d, (numbers(8, 64, 100), numbers(64, 64, 5), numbers(64))
    yield "3-d", F.conv3d, (numbers(4, 8, 16, 16, 16), numbers(8, 8, 3, 3, 3))
    transposed = numbers(8, 64, 16, 16), numbers(64, 32, 3, 3), numbers(32)
    yield "transposed", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), transposed


def ops_on_images():
    ops = {
        "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
        "batch norm, evaluated": lambda x: F.batch_norm(x, torch.zeros(32), torch.ones(32)),
        "group norm": lambda x: F.group_norm(x, 4),
        "max pool": lambda x: F.max_pool2d(x, 2),
        "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, 3),
        "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "reflected": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "padded": lambda x: F.pad(x, (1, 1)),
        "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
        "relu": F.relu,
        "log sigmoid": F.logsigmoid,
        "glu": lambda x: F.glu(x, 1),
        "prelu": lambda x: F.prelu(x, torch.rand(1, dtype=x.dtype)),
        "flip": lambda x: x.flip(1),
        "roll": lambda x: x.roll(1, 1),
        "max": lambda x: x.max(),
        "std": lambda x: x.std(1),
        "var_mean": lambda x: torch.var_mean(x, (1, 2), keepdim=True),
        "index_select": lambda x: x.index_select(1, torch.arange(16)),
        "where": lambda x: torch.where(x[:1] > 0.5, x, torch.tensor(0.0)),
        "sort": lambda x: x.sort(1),
        "double": lambda x: x.double(),
        "clone": lambda x: x.clone(),
        "cat": lambda x: torch.cat([x, x], 1),
        "outer": lambda x: x * x[:1],
    }
    for name, op in ops.items():
        for type, last in ((torch.float32, False), (torch.float32, True), (torch.bfloat16, False)):
            yield f"{name} {type} {last}", op, (numbers(16, 32, 32, 32, type=type, last=last),)


def ops_on_sequences():
    lengths = (12, 10, 9, 8, 7, 6, 5, 4)
    for type in (torch.float32, torch.bfloat16):
        yield f"layer norm {type}", lambda x: F.layer_norm(x, (256,)), (numbers(8, 64, 256, type=type),)
        heads = [numbers(4, 8, time, 32, type=type) for time in (64, 80, 80)]
        yield f"attention {type}", F.scaled_dot_product_attention, heads
        heads = [numbers(4, 64, 8, 32, type=type) for _ in range(3)]
        yield (
            f"attention, transposed {type}",
            lambda *qkv: F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in qkv)),
            heads,
        )
        tokens = torch.randint(0, 100, (8, 64))
        yield f"embedding {type}", lambda w, t=tokens: F.embedding(t, w), (numbers(100, 256, type=type),)
        places = torch.randint(0, 20, (8, 16, 16))
        yield f"cross entropy {type}", lambda x, p=places: F.cross_entropy(x, p), (numbers(8, 20, 16, 16, type=type),)
    terms = torch.rand(64, 256)
    for loss in (
        F.mse_loss,
        F.smooth_l1_loss,
        F.huber_loss,
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
    ):
        for reduction in ("mean", "none"):
            yield (
                f"{loss.__name__} {reduction}",
                lambda x, f=loss, r=reduction: f(x, terms, reduction=r),
                (numbers(64, 256),),
            )
    targets = torch.randint(1, 20, (8, 12))
    yield "ctc", lambda x: F.ctc_loss(x.log_softmax(2), targets, (50,) * 8, lengths), (numbers(50, 8, 20),)
    yield "grid", F.grid_sample, (numbers(8, 16, 32, 32), numbers(8, 20, 20, 2))
    weights = [numbers(*sizes) for sizes in ((512, 128), (512, 128), (512,), (512,))]
    state = torch.zeros(1, 16, 128), torch.zeros(1, 16, 128)
    yield (
        "lstm",
        lambda x, *w: torch.lstm(x, state, list(w), True, 1, 0.0, True, False, False),
        [numbers(20, 16, 128), *weights],
    )


def describe(value):
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}{list(value.stride())} of {value.untyped_storage().nbytes()}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(describe, value))
    return str(type(value))


def main():
    for cases in (convolutions, ops_on_images, ops_on_sequences):
        for name, op, inputs in cases():
            results = op(*inputs)
            tensors = results if isinstance(results, (tuple, list)) else [results]
            floating = [t for t in tensors if t.requires_grad]
            gradients = torch.autograd.grad(floating, list(inputs), [torch.rand_like(t) for t in floating])
            print(f"{name}: {describe(results)}; {describe(gradients)}")


if __name__ == "__main__":
    main()
