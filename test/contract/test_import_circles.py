"""The modules of the Python package import each other in one direction, also where a function imports."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "tensorpager"


def imports_of(package):
    """For each module of the package, those of the package that it imports. The package itself, which offers some of them, is none."""
    names = {path.stem for path in package.glob("*.py")} - {"__init__"}
    found = {}
    for name in names:
        imported = set()
        for node in ast.walk(ast.parse((package / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "tensorpager":
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorpager."):
                imported.add(node.module.split(".")[1])
            elif isinstance(node, ast.ImportFrom) and node.level > 0:
                imported |= {node.module} if node.module else {alias.name for alias in node.names}
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tensorpager.")}
        found[name] = imported & names
    return found


def circle_in(imports):
    """The modules of one circle, in order; empty if there is none."""
    done = set()

    def follow(name, path):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(imports[name]):
            found = follow(other, [*path, name])
            if found:
                return found
        done.add(name)
        return []

    return next((found for name in sorted(imports) if (found := follow(name, []))), [])


def test_no_module_imports_one_that_imports_it():
    imports = imports_of(PACKAGE)
    assert "_pins" in imports["_exports"] and "_session" in imports["_run"], "the imports are read"
    assert circle_in(imports) == []


def test_a_planted_circle_is_found_in_every_form_of_import(tmp_path):
    (tmp_path / "_a.py").write_text("from tensorpager import _b\n")
    (tmp_path / "_b.py").write_text("def late():\n    from tensorpager._c import thing\n")
    (tmp_path / "_c.py").write_text("import tensorpager._d\n")
    (tmp_path / "_d.py").write_text("from . import _e\n")
    (tmp_path / "_e.py").write_text("from ._b import late\n")
    assert circle_in(imports_of(tmp_path)) == ["_b", "_c", "_d", "_e", "_b"]
    (tmp_path / "_e.py").write_text("import os\n")
    assert circle_in(imports_of(tmp_path)) == []
