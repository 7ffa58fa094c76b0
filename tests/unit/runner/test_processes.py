"""Process 1 protects its memory from the user's code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import scaled

ROOT = Path(__file__).parents[3]
LOOKS_AT_ITS_PARENT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from jupyter_gq.runner import processes
os.setgid(65534)
os.setuid(65534)
processes._prctl(processes._SET_DUMPABLE, 1)  # as after an exec
if sys.argv[2] == "hidden":
    processes.protect_memory()
if os.fork() == 0:
    try:
        with open(f"/proc/{os.getppid()}/environ") as file:
            print("read", "SECRET=x" in file.read(), flush=True)
    except PermissionError:
        print("refused", flush=True)
    os._exit(0)
os.wait()
"""
#: Looks, as the same user, into the program that copies checkpoints, until that is refused.
LOOKS_AT_WHO_COPIES = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from jupyter_gq.runner import processes
from jupyter_gq.runner.pod import checkpoint_store
os.setgid(65534)
os.setuid(65534)
processes._prctl(processes._SET_DUMPABLE, 1)  # as after an exec
ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    ours.close()
    told = theirs.makefile("rb")
    os._exit(checkpoint_store.run_program(["up", "/nowhere", "job", "1", "0"], told))
theirs.close()
until = time.monotonic() + 20
while time.monotonic() < until:
    try:
        with open(f"/proc/{child}/environ"):
            pass
    except PermissionError:
        print("refused", flush=True)  # before it was told anything
        break
ours.sendall(b"nonsense\\n")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_memory_of_the_copying_process_is_protected_before_it_reads_the_url() -> None:
    command = [sys.executable, "-c", LOOKS_AT_WHO_COPIES, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=scaled(60))
    assert done.stdout.split() == ["refused", "3"], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize(("how", "told"), [("open", "read True"), ("hidden", "refused")])
def test_protected_process_cannot_be_read_by_other_processes_of_its_user(how: str, told: str) -> None:
    command = [sys.executable, "-c", LOOKS_AT_ITS_PARENT, str(ROOT), how]
    done = subprocess.run(command, env={"SECRET": "x"}, capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == told, done.stderr
