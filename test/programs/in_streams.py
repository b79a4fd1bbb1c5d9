"""Runs a program on the GPU so that its ops take turns on N streams: python in_streams.py N PROGRAM ARGUMENTS

Each op waits for the one before it in another stream, and what it takes is kept for its stream, as torch asks of programs that use several.
A backward pass runs in the streams of its forward pass, by torch's own engine. So the bits are those of one stream.
"""

import itertools
import pathlib
import runpy
import sys

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves


class Turns(TorchFunctionMode):
    def __init__(self, number):
        super().__init__()
        self._number = number
        self._streams = None  # once the program has used the GPU

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor) and one.is_cuda]
        if tensors and getattr(function, "__name__", "") != "__get__":
            self._take_turns(tensors)
        return function(*args, **kwargs)

    def _take_turns(self, tensors):
        if self._streams is None:
            self._streams = itertools.cycle([torch.cuda.Stream() for _ in range(self._number)])
        stream = next(self._streams)
        stream.wait_stream(torch.cuda.current_stream())
        torch.cuda.set_stream(stream)
        for tensor in tensors:
            tensor.record_stream(stream)


number, program, *arguments = sys.argv[1:]
sys.argv = [program, *arguments]
sys.path[0] = str(pathlib.Path(program).parent)
with Turns(int(number)):
    runpy.run_path(program, run_name="__main__")
