"""Dry runs of programs whose course depends on values, and what stands in for values, shapes and draws."""

import json
import subprocess
import sys

import pytest
from launch import HERE, environment, run_command

pytestmark = pytest.mark.stable("a dry run holds no bytes, and has the stable binding")

MODEL = """\
import math
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 100))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(512, 1024), torch.randint(0, 100, (512,))
def loss():
    return F.cross_entropy(model(x), y)
"""

# Each prints what its program decided; a real run could decide otherwise only where it says so.
DECISIONS = {
    "finite loss": ("print(math.isfinite(loss().item()), bool(torch.isfinite(model(x)).all()))", "True True"),
    "equal to itself": (
        "a = model(x); print(bool((a == a).all()), bool(torch.isnan(a).any()), torch.equal(a, a))",
        "True False True",
    ),
    "validated distribution": (
        "print(tuple(torch.distributions.Categorical(logits=model(x)).sample().shape))",
        "(512,)",
    ),
    "drawn by probabilities": ("print(tuple(torch.multinomial(F.softmax(model(x), 1), 2).shape))", "(512, 2)"),
    "clipped": (
        "loss().backward(); n = nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True); print(math.isfinite(n.item()))",
        "True",
    ),
    "until the loss is small": ("n = 0\nwhile loss().item() > 0.5 and n < 50: n += 1\nprint(n)", "50"),  # a loss is 1
    "mask of large scores": ("print(tuple(x[x > 0].shape))", "(524288,)"),  # ones are above 0
    "indices in range": ("print(tuple(model(x).gather(1, model(x).topk(5, 1)[1]).shape))", "(512, 5)"),
    "early stop": (
        "best, bad, epoch = 1e9, 0, 0\nwhile bad < 3:\n  l = loss().item(); bad = 0 if l < best else bad + 1; best = min(best, l); epoch += 1\nprint(epoch)",
        "4",
    ),
    "loss scale": (
        "s = torch.amp.GradScaler('cpu'); s.scale(loss()).backward(); s.step(optimizer); s.update(); print(s.get_scale())",
        "65536.0",
    ),
    "statistics of batches": (
        "b = nn.BatchNorm1d(1024); b(x); print(bool(torch.isfinite(b.running_mean).all()), b.num_batches_tracked.item())",
        "True 1",
    ),
    "large integers": (
        "print(torch.arange(10**6).sum().item(), (torch.arange(10**6) % 7 == 3).sum().item())",
        "499999500000 142857",
    ),
    "kernels that refuse values": ("print(tuple(torch.linalg.cholesky(x.T @ x).shape))", "(1024, 1024)"),
}


def run_dry(program, folder, **variables):
    (folder / "program.py").write_text(program)
    to_end = {"TENSORPAGER_DRY_LONGER": "300"} | variables
    return run_command(
        "trace", "--dry", "-o", "t.trace", "--", sys.executable, "program.py", cwd=folder, variables=to_end
    )


# Runs each by itself, in one process: importing torch takes longer than all of them.
RUN_ALL = """\
import contextlib, io, json, traceback
said = {}
for what, program in PROGRAMS.items():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(program, {})
        except Exception:
            traceback.print_exc(file=out)
    said[what] = out.getvalue().strip()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def decided(tmp_path_factory):
    """What each program of DECISIONS printed, or how it failed."""
    programs = {what: MODEL + program for what, (program, _) in DECISIONS.items()}
    done = run_dry(f"PROGRAMS = {programs!r}\n{RUN_ALL}", tmp_path_factory.mktemp("decisions"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("what", DECISIONS)
def test_program_that_reads_values_goes_on(what, decided):
    assert decided[what] == DECISIONS[what][1]


# Lengths that are drawn after weights, dropout and a large batch.
DRAWS = """\
import torch
from torch.nn import functional as F
torch.manual_seed(3)
for type in (torch.float32, torch.float64, torch.bfloat16):
    for elements in (65536, 65537, 65551, 131077, 1000003):
        t = torch.empty(elements, dtype=type)
        t.normal_(), t.uniform_(), t.bernoulli_(0.3), t.exponential_()
        F.dropout(t, 0.1), torch.bernoulli(t.clamp(0, 1)), torch.native_dropout(t, 0.2, True)
        print(torch.randint(1 << 30, (1,)).item())
"""


def test_draws_after_skipped_ops_are_those_of_a_real_run(tmp_path):
    real = subprocess.run([sys.executable, "-c", DRAWS], env=environment(), capture_output=True, text=True, check=True)
    done = run_dry(DRAWS, tmp_path)
    assert len(real.stdout.splitlines()) == 15 and done.stdout == real.stdout, done.stderr


def test_shapes_are_those_of_kernels(tmp_path):
    program = HERE / "dry_shapes.py"
    real = subprocess.run([sys.executable, program], env=environment(), capture_output=True, text=True, check=True)
    variables = {"TENSORPAGER_DRY_LONGER": "300", "TENSORPAGER_DRY_FIRST_RUNS": "0"}
    done = run_command("trace", "--dry", "-o", tmp_path / "t.trace", "--", sys.executable, program, variables=variables)
    assert "0 kernels run to see" in done.stderr
    different = [pair for pair in zip(real.stdout.splitlines(), done.stdout.splitlines()) if pair[0] != pair[1]]
    assert done.stdout.count("\n") == real.stdout.count("\n") > 100 and different == []


MEMORY = """\
import resource, torch
layers = [torch.nn.Linear(4096, 4096, bias=False) for _ in range(40)]  # 2.5 GiB
optimizer = torch.optim.SGD([l.weight for l in layers], lr=0.1, momentum=0.9)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(4):
    x = torch.randn(64, 4096)
    for layer in layers:
        x = layer(x)
    optimizer.zero_grad()
    x.sum().backward()
    optimizer.step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1536 << 10)
"""


def test_large_model_takes_little_memory(tmp_path):
    done = run_dry(MEMORY, tmp_path)
    assert done.stdout.strip() == "True", done.stderr
