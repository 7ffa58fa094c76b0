"""What process 1 keeps from the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOOKS_AT_ITS_PARENT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from jupyter_gq.runner import pod_processes
os.setgid(65534)
os.setuid(65534)
pod_processes._prctl(pod_processes._SET_DUMPABLE, 1)  # as after an exec
if sys.argv[2] == "hidden":
    pod_processes.hide()
if os.fork() == 0:
    try:
        with open(f"/proc/{os.getppid()}/environ") as file:
            print("read", "SECRET=x" in file.read(), flush=True)
    except PermissionError:
        print("refused", flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize(("how", "told"), [("open", "read True"), ("hidden", "refused")])
def test_a_hidden_process_is_not_read_by_others_of_its_user(how: str, told: str) -> None:
    command = [sys.executable, "-c", LOOKS_AT_ITS_PARENT, str(ROOT), how]
    done = subprocess.run(command, env={"SECRET": "x"}, capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == told, done.stderr
