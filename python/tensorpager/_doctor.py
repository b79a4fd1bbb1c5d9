"""What `tensorpager doctor` asks a Python, of any version: run as a script with the spill directory. Prints JSON objects, one a line.

Each line says what was found by then, so that a crash leaves the lines before it.
"""

import json
import os
import platform
import sys

_BUDGET, _TENSORS, _ROWS = 4 << 20, 16, 256  # bytes; so many tensors of 1 KiB a row times 1 KiB: 16 MiB


def _say(**found):
    print(json.dumps(found))
    sys.stdout.flush()


def look(spill):
    _say(python=platform.python_version(), executable=sys.executable)
    try:
        import torch
    except ImportError as error:
        return _say(no_torch=str(error))
    _say(torch=torch.__version__, gpus=torch.cuda.device_count())
    # Last, so that nothing beside our package hides a module of the program's.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import tensorpager

    try:
        _try_out(torch, tensorpager, spill)
    except ImportError as error:
        _say(misfit=str(error))
    except Exception as error:
        _say(failure=f"{type(error).__name__}: {error}")


def _try_out(torch, tensorpager, spill):
    """Moves more through a budget than it holds, and looks at every byte."""
    tensorpager.enable(budget=_BUDGET, spill=spill, quiet=True)
    tensors = [torch.full((_ROWS, 1024), float(value)) for value in range(_TENSORS)]
    is_same = all(bool((tensor == value).all()) for value, tensor in enumerate(tensors))
    stats = tensorpager.stats()
    if not is_same or stats["page_outs"] == 0 or stats["peak_bytes"] > _BUDGET:
        raise AssertionError(f"same bytes: {is_same}, statistics: {stats}")
    _say(trial_bytes=_TENSORS * _ROWS * 4096, trial_budget=_BUDGET, mappings=stats["mappings"])


if __name__ == "__main__":
    # This folder is where Python looks first for a script's imports, and it is no place for those.
    sys.path.pop(0)
    look(sys.argv[1])
