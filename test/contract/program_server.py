"""Starts programs that need torch without importing it each time: forks, and the fork becomes the program, down to the interpreter's own end.

With the argument `at SOCKET` the programs are those of forked_python.py, several at a time; the first answer says that it listens. Else one
JSON object a line on standard input starts a program; the answers are its process id and, once it has ended, its exit code. It ends with its
standard input. The session begins as it does after the program's own `import torch`: `_run.activate()` is what the import hook calls. With
the argument `compiler` what torch.compile imports, and what it finds out about the machine, is there too.
"""

import atexit
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import warnings

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
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
                flags = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_APPEND
                os.dup2(os.open(request[name], flags, 0o600), descriptor)
            os.environ.update(request["environment"])
            return request
        os.write(answers, b"%d\n" % pid)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    sys.exit()


def serve_at(path):
    """The same, for whoever connects."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    os.write(1, b"0\n")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that see to one program
    gc.freeze()
    while listener in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return see_to(connection)
        connection.close()
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    sys.exit()


def see_to(connection):
    """Returns in a fork, with the request; else tells how it ended. It is killed if who asked for it is gone."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        for descriptor, received in enumerate(descriptors):
            os.dup2(received, descriptor)
            os.close(received)
        request = json.loads(message)
        if request["environment"].get("LD_PRELOAD") != os.environ["LD_PRELOAD"]:
            sys.exit("program_server: other libraries are preloaded into the program than into the server")
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        if "TENSORPAGER_RUN" in os.environ:
            os.environ["TENSORPAGER_RUN"] = str(os.getpid())  # the process that the command became
        return request
    for descriptor in descriptors:
        os.close(descriptor)
    ready, _, _ = select.select([connection, os.pidfd_open(pid)], [], [])
    if connection in ready:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if connection not in ready:
        connection.send(b"%d" % code)
    os._exit(0)


request = serve_at(sys.argv[2]) if sys.argv[1:2] == ["at"] else serve()
atexit.register(
    gc.unfreeze
)  # runs last; triton since 3.9 reports on standard error what the interpreter's end did not collect
# After a fork the first call makes torch's thread pool anew, with a warning in some versions. Autograd threads of two devices that call at
# the same time might find none.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
sys.argv = [request["program"], *request["arguments"]]
sys.path[0] = request["path"]
if "TENSORPAGER_BUDGET" in os.environ or "TENSORPAGER_EMULATE" in os.environ:
    from tensorpager import _run

    _run.activate()
runpy.run_path(request["program"], run_name="__main__")
