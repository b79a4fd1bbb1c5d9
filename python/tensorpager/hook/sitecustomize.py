"""Put first on PYTHONPATH by `tensorpager run`: waits for the program to import torch, then enables a session.

Python imports the first `sitecustomize` on its path at start-up; the one that ours hides is imported from here.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch where it would be found anyway, and adds a step after its import. Stays until then: programs look torch up before they import it."""

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _activate()

        spec.loader.exec_module = exec_module
        return spec


def _activate():
    # The package lies beside this folder; the program's Python need not have it installed.
    site = os.path.dirname(os.path.dirname(_HERE))
    added = site not in sys.path
    if added:
        sys.path.append(site)
    try:
        from tensorpager import _run
    finally:
        if added:
            sys.path.remove(site)
    _run.activate()


def _import_hidden():
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if os.environ.get("TENSORPAGER_BUDGET"):
    sys.meta_path.insert(0, _TorchFinder())
_import_hidden()  # last: it may fail, which is then told as without us
