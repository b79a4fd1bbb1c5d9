"""The gradients of some real steps, for the estimate of their noise: squares of their norms, and products of each with the one before."""

from __future__ import annotations

import atexit
import json
import math
import os

from tensorpager import _dry


def install(path: str, steps: int) -> None:
    """Writes `path` when an optimizer begins one step more than so many, and ends the program; or when it ends by itself."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    watched = _Watched(path, steps)
    register_optimizer_step_pre_hook(lambda optimizer, *_: watched.step(optimizer))
    atexit.register(watched.write, os.getpid())


class _Watched:
    def __init__(self, path: str, steps: int) -> None:
        self._path, self._steps = path, steps
        self._squares, self._products = [0.0] * steps, [0.0] * steps  # by step; the first has no product
        self._taken: dict = {}  # by optimizer, its steps
        self._before: dict = {}  # by parameter, its latest gradient

    def step(self, optimizer) -> None:
        number = self._taken.get(id(optimizer), 0)
        if number == self._steps:
            _dry.end_program(lambda: self.write(os.getpid()))
            return
        self._taken[id(optimizer)] = number + 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._take(number, parameter)

    def _take(self, number: int, parameter) -> None:
        import torch

        if parameter.grad is None or parameter.grad.layout != torch.strided:
            return
        gradient = parameter.grad.detach().float()
        self._squares[number] += float((gradient * gradient).sum(dtype=torch.float64))
        before = self._before.get(parameter)
        if before is not None:
            self._products[number] += float((gradient * before).sum(dtype=torch.float64))
        self._before[parameter] = gradient.clone()

    def write(self, process: int) -> None:
        if os.getpid() != process:
            return  # a fork of the program
        done = max(self._taken.values(), default=0)
        squares, products = self._squares[:done], self._products[1:done]
        are_finite = all(map(math.isfinite, squares + products))
        if not are_finite:  # JSON has no word for what is not
            squares, products = [], []
        with open(self._path, "w") as file:
            json.dump({"squares": squares, "products": products, "are_finite": are_finite}, file)
