"""torch.compile on the CPU: a generated kernel reads its arguments' addresses outside any op, so they are pinned for the call.

Without this the fault handler would serve each access, one block at a time, and blocks of one kernel could evict each other.
"""

from __future__ import annotations

import functools

from tensorpager import _imports

_MODULE = "torch._inductor.codecache"
_installed = False


def install(core) -> None:
    """Once in a process; after `disable()` the wrapped kernels only cost a look."""
    global _installed
    if not _installed:
        _installed = True
        _imports.after_import(_MODULE, lambda: _wrap_kernels(core))


def _wrap_kernels(core) -> None:
    from torch._inductor.codecache import CppPythonBindingsCodeCache as Cache

    load = Cache.load_pybinding_async.__func__

    @functools.wraps(load)
    def load_pybinding_async(cls, argtypes, *args, **kwargs):
        future = load(cls, argtypes, *args, **kwargs)
        if cls is not Cache:
            return future  # a C++ wrapper's entry: its arguments are handles, not tensors
        # `const float*` is read, `float*` is written, anything else is a size
        tensors = [(n, "const" not in t) for n, t in enumerate(argtypes) if t.rstrip().endswith("*")]

        @functools.cache
        def wrapped():
            kernel = future()

            @functools.wraps(kernel)
            def call(*arguments):
                if not core.active():
                    return kernel(*arguments)
                return core.call_pinned(
                    kernel, arguments, [(arguments[n].untyped_storage()._cdata, written) for n, written in tensors]
                )

            return call

        return wrapped

    Cache.load_pybinding_async = classmethod(load_pybinding_async)
