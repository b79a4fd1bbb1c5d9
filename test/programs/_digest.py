"""What every program prints: one line a step and, at the end, one digest of all that training changed."""

import hashlib

import torch


def print_step(step, loss):
    """The loss as a hexadecimal float: two runs print the same line only if they computed the same bits."""
    value = loss.item() if isinstance(loss, torch.Tensor) else float(loss)
    print(f"step {step} loss {value.hex()}", flush=True)


def print_digest(*parts):
    """One SHA-256 over modules, optimizers, tensors and any nesting of them in dicts, lists and tuples."""
    sha = hashlib.sha256()
    for index, part in enumerate(parts):
        _update(sha, str(index), part)
    print(f"digest {sha.hexdigest()}", flush=True)


def _update(sha, name, value):
    if isinstance(value, torch.nn.Module):
        _update(sha, name, dict(value.named_parameters()) | dict(value.named_buffers()))
    elif isinstance(value, torch.optim.Optimizer):
        _update(sha, name, value.state_dict())
    elif isinstance(value, dict):
        for key, item in value.items():
            _update(sha, f"{name}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _update(sha, f"{name}.{index}", item)
    elif isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        sha.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        sha.update(flat.numpy())
    else:
        sha.update(f"{name} {value!r}".encode())
