"""One training program of bench/gpu/card.py and bench/card_clock.py, in a process of its own: prints losses, times and memory as JSON.

work.py NAME [--batch N] [--steps N] [--save-on-cpu] [--checkpoint] [--size tiny|small|full]

Bits are comparable: torch is told to be deterministic, and cuDNN not to try which of its algorithms is the quickest.
"""

import argparse
import contextlib
import hashlib
import json
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "test" / "programs" / "large")]
from workloads import Block, Recomputed


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, words, length, checkpointed):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        blocks = [Block(width, heads) for _ in range(layers)]
        self.blocks = nn.Sequential(*map(Recomputed, blocks) if checkpointed else blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


GPT_SIZES = {"tiny": (3, 192, 4, 500, 64), "small": (6, 384, 6, 1000, 128), "full": (24, 1024, 16, 50257, 1024)}
LLAMA_SIZES = {"tiny": (256, 2, 1000, 64), "small": (512, 4, 4000, 256), "full": (2048, 16, 128256, 2048)}
IMAGE_SIZES = {"tiny": 32, "small": 64, "full": 224}


def gpt2_medium(batch, size, checkpointed):
    layers, width, heads, words, length = GPT_SIZES[size]
    model = Gpt(layers, width, heads, words, length, checkpointed).cuda()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        with torch.autocast("cuda", torch.bfloat16, enabled=size == "full"):
            return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return model, loss, torch.optim.AdamW(model.parameters(), 1e-4)


def llama_1b(batch, size, checkpointed):
    """In bfloat16, with logits of an eighth of each sequence at a time."""
    import llama8b

    width, layers, words, length = LLAMA_SIZES[size]
    model = llama8b.make_model(
        argparse.Namespace(
            vocabulary=words, width=width, layers=layers, heads=width // 64, device="cuda", checkpointing=checkpointed
        )
    )
    tokens = torch.randint(0, words, (batch, length), device="cuda")
    return model, lambda: llama8b.loss_of(model, tokens, 8), torch.optim.AdamW(model.parameters(), 1e-4)


def images_on(model, batch, size, checkpointed):
    assert not checkpointed
    model.cuda()
    pixels = IMAGE_SIZES[size]
    images = torch.randn(batch, 3, pixels, pixels, device="cuda")
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    return (
        model,
        lambda: F.cross_entropy(model(images), labels),
        torch.optim.SGD(model.parameters(), 0.01, momentum=0.9),
    )


def resnet(depth, *sizes):
    from resnet50 import BLOCKS, Bottleneck, ResNet

    return images_on(ResNet(Bottleneck, BLOCKS[depth], 1000), *sizes)


def vgg16(*sizes):
    from torchvision.models import vgg16

    return images_on(vgg16(), *sizes)


def launch_bound(batch, size, checkpointed):
    """A hundred layers whose kernels take less time than the host needs to start them."""
    assert not checkpointed
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(100)]).cuda()
    x = torch.randn(batch, 64, device="cuda")
    return model, lambda: model(x).square().mean(), torch.optim.SGD(model.parameters(), 0.1)


TRANSFORMERS = ("gpt2_medium", "llama_1b")
WORK = {
    "gpt2_medium": gpt2_medium,
    "llama_1b": llama_1b,
    "resnet50": partial(resnet, 50),
    "resnet152": partial(resnet, 152),
    "vgg16": vgg16,
    "launch_bound": launch_bound,
}


def middle(seconds):
    """The median of the second half."""
    return sorted(seconds[len(seconds) // 2 :])[len(seconds) // 4]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=WORK)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--save-on-cpu", action="store_true")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--size", choices=GPT_SIZES, default="full")
    args = parser.parse_args()
    torch.manual_seed(0)
    # Attention's backward pass is deterministic only if all must be; poolings' never is by torch's word, and is in fact.
    torch.use_deterministic_algorithms(True, warn_only=args.name not in TRANSFORMERS)
    torch.utils.deterministic.fill_uninitialized_memory = False  # no program that is timed would have these kernels
    torch.backends.cudnn.benchmark = False
    model, loss_of, optimizer = WORK[args.name](args.batch, args.size, args.checkpoint)
    losses, seconds, of_host, marks = [], [], [], []
    for _ in range(args.steps):
        begin = time.perf_counter()
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
        optimizer.zero_grad()
        kept = torch.autograd.graph.save_on_cpu(pin_memory=True) if args.save_on_cpu else contextlib.nullcontext()
        with kept:
            loss = loss_of()
        loss.backward()
        optimizer.step()
        of_host.append(time.perf_counter() - begin)
        losses.append(loss.item().hex())  # waits for the device
        seconds.append(time.perf_counter() - begin)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().view(torch.uint8).numpy().tobytes())
    of_card = [begin.elapsed_time(end) / 1e3 for begin, end in zip(marks, marks[1:], strict=False)]
    found = {
        "losses": losses,
        "digest": digest.hexdigest()[:16],
        "seconds": middle(seconds),
        "host_seconds": middle(
            of_host
        ),  # until all of a step is submitted: near `seconds` if the host is what takes the time
        "last_step_seconds": of_card[-1],  # by the card's clock
        "max_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_reserved_bytes": torch.cuda.max_memory_reserved(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
