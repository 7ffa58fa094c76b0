"""The use of a share is the same, whether the service measures it on its own machine or the agent on a node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.agent.abilities import NodeAbilities
from jupyter_gq.agent.kubelet import KubeletSocket
from jupyter_gq.agent.node import LocalNode
from jupyter_gq.agent.processes import Processes, find_pod_by_environment
from jupyter_gq.agent.signals import PodSignals
from jupyter_gq.client.agents import WatchedPod
from jupyter_gq.devices.abilities import Machine
from jupyter_gq.devices.meter import ProbeMeter, Share, ShareUse
from jupyter_gq.devices.simulated.devices import SimulatedProbe, parse_devices
from tests.fakes import FixedClock

PROC = Path("/proc")
#: Uses memory or CPU as its input says, as a kernel does.
KERNEL = """
import sys, time, jupyter_gq
for line in sys.stdin:
    what, amount = line.split()
    if what == "memory":
        jupyter_gq.simulate_memory(int(amount))
    until = time.perf_counter() + (float(amount) if what == "compute" else 0)
    while time.perf_counter() < until:
        pass
    print("done", flush=True)
"""
#: Has a kernel as its only child, which reads the same input. Use by the server itself does not count.
SERVER = f"""
import subprocess, sys, jupyter_gq
jupyter_gq.simulate_memory(5)
subprocess.run([sys.executable, '-c', {KERNEL!r}])
"""


class Pod:
    """A server and its kernel with the environment variable of a pod."""

    def __init__(self, uid):
        self.uid = uid
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env={**os.environ, "JUPYTER_GQ_POD_UID": uid},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, what):
        print(what, file=self.server.stdin, flush=True)
        assert self.server.stdout.readline() == "done\n"

    @property
    def kernel(self):
        (found,) = set(Processes(PROC, find_pod_by_environment).by_pod([self.uid])[self.uid]) - {self.server.pid}
        return found

    def end(self):
        self.server.communicate()


@pytest.fixture
def pods(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    started = [Pod(f"pod-{name}-of-{os.getpid()}") for name in ("a", "b")]
    yield started
    for pod in started:
        pod.end()


def test_agent_reports_what_the_service_measures_of_the_same_processes(pods, tmp_path):
    clock = FixedClock()
    probe = SimulatedProbe(parse_devices("2x A100-40GB", "n1"), why="test.", now=clock.now)
    meter = ProbeMeter(probe)
    processes = Processes(PROC, find_pod_by_environment)
    node = LocalNode(
        probe=probe,
        meter=meter,
        kubelet=KubeletSocket(tmp_path / "none"),
        processes=processes,
        signals=PodSignals(processes, allowed=False, host_ids=lambda: False),
        abilities=NodeAbilities(probe, Machine(proc=PROC), runs_program=processes.runs_program, monotonic=clock.now),
        proc=PROC,
        explain_no_suspension=lambda devices: "The test suspends nothing.",
        find_journal_trouble=lambda: "",
    )
    pods[0].tell("memory 1234")
    pods[1].tell("memory 77")
    devices = {pods[0].uid: ("GPU-sim-n1-0",), pods[1].uid: ("GPU-sim-n1-0", "GPU-sim-n1-1")}
    watch = [WatchedPod(pod_uid=pod.uid, namespace="t", pod=pod.uid, devices=list(devices[pod.uid])) for pod in pods]
    shares = {pod.uid: Share(devices=devices[pod.uid], pids=(pod.kernel,)) for pod in pods}

    def both():
        """Check that the agent reports what the service measures; return the use of each pod."""
        reported, measured = node.observe(watch).shares, meter.measure(shares)
        assert [(share.pod_uid, share.memory_mib, share.utilisation) for share in reported] == [
            (uid, use.memory, use.utilisation) for uid, use in measured.items()
        ]
        return [measured[pod.uid] for pod in pods]

    assert both() == [ShareUse(memory=1234, utilisation=None), ShareUse(memory=154, utilisation=None)]
    clock.forward(1)
    pods[0].tell("compute 0.3")
    first, second = both()
    assert first.memory == 1234
    assert first.utilisation > second.utilisation
    pods[0].tell("memory 0")
    clock.forward(1)
    assert both()[0].memory == 0
