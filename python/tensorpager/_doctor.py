"""What `tensorpager doctor` asks a Python, of any version: run as a script with the spill directory and the device to page on, of which a
process can have one. Prints JSON objects, one a line.

Each line says what was found by then, so that a crash leaves the lines before it.
"""

import json
import os
import platform
import sys

_TENSORS, _ROW = 16, 1024  # numbers
_BYTES = {"cpu": 16 << 20, "cuda": 64 << 20}  # of all tensors, of which a quarter is the budget


def _say(**found):
    print(json.dumps(found))
    sys.stdout.flush()


def look(spill, device):
    _say(python=platform.python_version(), executable=sys.executable)
    try:
        import torch
    except ImportError as error:
        return _say(no_torch=str(error))
    _say(torch=torch.__version__, gpus=torch.cuda.device_count())
    if device == "cuda":
        card = torch.cuda.get_device_properties(0)
        _say(gpu=card.name, gpu_bytes=card.total_memory, compute=f"{card.major}.{card.minor}", cuda=torch.version.cuda)
    # Last, so that nothing beside our package hides a module of the program's.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import tensorpager

    try:
        _try_out(torch, tensorpager, spill, device)
    except ImportError as error:
        _say(misfit=str(error))
    except Exception as error:
        _say(failure=f"{type(error).__name__}: {error}")


def _try_out(torch, tensorpager, spill, device):
    """Moves more through a budget than it holds, and looks at every byte."""
    count, budget = _BYTES[device], _BYTES[device] // 4
    tensorpager.enable(budget=budget, spill=spill, device=device, quiet=True)
    rows = count // _TENSORS // (4 * _ROW)
    tensors = [torch.full((rows, _ROW), float(value), device=device) for value in range(_TENSORS)]
    is_same = all(bool((tensor == value).all()) for value, tensor in enumerate(tensors))
    stats = tensorpager.stats()
    if not is_same or stats["page_outs"] == 0 or stats["peak_bytes"] > budget:
        raise AssertionError(f"same bytes: {is_same}, statistics: {stats}")
    _say(trial_bytes=count, trial_budget=budget, mappings=stats["mappings"])


if __name__ == "__main__":
    # This folder is where Python looks first for a script's imports, and it is no place for those.
    sys.path.pop(0)
    look(*sys.argv[1:])
