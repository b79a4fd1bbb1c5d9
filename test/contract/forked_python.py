"""`forked_python.py SOCKET PROGRAM ...` is `python PROGRAM ...`, but runs the program in a fork of a server that has imported torch.

The program has the environment, the folder and the standard streams of this process, which ends as it does. What is preloaded must be what
the server has.
"""

import json
import os
import signal
import socket
import sys

path, program, *arguments = sys.argv[1:]
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect(path)
request = {
    "program": program,
    "arguments": arguments,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "path": os.path.dirname(os.path.abspath(program)),
}
socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
answer = server.recv(64)
if not answer:
    sys.exit(f"the server at {path} has ended")
code = int(answer)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
