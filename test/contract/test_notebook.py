"""A session in a notebook: cells in a Jupyter kernel, which is driven as a notebook's page drives it."""

import json
import os
import subprocess
import sys
import time

import pytest
from forked import run as run_in_a_fork
from jupyter_client import KernelManager
from launch import COMMAND, SECONDS, environment
from training import make_model, train

pytestmark = pytest.mark.slow

SETUP = "import tensorpager, torch; from training import evict, make_model, train"


class Kernel:
    """Cells run one after the other."""

    def __init__(self, folder, spill, *before):
        self.spill = spill
        self._manager = KernelManager(connection_file=str(folder / "connection.json"))
        self._manager.kernel_spec.argv = [
            *before,
            sys.executable,
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ]
        variables = {"TENSORPAGER_SPILL": spill, "IPYTHONDIR": str(folder / "ipython")}
        self._manager.start_kernel(env=environment(**variables), cwd=str(folder), stderr=subprocess.DEVNULL)
        self._connect()

    def _connect(self):
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=SECONDS)

    def start_cell(self, code):
        self._out = {"stdout": "", "stderr": "", "result": ""}
        self._cell = self._client.execute(code)

    def wait_for(self, text):
        """Until the cell has printed it."""
        while text not in self._out["stdout"]:
            self._take_one()

    def finish_cell(self):
        """(what it printed, what it said on standard error, its result, the error that it ended with)"""
        while (message := self._client.get_shell_msg(timeout=SECONDS))["parent_header"].get("msg_id") != self._cell:
            pass
        reply = message["content"]
        while self._take_one() != "idle":
            pass
        error = f"{reply['ename']}: {reply['evalue']}" if reply["status"] == "error" else ""
        return self._out["stdout"], self._out["stderr"], self._out["result"], error

    def cell(self, code):
        self.start_cell(code)
        return self.finish_cell()

    def _take_one(self):
        message = self._client.get_iopub_msg(timeout=SECONDS)
        if message["parent_header"].get("msg_id") != self._cell:
            return None
        content = message["content"]
        if message["msg_type"] == "stream":
            self._out[content["name"]] += content["text"]
        elif message["msg_type"] == "execute_result":
            self._out["result"] = content["data"]["text/plain"]
        return content.get("execution_state")

    def interrupt(self):
        self._manager.interrupt_kernel()

    def restart(self):
        self._client.stop_channels()
        self._manager.restart_kernel(now=True)
        self._connect()

    def stop(self):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=False)


@pytest.fixture
def kernel(tmp_path, spill):
    kernel = Kernel(tmp_path, spill)
    assert kernel.cell(SETUP) == ("", "", "", "")
    yield kernel
    kernel.stop()


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """Of training without a session."""
    path = tmp_path_factory.mktemp("plain") / "losses"
    run_in_a_fork(lambda: path.write_text(repr(train(make_model()))), SECONDS)
    return path.read_text()


ENABLE = "session = tensorpager.enable(budget='1MiB')"
TRAIN = "losses = train(make_model()); losses"
PAGED = "tensorpager.stats()['page_outs'] > 0"


def test_cell_that_enables_and_cells_after_it_compute_the_same_bits_under_the_budget(kernel, losses):
    assert kernel.cell(ENABLE) == ("", "", "", "")
    assert kernel.cell(TRAIN) == ("", "", losses, "")
    assert kernel.cell(PAGED)[2] == "True"
    assert kernel.cell("tensorpager.disable()\n" + TRAIN) == ("", "", losses, "")


def test_remark_on_tensors_made_before_is_shown_below_the_cell(kernel):
    kernel.cell("before = torch.zeros(256, 256)")
    remark = "tensorpager: 256 KiB of tensors were made before enable() and stay outside the budget\n"
    assert kernel.cell(ENABLE) == ("", remark, "", "")


def test_enabling_in_two_cells_is_refused_with_what_to_do_and_the_first_goes_on(kernel, losses):
    kernel.cell(ENABLE)
    error = kernel.cell(ENABLE)[3]
    assert error == "InvalidArgument: Tensorpager is enabled already; call disable() first"
    assert kernel.cell(TRAIN)[2] == losses
    assert kernel.cell("tensorpager.disable()\n" + ENABLE)[3] == ""
    assert kernel.cell(TRAIN)[2] == losses


def test_cell_that_raises_leaves_a_session_that_goes_on(kernel, losses):
    error = kernel.cell(ENABLE + "\nmodel = make_model()\ntorch.zeros(1 << 20)")[3]
    assert error.startswith("OutOfMemoryError: Tensorpager: aten::")
    assert kernel.cell(TRAIN)[2] == losses
    kernel.cell("tensorpager.disable()")
    assert kernel.cell("with tensorpager.enable(budget='1MiB'):\n    raise KeyError('mine')")[3] == "KeyError: 'mine'"
    assert kernel.cell("with tensorpager.enable(budget='1MiB'):\n    losses = train(make_model())\nlosses")[2] == losses


def test_cell_that_is_interrupted_while_it_pages_leaves_a_session_that_goes_on(kernel, losses):
    kernel.cell(ENABLE + "\nmodel = make_model(); train(model)")  # an interrupted import would be left half made
    for _ in range(3):
        kernel.start_cell("print('on')\nwhile True: train(model); evict()")
        kernel.wait_for("on")
        time.sleep(0.3)
        kernel.interrupt()
        assert kernel.finish_cell()[3].startswith("KeyboardInterrupt")
    assert kernel.cell(TRAIN)[2] == losses
    assert kernel.cell("tensorpager.stats()['pins']")[2] == "0"


def test_restarted_kernel_begins_anew_and_leaves_no_file(kernel, losses):
    kernel.cell(ENABLE)
    kernel.cell(TRAIN + "; evict()")
    kernel.restart()
    assert os.listdir(kernel.spill) == []
    kernel.cell(SETUP)
    assert kernel.cell("tensorpager.stats()['ops']")[2] == "0"
    kernel.cell(ENABLE)
    assert kernel.cell(TRAIN)[2] == losses


def test_magics_capture_and_shell_commands_work_in_a_session(kernel):
    kernel.cell(ENABLE + "\ntensors = [torch.full((128, 256), float(n)) for n in range(16)]\nevict()")
    assert kernel.cell("!echo from a shell")[0].strip() == "from a shell"
    kernel.cell("%%capture captured\nprint(tensors[3].mean().item())")
    assert kernel.cell("captured.stdout")[2] == r"'3.0\n'"
    assert "loop" in kernel.cell("%timeit -n 3 -r 2 sum(tensor.sum() for tensor in tensors)")[0]
    assert kernel.cell("tensors[5]")[2].startswith("tensor([[5., 5., 5.,")
    assert kernel.cell("_[0, 0].item()")[2] == "5.0"


def test_kernel_under_run_is_paged_from_its_import_of_torch_and_writes_its_statistics(tmp_path, spill, losses):
    stats = tmp_path / "stats.json"
    kernel = Kernel(tmp_path, spill, COMMAND, "run", "--budget", "1MiB", "--stats", str(stats), "--")
    kernel.cell(SETUP)
    assert kernel.cell(TRAIN)[2] == losses
    assert kernel.cell(PAGED)[2] == "True"
    kernel.stop()
    assert json.loads(stats.read_text())["page_outs"] > 0
