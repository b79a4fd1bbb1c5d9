"""torchvision's reference training script, unmodified, on the emulated card: the same models under a budget."""

import json
import random
import re
import subprocess
import sys

import pytest
from launch import HERE, run_command
from marks import needs_emulated_card

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: it comes with torchvision")

pytestmark = [
    pytest.mark.slow,
    needs_emulated_card,
]
MIB = 1 << 20
SIDE, CLASSES = 80, 6
TRAIN = "--model resnet18 --batch-size 16 --epochs 2 --train-crop-size 64 --val-crop-size 64 --val-resize-size 72 --print-freq 4".split()
EXTRAS = {
    "plain": ["--workers", 0],
    "all": "--workers 2 --model-ema --model-ema-steps 2 --opt adamw --lr 0.001 --mixup-alpha 0.2 --label-smoothing 0.1".split(),
}


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("torchvision")
    done = subprocess.run(
        [HERE.parents[1] / "tools" / "torchvision_references.sh"], capture_output=True, text=True, check=True
    )
    return f"{done.stdout.strip()}/classification/train.py"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder, generator = tmp_path_factory.mktemp("images"), random.Random(0)
    for part, count in [("train", 16), ("val", 6)]:
        for index in range(CLASSES):
            (folder / part / str(index)).mkdir(parents=True)
            for number in range(count):
                image = Image.frombytes("RGB", (SIDE, SIDE), generator.randbytes(3 * SIDE * SIDE))
                image.save(folder / part / str(index) / f"{number}.png")
    return folder


@pytest.mark.parametrize("extras", EXTRAS)
def test_the_reference_script_trains_the_same_models_under_a_budget(extras, script, images, tmp_path):
    def models(*options):
        program = [HERE / "seeded.py", script, "--data-path", images, "--output-dir", tmp_path, *TRAIN, *EXTRAS[extras]]
        variables = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}
        done = run_command(
            "run", "--emulate", "h100-80g", *options, "--", sys.executable, *program, variables=variables, seconds=400
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return [line for line in done.stdout.splitlines() if line.startswith(("model_", "Test:  Acc@1"))], done.stdout

    plain, _ = models()
    assert len(plain) == 4
    budget, stats = ["--device", "cuda", "--budget", 110 * MIB], tmp_path / "stats.json"
    for options in [["--emulate-seed", 2], ["--emulate-seed", 3, "--plan-sync", "--link", "0.3GB/s"]]:
        paged, printed = models(*budget, *options, "--stats", stats)
        figures = json.loads(stats.read_text())
        assert paged == plain
        assert figures["peak_bytes"] <= 110 * MIB < figures["need_bytes"]
        assert figures["emulation"]["races"] == 0 and figures["page_ins"] > 100
        most = max(map(int, re.findall(r"max mem: (\d+)", printed)))  # by torch.cuda.max_memory_allocated(), in MiB
        assert 90 < most <= round(figures["peak_bytes"] / MIB)
