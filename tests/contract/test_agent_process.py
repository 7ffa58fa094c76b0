"""The agent of a node is stopped, killed and given another clock while it suspends a share and brings it back.

Its service is a stand-in that gives the orders that the test wants. The driver is simulated; the processes are real.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jupyter_gq.client.agents import AgentOrders, AgentReport, ShareOrder, WatchedPod
from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.simulated.checkpointer import SimulatedCheckpointer
from jupyter_gq.devices.simulated.devices import SimulatedProbe, parse_devices
from jupyter_gq.devices.suspension.journal import JOURNAL_NAME
from tests.contract import small_disk
from tests.contract.test_checkpointer import SimulatedWorld
from tests.kept_logs import LOGS
from tests.patience import until

POD, NODE = "0f6f7c4e-8a41-4a1e-9d0e-3b1f4f6f7a10", "node-1"
DEVICES = parse_devices("2x A100-40GB", NODE)
DEVICE = DEVICES[0].uuid
MIB = 2000


class Node:
    """A node with one pod on a simulated device, whose agent comes and goes, and the service that it reports to."""

    def __init__(self, folder, journal):
        self.folder, self.journal = folder, journal
        self.want, self.attempt, self.phase = "in_use", 0, "IN_USE"
        self.reports, self.agents = [], []
        LOGS.add("agent", folder, "agent-*.log")
        self.world = SimulatedWorld()
        self.world.devices = tuple(each.uuid for each in DEVICES)
        os.environ["JUPYTER_GQ_POD_UID"] = POD
        try:
            self.kernel = self.world.start(MIB)
        finally:
            del os.environ["JUPYTER_GQ_POD_UID"]
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _handler(self):
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                report = AgentReport.model_validate_json(self.rfile.read(int(self.headers["Content-Length"])))
                node.reports.append(report)
                body = node.orders().model_dump_json().encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler

    def orders(self):
        watch = WatchedPod(pod_uid=POD, namespace="hub", pod="jupyter-ann", devices=[DEVICE])
        order = ShareOrder(
            pod_uid=POD, device=DEVICE, known=self.phase, want=self.want, attempt=str(self.attempt), valid_for=60
        )
        return AgentOrders(watch=[watch], shares=[order], report_every=0.2)

    def start_agent(self):
        (self.folder / "token").write_text("token")
        log = self.folder / f"agent-{len(self.agents)}.log"
        options = {
            "service_url": f"http://127.0.0.1:{self.server.server_port}/",
            "token_file": self.folder / "token",
            "node_name": NODE,
            "pod_resources": self.folder / "no-kubelet.sock",
            "processes": "environment",
            "suspend": True,
            "journal": self.journal,
            "report_every": 0.2,
        }
        with log.open("w") as output:
            agent = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.contract.stopping_agent",
                    *(f"--NodeAgent.{name}={value}" for name, value in options.items()),
                    "--SimulatedDevices.mode=always",
                    "--SimulatedDevices.devices=2x A100-40GB",
                ],
                env={**os.environ, "STOPPING_AGENT": str(self.folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.agents.append(agent)
        return agent

    def order(self, want):
        self.want, self.attempt = want, self.attempt + (want == "suspended")

    def signal_after(self, step, sent):
        (self.folder / f"{step}.{sent.value}").touch()

    @property
    def share(self):
        """The suspension in the last report; None if it has none."""
        shares = self.reports[-1].shares if self.reports else []
        return shares[0].suspension if shares else None

    def await_phase(self, phase):
        """Wait for a report from now on that has this phase, which the service knows from then on."""
        before = len(self.reports)

        def seen():
            return any(
                s.suspension and s.suspension.phase == phase for each in self.reports[before:] for s in each.shares
            )

        until(seen, lambda: f"{phase}; last: {self.reports[-1] if self.reports else 'no report'}")
        self.phase = phase

    def is_whole(self):
        """Check that the kernel runs with all of its memory, once, and that the journal has ended."""
        probe = SimulatedProbe(DEVICES, why="test.", now=lambda: 1000.0)
        assert SimulatedCheckpointer(probe, sleep=lambda _: None).state(self.kernel) is CheckpointState.RUNNING
        assert probe.free_memory(DEVICE) == probe.devices()[0].memory - MIB
        until(lambda: json.loads((self.journal / JOURNAL_NAME).read_text())["shares"] == [], "an ended journal")
        self.world.kernels[0].stdin.write(f"{MIB}\n")
        self.world.kernels[0].stdin.flush()
        assert self.world.kernels[0].stdout.readline() == "done\n"

    def close(self):
        for agent in self.agents:
            agent.kill()
            agent.wait()
        LOGS.release("agent", self.folder)
        self.server.shutdown()
        self.server.server_close()
        self.world.close()


@pytest.fixture
def node(tmp_path):
    (tmp_path / "journal").mkdir(mode=0o700)
    found = Node(tmp_path, tmp_path / "journal")
    yield found
    found.close()


@pytest.mark.parametrize("step", ["LOCKING", "CHECKPOINTING", "SUSPENDED", "RESTORING"])
def test_a_killed_agent_loses_nothing_at_any_step(node, step):
    agent = node.start_agent()
    node.await_phase("IN_USE")
    if step == "RESTORING":
        node.order("suspended")
        node.await_phase("SUSPENDED")
    node.signal_after(step, signal.SIGKILL)
    node.order("in_use" if step == "RESTORING" else "suspended")
    assert until(lambda: agent.poll(), "the agent is killed") == -signal.SIGKILL
    node.order("in_use")
    node.start_agent()
    node.await_phase("IN_USE")
    node.is_whole()


@pytest.mark.parametrize("step", ["LOCKING", "CHECKPOINTING", "SUSPENDED", "RESTORING"])
def test_a_stopped_agent_goes_on_where_it_was_and_its_successor_steps_back_meanwhile(node, step):
    agent = node.start_agent()
    node.await_phase("IN_USE")
    if step == "RESTORING":
        node.order("suspended")
        node.await_phase("SUSPENDED")
    node.signal_after(step, signal.SIGSTOP)
    node.order("in_use" if step == "RESTORING" else "suspended")
    until(lambda: "\nState:\tT" in Path(f"/proc/{agent.pid}/status").read_text(), "the agent is stopped")
    other = node.start_agent()
    until(
        lambda: (
            "another agent" in str(node.reports[-1].missing).lower() or str(agent.pid) in str(node.reports[-1].missing)
        )
    )
    other.kill()
    other.wait()
    (node.folder / "clock").write_text("-86400")
    node.order("in_use")
    agent.send_signal(signal.SIGCONT)
    node.await_phase("IN_USE")
    node.is_whole()


@pytest.mark.parametrize("seconds", [-86_400, 86_400])
def test_another_clock_changes_nothing(node, seconds):
    node.start_agent()
    node.await_phase("IN_USE")
    node.order("suspended")
    node.await_phase("SUSPENDED")
    (node.folder / "clock").write_text(str(seconds))
    node.order("in_use")
    node.await_phase("IN_USE")
    node.order("suspended")
    node.await_phase("SUSPENDED")
    node.order("in_use")
    node.await_phase("IN_USE")
    node.is_whole()


@pytest.fixture
def small(tmp_path):
    with small_disk.mounted(tmp_path / "journal") as disk:
        disk.chmod(0o700)
        found = Node(tmp_path, disk)
        yield found
        found.close()


def break_journal(node, agent, trouble):
    """Let the disk of the journal be full, or read-only, as a kernel makes it after an error; return the mending."""
    if trouble == "full":
        small_disk.fill(node.journal)
        return (node.journal / "filler").unlink
    agent.kill()  # a disk on which a file is open for writing cannot be made read-only here
    agent.wait()
    remount(node.journal, "ro")
    node.start_agent()
    return lambda: remount(node.journal, "rw")


def remount(disk, mode):
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True)


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_share_comes_back_once_its_journal_can_be_written_again(small, trouble):
    agent = small.start_agent()
    small.await_phase("IN_USE")
    small.order("suspended")
    small.await_phase("SUSPENDED")
    mend = break_journal(small, agent, trouble)
    small.order("in_use")
    until(lambda: small.share and "journal" in small.share.trouble.lower(), lambda: str(small.reports[-1]))
    assert small.share.phase == "SUSPENDED"
    small.agents[-1].kill()
    small.agents[-1].wait()
    small.reports.clear()
    small.start_agent()  # the next agent knows the share although it can write nothing
    until(lambda: small.share and "journal" in small.share.trouble.lower(), lambda: str(small.reports[-1:]))
    mend()
    small.await_phase("IN_USE")
    small.is_whole()


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_nothing_is_suspended_while_the_journal_cannot_be_written(small, trouble):
    agent = small.start_agent()
    small.await_phase("IN_USE")
    mend = break_journal(small, agent, trouble)
    small.order("suspended")
    until(lambda: small.share and "journal" in small.share.failure.lower(), lambda: str(small.reports[-1]))
    assert small.share.phase == "IN_USE"
    mend()
    small.order("suspended")
    small.await_phase("SUSPENDED")
    small.order("in_use")
    small.await_phase("IN_USE")
    small.is_whole()
