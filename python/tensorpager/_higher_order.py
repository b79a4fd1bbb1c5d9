"""torch's higher order operators (`cond`, flex attention) and ops on script objects choose their kernel in Python, by the highest key, and know
none for ours. They fall through it; the ops inside them are seen as ever.
"""

from __future__ import annotations

_KEY = "TESTING_ONLY_GenericMode"  # as in intercept/key.h
_installed = False


def install() -> None:
    """Once in a process; without a session the key is never there."""
    global _installed
    if _installed:
        return
    _installed = True
    import torch

    compute_keyset = torch._ops._compute_keyset
    key = torch._C._parse_dispatch_key(_KEY)

    def without_ours(args, kwargs, non_fallthrough_keys):
        return compute_keyset(args, kwargs, non_fallthrough_keys.remove(key))

    torch._ops._compute_keyset = without_ours
