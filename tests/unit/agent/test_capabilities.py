"""Measures which capability each call of the agent needs, for a program of another user: the chart gives these alone.

The calls run in a process of root with the named capabilities and no others, as in the agent's container.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.patience import scaled

#: Tells of the process with the id of its argument what the agent can do with it.
CODE = """
import json, sys
from pathlib import Path
from jupyter_gq.agent.processes import Processes, find_pod_by_cgroup
from jupyter_gq.agent.signals import may_signal
from jupyter_gq.agent.visible_devices import find_visible_devices

pid, proc = int(sys.argv[1]), Path("/proc")
def reads_group():
    try:
        find_pod_by_cgroup(f"/proc/{pid}")
    except OSError:
        return False
    return True
print(json.dumps({
    "identity": Processes(proc, find_pod_by_cgroup).identify(pid) is not None,
    "control group": reads_group(),
    "devices": find_visible_devices(proc, [pid], {0: "GPU-0"}) is not None,
    "signal": may_signal(pid),
}))
"""
ALWAYS, BY_PTRACE, BY_KILL = {"identity", "control group"}, {"devices"}, {"signal"}
NOBODY = 65534


def may_drop_capabilities() -> bool:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    tried = ["setpriv", "--bounding-set=-all,+sys_ptrace,+kill", "--inh-caps=-all", "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(
    not may_drop_capabilities(), reason="needs root, the program setpriv, and the capabilities SYS_PTRACE and KILL"
)


@pytest.fixture
def program():
    """The process of a pod, which belongs to another user than the agent."""
    started = subprocess.Popen(
        ["cat"], user=NOBODY, group=NOBODY, extra_groups=[],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    print("it runs", file=started.stdin, flush=True)
    assert started.stdout.readline() == "it runs\n"
    yield started.pid
    started.communicate()


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ("", ALWAYS),
        (",+sys_ptrace", ALWAYS | BY_PTRACE),
        (",+kill", ALWAYS | BY_KILL),
        (",+sys_ptrace,+kill", ALWAYS | BY_PTRACE | BY_KILL),
    ],
    ids=["none", "SYS_PTRACE", "KILL", "both"],
)
def test_each_call_needs_its_capability(program, capabilities, expected):
    limited = ["setpriv", f"--bounding-set=-all{capabilities}", "--inh-caps=-all", "--no-new-privs"]
    done = subprocess.run(
        [*limited, sys.executable, "-c", CODE, str(program)],
        capture_output=True, text=True, check=True, timeout=scaled(60),
    )  # fmt: skip
    assert {name for name, works in json.loads(done.stdout).items() if works} == expected
