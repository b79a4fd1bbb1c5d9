"""Put first on PYTHONPATH by `tensorpager run`: waits for the program to import torch, then enables a session.

Python imports the first `sitecustomize` on its path at start-up; the one that ours hides is imported from here.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE)


def _load(path):
    spec = importlib.util.spec_from_file_location("_tensorpager_imports", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _activate():
    # The package lies beside this folder; the program's Python need not have it installed.
    site = os.path.dirname(_PACKAGE)
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


if os.environ.get("TENSORPAGER_BUDGET") or os.environ.get("TENSORPAGER_EMULATE"):
    _load(os.path.join(_PACKAGE, "_imports.py")).after_import("torch", _activate)
_import_hidden()  # last: it may fail, which is then told as without us
