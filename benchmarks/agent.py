"""Processor time of a node's agent with 8 GPUs and 40 shares, over that of a loop which only asks the driver.

Both run side by side, equally often, on fakes of the driver's libraries in C. The agent is the real program, with the
socket of a kubelet and a service that answers each report late, as the real one does. The processes are real and sleep.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_gq.agent.processes import POD_VARIABLE
from jupyter_gq.client.agents import AgentOrders, AgentReport, WatchedPod
from tests.driver_fakes import build, compiler
from tests.unit.agent.kubelets import FakeKubelet, a_pod

from . import table

#: Per cent of one core that the agent may take.
_GOAL = 1.0
_DEVICES, _SHARES = 8, 40
#: Processes of a share: a server, a kernel, and two that the kernel has started.
_PROCESSES_OF_SHARE = 4
#: Processes of the node outside of all shares.
_OTHERS = 300
_MIB = 1024 * 1024
#: Seconds between two reports, and between two rounds of the peer.
_EVERY = 5
#: What `jupyter-gq` does.
_AGENT = "import sys; from jupyter_gq.app import main; sys.exit(main())"
#: What the peer does: the calls that tell the use of each device and process, and nothing else.
_PEER = """
import sys, time, pynvml
pynvml.nvmlInit()
while True:
    began = time.monotonic()
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceGetMemoryInfo(device)
        pynvml.nvmlDeviceGetComputeRunningProcesses(device)
        try:
            pynvml.nvmlDeviceGetProcessUtilization(device, 0)
        except pynvml.NVMLError:
            pass
    time.sleep(max(0, float(sys.argv[1]) - (time.monotonic() - began)))
"""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with devices, a kubelet and processes, some of them in pods that hold shares."""

    environment: dict[str, str]
    watch: list[WatchedPod]
    socket: Path


class Reports(RequestHandler):
    """The service's side of an agent's long poll."""

    def initialize(self, node: Node, heard: list[AgentReport]) -> None:
        """Remember what is ordered, and where reports go."""
        self.node, self.heard = node, heard

    async def post(self) -> None:
        """Answer with the same orders, after the time for which the agent waits."""
        self.heard.append(AgentReport.model_validate_json(self.request.body))
        await asyncio.sleep(float(self.get_query_argument("wait", "0")))
        self.finish(AgentOrders(watch=self.node.watch).model_dump_json())


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-0000000000{index:02d}"


@contextlib.contextmanager
def running_node(folder: Path) -> Iterator[Node]:
    """Start the kubelet and the processes of a node in this folder, and end them afterwards."""
    (folder / "devices").write_text("".join(f"{_uuid(index)} {80 * 1024 * _MIB}\n" for index in range(_DEVICES)))
    environment = {**os.environ, "GQ_FAKE_DRIVER": str(folder), "LD_LIBRARY_PATH": str(build(folder))}
    started: list[subprocess.Popen[bytes]] = []
    watch: list[WatchedPod] = []

    def sleep(**variables: str) -> int:
        started.append(subprocess.Popen(["sleep", "infinity"], env={**os.environ, **variables}))
        return started[-1].pid

    try:
        for _ in range(_OTHERS):
            sleep()
        for number in range(_SHARES):
            uid, device = f"pod-{number}", number % _DEVICES
            pids = [sleep(**{POD_VARIABLE: uid}) for _ in range(_PROCESSES_OF_SHARE)]
            # The kernel holds memory: its state (0 = running), its bytes, and the index of their device.
            (folder / str(pids[1])).write_text(f"0 {4 * 1024 * _MIB} {device}\n")
            watch.append(WatchedPod(pod_uid=uid, namespace="hub", pod=f"jupyter-{number}", devices=[_uuid(device)]))
        pods = [a_pod(f"reservation-{index}", _uuid(index)) for index in range(_DEVICES)]
        kubelet = FakeKubelet(folder / "kubelet.sock", pods, [_uuid(index) for index in range(_DEVICES)])
        try:
            yield Node(environment=environment, watch=watch, socket=kubelet.socket)
        finally:
            kubelet.stop()
    finally:
        for process in started:
            process.kill()
            process.wait()


async def measure(node: Node, folder: Path, seconds: float) -> list[table.Row]:
    """Run the agent and the peer side by side, and return the part of one core that each of them takes."""
    heard: list[AgentReport] = []
    route = (r"/api/v1/agents/node/report", Reports, {"node": node, "heard": heard})
    server = HTTPServer(Application([route], log_function=lambda handler: None))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    (folder / "token").write_text("token\n")
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/"
    names = {"service_url": url, "token_file": folder / "token", "node_name": "node", "pod_resources": node.socket}
    settings = [f"--NodeAgent.{name}={value}" for name, value in names.items()]
    settings += [
        "--NodeAgent.processes=environment",
        "--NodeAgent.end_programs=True",
        f"--NodeAgent.report_every={_EVERY}",
    ]
    commands = {
        "ours": [sys.executable, "-c", _AGENT, "agent", *settings],
        "peer": [sys.executable, "-c", _PEER, str(_EVERY)],
    }
    running = {
        name: subprocess.Popen(  # noqa: ASYNC220
            command, env=node.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name, command in commands.items()
    }
    try:
        # The first report has no orders yet; after the third one nothing is started or loaded any more.
        while len(heard) < 3:
            if running["ours"].poll() is not None:
                raise RuntimeError(f"The agent has ended with code {running['ours'].returncode}.")
            await asyncio.sleep(0.1)
        _check(heard[-1])
        before, reports, began = _spent(running), len(heard), time.monotonic()
        await asyncio.sleep(seconds)
        took, after = time.monotonic() - began, _spent(running)
        memory = psutil.Process(running["ours"].pid).memory_info().rss / _MIB
    finally:
        for process in running.values():
            process.kill()
            process.wait()
        server.stop()
    parts = {name: 100 * (after[name] - before[name]) / took for name in running}
    each = 1000 * (after["ours"] - before["ours"]) / max(1, len(heard) - reports)
    case = f"{_DEVICES} GPUs, {_SHARES} shares, {len(psutil.pids())} processes"
    return [
        table.Row(case=case, figure="CPU", unit="% core", ours=parts["ours"], peer=parts["peer"], goal=_GOAL),
        table.Row(case=case, figure="CPU of a report", unit="ms", ours=each),
        table.Row(case=case, figure="memory of the agent", unit="MiB", ours=memory),
    ]


def _check(report: AgentReport) -> None:
    """Raise `RuntimeError` unless the report has the use of every share: an agent that sees nothing is cheap."""
    known = [share for share in report.shares if share.memory_mib == 4 * 1024]
    if len(known) != _SHARES or len(report.devices) != _DEVICES:
        raise RuntimeError(f"The agent reports the use of {len(known)} of {_SHARES} shares: {report.detail}")


def _spent(running: dict[str, subprocess.Popen[bytes]]) -> dict[str, float]:
    """Return the processor seconds of each process so far."""
    times = {name: psutil.Process(process.pid).cpu_times() for name, process in running.items()}
    return {name: spent.user + spent.system for name, spent in times.items()}


def main() -> int:
    """Print the table."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes of the node end with this one
    parser = table.parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of wall time (default: 60)")
    arguments: argparse.Namespace = parser.parse_args()
    if compiler() is None:
        parser.error("a C compiler is needed for the fakes of the driver's libraries")
    with tempfile.TemporaryDirectory(prefix="gq-") as name, running_node(Path(name)) as node:
        rows = asyncio.run(measure(node, Path(name), arguments.seconds))
    return table.show("The agent of a node", rows, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
