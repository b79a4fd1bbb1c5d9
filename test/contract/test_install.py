"""`pip install .` in a virtual environment that has torch, from a tree with nothing built or unpacked in it."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch
from launch import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 1500  # pip downloads its build tools, and compiles all on few cores
MINOR = ".".join(torch.__version__.split(".")[:2])
PROGRAM = """\
import torch
tensors = [torch.full((256, 1024), float(value)) for value in range(16)]
print([tensor.mean().item() for tensor in tensors] == [*range(16)])
"""


HAS_CUDA = (Path(torch.__file__).parent / "lib" / "libtorch_cuda.so").exists()
CUDA_PROGRAM = """\
import torch
model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""


class Environment:
    """A virtual environment; `torch` says whether it finds the torch of this one."""

    def __init__(self, folder, has_torch):
        venv.create(folder, with_pip=True)
        self.bin = folder / "bin"
        self.packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        if has_torch:
            (self.packages / "shared_torch.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")

    def run(self, *command, **options):
        command = [self.bin / command[0], *command[1:]]
        variables = environment(PYTHONPATH="", PATH=f"{self.bin}:{os.environ['PATH']}")
        return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=SECONDS, **options)

    def pip(self, *arguments, **options):
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments, **options)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """What a checkout holds."""
    folder = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-c", "--null", "-T", "-", "-f", folder / "tree.tar"], cwd=ROOT, input=listed, check=True)
    subprocess.run(["tar", "-x", "-f", folder / "tree.tar"], cwd=folder, check=True)
    (folder / "tree.tar").unlink()
    return folder


@pytest.fixture(scope="module")
def installed(tree, tmp_path_factory):
    place = Environment(tmp_path_factory.mktemp("with_torch"), has_torch=True)
    done = place.pip("install", "--no-deps", ".", cwd=tree)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return place


def test_installed_command_runs_a_program_under_a_budget(installed, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--budget", "4MiB", "--spill", tmp_path, "--stats", tmp_path / "stats.json"]
    done = installed.run("tensorpager", "run", *options, "--", "python", tmp_path / "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["page_outs"] > 0 and stats["peak_bytes"] <= 4 << 20 < stats["need_bytes"]


@pytest.mark.skipif(not HAS_CUDA, reason="this torch has no CUDA, so there is no emulated card")
def test_installed_command_emulates_a_card_and_estimates_for_one(installed, tmp_path):
    (tmp_path / "program.py").write_text(CUDA_PROGRAM)
    program = ["--", "python", tmp_path / "program.py"]
    done = installed.run("tensorpager", "run", "--emulate", "h100-80g", *program, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert "tensorpager: emulated h100-80g: " in done.stderr and ", 0 races\n" in done.stderr
    found = json.loads(
        installed.run("tensorpager", "estimate", "--json", "--machine", "h100-80g", *program, cwd=tmp_path).stdout
    )
    assert found["fits"] and found["parameter_bytes"] >= 1 << 20


def test_installed_doctor_finds_the_environments_python_and_torch(installed, tmp_path):
    report = json.loads(installed.run("tensorpager", "doctor", "--json", cwd=tmp_path).stdout)
    found = {check["name"]: check["found"] for check in report["checks"]}
    assert report["works"], report
    assert found["python"].endswith(str(installed.bin / "python")) and found["torch"] == torch.__version__


def test_installed_package_can_be_imported_and_names_its_torch(installed, tmp_path):
    code = "import tensorpager, importlib.metadata as m; print(tensorpager.__file__, m.version('tensorpager') == tensorpager.__version__)"
    done = installed.run("python", "-c", code, cwd=tmp_path)
    assert done.stdout == f"{installed.packages}/tensorpager/__init__.py True\n", done.stderr
    assert "\nRequires: torch\n" in installed.pip("show", "tensorpager").stdout
    (metadata,) = installed.packages.glob("tensorpager-*.dist-info/METADATA")
    assert f"\nRequires-Dist: torch=={MINOR}.*\n" in metadata.read_text()


def test_wheel_without_build_isolation_holds_the_package_and_the_command_and_nothing_else(installed, tree, tmp_path):
    assert installed.pip("install", "scikit-build-core>=1.1,<2", "pgm-build-deps").returncode == 0
    done = installed.pip("wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, ".", cwd=tree)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("tensorpager-*.whl")
    names = subprocess.run(["unzip", "-Z1", wheel], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in names if ".dist-info/" not in name}
    expected = {f"tensorpager/{path.relative_to(ROOT / 'python/tensorpager')}" for path in ROOT.glob("python/**/*.py")}
    expected |= {f"tensorpager/include/tensorpager/{name}.h" for name in ("tensorpager", "pager/statistics")}
    expected |= {f"tensorpager/cmake/Tensorpager{name}.cmake" for name in ("Config", "ConfigVersion", "Targets")}
    expected |= {f"tensorpager/lib/libtensorpager{name}.so" for name in ("", "_preload")}
    if HAS_CUDA:
        expected |= {f"tensorpager/lib/libtensorpager_{name}.so" for name in ("cuda", "emulation", "fake_cuda")}
        expected |= {"tensorpager/lib/fake_cuda/libcuda.so.1"}
    expected |= {"tensorpager/_core.so", "tensorpager/_build_info.py"}
    by_build_type = {name for name in ours if name.startswith("tensorpager/cmake/TensorpagerTargets-")}
    command = {name for name in ours if name.endswith(".data/scripts/tensorpager")}
    assert len(command) == 1 and len(by_build_type) == 1
    assert ours == expected | command | by_build_type


def test_missing_headers_are_told_with_where_to_get_them(tree, tmp_path):
    if Path("/usr/include/CLI").exists():
        pytest.skip("CLI11 is installed on this machine")
    place = Environment(tmp_path / "place", has_torch=True)
    assert place.pip("install", "scikit-build-core>=1.1,<2").returncode == 0
    done = place.pip("install", "--no-deps", "--no-build-isolation", ".", cwd=tree)
    assert done.returncode != 0
    assert "CLI11 or nlohmann-json is missing" in done.stderr and "pip install pgm-build-deps" in done.stderr


def test_environment_without_torch_is_told_before_anything_is_compiled(tree, tmp_path):
    done = Environment(tmp_path / "place", has_torch=False).pip("install", ".", cwd=tree)
    assert done.returncode != 0
    assert f"tensorpager: no torch for {tmp_path}/place/bin/python" in done.stderr
    assert "install torch first" in done.stderr and "Traceback" not in done.stderr


def test_uninstalling_leaves_nothing(installed):
    assert installed.pip("uninstall", "-y", "tensorpager").returncode == 0
    assert not (installed.bin / "tensorpager").exists() and not (installed.packages / "tensorpager").exists()
