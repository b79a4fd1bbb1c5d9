"""Programs for CUDA that print a digest of all that they have trained. With a budget they start the mini pager of test/emulation first."""

import ctypes
import json
import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from emulation_models import LENGTH, WORDS, Gpt, Residual, Translator, convolutional, digest
from torch import nn

MINI_PAGER = Path(__file__).parents[2] / "build" / "cpp" / "libtensorpager_mini_pager.so"
STEPS = 3


def batches(model):
    """Pinned, so that copies to the device are late too."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        if isinstance(model, nn.Sequential):
            inputs, labels = torch.randn(8, 3, 32, 32, generator=generator), torch.arange(8)
        else:
            inputs = torch.randint(0, WORDS, (4, LENGTH), generator=generator)
            labels = inputs.roll(-1, 1).flatten()
        yield inputs.pin_memory().to("cuda", non_blocking=True), labels.to("cuda")


def train(model):
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    for inputs, labels in batches(model):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return digest(*model.state_dict().values())


def gpt():
    return train(Gpt(width=160, layers=4, dropout=0.1))


def cnn():
    width = 32
    whole = convolutional(width)
    return train(whole[:4].extend(Residual(width) for _ in range(8)).extend(whole[-3:]))


def lstm():
    return train(Translator(width=64))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


def two_streams():
    """Both halves of a batch go through the same weights, each on a stream of its own; and what the first half is after each layer is looked
    at on the second stream.
    """
    model = nn.ModuleList(Layer(128) for _ in range(6)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    generator, spreads = torch.Generator().manual_seed(1), []
    for _ in range(STEPS):
        halves = [torch.randn(256, 128, generator=generator).cuda() for _ in range(2)]
        side.wait_stream(main)
        for half in halves:
            half.record_stream(side)
        for layer in model:
            with torch.cuda.stream(side):
                halves[1] = layer(halves[1])
            halves[0] = layer(halves[0])
            with torch.no_grad():
                scaled = halves[0] * 2  # made on one stream, used on the other, and freed before that is done
                side.wait_stream(main)
                with torch.cuda.stream(side):
                    spreads.append((scaled @ scaled.t()).tanh().std())
                scaled.record_stream(side)
                del scaled
        main.wait_stream(side)
        optimizer.zero_grad()
        halves[1].record_stream(main)
        (halves[0].square().mean() + halves[1].square().mean()).backward()
        optimizer.step()
    main.wait_stream(side)
    return digest(*model.state_dict().values(), *spreads)


PROGRAMS = {program.__name__: program for program in (gpt, cnn, lstm, two_streams)}


def main(name, budget):
    torch.set_num_threads(1)
    torch.cuda.init()
    pager = None
    if budget:
        pager = ctypes.CDLL(os.environ.get("MINI_PAGER", MINI_PAGER))
        pager.mini_pager_start(ctypes.c_size_t(int(budget)))
    torch.manual_seed(0)
    found = {"digest": PROGRAMS[name](), "max_allocated": torch.cuda.max_memory_allocated()}
    if pager:
        found |= {"allocator": torch.cuda.get_allocator_backend(), "page_ins": pager.mini_pager_page_ins()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
