"""Starts programs that need torch without importing it each time: forks, and the fork becomes the program, down to the interpreter's own end.

One JSON object a line on standard input starts a program; the answers are its process id and, once it has ended, its exit code. The session
begins as it does after the program's own `import torch`: `_run.activate()` is what the import hook calls. With the argument `compiler`
what torch.compile imports, and what it finds out about the machine, is there too.
"""

import atexit
import gc
import json
import os
import resource
import runpy
import sys

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"

import torch
import torch._dynamo  # every optimizer imports it when it is made  # noqa: F401

torch.set_num_threads(1)
if sys.argv[1:] == ["compiler"]:
    import torch._inductor.compile_fx
    from torch._inductor import cpu_vec_isa

    cpu_vec_isa.pick_vec_isa()  # starts a Python for each instruction set
MEMORY = 4 << 30  # bytes: a program that runs away ends by itself, and not the machine


def serve():
    """Returns in a fork, with the request; ends with the input."""
    answers = os.dup(1)
    for line in sys.stdin:
        request = json.loads(line)
        gc.freeze()  # a fork's collections would copy every page that holds an object of ours
        pid = os.fork()
        if pid == 0:
            os.close(answers)
            return request
        os.write(answers, b"%d\n" % pid)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    sys.exit()


request = serve()
atexit.register(
    gc.unfreeze
)  # runs last; triton since 3.9 reports on standard error what the interpreter's end did not collect
resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
    flags = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(request[name], flags, 0o600), descriptor)
os.environ.update(request["environment"])
sys.argv = [request["program"], *request["arguments"]]
sys.path[0] = request["path"]
if "TENSORPAGER_BUDGET" in os.environ:
    from tensorpager import _run

    _run.activate()
runpy.run_path(request["program"], run_name="__main__")
