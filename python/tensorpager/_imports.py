"""Runs a function once a module has been imported, without importing it. Stands alone: the start-up hook loads it by its path."""

import importlib.abc
import sys


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module where it would be found anyway, and adds a step after its import. Stays until then: programs look a module up before
    they import it.
    """

    def __init__(self, name, function):
        self.name, self.function = name, function

    def find_spec(self, name, path, target=None):
        if name != self.name:
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
                self.function()

        spec.loader.exec_module = exec_module
        return spec


def after_import(name, function):
    """Calls `function()` now if the module is there already, else right after its import."""
    if name in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, _Finder(name, function))
