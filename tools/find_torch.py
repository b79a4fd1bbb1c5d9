"""Where torch is for a build, without importing it: prints its directory and its version.

    python tools/find_torch.py

pip builds in an environment of its own, which hides the one that it installs into. Their Python is the same, so what is not found here is
looked for by that Python without the variables by which pip hides it. scikit-build-core takes from here what torch the wheel is for.
"""

import re
import subprocess
import sys
from pathlib import Path

_FIND = "import importlib.util as u; spec = u.find_spec('torch'); print(spec.origin if spec else '')"


def find_torch() -> tuple[str, str]:
    """Directory and version. Raises SystemExit with what to do where there is none."""
    for options in ([], ["-E"]):
        found = subprocess.run([sys.executable, *options, "-c", _FIND], capture_output=True, text=True)
        if found.returncode == 0 and found.stdout.strip():
            directory = Path(found.stdout.strip()).parent
            version = re.search(r"__version__ = '([^']*)'", (directory / "version.py").read_text())
            return str(directory), version[1]
    raise SystemExit(
        f"tensorpager: no torch for {sys.executable}, and the build is made for the torch that is there;"
        " install torch first; if it is there, try: pip install scikit-build-core && pip install --no-build-isolation ."
    )


class Dependency:
    """scikit-build-core's provider of the wheel's dependencies: any patch release of the torch that it is built for."""

    def build_state(self, state: str) -> None:
        self._is_source = state == "sdist"

    def dynamic_metadata(self, settings: dict, project: dict) -> dict[str, list[str]]:
        if self._is_source:
            return {"dependencies": []}
        major, minor = find_torch()[1].split(".")[:2]
        return {"dependencies": [f"torch=={major}.{minor}.*"]}

    def dynamic_wheel(self, settings: dict) -> dict[str, bool]:
        return {"dependencies": True}


if __name__ == "__main__":
    print(*find_torch(), sep="\n")
